/* SPDX-License-Identifier: Apache-2.0 */
/* scry export: a job's trace for other programs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/jobs/traces.h"
#include "jobdir/export/export.h"
#include "jobdir/record/info.h"

enum { LOOK_EVERY = 1 << 16 /* events between two readings of the clock */ };

/* What to write, and where. */
struct choice {
    const char *job, *output;
    const struct export_format *format;
    pid_t process;
    uint64_t from_ns, to_ns; /* after the job's start */
    bool has_from, has_to;
    struct call_filter filter;
};

/* ---- messages of MPI ---- */

/* Loads the messages and the common time line, if the format needs them. 0, or an exit status after logging the reason.
 */
static int load_messages(struct mpi_messages **ret_messages, const struct export_format *format,
                         const struct job_traces *traces, const struct choice *choice)
{
    struct err err = {0};
    struct progress progress;
    if (format->messages == EXPORT_NO_MESSAGES || format->messages == EXPORT_SAMPLES)
        return 0;
    progress_begin(&progress, "looking for messages");
    const struct mpi_messages_options wanted = {
        .start_ns = traces->start_ns, .stats = job_traces_stats(traces), .progress = progress_show, .ctx = &progress};
    int code = mpi_messages_load(ret_messages, traces->list, traces->count, &wanted, &err);
    progress_end(&progress);
    if (code < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    if ((*ret_messages)->rank_count || format->messages == EXPORT_WITH_MESSAGES)
        return 0;
    if (traces->count || !traces->path_count)
        log_error("no MPI calls were recorded: run the program with `scry run --mpi trace` (see `man scry-run`)");
    else
        job_traces_explain(traces, choice->process);
    return EXIT_ERRORS;
}

/* ---- the work ---- */

static void show_progress(struct progress *progress, const struct trace_cursor *cursor, size_t at, size_t count)
{
    uint64_t done, all;
    trace_cursor_progress(cursor, &done, &all);
    progress_show(progress, ((double)at + (all ? (double)done / (double)all : 1)) / (double)count);
}

/* The filter in the clock of the trace's host. */
static struct call_filter filter_for(const struct exporter *exporter, const struct export_format *format,
                                     const struct choice *choice)
{
    struct call_filter filter = choice->filter;
    const struct timeline *timeline = exporter->messages ? &exporter->messages->timeline : NULL;
    int64_t from = (int64_t)choice->from_ns, to = (int64_t)choice->to_ns;
    if (format->clips)
        return filter;
    if (timeline) {
        from -= timeline_map(timeline, exporter->number, from) - from;
        to -= timeline_map(timeline, exporter->number, to) - to;
    }
    if (choice->has_from)
        filter.from_ns = exporter->start_ns + (uint64_t)from;
    if (choice->has_to)
        filter.to_ns = exporter->start_ns + (uint64_t)to + 1;
    return filter;
}

/* Exports one trace. Adds its events to *events, and the calls that passed the filter to *shown. */
static int export_trace(struct exporter *exporter, const struct export_format *format, const struct choice *choice,
                        struct progress *progress, const struct job_traces *traces, uint64_t *events, uint64_t *shown)
{
    struct trace_cursor *cursor = NULL;
    struct calls *calls = NULL;
    struct trace_event event;
    struct err err = {0};
    struct call_visitor visitor = format->visitor;
    const struct call_filter filter = filter_for(exporter, format, choice);
    visitor.ctx = exporter;
    exporter->chosen = filter.function || filter.thread || filter.max_depth;
    int code = trace_cursor_new(&cursor, (struct trace *)(uintptr_t)exporter->trace, false, &err);
    if (code < 0) {
        cli_log_error(&err);
        return 0; /* go on with the others */
    }
    code = calls_new(&calls, exporter->trace, &filter, &visitor);
    if (code == 0)
        code =
            mpi_trace_new(&exporter->mpi, exporter->trace, mpi_trace_stats(job_traces_stats(traces), exporter->trace));
    if (code == 0 && format->trace_begin)
        code = format->trace_begin(exporter);
    while (code == 0 && !exporter->failed && (code = trace_next(cursor, &event)) == 1) {
        code = calls_event(calls, &event);
        if (++*events % LOOK_EVERY == 0)
            show_progress(progress, cursor, exporter->number, traces->count);
    }
    if (code == 0 && format->trace_end)
        code = format->trace_end(exporter);
    if (calls)
        *shown += calls_shown(calls);
    calls_free(calls);
    mpi_trace_free(exporter->mpi);
    exporter->mpi = NULL;
    trace_cursor_free(cursor);
    return code;
}

static int export_all(struct exporter *exporter, const struct export_format *format, const struct job_traces *traces,
                      const struct choice *choice)
{
    uint64_t events = 0, shown = 0;
    struct progress progress;
    progress_begin(&progress, "writing");
    progress.off |= isatty(fileno(exporter->out));
    int code = format->begin ? format->begin(exporter) : 0;
    bool all = format->messages >= EXPORT_MESSAGES_ONLY; /* written by `begin` */
    if (all)
        events = shown = 1;
    for (size_t i = 0; !all && i < traces->count && code == 0 && !exporter->failed; i++) {
        exporter->trace = traces->list[i];
        exporter->number = i;
        code = export_trace(exporter, format, choice, &progress, traces, &events, &shown);
    }
    if (code == 0 && format->end)
        code = format->end(exporter);
    export_flush(exporter, true);
    if (format->done)
        format->done(exporter);
    progress_end(&progress);
    if (code == 0 && exporter->failed)
        code = -exporter->error;
    if (code == 0 && !events)
        job_traces_explain(traces, choice->process);
    else if (code == 0 && !shown && choice->filter.function)
        log_warning("no recorded call matches --fn %s", choice->filter.function);
    return code < 0 ? code : !events;
}

/* Opens the new file that takes the place of the output, or what is no regular file: /dev/stdout, a pipe. */
static int open_output(const char *path, struct file_fresh *fresh)
{
    struct stat st;
    if (strcmp(path, "/dev/stdout") == 0) { /* the descriptor, whatever it leads to */
        int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        return out < 0 ? -errno : out;
    }
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode)) {
        int code = file_fresh_open(fresh, AT_FDCWD, path, 0666);
        return code < 0 ? code : fcntl(fresh->fd, F_DUPFD_CLOEXEC, 0);
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY); /* nothing is made here or cut off */
    return fd < 0 ? -errno : fd;
}

/* A failure leaves no partial file. */
static int export_file(struct exporter *exporter, const struct export_format *format, const struct job_traces *traces,
                       const struct choice *choice)
{
    _cleanup_(file_fresh_done) struct file_fresh fresh = FILE_FRESH_INIT;
    int fd = open_output(choice->output, &fresh), code = fd < 0 ? fd : 0;
    exporter->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !exporter->out) {
        code = -errno;
        close(fd);
    }
    if (code == 0)
        code = export_all(exporter, format, traces, choice);
    if (exporter->out && fclose(exporter->out) != 0 && code == 0)
        code = -errno;
    if (code == 0 && fresh.fd >= 0)
        code = file_fresh_place(&fresh, false);
    if (code < 0)
        log_error("cannot write %s: %s", choice->output, strerror(-code));
    return code ? EXIT_ERRORS : 0;
}

/* The job's title, its name or the program of its first rank, and its command line. */
static void title_of_job(struct buf *title, struct buf *command, const struct job_traces *traces,
                         const struct mpi_messages *messages)
{
    struct job_info info = {0};
    size_t index;
    json_t *word;
    if (job_info_read(traces->job, &info, NULL) == 0) {
        if (info.name && *info.name)
            buf_puts(title, info.name);
        else if (messages && messages->rank_count)
            buf_puts(title, export_program(traces->list[messages->ranks[0].trace]));
        buf_printf(command, "job %s: ", info.id);
        json_array_foreach(info.argv, index, word)
            buf_printf(command, "%s%s", index ? " " : "", json_string_value(word) ? json_string_value(word) : "?");
    }
    job_info_done(&info);
}

static int export_job(const struct job_traces *traces, const struct choice *choice)
{
    const struct export_format *format = choice->format;
    struct mpi_messages *messages = NULL;
    struct sampled *sampled = NULL;
    _cleanup_(buf_done) struct buf title = BUF_INIT, command = BUF_INIT;
    int status = load_messages(&messages, format, traces, choice);
    if (status == 0 && format->messages == EXPORT_SAMPLES && sampled_read(&sampled, traces->job, true) < 0) {
        log_error(
            "no samples were taken: the job used too little processor time, ran with --profile off, or perf events "
            "are not allowed (`scry doctor` says so)");
        status = EXIT_ERRORS;
    }
    if (status == 0) {
        title_of_job(&title, &command, traces, messages);
        struct exporter exporter = {.out = stdout,
                                    .start_ns = traces->start_ns,
                                    .messages = messages && messages->rank_count ? messages : NULL,
                                    .sampled = sampled,
                                    .from_ns = choice->has_from ? (int64_t)choice->from_ns : INT64_MIN,
                                    .to_ns = choice->has_to ? (int64_t)choice->to_ns : INT64_MAX,
                                    .title = title.data ? title.data : traces->job,
                                    .command = command.data ? command.data : ""};
        signal(SIGPIPE, SIG_DFL);
        if (strcmp(choice->output, "-") == 0) {
            int code = export_all(&exporter, format, traces, choice);
            if (code < 0 && !ferror(stdout)) /* else main says so */
                log_error("cannot export: %s", strerror(-code));
            status = code ? EXIT_ERRORS : 0;
        } else {
            status = export_file(&exporter, format, traces, choice);
        }
        buf_done(&exporter.text);
    }
    mpi_messages_free(messages);
    sampled_free(sampled);
    return status;
}

int cmd_export(const struct options *options)
{
    struct choice choice = {
        .job = options->words[0],
        .output = options_text(options, "output"),
        .process = (pid_t)options_number(options, "process"),
        .from_ns = options_number(options, "from"),
        .to_ns = options_number(options, "to"),
        .has_from = options_given(options, "from"),
        .has_to = options_given(options, "to"),
        .filter = {.function = options_text(options, "fn")},
    };
    if (!options_given(options, "format"))
        return cli_usage_error(options, "--format is needed");
    if (!choice.output)
        return cli_usage_error(options, "-o FILE is needed (- is standard output)");
    if (choice.has_from && choice.has_to && choice.to_ns <= choice.from_ns)
        return cli_usage_error(options, "--to has to be later than --from");
    choice.format = export_format_find(options_text(options, "format"));
    struct job_traces traces;
    int status = job_traces_open(&traces, "export", choice.job, choice.process);
    if (status == 0 && choice.format->messages != EXPORT_NO_MESSAGES && choice.format->messages != EXPORT_SAMPLES)
        status = job_traces_ranks(&traces);
    if (status == 0)
        job_traces_places(&traces);
    if (status == 0)
        status = export_job(&traces, &choice);
    job_traces_close(&traces);
    return status;
}
