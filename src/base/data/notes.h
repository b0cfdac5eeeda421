/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_DATA_NOTES_H
#define SCRY_BASE_DATA_NOTES_H

#include "base/data/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Notes: what scry says about a job. A note is a kind with fields. Monitor, scry run and reports exchange notes, and
 * note_text() makes the text where a person reads it. Programs compare kinds, never words.
 *
 * A row of the table has the name ("note" in JSON), the "kind" of the warning that it becomes, the text, and the
 * fields. In the text, {name} is a field, {name.1} has one decimal, and {name?one|other} is `one` for 1 and for true.
 * Fields have their units in their names. A row never changes its meaning: add a row instead. New fields come last,
 * because other versions read the notes of this one.
 */

/* clang-format off */
#define NOTES(NOTE, INTEGER, FLOATING, STRING, FLAG) \
    /* any other text; also a note of another version, by its name */ \
    NOTE(said, "trace", "{text}", STRING(text)) \
    /* from the monitor, about the processes of a job */ \
    NOTE(no_such_function, "trace", "a rule or request cannot hold: no function of the programs is '{function}'", \
         STRING(function)) \
    NOTE(condition_unseen, "trace", \
         "a rule or request {elsewhere?does not hold everywhere|cannot hold}: '{function}' with a condition: {reason}", \
         FLAG(elsewhere) STRING(function) STRING(reason)) \
    NOTE(main_waits, "trace", \
         "pid {pid}, {program}, waits until {indexed?what its functions need is compiled|its symbols are read (they are " \
         "kept for the next time)}, at most {limit_seconds} s", \
         INTEGER(pid) STRING(program) FLAG(indexed) INTEGER(limit_seconds)) \
    NOTE(refused, "trace", "{at_least?at least |}{processes} process{processes? was|es were} not traced: {reason}", \
         INTEGER(processes) FLAG(at_least) STRING(reason)) \
    NOTE(left_alone, "trace", \
         "{processes} process{processes? was|es were} not traced: children of fork that came in quick succession " \
         "(`--trace all` traces each)", \
         INTEGER(processes)) \
    NOTE(unreached, "trace", \
         "{processes} process{processes? was|es were} not traced: children of fork that did not reach the monitor (another " \
         "user or root directory, a limit of open files, seccomp; or it did not answer)", \
         INTEGER(processes)) \
    NOTE(late, "trace", \
         "{processes} process{processes? was|es were} not traced: the monitor did not answer in time on this busy node, " \
         "or it was stopped", \
         INTEGER(processes)) \
    NOTE(mpi_no_room, "trace", \
         "MPI calls of {processes} process{processes?|es} were not counted: the limit of address space (ulimit -v) " \
         "leaves only {room_mb} MB, and MPI may need them", \
         INTEGER(processes) INTEGER(room_mb)) \
    NOTE(constructed, "trace", \
         "calls may be missing: the constructors of {libraries} librar{libraries?y|ies (in all processes)} ran before " \
         "recording could begin", \
         INTEGER(libraries)) \
    NOTE(socket_removed, "trace", \
         "{socket} was removed while the job ran: programs that started at that moment are not traced", STRING(socket)) \
    /* from the monitor, about one process or its trace */ \
    NOTE(untraced_files, "trace", \
         "pid {pid}, {program}, is not traced: its limit of open files (ulimit -n) leaves no room for three more", \
         INTEGER(pid) STRING(program)) \
    NOTE(untraced_data, "trace", \
         "pid {pid}, {program}, is not traced: its limit of data (ulimit -d) is below 2 MB", \
         INTEGER(pid) STRING(program)) \
    NOTE(untraced_limit, "trace", \
         "pid {pid}, {program}, is not traced: its limit of address space (ulimit -v) leaves no more than {kilobytes} KB", \
         INTEGER(pid) STRING(program) INTEGER(kilobytes)) \
    NOTE(untraced_space, "trace", "pid {pid}, {program}, is not traced: there is not enough address space", \
         INTEGER(pid) STRING(program)) \
    NOTE(agent_off, "trace", "the agent in pid {pid} switched itself off: {reason}", INTEGER(pid) STRING(reason)) \
    NOTE(agent_fault, "trace", "pid {pid}, {program}: {reason}", INTEGER(pid) STRING(program) STRING(reason)) \
    NOTE(area_cut, "trace", \
         "pid {pid} has cut the memory that it shares with the monitor: records of it are missing", INTEGER(pid)) \
    NOTE(area_damaged, "trace", "the program wrote over its trace buffer: records are missing",) \
    NOTE(buffer_memory, "trace", "memory is short: the buffer of pid {pid} stays at {kilobytes} KB", \
         INTEGER(pid) INTEGER(kilobytes)) \
    NOTE(buffer_disk, "trace", \
         "{in_memory?half of|the runtime directory} {directory} is {in_memory?in use|full}: the buffer of pid {pid} " \
         "stays at {kilobytes} KB", \
         FLAG(in_memory) STRING(directory) INTEGER(pid) INTEGER(kilobytes)) \
    NOTE(symbols_late, "trace", \
         "reading the symbols of {program} took longer than {seconds} s: pid {pid} was let go before its selection was " \
         "in place", \
         STRING(program) INTEGER(seconds) INTEGER(pid)) \
    NOTE(symbols_lacking, "trace", "{module}: {reason}", STRING(module) STRING(reason)) \
    NOTE(symbols_unread, "trace", "the symbols of {module} cannot be read: {reason}", STRING(module) STRING(reason)) \
    NOTE(modules_unread, "trace", "what is mapped into pid {pid} cannot be read: {reason}", \
         INTEGER(pid) STRING(reason)) \
    NOTE(nothing_selected, "trace", \
         "no function of {program} is meant by the selection '{selection}'{lacking?: |}{reason}", \
         STRING(program) STRING(selection) FLAG(lacking) STRING(reason)) \
    NOTE(functions_unpatched, "trace", \
         "{count} of {all} functions without hooks cannot be traced; {function}: {reason}", \
         INTEGER(count) INTEGER(all) STRING(function) STRING(reason)) \
    NOTE(exits_unseen, "trace", "the ends of {calls} calls were not seen: too many calls without hooks were open at once", \
         INTEGER(calls)) \
    NOTE(patching_failed, "trace", "functions without hooks of {program} cannot be traced: {reason}", \
         STRING(program) STRING(reason)) \
    NOTE(values_no_room, "trace", \
         "pid {pid}: the values of {functions} of its functions cannot be had, or not all of them: there is no room for " \
         "so many; select fewer (--trace)", \
         INTEGER(pid) INTEGER(functions)) \
    NOTE(values_uncompiled, "trace", \
         "scry-symbols could not compile the values of {functions} functions of {program}: these calls are recorded " \
         "without", \
         INTEGER(functions) STRING(program)) \
    NOTE(values_undescribed, "trace", \
         "{module}: it has no debug information about the values of {named?functions such as |some functions}{function}: " \
         "compile with -g (not -g1) to see them", \
         STRING(module) FLAG(named) STRING(function)) \
    NOTE(actions_no_room, "trace", "there is no room for more action lists in pid {pid}", INTEGER(pid)) \
    NOTE(requests_not_run, "trace", \
         "pid {pid} had begun before the runtime directory {directory} was removed, and then its monitor was killed: " \
         "from there on requests at its calls are not run", \
         INTEGER(pid) STRING(directory)) \
    NOTE(names_unwritten, "trace", "the names of functions of pid {pid} cannot be written: {reason}", \
         INTEGER(pid) STRING(reason)) \
    NOTE(trace_unwritten, "trace", "writing the trace of pid {pid} failed ({reason}): what came later was only counted", \
         INTEGER(pid) STRING(reason)) \
    NOTE(trace_uncut, "trace", \
         "the end of a trace of pid {pid}, of a monitor that was killed, cannot be cut off: {reason}", \
         INTEGER(pid) STRING(reason)) \
    NOTE(trace_continued, "trace", \
         "the monitor was started again: what follows is in the next trace of this process",) \
    NOTE(trace_full, "trace", \
         "the trace reached its limit (--max-size): from then on only the last records of each process were kept",) \
    NOTE(trace_disk_full, "trace", \
         "the disk with the job directory is {nearly?nearly |}full: from then on only the last records of each process " \
         "were kept", \
         FLAG(nearly)) \
    NOTE(trace_disk_was_full, "trace", \
         "the disk with the job directory was full for a while: in that time only the last records of each process were " \
         "kept",) \
    NOTE(mpi_unwritten, "mpi", "{reason}", STRING(reason)) \
    /* from the monitor, if nothing was recorded */ \
    NOTE(nothing_recorded, "trace", "{reason}", STRING(reason)) \
    NOTE(no_hooks, "trace", \
         "compiled without -finstrument-functions: {programs}; " \
         "{named?none of their symbols is meant by the selection: correct it, or compile with -g|name functions (--trace " \
         "NAME), or compile with -g -finstrument-functions, to record their calls}", \
         STRING(programs) FLAG(named)) \
    NOTE(no_hooks_system, "trace", \
         "no function was recorded: only programs of the system ran, which have no hooks{named?, and no symbols that are " \
         "meant by the selection|}: {programs}", \
         STRING(programs) FLAG(named)) \
    NOTE(own_hooks, "trace", \
         "these programs have hooks of their own (__cyg_profile_func_enter), which get their calls: {programs}; remove " \
         "the hooks to record the calls", \
         STRING(programs)) \
    /* from scry run, about tracing */ \
    NOTE(agent_not_loaded, "trace", "{reason}", STRING(reason)) \
    NOTE(tracing_unsupported, "trace", "{reason}", STRING(reason)) \
    NOTE(no_environment, "trace", \
         "the command runs untraced, and without SCRY_JOB: its environment and arguments leave no room for scry's " \
         "variables (ARG_MAX)",) \
    NOTE(traces_removed, "trace", \
         "the recorded calls ({records} records) are gone: {directory}/trace was {emptied?emptied|removed} while the job " \
         "ran", \
         INTEGER(records) STRING(directory) FLAG(emptied)) \
    NOTE(no_hooks_called, "trace", \
         "no function was recorded: correct the selection, or compile the program with -g -finstrument-functions (see " \
         "scry-run(1))",) \
    NOTE(no_trace_directory, "trace", \
         "no function was recorded: there is no job directory for a trace",) \
    NOTE(traces_incomplete, "trace", \
         "the traces of {processes} processes were not complete {seconds.0} s after the end: see `scry report` later", \
         INTEGER(processes) FLOATING(seconds)) \
    NOTE(untraced, "untraced", "not traced: {program} ({processes} process{processes?|es}): {reason}", \
         STRING(program) INTEGER(processes) STRING(reason)) \
    NOTE(more_untraced, "untraced", "not traced: {programs} more program{programs?|s}", INTEGER(programs)) \
    /* from reports, about traces */ \
    NOTE(trace_unread, "trace", "{reason}", STRING(reason)) \
    NOTE(trace_unfinished, "trace", \
         "the trace of process {pid} was not written to its end: does the monitor still write it, was it killed, or is " \
         "the disk full?", \
         INTEGER(pid)) \
    NOTE(traces_unfinished, "trace", \
         "{traces} traces were not written to their ends: does the monitor still write them, was it killed, or is the " \
         "disk full?", \
         INTEGER(traces)) \
    /* from scry run, about MPI and crashes */ \
    NOTE(mpi_no_directory, "mpi", \
         "MPI calls were not counted: there is no job directory for their statistics",) \
    NOTE(mpi_not_seen, "mpi", \
         "no MPI calls were counted: the program made none, or its MPI is linked statically, or something replaced " \
         "LD_PRELOAD on the way to its ranks (set yours before scry run, and both are loaded)",) \
    NOTE(mpi_late, "stalled", "process {pid}, for which other ranks wait in MPI, computes in {where}", INTEGER(pid) \
         STRING(where)) \
    NOTE(mpi_late_waits, "stalled", "process {pid}, for which other ranks wait in MPI, {what}", INTEGER(pid) \
         STRING(what)) \
    NOTE(mpi_stalled, "stalled", "no rank began or ended an MPI call for {seconds.0} s: {finding}", \
         FLOATING(seconds) STRING(finding)) \
    NOTE(privileges_denied, "privilege", \
         "{program} ran without its privileges (setuid, setgid or capabilities), because Linux grants none to processes " \
         "under ptrace; without --crash-stack it has them", \
         STRING(program)) \
    NOTE(crash_stack_late, "crash_stack", \
         "early crashes have no backtrace: the command was started before the monitor watched for crashes, which took " \
         "longer than {seconds} s", \
         INTEGER(seconds)) \
    NOTE(no_crash_stacks, "crash_stack", "no backtraces of crashes: {reason}", STRING(reason)) \
    NOTE(node_unwatched, "node", "what ran on node {node} was not watched: {reason}", STRING(node) STRING(reason)) \
    NOTE(log_elsewhere, "node", \
         "--log was watched on the node of scry run only: {nodes} other node{nodes?|s} of the job share{nodes?s|} no file " \
         "system with it, and {log} is not read there", \
         INTEGER(nodes) STRING(log)) \
    /* about rules and settings */ \
    NOTE(rules_late, "rule", "not in force from the start: the monitor was not ready within {seconds} s", \
         INTEGER(seconds)) \
    NOTE(rules_interrupted, "rule", "not in force from the start: the monitor was lost at that moment",) \
    NOTE(rules_lost, "rule", "not in force to the end: {reason}", STRING(reason)) \
    NOTE(rule_failed, "rule", "an action of rule '{rule}' failed {times} time{times?|s}: {reason}", \
         STRING(rule) INTEGER(times) STRING(reason)) \
    NOTE(events_omitted, "rule", \
         "{records} event{records?|s} of logs, scripts and warnings did not reach the rules: they get at most {rate} " \
         "of each a second", \
         INTEGER(records) INTEGER(rate)) \
    NOTE(setting_refused, "setting", "{reason}", STRING(reason)) \
    /* about the monitor */ \
    NOTE(no_monitor, "monitor", \
         "no monitor: only the command as a whole is known, not its processes{functions? and functions|}: {reason}", \
         FLAG(functions) STRING(reason)) \
    NOTE(monitor_hangs, "monitor", "the job was started unwatched and untraced: {reason}", STRING(reason)) \
    NOTE(not_followed, "monitor", "the job cannot be followed: {reason}", STRING(reason)) \
    NOTE(unwatched, "gap", "not watched from {from_seconds.1} s to {to_seconds.1} s: {reason}", \
         FLOATING(from_seconds) FLOATING(to_seconds) STRING(reason)) \
    NOTE(unwatched_to_end, "gap", "not watched from {from_seconds.1} s to the end: {reason}", \
         FLOATING(from_seconds) STRING(reason)) \
    /* about processes */ \
    NOTE(out_of_memory, "out_of_memory", \
         "out of memory: the kernel killed {processes} process{processes?|es} {own_group?of this job or its control group|on " \
         "this node meanwhile, of whatever job}", \
         INTEGER(processes) FLAG(own_group)) \
    NOTE(killed, "killed", \
         "killed by SIGKILL; the kernel has counted no kill for lack of memory",) \
    NOTE(shell_signal, "signal", "exit status {status} is how a shell reports that a command was killed by {signal}", \
         INTEGER(status) STRING(signal)) \
    NOTE(signal_came, "signal_came", "{signal} came from {sender}", STRING(signal) STRING(sender)) \
    NOTE(task_stopped, "task_stopped", "{why}", STRING(why)) \
    NOTE(processes_lost, "lost", "{records} process records were lost: counts may be too low", \
         INTEGER(records)) \
    NOTE(processes_unlisted, "unseen", \
         "{processes} processes are counted, but not listed: only their processor time is known", \
         INTEGER(processes)) \
    NOTE(cpu_time_unassigned, "unclocked", "{seconds.2} s of processor time cannot be assigned to a process", \
         FLOATING(seconds)) \
    NOTE(more_crashes, "crashes", "{processes} more processes crashed", INTEGER(processes)) \
    /* about what scry run itself looks at: scripts, logs, the node (job/observe) */ \
    NOTE(source_off, "observer", "not watched: {source}: {reason}", STRING(source) STRING(reason)) \
    NOTE(observed_dropped, "observer", "{records} records of scripts, logs or the node came too fast and are lost", \
         INTEGER(records)) \
    NOTE(script_aside, "script", "process {pid} is not seen from inside: {reason}", INTEGER(pid) STRING(reason)) \
    NOTE(script_dropped, "script", \
         "of {file} (process {pid}), {records} records and {sums} sums found no room and are lost", \
         INTEGER(pid) STRING(file) INTEGER(records) INTEGER(sums)) \
    NOTE(observer_late, "observer", \
         "scripts, logs and the node were not looked at to the end: the node is too busy, or a file system does not " \
         "answer",) \
    NOTE(observer_lost, "observer", \
         "the process that looks at scripts, logs and the node was killed by signal {signal}{again?: another one goes " \
         "on|: they are not watched any more}", \
         FLAG(again) INTEGER(signal)) \
    NOTE(requests_refused, "publish", "requests that came through the broker were refused: {reasons}", \
         STRING(reasons)) \
    NOTE(unpublished, "publish", "the job is not published at {broker}, or not all of it: {reason}", \
         STRING(broker) STRING(reason)) \
    /* about the node and the job's limits (job/health) */ \
    NOTE(disk_low, "disk", "only {free_mb.0} MB of {total_mb.0} MB are free in {path} ({uses})", \
         STRING(path) STRING(uses) FLOATING(free_mb) FLOATING(total_mb)) \
    NOTE(disk_filling, "disk", \
         "{path} ({uses}) is full in {left_seconds.0} s, if it goes on like this: {free_mb.0} MB of {total_mb.0} MB are " \
         "free", \
         STRING(path) STRING(uses) FLOATING(free_mb) FLOATING(total_mb) FLOATING(left_seconds)) \
    NOTE(disk_silent, "disk", \
         "{path} ({uses}) has not answered for {seconds.0} s: its server, the network or the disk hangs", \
         STRING(path) STRING(uses) FLOATING(seconds)) \
    NOTE(inodes_low, "disk", \
         "only {free} of {total} files and directories can still be made in {path} ({uses}): remove small files there", \
         STRING(path) STRING(uses) INTEGER(free) INTEGER(total)) \
    NOTE(inodes_filling, "disk", \
         "no files can be made in {path} ({uses}) in {left_seconds.0} s, if it goes on like this: {free} of {total} are " \
         "left", \
         STRING(path) STRING(uses) INTEGER(free) INTEGER(total) FLOATING(left_seconds)) \
    NOTE(memory_low, "memory", "only {available_mb.0} MB of the node's {total_mb.0} MB of memory are available", \
         FLOATING(available_mb) FLOATING(total_mb)) \
    NOTE(memory_filling, "memory", \
         "the node's memory is used up in {left_seconds.0} s, if it goes on like this: {available_mb.0} MB of " \
         "{total_mb.0} MB are available", \
         FLOATING(available_mb) FLOATING(total_mb) FLOATING(left_seconds)) \
    NOTE(memory_pressure, "memory", \
         "the node lacks memory: for {percent.0} % of the last {seconds.0} s all that ran had to wait for it", \
         FLOATING(percent) FLOATING(seconds)) \
    NOTE(swapping, "memory", \
         "the node lacks memory: it swaps {in_mb.0} MB in and {out_mb.0} MB out each second, and all is slow", \
         FLOATING(in_mb) FLOATING(out_mb)) \
    NOTE(node_out_of_memory, "out_of_memory", \
         "out of memory: the kernel killed {processes} process{processes?|es} on this node while the job runs, of whatever " \
         "job", \
         INTEGER(processes)) \
    NOTE(group_memory_low, "memory", \
         "the job needs {used_mb.0} MB of the {limit_mb.0} MB that its control group may have: ask for more memory", \
         FLOATING(used_mb) FLOATING(limit_mb)) \
    NOTE(group_memory_filling, "memory", \
         "the job reaches the limit of its control group, {limit_mb.0} MB of memory, in {left_seconds.0} s, if it goes on " \
         "like this: it needs {used_mb.0} MB", \
         FLOATING(used_mb) FLOATING(limit_mb) FLOATING(left_seconds)) \
    NOTE(group_tasks, "limit", \
         "{tasks} of the {limit} processes and threads that the job's control group may have are there", \
         INTEGER(tasks) INTEGER(limit)) \
    NOTE(throttled, "limit", \
         "the job is kept from the processors in {percent.0} % of the periods, because its control group may use only " \
         "{cpus.1}: start fewer threads, or ask for more", \
         FLOATING(percent) FLOATING(cpus)) \
    NOTE(processors_taken, "processors", \
         "the node is shared: other processes use {others.1} of its {cpus.0} CPUs; in the last {seconds.0} s this job waited " \
         "for a CPU {percent.0} % of the time{brief?|. Run it where it is alone, or later}", \
         FLOATING(percent) FLOATING(seconds) FLOATING(others) FLOATING(cpus) FLAG(brief)) \
    NOTE(open_files, "limit", "pid {pid}, {program}, has {open} open files of at most {limit} (ulimit -n)", \
         INTEGER(pid) STRING(program) INTEGER(open) INTEGER(limit)) \
    NOTE(user_tasks, "limit", \
         "this user has {tasks} processes and threads on this node, of at most {limit} (ulimit -u)", \
         INTEGER(tasks) INTEGER(limit)) \
    NOTE(stack_limit, "limit", "the stack of pid {pid}, {program}, has {used_kb} KB of at most {limit_kb} KB (ulimit -s)", \
         INTEGER(pid) STRING(program) INTEGER(used_kb) INTEGER(limit_kb)) \
    NOTE(cpu_limit, "limit", \
         "pid {pid}, {program}, may compute for {left_seconds.0} s more: its limit is {limit_seconds.0} s (ulimit -t)", \
         INTEGER(pid) STRING(program) FLOATING(limit_seconds) FLOATING(left_seconds)) \
    NOTE(zombies, "limit", \
         "{processes} processes have ended, and pid {pid}, {program}, does not ask for their exit status (wait)", \
         INTEGER(processes) INTEGER(pid) STRING(program)) \
    NOTE(clock_jumped, "clock", "the node's clock was put {back?back|forward} by {seconds.1} s: times of files differ", \
         FLAG(back) FLOATING(seconds)) \
    NOTE(suspended, "clock", "the node was suspended for {seconds.1} s", FLOATING(seconds)) \
    NOTE(credential_expires, "credential", "the {credential} {path} expires in {left_seconds.0} s: renew it", \
         STRING(credential) STRING(path) FLOATING(left_seconds)) \
    NOTE(credential_expired, "credential", "the {credential} {path} has expired: renew it", \
         STRING(credential) STRING(path)) \
    NOTE(credential_unreadable, "credential", "the {credential} {path} cannot be read: {reason}", \
         STRING(credential) STRING(path) STRING(reason)) \
    NOTE(stands_still, "stalled", \
         "idle for {seconds.0} s: no process of the job computed, read or wrote since {program} (pid {pid}) {last}{where}", \
         FLOATING(seconds) INTEGER(pid) STRING(program) STRING(last) STRING(where)) \
    NOTE(left_running, "left", "when it was ended, {processes} of its processes still ran: {names}", INTEGER(processes) \
         STRING(names)) \
    NOTE(stuck, "stalled", "{deadlock?deadlock|stuck}: {text}", FLAG(deadlock) STRING(text)) \
    /* about what programs write (job/logs) */ \
    NOTE(log_unwatched, "log", "{file} is not watched: {reason}", STRING(file) STRING(reason)) \
    NOTE(output_aside, "log", "{file} is not kept by --tee: {reason}", STRING(file) STRING(reason)) \
    NOTE(output_lack, "log", "{file} was passed on, but not all of it is kept: {reason}", STRING(file) STRING(reason)) \
    NOTE(log_missing, "log", "{file} is what --log names, but there was no such file (the job began in {directory})", \
         STRING(file) STRING(directory)) \
    NOTE(log_files_most, "log", "{file} and more are not watched: {files} files are watched at most", \
         INTEGER(files) STRING(file)) \
    NOTE(log_skipped, "log", "{bytes} bytes of {file} came too fast and were not looked at", \
         INTEGER(bytes) STRING(file)) \
    NOTE(log_pattern_slow, "log", \
         "'{pattern}' takes too long for some lines of {file}, which count as not matched: make it simpler", \
         STRING(pattern) STRING(file)) \
    NOTE(log_pattern_off, "log", "'{pattern}' took too long for {lines} lines and is not looked for any more", \
         STRING(pattern) INTEGER(lines)) \
    NOTE(hidden_failure, "hidden", "the exit status is 0, but {what}", STRING(what)) \
    /* why a job failed, from reports (jobdir/layers/cause.h) */ \
    NOTE(cause_start, "cause", "{reason}", STRING(reason)) \
    NOTE(cause_memory, "cause", \
         "{sure?|probably }out of memory: the kernel killed {what}", \
         INTEGER(processes) STRING(what) FLAG(sure)) \
    NOTE(cause_memory_short, "cause", "probably killed for lack of memory: {text}", STRING(text)) \
    NOTE(cause_credential, "cause", "{sure?|probably }the {credential} {path} had expired", \
         STRING(credential) STRING(path) FLAG(sure)) \
    NOTE(cause_standstill, "cause", "probably it stood still until it was ended: {text}", STRING(text)) \
    NOTE(cause_disk_full, "cause", \
         "{sure?|probably }the disk of {path} was full{inodes?: no more files fit on it|}", \
         STRING(path) FLAG(inodes) FLAG(sure)) \
    NOTE(cause_said, "cause", "{sure?|probably }{what}: {text}{when}", STRING(what) STRING(text) STRING(when) FLAG(sure)) \
    NOTE(cause_crash, "cause", "{sure?|probably }{program} crashed by {signal}{place}", \
         STRING(program) STRING(signal) STRING(place) FLAG(sure)) \
    NOTE(cause_gave_up, "cause", "{sure?|probably }{program} gave up{place}: {text}", \
         STRING(program) STRING(text) STRING(place) FLAG(sure)) \
    NOTE(cause_rank, "cause", "{sure?|probably }rank {rank} of {ranks}{node} {how}{said}", \
         INTEGER(rank) INTEGER(ranks) STRING(node) STRING(how) STRING(said) FLAG(sure)) \
    NOTE(cause_node_lost, "cause", \
         "{sure?|probably }node {node} was lost at {seconds.1} s: nothing was heard from it any more{ranks}", \
         STRING(node) FLOATING(seconds) STRING(ranks) FLAG(sure)) \
    NOTE(cause_limit, "cause", "{program} was killed by {signal}, {sure?|probably }because of a limit: {reason}", \
         STRING(program) STRING(signal) STRING(reason) FLAG(sure)) \
    NOTE(cause_exception, "cause", \
         "{sure?|probably }an exception of Python that nothing caught, at {place}: {exception}", \
         STRING(place) STRING(exception) FLAG(sure)) \
    NOTE(cause_mpi_stall, "cause", "probably stuck in MPI, until it was ended{by}: {why}", INTEGER(ranks) STRING(by) STRING(why)) \
    NOTE(cause_mpi_late, "cause", "probably a late rank, until it was ended{by}: {text}", INTEGER(ranks) STRING(by) \
         STRING(text)) \
    NOTE(cause_stuck, "cause", "probably {deadlock?a deadlock|stuck}, until it was ended{by}: {text}", \
         FLAG(deadlock) STRING(by) STRING(text)) \
    NOTE(cause_killed, "cause", \
         "{program} was killed by {signal}, probably by {by}", STRING(program) STRING(signal) STRING(by)) \
    NOTE(cause_launcher, "cause", \
         "{program} was killed by {signal}, probably by {launcher}, which ended with exit status {status}{said}", \
         STRING(program) STRING(signal) STRING(launcher) INTEGER(status) STRING(said)) \
    NOTE(cause_left, "cause", \
         "{program} (pid {pid}) ended first, with exit status 0, probably without MPI_Finalize; {launcher} then killed the " \
         "others by {signal}{said}", \
         STRING(program) INTEGER(pid) STRING(launcher) STRING(signal) STRING(said)) \
    NOTE(cause_signal, "cause", \
         "probably {signal}, which came from {sender}{more}", \
         STRING(signal) STRING(sender) FLOATING(seconds) STRING(why) STRING(more)) \
    NOTE(cause_asked, "cause", \
         "{program} was killed by {signal}, {sure?|probably }{why}", \
         STRING(program) STRING(signal) STRING(who) FLAG(remote) STRING(why) FLAG(sure)) \
    NOTE(cause_command, "cause", "{sure?|probably }the command at {place}, which failed with {status}: {command}{said}", \
         STRING(place) INTEGER(status) STRING(command) STRING(said) FLAG(sure)) \
    NOTE(cause_log, "cause", "probably what {file} says: {text}{place}{when}", STRING(file) STRING(text) STRING(when) \
         STRING(place)) \
    NOTE(cause_process, "cause", "{sure?|probably }{program} (pid {pid}){sure?|, which} ended {how}{said}", \
         STRING(program) INTEGER(pid) STRING(how) STRING(said) STRING(words) FLAG(sure)) \
    NOTE(cause_unknown, "cause", "{program} (pid {pid}) ended {how}{said}", \
         STRING(program) INTEGER(pid) STRING(how) STRING(said) STRING(words)) \
    /* about writing */ \
    NOTE(disk_hangs, "disk_hangs", \
         "the disk with the job directory does not answer: the rest is written when it does",) \
    NOTE(recording_stopped, "recording_stopped", \
         "recording stopped: {reason}; {records} records were lost{traces? (those of functions are counted separately)|}", \
         STRING(reason) INTEGER(records) FLAG(traces)) \
    NOTE(job_json_unwritten, "job_json", "{directory}/job.json could not be written: {reason}", \
         STRING(directory) STRING(reason))

#define NOTE_ENUM(name, group, text, fields) NOTE_##name,
#define NOTE_MEMBER(name, group, text, fields) struct { fields } name;
#define NOTE_MEMBER_NAME(name) _Static_assert(sizeof #name <= NOTE_FIELD_NAME, "a longer NOTE_FIELD_NAME is needed");
#define NOTE_MEMBER_INTEGER(name) uint64_t name; NOTE_MEMBER_NAME(name)
#define NOTE_MEMBER_FLOATING(name) double name; NOTE_MEMBER_NAME(name)
#define NOTE_MEMBER_STRING(name) const char *name; NOTE_MEMBER_NAME(name)
#define NOTE_NONE_OF(name)
/* clang-format on */

enum note_kind { NOTE_NONE, NOTES(NOTE_ENUM, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF) NOTE_KINDS };

enum { NOTE_FIELDS = 6, NOTE_FIELD_NAME = 15 };
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
    uint8_t type;               /* enum note_field_type */
    char name[NOTE_FIELD_NAME]; /* "": there are no more fields. No address, see notes.c */
};

const struct note_field *note_fields(enum note_kind kind); /* of known kinds; NOTE_NONE has none */
const char *note_name(enum note_kind kind);
const char *note_group(enum note_kind kind);    /* "kind" of the warning that it becomes */
const char *note_template(enum note_kind kind); /* its text, with {field}: for the reference */
enum note_kind note_find(const char *name);     /* NOTE_NONE: there is no such note in this version */

/* Appends its text, as the fields are: whoever shows it on a terminal escapes it. Of NOTE_NONE nothing. */
void note_text(struct buf *out, const struct note *note);

/* Notes that are kept: in memory with their texts, and in files as lines. */

/* A note with its own copies of its texts. It points into itself: it is not to be copied or moved. */
struct kept_note {
    struct note note; /* NOTE_NONE: there is none */
    char texts[512];
};

/* Later texts are cut where earlier ones leave no room. `note` may have texts of `kept`'s own only if it is its note.
 */
void note_keep(struct kept_note *kept, const struct note *note);
bool note_equal(const struct note *one, const struct note *other);

/* As a line without its end: the name, the fields, and the text for versions that do not know it. Tabs separate them; a
 * backslash stands before tabs and backslashes in them. */
void note_put_line(struct buf *out, const struct note *note);
/* Any text: what is no note, or none of this version, becomes NOTE_said. */
void note_read_line(struct kept_note *ret_note, const char *line);

#endif
