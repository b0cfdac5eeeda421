/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/doctor/doctor.h"
#include "client/client.h"
#include "job/launch/program.h"
#include "job/watch/tracing.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/spool.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "shm/waits.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/*
 * What scry doctor looks at of a job (doctor/job.c), and its part on programs: whether they have hooks and symbols
 * (doctor/job_programs.c).
 */

enum { JOB_LOOK_SHOWN = 8 }; /* findings of one kind, names in a line */

struct seen_program {
    struct program program;
    struct program_symbols symbols;
    size_t processes, untraced; /* untraced: they executed it, and have no trace */
};

struct job_look {
    struct doctor_out *out;
    char path[PATH_MAX];
    struct job_report report;
    json_t *settings;  /* in force */
    bool hooks_needed; /* functions were to be traced by their hooks */
    struct seen_program *programs;
    size_t program_count, hooked;
    size_t ranks;
    size_t traced;          /* processes that have traces, as far as they are in the records */
    size_t copies;          /* whose parents were searched for */
    size_t unknown;         /* processes whose program is not known */
    size_t monitor_told;    /* warnings about the monitor */
    struct trace_info live; /* from the monitor; not `known`: the job is over, or no answer */
};

static const char *job_look_shown(const char *text, char *to, size_t size);
static const struct job_functions *job_look_functions(const struct job_look *look);

/* The programs of a job: which there are, and whether they have what tracing needs. */

enum {
    PROGRAMS = 64, /* looked at */
    COPIES = 1000, /* processes whose parents are searched for */
};

/* Nothing can be loaded into it. What defines hooks in a static program is the C library. */
static bool is_closed(const struct seen_program *seen)
{
    return seen->program.obstacle;
}

static bool is_hooked(const struct seen_program *seen)
{
    return !is_closed(seen) && seen->symbols.hooks && !seen->symbols.own_hooks;
}

/* Looks at the program as it is now; it may have been compiled again. NULL: it is none, or one too many. */
static struct seen_program *see_program(struct job_look *look, const char *command, const char *cwd)
{
    char path[PATH_MAX];
    struct program program;
    bool relative = command && *command != '/' && strchr(command, '/');
    if (!command || !*command ||
        snprintf(path, sizeof path, "%s%s%s", relative && cwd ? cwd : "", relative && cwd ? "/" : "", command) >=
            (int)sizeof path)
        return NULL;
    program_look(&program, path);
    if (!program.is_elf)
        return NULL;
    for (size_t i = 0; i < look->program_count; i++)
        if (strcmp(look->programs[i].program.path, program.path) == 0)
            return &look->programs[i];
    if (look->program_count == PROGRAMS)
        return NULL;
    struct seen_program *seen = &look->programs[look->program_count++];
    seen->program = program;
    program_symbols(&seen->symbols, program.path);
    look->hooked += is_hooked(seen);
    return seen;
}

/* Whether its parent runs the same: it is a copy, which has a trace only if it calls something. After many searches,
 * which take their time in a job of many processes, whether it is one stays open. */
static bool may_be_copy(struct job_look *look, const struct job_process *process)
{
    const struct job_model *model = &look->report.model;
    const struct job_process *parent;
    if (look->copies++ >= COPIES)
        return true;
    HASH_FIND(hh, model->alive, &process->ppid, sizeof process->ppid, parent);
    for (size_t i = 0; !parent && i < model->ended_count; i++)
        if (model->ended[i].pid == process->ppid)
            parent = &model->ended[i];
    return parent && json_equal(parent->argv, process->argv);
}

static void see_process(struct job_look *look, const struct job_process *process)
{
    struct seen_program *seen =
        see_program(look, json_string_value(json_array_get(process->argv, 0)), json_string_value(process->cwd));
    bool traced = job_functions_traced(job_look_functions(look), look->report.info.host, process->pid);
    look->unknown += !process->argv;
    look->traced += traced;
    if (!seen || !is_hooked(seen))
        return;
    if (!traced && may_be_copy(look, process))
        return;
    seen->processes++;
    seen->untraced += !traced;
}

/* Looks at the programs of the job's command and processes as they are now. 0 or -ENOMEM; look->programs is to be freed
 * in any case. */
static int job_programs_see(struct job_look *look)
{
    const struct job_model *model = &look->report.model;
    size_t index;
    json_t *word;
    look->programs = calloc(PROGRAMS, sizeof *look->programs);
    if (!look->programs)
        return -ENOMEM;
    json_array_foreach(look->report.info.argv, index, word) /* mpirun -n 4 ./solver, env -i ./solver */
        if (index == 0 || strchr(json_string_value(word) ? json_string_value(word) : "", '/'))
            see_program(look, json_string_value(word), look->report.info.cwd);
    for (const struct job_process *process = model->alive; process; process = process->hh.next)
        see_process(look, process);
    for (size_t i = 0; i < model->ended_count; i++)
        see_process(look, &model->ended[i]);
    return 0;
}

/* Puts the names of the first few programs for which `is` holds. Returns how many there are. */
static size_t put_programs(const struct job_look *look, bool (*is)(const struct seen_program *seen), char *ret_names,
                           size_t size)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    size_t count = 0;
    for (size_t i = 0; i < look->program_count; i++)
        if (is(&look->programs[i]) && count++ < JOB_LOOK_SHOWN)
            buf_printf(&names, "%s%s", names.len ? ", " : "", text_base(look->programs[i].program.path));
    if (count > JOB_LOOK_SHOWN)
        buf_puts(&names, ", ...");
    job_look_shown(names.data ? names.data : "", ret_names, size);
    return count;
}

static bool is_bare(const struct seen_program *seen)
{
    return !is_closed(seen) && !seen->symbols.hooks && !seen->symbols.own_hooks;
}

static bool has_own_hooks(const struct seen_program *seen)
{
    return !is_closed(seen) && seen->symbols.own_hooks;
}

static bool is_nameless(const struct seen_program *seen)
{
    return is_hooked(seen) && !seen->symbols.debug;
}

static void job_programs_check_hooks(struct job_look *look)
{
    struct finding finding = {0};
    char names[300];
    if (put_programs(look, has_own_hooks, names, sizeof names)) {
        finding_set(&finding, FINDING_FAIL, "these programs have hooks of their own, which get their calls: %s", names);
        finding_remedy(&finding, "remove __cyg_profile_func_enter from them");
        doctor_say(look->out, "hooks", &finding);
    }
    finding = (struct finding){0};
    size_t closed = put_programs(look, is_closed, names, sizeof names);
    if (closed) {
        finding_set(&finding, FINDING_WARN, "nothing can be loaded into %s", names);
        for (size_t i = 0; i < look->program_count && !*finding.remedy; i++)
            if (is_closed(&look->programs[i]))
                finding_remedy(&finding, "%s", look->programs[i].program.remedy);
        doctor_say(look->out, "hooks", &finding);
    }
    finding = (struct finding){0};
    if (put_programs(look, is_hooked, names, sizeof names)) {
        finding_set(&finding, FINDING_OK, "in %s", names);
    } else if (job_look_functions(look)->processes > look->ranks) { /* in a library, or the program has changed */
        finding_set(&finding, FINDING_OK,
                    "functions were traced: by jumps that were put into them, or by hooks in a library or a program "
                    "that has changed");
    } else if (put_programs(look, is_bare, names, sizeof names)) {
        finding_set(&finding, FINDING_WARN, "none in %s", names);
        finding_remedy(
            &finding,
            "name functions (--trace NAME), or compile what you want to trace with -g -finstrument-functions");
    } else if (look->program_count) {
        return; /* said above */
    } else {
        finding_set(&finding, FINDING_WARN, "no program of the job can be read any more");
    }
    doctor_say(look->out, "hooks", &finding);
}

static void job_programs_check_symbols(struct job_look *look)
{
    struct finding finding = {0};
    char names[300];
    if (put_programs(look, is_nameless, names, sizeof names)) {
        finding_set(&finding, FINDING_WARN, "no debug information, so no values, files and lines: %s", names);
        finding_remedy(&finding, "compile with -g, and do not strip");
    } else {
        finding_set(&finding, FINDING_OK, "%s", look->hooked ? "debug information is there" : "none are needed");
    }
    doctor_say(look->out, "symbols", &finding);
}

/*
 * Why a job shows nothing, or too little: what was requested, found and lost. Each check needs those before it. The
 * facts come from the job's records and, while it runs, from the monitor.
 */

static bool job_runs(const struct job_look *look)
{
    return look->report.state == JOB_RUNNING;
}

/* Of the traces; of a job without any, all 0. */
static const struct job_functions *job_look_functions(const struct job_look *look)
{
    static const struct job_functions none;
    return look->report.functions ? look->report.functions : &none;
}

/* Text from the job, with control characters escaped. */
static const char *job_look_shown(const char *text, char *to, size_t size)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    text_show(&line, text);
    snprintf(to, size, "%s", line.data ? line.data : "");
    return to;
}

/* Adds a finding for each of the job's warnings of this kind; `remedy` may be "". Returns their number. */
static size_t say_warnings(struct job_look *look, const char *kind, const char *name, enum finding_state state,
                           const char *remedy)
{
    size_t index, count = 0;
    json_t *warning;
    json_array_foreach(job_report_warnings(&look->report), index, warning)
    {
        const char *text = json_string_value(json_object_get(warning, "text"));
        const char *has = json_string_value(json_object_get(warning, "kind"));
        if (!text || !has || strcmp(has, kind) != 0 || count++ >= JOB_LOOK_SHOWN)
            continue;
        struct finding finding = {.state = state};
        job_look_shown(text, finding.text, sizeof finding.text);
        finding_remedy(&finding, "%s", remedy);
        doctor_say(look->out, name, &finding);
    }
    return count;
}

/* ---- the record ---- */

/* Who looks at @last after a `scry run` that did nothing looks at another job. */
static void check_off(struct job_look *look)
{
    const char *off = getenv("SCRY");
    struct finding finding = {0};
    if (!off || strcasecmp(off, "off") != 0)
        return;
    finding_set(&finding, FINDING_WARN,
                "SCRY=off is set here: a job started here leaves no record; @last is an older one");
    finding_remedy(&finding, "unset SCRY, and run the job again");
    doctor_say(look->out, "record", &finding);
}

/* Which job it is: " (COMMAND, started WHEN)"; "" if that is not known. */
static const char *which_job(const struct job_look *look, char *to, size_t size)
{
    const struct job_info *info = &look->report.info;
    _cleanup_(buf_done) struct buf words = BUF_INIT;
    char when[64], command[120];
    time_t seconds = (time_t)(info->started_ns / NS_PER_SECOND);
    struct tm tm;
    size_t index;
    json_t *word;
    *to = 0;
    json_array_foreach(info->argv, index, word)
        buf_printf(&words, "%s%s", index ? " " : "", json_string_value(word) ? json_string_value(word) : "");
    if (!words.len || !localtime_r(&seconds, &tm))
        return to;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(to, size, " (%s, started %s)", job_look_shown(words.data, command, sizeof command), when);
    return to;
}

static void check_record(struct job_look *look)
{
    const struct job_report *report = &look->report;
    struct finding finding = {0};
    size_t index;
    json_t *problem;
    char text[400], which[200];
    check_off(look);
    which_job(look, which, sizeof which);
    json_array_foreach(report->problems, index, problem)
    {
        if (index >= JOB_LOOK_SHOWN)
            break;
        struct finding wrong = {0};
        finding_set(&wrong, FINDING_WARN, "%s", job_look_shown(json_string_value(problem), text, sizeof text));
        doctor_say(look->out, "record", &wrong);
    }
    if (report->state == JOB_LOST || report->state == JOB_UNWATCHED || report->state == JOB_UNREACHABLE) {
        finding_set(&finding, FINDING_WARN, "the job is %s: nothing more will be recorded%s",
                    job_state_name(report->state), which);
        finding_remedy(&finding, "read what there is, or run the job again");
    } else if (report->model.missing_records) {
        finding_set(&finding, FINDING_WARN, "%" PRIu64 " of its records are missing%s", report->model.missing_records,
                    which);
        finding_remedy(&finding, "check the disk with %.300s", look->path);
    } else {
        finding_set(&finding, FINDING_OK, "%.250s: %" PRIu64 " records, %s%s", look->path, report->model.records,
                    job_report_status(report), which);
    }
    doctor_say(look->out, "record", &finding);
}

/* The first record of a type, if it comes before the first sample. A new reference, or NULL. */
static json_t *early_record(const char *path, const char *wanted)
{
    struct spool_reader reader;
    json_t *found = NULL;
    if (spool_reader_open(&reader, path, NULL) < 0)
        return NULL;
    bool over = false; /* wanted records come before samples */
    for (json_t *record; !found && !over && (record = spool_reader_next(&reader)); json_decref(record)) {
        const char *type = json_string_value(json_object_get(record, "type"));
        over = type && strcmp(type, "sample") == 0;
        found = type && strcmp(type, wanted) == 0 ? json_incref(record) : NULL;
    }
    spool_reader_close(&reader);
    return found;
}

static void check_command(struct job_look *look)
{
    const struct job_report *report = &look->report;
    struct finding finding = {0};
    char text[300];
    json_t *untraced = early_record(look->path, "untraced"), *script = early_record(look->path, "script");
    const char *why = json_string_value(json_object_get(untraced, "text"));
    const char *path = json_string_value(json_object_get(script, "path"));
    if (report->info.ended && !report->info.result.started) {
        finding_set(&finding, FINDING_FAIL, "the command could not be started: exit status %d",
                    report->info.result.exit_code);
        const char *reason = report->info.result.reason;
        finding_remedy(&finding, "correct the command: %s",
                       reason && *reason                      ? job_look_shown(reason, text, sizeof text)
                       : report->info.result.exit_code == 127 ? "it was not found"
                                                              : "it was not executable");
    } else if (why) {
        finding_set(&finding, FINDING_FAIL, "%s", job_look_shown(why, text, sizeof text));
    } else if (path) {
        finding_set(&finding, FINDING_OK, "%s is a script: calls of the programs that it starts are recorded",
                    job_look_shown(path, text, sizeof text));
    } else {
        finding_set(&finding, FINDING_OK, "it started, and libraries can be loaded into it");
    }
    doctor_say(look->out, "command", &finding);
    json_decref(untraced);
    json_decref(script);
}

/* ---- what was asked ---- */

static void check_asked(struct job_look *look)
{
    struct finding finding = {0};
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    char text[400];
    const char *key;
    json_t *value;
    json_object_foreach(look->settings, key, value)
        buf_printf(&list, " %s=%s", key, json_string_value(value) ? json_string_value(value) : "");
    look->hooks_needed = strcmp(member_text(look->settings, "trace"), "off") != 0;
    if (strcmp(member_text(look->settings, "on"), "no") == 0) {
        finding_set(&finding, FINDING_FAIL, "recording was switched off: on=no");
        finding_remedy(&finding, "scry set JOB on=yes, while it runs");
    } else if (!look->hooks_needed) {
        finding_set(&finding, FINDING_WARN, "functions were not traced: trace=off");
        finding_remedy(&finding, "start the job without --trace off and SCRY_TRACE=off");
    } else if (json_array_size(look->report.model.pauses)) {
        finding_set(&finding, FINDING_WARN, "scry set switched recording off for a while");
    } else {
        finding_set(&finding, FINDING_OK, "%s%s", list.len ? "as set:" : "all functions with hooks, as by default",
                    job_look_shown(list.len ? list.data : "", text, sizeof text));
    }
    doctor_say(look->out, "asked", &finding);
}

/* ---- the monitor ---- */

/* While the job runs. Fills look->live. */
static void ask_monitor(struct job_look *look, struct finding *finding)
{
    struct buf text = BUF_INIT;
    if (!client_join()) {
        finding_set(finding, FINDING_FAIL, "the job runs, and the monitor does not answer: %.300s", client_error());
        finding_remedy(finding,
                       "scry doctor (without a job) says whether a monitor can be started here; scry run tries again "
                       "by itself");
        return;
    }
    PUT_CALL(&text, "job_trace_info", look->path);
    Omis_reply reply = client_ask(&text);
    tracing_answer(reply, &look->live);
    omis_reply_free(reply);
    omis_finalize();
    if (look->live.known)
        finding_set(finding, FINDING_OK,
                    "it runs and follows the job: %" PRIu64 " processes traced now, %" PRIu64 " records",
                    look->live.live, look->live.events);
    else {
        finding_set(finding, FINDING_FAIL, "the monitor runs, but does not know this job");
        finding_remedy(finding, "was the job started with another SCRY_RUNTIME_DIR or SCRY_CONNECT?");
    }
}

static void check_monitor(struct job_look *look)
{
    struct finding finding = {0};
    look->monitor_told = say_warnings(look, "monitor", "monitor", FINDING_FAIL,
                                      "scry doctor (without a job) says whether the monitor answers now; run the job "
                                      "again");
    size_t wrong = look->monitor_told + say_warnings(look, "gap", "monitor", FINDING_WARN, "");
    if (job_runs(look))
        ask_monitor(look, &finding);
    else if (look->report.state == JOB_UNWATCHED || look->report.state == JOB_LOST)
        finding_set(&finding, FINDING_OK, "it was there as long as there was somebody to tell");
    else
        finding_set(&finding, FINDING_OK, "it followed the job from start to end");
    if (job_runs(look) || !wrong)
        doctor_say(look->out, "monitor", &finding);
}

/* ---- what came ---- */

static void say_note(const struct note *note, struct finding *finding, enum finding_state state)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char line[300];
    note_text(&text, note);
    finding_set(finding, state, "%s", job_look_shown(text.data ? text.data : "", line, sizeof line));
}

/* Programs with hooks of which only some processes have traces. */
static void say_partly(struct job_look *look)
{
    if (job_look_functions(look)->incomplete || !look->traced)
        return; /* there may be more traces; none are those of other nodes, or all are missing */
    for (size_t i = 0; i < look->program_count; i++) {
        const struct seen_program *seen = &look->programs[i];
        struct finding finding = {0};
        char name[200];
        if (!seen->untraced)
            continue;
        finding_set(&finding, FINDING_WARN, "%zu of %zu processes of %s have no trace", seen->untraced, seen->processes,
                    job_look_shown(text_base(seen->program.path), name, sizeof name));
        finding_remedy(&finding, "was LD_PRELOAD replaced, or SCRY=off set for them?");
        doctor_say(look->out, "traced", &finding);
    }
}

static void check_processes(struct job_look *look)
{
    const struct job_functions *functions = job_look_functions(look);
    struct finding finding = {0};
    struct job_result result = job_report_result(&look->report);
    size_t told = look->monitor_told + say_warnings(look, "trace", "traced", FINDING_WARN, "");
    size_t refused = say_warnings(look, "untraced", "traced", FINDING_WARN, "");
    told += refused;
    if (look->live.problem_count)
        say_note(&look->live.problems[0], &finding, FINDING_FAIL);
    else if (functions->processes || look->live.live)
        finding_set(&finding, FINDING_OK, "%zu of %" PRIu64 " processes have traces", functions->processes,
                    result.processes);
    else if (!look->hooked || !look->hooks_needed)
        finding_set(&finding, FINDING_OK, "none of %" PRIu64 " processes%s", result.processes,
                    refused ? ", see above" : ": there is nothing to trace");
    else {
        finding_set(&finding, FINDING_FAIL, "none of %" PRIu64 " processes, though programs with hooks ran",
                    result.processes);
        finding_remedy(&finding,
                       told ? "see above"
                            : "was LD_PRELOAD replaced on the way, or is the program setuid? scry doctor says whether "
                              "the agent can be loaded here");
    }
    doctor_say(look->out, "traced", &finding);
    if (look->hooks_needed)
        say_partly(look);
    if (look->unknown && look->hooks_needed) {
        finding = (struct finding){0};
        finding_set(&finding, FINDING_WARN,
                    "of %zu processes the program is not known (too short, static, or SCRY=off)", look->unknown);
        doctor_say(look->out, "traced", &finding);
    }
    for (size_t i = 0; i < look->live.note_count; i++) {
        finding = (struct finding){0};
        say_note(&look->live.notes[i], &finding, FINDING_WARN);
        doctor_say(look->out, "traced", &finding);
    }
}

static void check_calls(struct job_look *look)
{
    const struct job_functions *functions = job_look_functions(look);
    struct finding finding = {0};
    char text[300];
    size_t index;
    json_t *problem;
    if (look->live.unmatched[0]) {
        finding_set(&finding, FINDING_FAIL, "%s", job_look_shown(look->live.unmatched, text, sizeof text));
        finding_remedy(&finding, "scry set JOB trace='...' with names that the program has");
    } else if (look->live.choosing) {
        finding_set(&finding, FINDING_WARN,
                    "the symbols of %" PRIu64 " processes are still being read for the selection", look->live.choosing);
        finding_remedy(&finding, "wait: they are kept for the next time");
    } else if (!functions->processes) {
        finding_set(&finding, FINDING_OK, "no process has a trace, see above");
    } else if (functions->events || functions->functions) {
        finding_set(&finding, FINDING_OK, "%" PRIu64 " events of %u functions", functions->events,
                    HASH_COUNT(functions->functions));
    } else if (job_runs(look)) {
        finding_set(&finding, FINDING_WARN, "no call was recorded so far");
        finding_remedy(&finding, "look again in a moment: calls are collected from time to time");
    } else {
        finding_set(&finding, FINDING_FAIL,
                    "processes were traced, but no function that matches the selection was called%s%s",
                    functions->min_time_ns ? ", or none took as long as --min-time " : "",
                    functions->min_time_ns ? member_text(look->settings, "min-time") : "");
        finding_remedy(&finding,
                       json_array_size(functions->problems) || !*member_text(look->settings, "trace")
                           ? "correct --trace (%.200s); scry run without it records all functions with hooks"
                           : "what is chosen (%.200s) exists, but was not called; scry run without --trace records all "
                             "functions with hooks",
                       *member_text(look->settings, "trace") ? member_text(look->settings, "trace") : "not given");
    }
    doctor_say(look->out, "calls", &finding);
    json_array_foreach(functions->problems, index, problem)
    {
        if (index >= JOB_LOOK_SHOWN)
            break;
        finding = (struct finding){.state = FINDING_WARN};
        job_look_shown(json_string_value(json_object_get(problem, "text")), finding.text, sizeof finding.text);
        doctor_say(look->out, "calls", &finding);
    }
}

static void check_limits(struct job_look *look)
{
    static const char *const kinds[] = {"recording_stopped", "disk_hangs", "lost", "unseen", "rule",
                                        "setting",           "job_json"};
    const struct job_functions *functions = job_look_functions(look);
    struct finding finding = {0};
    size_t told = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        told += say_warnings(look, kinds[i], "limits", FINDING_WARN, "");
    if (functions->limited && functions->discarded + functions->overwritten) {
        finding_set(&finding, FINDING_WARN, "%" PRIu64 " records are missing: the traces could not grow, see \"calls\"",
                    functions->discarded + functions->overwritten);
        finding_remedy(&finding, "make room on the disk, raise --max-size, or record less (--min-time, --trace)");
    } else if (functions->discarded || functions->overwritten) {
        finding_set(&finding, FINDING_WARN,
                    "%" PRIu64 " records were discarded, %" PRIu64 " overwritten: the buffer was full",
                    functions->discarded, functions->overwritten);
        finding_remedy(&finding, "record less (--min-time, --trace), or use a larger --buffer, or --overflow wait");
    } else if (functions->thinned > functions->tallied || functions->min_time_ns || functions->max_depth) {
        finding_set(&finding, FINDING_OK, "calls were left out as requested (--rate, --min-time, --max-depth)");
    } else if (!told) {
        finding_set(&finding, FINDING_OK, "none was reached, nothing was lost");
    } else {
        return;
    }
    doctor_say(look->out, "limits", &finding);
}

/* ---- MPI ---- */

static void read_ranks(struct job_look *look)
{
    struct mpi_stats_set set = {0};
    struct err err;
    if (mpi_stats_read(&set, look->path, &err) == 0) {
        look->ranks = set.count;
        mpi_stats_set_done(&set);
    }
}

static void check_mpi(struct job_look *look)
{
    struct finding finding = {0};
    size_t told = say_warnings(look, "mpi", "mpi", FINDING_FAIL, "");
    if (strcmp(member_text(look->settings, "mpi"), "off") == 0) {
        finding_set(&finding, FINDING_WARN, "MPI calls were not counted: mpi=off");
        finding_remedy(&finding, "start the job without --mpi off and SCRY_MPI=off");
    } else if (look->ranks) {
        finding_set(&finding, FINDING_OK, "the interposer was loaded into %zu ranks", look->ranks);
    } else if (told) {
        return;
    } else {
        finding_set(&finding, FINDING_OK, "no process used MPI%s", job_runs(look) ? " so far" : "");
    }
    doctor_say(look->out, "mpi", &finding);
}

static int job_load(struct job_look *look, const char *job, struct err *err)
{
    int code = jobdir_find(job, look->path, sizeof look->path, err);
    if (code == 0)
        code = job_report_load(&look->report, look->path, err);
    if (code < 0)
        return code;
    struct job_functions_options options = {.start_ns = look->report.info.started_ns, .budget_ns = DOCTOR_TRACES_NS};
    struct err unread = {0};
    if (job_report_load_functions(&look->report, &options, &unread) < 0)
        log_debug("traces dir=%s text=%s", LOG_TEXT(look->path), LOG_TEXT(unread.text));
    look->settings = json_object();
    if (!look->settings || job_programs_see(look) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    settings_read(look->path, look->settings);
    read_ranks(look);
    return 0;
}

int doctor_job(struct doctor_out *out, const char *job)
{
    static void (*const checks[])(struct job_look * look) = {check_record,
                                                             check_command,
                                                             check_asked,
                                                             check_monitor,
                                                             job_programs_check_hooks,
                                                             job_programs_check_symbols,
                                                             check_processes,
                                                             check_calls,
                                                             check_limits,
                                                             check_mpi};
    struct job_look look = {.out = out};
    struct err err = {0};
    int code = job_load(&look, job, &err);
    if (code < 0)
        cli_log_error(&err);
    for (size_t i = 0; code == 0 && i < sizeof checks / sizeof *checks; i++)
        checks[i](&look);
    job_report_done(&look.report);
    json_decref(look.settings);
    free(look.programs);
    return code < 0 ? EXIT_USAGE : 0;
}
