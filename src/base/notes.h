/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry has to say of a job: a note is a kind with fields, and that is what monitor, scry run and reports hand to
 * each other. Its text is made by note_text() where a person reads it; no program looks at words.
 *
 * A row of the table: the name, which JSON has as "note"; the "kind" of a warning that it becomes; the text; the
 * fields. In the text {name} is a field, {name.1} has one decimal, {name?one|other} is the one for the number 1 and for
 * what is true. Units stand in the fields' names. A row never changes its meaning: what means something else is another
 * row. New fields come last, for other versions read the notes of this one.
 */
#ifndef SCRY_BASE_NOTES_H
#define SCRY_BASE_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* clang-format off */
#define NOTES(NOTE, INTEGER, FLOATING, STRING, FLAG) \
    /* what else there is to say; also a note of another version, by its name */ \
    NOTE(said, "trace", "{text}", STRING(text)) \
    /* from the monitor, of the processes of a job */ \
    NOTE(no_such_function, "trace", "a rule or request cannot hold: no function of the programs is '{function}'", \
         STRING(function)) \
    NOTE(condition_unseen, "trace", \
         "a rule or request {elsewhere?does not hold everywhere|cannot hold}: '{function}' with a condition: {reason}", \
         FLAG(elsewhere) STRING(function) STRING(reason)) \
    NOTE(main_waits, "trace", \
         "pid {pid}, {program}, waits until {indexed?it is known where its values are|its symbols are read, which are " \
         "kept for the next time}, but not longer than {limit_seconds} s", \
         INTEGER(pid) STRING(program) FLAG(indexed) INTEGER(limit_seconds)) \
    NOTE(refused, "trace", "{at_least?at least |}{processes} process{processes? was|es were} not traced: {reason}", \
         INTEGER(processes) FLAG(at_least) STRING(reason)) \
    NOTE(late, "trace", \
         "{processes} process{processes? was|es were} not traced: the monitor did not answer in time on this busy node, " \
         "or was stopped", \
         INTEGER(processes)) \
    NOTE(mpi_no_room, "trace", \
         "calls of MPI of {processes} process{processes?|es} were not counted: the limit of address space (ulimit -v) " \
         "leaves no more than {room_mb} MB, which MPI may need", \
         INTEGER(processes) INTEGER(room_mb)) \
    NOTE(constructed, "trace", \
         "calls may be missing: the constructors of {libraries} librar{libraries?y|ies (of all processes together)} ran " \
         "before recording could begin", \
         INTEGER(libraries)) \
    NOTE(socket_removed, "trace", \
         "{socket} was removed while the job ran: programs that began just then are not traced", STRING(socket)) \
    /* from the monitor, if nothing came */ \
    NOTE(nothing_recorded, "trace", "{reason}", STRING(reason)) \
    NOTE(no_hooks, "trace", \
         "compiled without -finstrument-functions: {programs}; compile with -g -finstrument-functions, and their calls " \
         "are recorded", \
         STRING(programs)) \
    NOTE(own_hooks, "trace", \
         "with hooks of their own (__cyg_profile_func_enter), which get their calls: {programs}; leave them out, and the " \
         "calls are recorded", \
         STRING(programs)) \
    /* from scry run, of tracing */ \
    NOTE(agent_not_loaded, "trace", "{reason}", STRING(reason)) \
    NOTE(tracing_unsupported, "trace", "{reason}", STRING(reason)) \
    NOTE(no_environment, "trace", \
         "its environment and arguments leave no room for the variables of scry (ARG_MAX), so the command runs untraced, " \
         "and without SCRY_JOB",) \
    NOTE(traces_removed, "trace", \
         "the calls that were recorded ({records} records) are gone: {directory}/trace was {emptied?emptied|removed} " \
         "while the job ran", \
         INTEGER(records) STRING(directory) FLAG(emptied)) \
    NOTE(no_hooks_called, "trace", \
         "no function was recorded: compile the program with -g -finstrument-functions, or correct the selection (see " \
         "scry-run(1))",) \
    NOTE(no_trace_directory, "trace", \
         "no function was recorded: there is no job directory that a trace could be written to",) \
    NOTE(traces_incomplete, "trace", \
         "the traces of {processes} processes were not complete {seconds.0} s after the end: see `scry report` later", \
         INTEGER(processes) FLOATING(seconds)) \
    NOTE(untraced, "untraced", "not traced: {program} ({processes} process{processes?|es}): {reason}", \
         STRING(program) INTEGER(processes) STRING(reason)) \
    NOTE(more_untraced, "untraced", "not traced: {programs} more program{programs?|s}", INTEGER(programs)) \
    /* of the traces, from reports */ \
    NOTE(trace_unfinished, "trace", \
         "the trace of process {pid} was not written to its end: is the monitor still at it, was it killed, or the disk " \
         "full?", \
         INTEGER(pid)) \
    NOTE(traces_unfinished, "trace", \
         "{traces} traces were not written to their ends: is the monitor still at it, was it killed, or the disk full?", \
         INTEGER(traces)) \
    /* from scry run, of MPI and crashes */ \
    NOTE(mpi_no_directory, "mpi", \
         "calls of MPI were not counted: there is no job directory that their numbers could be written to",) \
    NOTE(mpi_not_seen, "mpi", \
         "no calls of MPI were counted: the program made none, or its MPI is linked statically, or LD_PRELOAD was " \
         "replaced on the way to its ranks (set yours before scry run: both are loaded then)",) \
    NOTE(mpi_stalled, "stalled", "no rank began or ended a call of MPI for {seconds.0} s: {finding}", \
         FLOATING(seconds) STRING(finding)) \
    NOTE(privileges_denied, "privilege", \
         "{program} ran without its privileges (setuid, setgid or capabilities), for Linux grants none to traced " \
         "processes: without --crash-stack it has them", \
         STRING(program)) \
    NOTE(crash_stack_late, "crash_stack", \
         "the command was started before crashes were watched for, so early ones have no backtrace: the monitor was not " \
         "ready for that in {seconds} s", \
         INTEGER(seconds)) \
    NOTE(no_crash_stacks, "crash_stack", "no backtraces of crashes: {reason}", STRING(reason)) \
    /* of rules and settings */ \
    NOTE(rules_late, "rule", "not in force from the start: the monitor was not ready for that in {seconds} s", \
         INTEGER(seconds)) \
    NOTE(rules_interrupted, "rule", "not in force from the start: the monitor was lost just then",) \
    NOTE(rules_lost, "rule", "not in force to the end: {reason}", STRING(reason)) \
    NOTE(rule_failed, "rule", "an action of rule '{rule}' failed {times} x: {reason}", \
         STRING(rule) INTEGER(times) STRING(reason)) \
    NOTE(setting_refused, "setting", "{reason}", STRING(reason)) \
    /* of the monitor */ \
    NOTE(no_monitor, "monitor", \
         "no monitor, so only the command as a whole is known, not its processes{functions? and functions|}: {reason}", \
         FLAG(functions) STRING(reason)) \
    NOTE(monitor_hangs, "monitor", "the job was started unwatched and untraced: {reason}", STRING(reason)) \
    NOTE(not_followed, "monitor", "the job cannot be followed: {reason}", STRING(reason)) \
    NOTE(unwatched, "gap", "not watched from {from_seconds.1} s to {to_seconds.1} s: {reason}", \
         FLOATING(from_seconds) FLOATING(to_seconds) STRING(reason)) \
    NOTE(unwatched_to_end, "gap", "not watched from {from_seconds.1} s to the end: {reason}", \
         FLOATING(from_seconds) STRING(reason)) \
    /* of the processes */ \
    NOTE(out_of_memory, "out_of_memory", \
         "out of memory: the kernel killed {processes} process{processes?|es} {own_group?of this job's control group|on " \
         "this node meanwhile, this job's probably among them}", \
         INTEGER(processes) FLAG(own_group)) \
    NOTE(killed, "killed", \
         "killed by SIGKILL, and not by the kernel for lack of memory as far as it counts: a batch system's limit, or " \
         "somebody's kill -9",) \
    NOTE(shell_signal, "signal", "exit status {status} is how a shell reports that a command was killed by {signal}", \
         INTEGER(status) STRING(signal)) \
    NOTE(processes_lost, "lost", "{records} process records were lost before they were seen: counts may be short", \
         INTEGER(records)) \
    NOTE(processes_unlisted, "unseen", \
         "{processes} processes are counted, but not listed: only the processor time that they needed is known", \
         INTEGER(processes)) \
    NOTE(cpu_time_unassigned, "unclocked", "which processes needed {seconds.2} s of the processor time is not known", \
         FLOATING(seconds)) \
    NOTE(more_crashes, "crashes", "{processes} more processes crashed", INTEGER(processes)) \
    /* of what is written */ \
    NOTE(disk_hangs, "disk_hangs", \
         "the disk with the job directory does not answer: what is missing there comes when it does",) \
    NOTE(recording_stopped, "recording_stopped", \
         "recording stopped: {reason}; {records} records were lost{traces? (those of functions are told apart)|}", \
         STRING(reason) INTEGER(records) FLAG(traces)) \
    NOTE(job_json_unwritten, "job_json", "{directory}/job.json could not be written: {reason}", \
         STRING(directory) STRING(reason))

#define NOTE_ENUM(name, group, text, fields) NOTE_##name,
#define NOTE_MEMBER(name, group, text, fields) struct { fields } name;
#define NOTE_MEMBER_INTEGER(name) uint64_t name;
#define NOTE_MEMBER_FLOATING(name) double name;
#define NOTE_MEMBER_STRING(name) const char *name;
#define NOTE_NONE_OF(name)
/* clang-format on */

enum note_kind { NOTE_NONE, NOTES(NOTE_ENUM, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF) NOTE_KINDS };

enum { NOTE_FIELDS = 4 };
union note_word { /* one of each field, in its order */
    uint64_t integer;
    double floating;
    const char *string; /* borrowed; NULL is "" */
};

struct note {
    enum note_kind kind;
    union {
        union note_word words[NOTE_FIELDS];
        NOTES(NOTE_MEMBER, NOTE_MEMBER_INTEGER, NOTE_MEMBER_FLOATING, NOTE_MEMBER_STRING, NOTE_MEMBER_INTEGER)
    };
};

/* NOTE(late, .processes = 3) is a struct note. */
#define NOTE(name, ...) ((struct note){.kind = NOTE_##name, .name = {__VA_ARGS__}})

enum note_field_type { NOTE_INTEGER, NOTE_FLOATING, NOTE_STRING, NOTE_FLAG };
struct note_field {
    enum note_field_type type;
    const char *name; /* NULL: there are no more fields */
};

const struct note_field *note_fields(enum note_kind kind); /* of known kinds; NOTE_NONE has none */
const char *note_name(enum note_kind kind);
const char *note_group(enum note_kind kind);    /* "kind" of the warning that it becomes */
const char *note_template(enum note_kind kind); /* its text, with {field}: for the reference */
enum note_kind note_find(const char *name);     /* NOTE_NONE: there is no such note in this version */

/* Appends its text, as the fields are: whoever shows it on a terminal escapes it. Of NOTE_NONE nothing. */
void note_text(struct buf *out, const struct note *note);

#endif
