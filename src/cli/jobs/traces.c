/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/traces.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "job/places/place_names.h"
#include "jobdir/text/fields.h"
#include "jobdir/trace/calls.h"
#include "jobdir/record/info.h"
#include "jobdir/record/model.h"
#include "jobdir/mpi/trace.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

static void log_problem(void *ctx, const char *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, text);
    log_warning("%s", shown.data ? shown.data : "");
}

/* The process of a trace, from its directory's name. */
static pid_t path_pid(const char *path)
{
    return (pid_t)strtol(text_base(path), NULL, 10);
}

static bool is_known(const struct job_traces *traces, const char *path)
{
    for (size_t i = 0; i < traces->path_count; i++)
        if (strcmp(traces->paths[i], path) == 0)
            return true;
    return false;
}

/* While a job runs, a trace is at first only a directory. Only later it says which process it belongs to, and whether
 * it continues another trace. */
static bool is_begun(const struct job_traces *traces, const char *path)
{
    char process[PATH_MAX];
    return traces->is_running && snprintf(process, sizeof process, "%s/.process", path) < (int)sizeof process &&
           access(process, F_OK) < 0;
}

/* Takes the path. */
static int traces_add(struct job_traces *traces, char *path, pid_t process)
{
    char **paths = realloc(traces->paths, (traces->path_count + 1) * sizeof *paths);
    if (paths)
        traces->paths = paths;
    struct trace **list = realloc(traces->list, (traces->count + 1) * sizeof(struct trace *));
    if (list)
        traces->list = list;
    if (!paths || !list) {
        free(path);
        return -ENOMEM;
    }
    traces->paths[traces->path_count++] = path;
    if (process && path_pid(path) != process)
        return 0;
    struct err err = {0};
    if (trace_open(&traces->list[traces->count], path, log_problem, NULL, &err) < 0)
        cli_log_error(&err);
    else
        traces->count++;
    return 0;
}

static bool same_process(const struct trace *a, const struct trace *b)
{
    return trace_pid(a) == trace_pid(b) && strcmp(trace_node(a), trace_node(b)) == 0;
}

/* A trace that continues another one is read as part of it. */
static void traces_join(struct job_traces *traces, size_t before)
{
    for (size_t at = before; at < traces->count;) {
        struct trace *next = traces->list[at], *former = NULL;
        for (size_t i = 0; i < at && !former; i++) {
            if (!same_process(traces->list[i], next))
                continue;
            if (i < before)
                trace_update(traces->list[i], NULL); /* it was still being written (follow mode) */
            former = trace_goes_on(traces->list[i], next) ? traces->list[i] : NULL;
        }
        if (!former) {
            at++;
            continue;
        }
        trace_append(former, next);
        traces->count--;
        memmove(traces->list + at, traces->list + at + 1, (traces->count - at) * sizeof(struct trace *));
    }
}

int job_traces_again(struct job_traces *traces, pid_t process)
{
    char **paths;
    size_t count, before = traces->count;
    int code = trace_list(traces->job, &paths, &count, NULL);
    if (code < 0)
        return code;
    for (size_t i = 0; i < count; i++) {
        if (code == 0 && !is_known(traces, paths[i]) && !is_begun(traces, paths[i]))
            code = traces_add(traces, paths[i], process);
        else
            free(paths[i]);
    }
    free(paths);
    traces_join(traces, before);
    return code < 0 ? code : (int)(traces->count - before);
}

static void look_at_job(struct job_traces *traces)
{
    struct job_info info = {0};
    if (job_info_read(traces->job, &info, NULL) == 0) {
        traces->start_ns = info.started_ns;
        traces->is_running = job_state(traces->job, &info) == JOB_RUNNING;
    }
    job_info_done(&info);
}

int job_traces_open(struct job_traces *ret_traces, const char *command, const char *job, pid_t process)
{
    struct err err = {0};
    struct found_job found;
    *ret_traces = (struct job_traces){0};
    int code = find_job(&found, job, &err);
    if (code == 0)
        code = find_job_here(&found, &err);
    memcpy(ret_traces->job, found.path, sizeof ret_traces->job);
    find_close(&found);
    if (code < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    look_at_job(ret_traces);
    code = job_traces_again(ret_traces, process);
    if (code < 0) {
        log_error("cannot read the traces of %s: %s", ret_traces->job, strerror(-code));
        return EXIT_ERRORS;
    }
    for (size_t i = 0; i < ret_traces->count && !ret_traces->start_ns; i++)
        ret_traces->start_ns = trace_number(ret_traces->list[i], "start_ns");
    return 0;
}

int job_traces_ranks(struct job_traces *traces)
{
    struct err err = {0};
    int code = mpi_names_report(&traces->mpi, traces->job, MPI_NAMES_TIMEOUT_MS, &err);
    if (code < 0 && code != -ENOENT)
        cli_log_error(&err); /* then only names are missing */
    if (mpi_trace_order(traces->list, traces->count, job_traces_stats(traces)) == 0)
        return 0;
    log_error("out of memory");
    return EXIT_ERRORS;
}

void job_traces_places(struct job_traces *traces)
{
    struct err err = {0};
    size_t count = 0;
    for (size_t i = 0; i < traces->count; i++)
        count += trace_place_count(traces->list[i]);
    if (count == traces->named)
        return;
    if (trace_names_find(traces->list, traces->count, traces->job, &traces->names, &err) > 0 && !traces->named)
        log_warning("callers are shown as addresses: %s", err.text);
    traces->named = count;
}

const struct mpi_stats_set *job_traces_stats(const struct job_traces *traces)
{
    return traces->mpi ? &traces->mpi->set : NULL;
}

void job_traces_close(struct job_traces *traces)
{
    mpi_report_free(traces->mpi);
    for (size_t i = 0; i < traces->count; i++)
        trace_close(traces->list[i]);
    for (size_t i = 0; i < traces->path_count; i++)
        free(traces->paths[i]);
    arena_done(&traces->names);
    free(traces->list);
    free(traces->paths);
    *traces = (struct job_traces){0};
}

/* ---- the job's records ---- */

enum { ENDS_KEPT = 100000 };

void job_history_open(struct job_history *ret_history, const struct job_traces *traces)
{
    *ret_history = (struct job_history){.start_ns = traces->start_ns};
    ret_history->open = job_model_init(&ret_history->model, ENDS_KEPT) == 0 &&
                        spool_reader_open(&ret_history->reader, traces->job, NULL) == 0;
    job_history_again(ret_history);
}

void job_history_again(struct job_history *history)
{
    for (json_t *record; history->open && (record = spool_reader_next(&history->reader)); json_decref(record))
        job_model_apply(&history->model, record);
}

void job_history_close(struct job_history *history)
{
    if (history->open)
        spool_reader_close(&history->reader);
    job_model_done(&history->model);
    *history = (struct job_history){0};
}

static uint64_t wall_of(const struct job_history *history, double seconds)
{
    return history->start_ns + (uint64_t)(seconds > 0 ? seconds * NS_PER_SECOND : 0);
}

bool job_history_pause(const struct job_history *history, size_t index, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
    const json_t *pause = json_array_get(history->model.pauses, index), *to = json_object_get(pause, "to");
    if (!pause)
        return false;
    *ret_from_ns = wall_of(history, member_number(pause, "from"));
    *ret_to_ns = json_is_number(to) ? wall_of(history, json_number_value(to)) : UINT64_MAX;
    return true;
}

uint64_t job_history_end(const struct job_history *history, pid_t pid)
{
    const struct job_process *process = job_model_ended(&history->model, pid);
    return process ? wall_of(history, process->end) : UINT64_MAX;
}

/* ---- why there is nothing ---- */

static bool explain_counted(const struct job_traces *traces)
{
    uint64_t counted = 0;
    for (size_t i = 0; i < traces->count; i++)
        counted += trace_number(traces->list[i], "counted");
    if (counted)
        log_error("%" PRIu64
                  " calls were only counted (--count-only), not recorded: `scry report` shows how often each function "
                  "was called; run the job without --count-only to see the calls",
                  counted);
    return counted;
}

static json_t *find_record(const char *path, const char *wanted)
{
    struct spool_reader reader;
    json_t *found = NULL;
    if (spool_reader_open(&reader, path, NULL) == 0)
        for (json_t *record; !found && (record = spool_reader_next(&reader));) {
            const char *type = json_string_value(json_object_get(record, "type"));
            bool over = type && strcmp(type, "sample") == 0; /* wanted records come before samples */
            if (type && strcmp(type, wanted) == 0)
                found = json_incref(record);
            json_decref(record);
            if (over)
                break;
        }
    spool_reader_close(&reader);
    return found;
}

/* Says so if no program could have been compiled with hooks. */
static bool explain_command(const struct job_traces *traces)
{
    struct job_info info = {0};
    bool read = job_info_read(traces->job, &info, NULL) == 0;
    bool started = !read || !info.ended || info.result.started;
    _cleanup_(buf_done) struct buf why = BUF_INIT;
    text_show(&why, info.result.reason && *info.result.reason ? info.result.reason
                    : info.result.exit_code == 127            ? "not found"
                                                              : "not executable");
    int exit_code = info.result.exit_code;
    job_info_done(&info);
    if (!started) {
        log_error(
            "no calls were recorded: the command could not be started (exit status %d): %s; correct it and run it "
            "again",
            exit_code, why.data ? why.data : "");
        return true;
    }
    json_t *untraced = find_record(traces->job, "untraced"), *script = find_record(traces->job, "script");
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *said = json_string_value(json_object_get(untraced, "text"));
    const char *path = json_string_value(json_object_get(script, "path"));
    text_show(&text, said ? said : path ? path : "");
    if (said)
        log_error("no calls were recorded: %s", text.data);
    else if (path)
        log_error(
            "no calls were recorded%s: %s is a script, and no program with hooks ran in it; of the programs that it "
            "starts, calls are recorded if they are named (--trace NAME), or were compiled with -g "
            "-finstrument-functions",
            traces->is_running ? " so far" : "", text.data);
    json_decref(untraced);
    json_decref(script);
    return said || path;
}

/* Prints the job's own warnings about tracing. */
static bool explain_warnings(const struct job_traces *traces)
{
    struct job_info info = {0};
    size_t index;
    json_t *warning;
    bool said = false;
    if (job_info_read(traces->job, &info, NULL) == 0)
        json_array_foreach(info.warnings, index, warning)
        {
            const char *kind = json_string_value(json_object_get(warning, "kind"));
            const char *text = json_string_value(json_object_get(warning, "text"));
            /* an unwatched program may have had hooks */
            bool unwatched = kind && strcmp(kind, "gap") == 0 && traces->count == 0;
            if (kind && text && (strcmp(kind, "trace") == 0 || unwatched)) {
                log_problem(NULL, text);
                said = true;
            }
        }
    job_info_done(&info);
    return said;
}

static bool explain_left_out(const struct job_traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) {
        uint64_t ns = trace_number(traces->list[i], "min_time");
        if (!ns)
            continue;
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        text_ns(&text, (double)ns);
        log_error("no call was recorded: none took as long as %s (--min-time)", text.data ? text.data : "");
        return true;
    }
    return false;
}

void job_traces_explain(const struct job_traces *traces, pid_t process)
{
    bool said = false;
    if (process && !traces->count && traces->path_count) {
        log_error("there is no trace of process %d in %s", (int)process, traces->job);
        return;
    }
    for (size_t i = 0; i < traces->count; i++) {
        struct kept_note problem;
        for (size_t k = 0; trace_problem(traces->list[i], k, &problem); k++) {
            _cleanup_(buf_done) struct buf line = BUF_INIT, text = BUF_INIT;
            note_text(&text, &problem.note);
            buf_printf(&line, "process %d: ", (int)trace_pid(traces->list[i]));
            text_show(&line, text.data ? text.data : "");
            log_error("%s", line.data ? line.data : "");
            said = true;
        }
        const char *state = trace_value(traces->list[i], "state");
        if (!traces->is_running && (!state || strcmp(state, "running") == 0)) {
            log_error("process %d: its trace was not written to its end: does the monitor still write it, was it "
                      "killed, or is the disk full?",
                      (int)trace_pid(traces->list[i]));
            said = true;
        }
        if (trace_number(traces->list[i], "events")) {
            log_error("process %d: none of the %" PRIu64 " records is left", (int)trace_pid(traces->list[i]),
                      trace_number(traces->list[i], "events"));
            said = true;
        }
    }
    if (said || explain_counted(traces) || (!traces->path_count && explain_command(traces)) ||
        explain_warnings(traces) || explain_left_out(traces))
        return;
    if (traces->path_count > traces->count && !process)
        log_error("the trace in %s cannot be read", traces->job);
    else if (traces->count)
        log_error(
            "no calls were recorded, though the program has hooks: no function that matches the selection (--trace, "
            "`scry set`) was called%s",
            traces->is_running ? " so far" : "");
    else
        log_error("no calls were recorded: name functions (`scry run --trace NAME`), or compile the program with -g "
                  "-finstrument-functions%s (see `man scry-run`)",
                  traces->mpi ? ", or, for its MPI calls, run it with `scry run --mpi trace`" : "");
}
