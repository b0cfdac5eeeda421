/* SPDX-License-Identifier: Apache-2.0 */
/* scry export: a job's trace for other programs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/traces.h"
#include "jobdir/dir.h"
#include "jobdir/export.h"
#include "jobdir/info.h"
#include "jobdir/text.h"

enum { LOOK_EVERY = 1 << 16 /* events between looks at the clock */ };

struct options {
    const char *job, *format, *output;
    pid_t process;
    uint64_t from_ns, to_ns; /* after the job's start */
    bool has_from, has_to;
    struct call_filter filter;
};

static void print_help(void)
{
    printf("Usage: scry export [OPTION...] --format FORMAT -o FILE JOB\n"
           "\n"
           "Writes the recorded calls of a job, and the messages of an MPI program, for\n"
           "another program or as a picture.\n" JOBDIR_JOB_HELP "FORMAT is one of\n"
           "\n");
    const struct export_format *format;
    for (size_t i = 0; (format = export_format_at(i)); i++)
        printf("  %-14s %s\n", format->name, format->description);
    printf("\n"
           "  -f, --format FORMAT  as above\n"
           "  -o, --output FILE    where to; - is standard output\n"
           "  --process PID        only this process\n"
           "  --fn GLOB            only functions whose name matches, as in 'solve*'\n"
           "  --from T             only what begins so long after the job's start, or later:\n"
           "                       seconds, or with a unit as in 20ms\n"
           "  --to T               or earlier\n"
           "  -h, --help           this text\n"
           "\n"
           "Example: scry export --format chrome -o trace.json @last\n");
}

/* ---- arguments ---- */

static int take_value(struct options *options, const char *name, const char *value)
{
    char *end;
    bool from = strcmp(name, "--from") == 0;
    if (from || strcmp(name, "--to") == 0) {
        if (!job_time_parse(value, from ? &options->from_ns : &options->to_ns))
            return cli_usage_error("export", "%s %s: expected a time such as 0.5 (seconds), 20ms or 5us", name, value);
        *(from ? &options->has_from : &options->has_to) = true;
    } else if (strcmp(name, "--format") == 0) {
        options->format = value;
    } else if (strcmp(name, "--output") == 0) {
        options->output = value;
    } else if (strcmp(name, "--fn") == 0) {
        options->filter.function = value;
    } else {
        long number = strtol(value, &end, 10);
        if (!*value || *end || number <= 0 || number > INT_MAX)
            return cli_usage_error("export", "--process needs the number of a process, not \"%s\"", value);
        options->process = (pid_t)number;
    }
    return 0;
}

/* The option that argv[*at] is and its value, from it or what follows; NULL: it is none that has a value. */
static const char *option_with_value(int argc, char **argv, int *at, const char **ret_value)
{
    static const struct {
        const char *name, *brief;
    } names[] = {{"--format", "-f"}, {"--output", "-o"}, {"--process", ""}, {"--fn", ""}, {"--from", ""}, {"--to", ""}};
    const char *arg = argv[*at];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i].name);
        if (strcmp(arg, names[i].name) == 0 || (names[i].brief[0] && strcmp(arg, names[i].brief) == 0)) {
            *ret_value = *at + 1 < argc ? argv[++*at] : NULL;
            return names[i].name;
        }
        if (strncmp(arg, names[i].name, len) == 0 && arg[len] == '=') {
            *ret_value = arg + len + 1;
            return names[i].name;
        }
    }
    return NULL;
}

/* 0: go on; else the exit status + 1. */
static int parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = NULL, *name = option_with_value(argc, argv, &i, &value);
        if (name && !value)
            return cli_usage_error("export", "%s needs a value", name) + 1;
        if (name) {
            int code = take_value(options, name, value);
            if (code)
                return code + 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 1;
        } else if (argv[i][0] == '-') {
            return cli_unknown_option("export", argv[i]) + 1;
        } else if (options->job) {
            return cli_usage_error("export", "one job at a time, not also %s", argv[i]) + 1;
        } else {
            options->job = argv[i];
        }
    }
    return 0;
}

static int check(const struct options *options)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    const struct export_format *format;
    for (size_t i = 0; (format = export_format_at(i)); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", format->name);
    if (!options->job)
        return cli_usage_error("export", "name a job (@last is the latest)");
    if (!options->format)
        return cli_usage_error("export", "--format is needed: one of %s", names.data);
    if (!export_format_find(options->format))
        return cli_usage_error("export", "there is no format \"%s\", but %s", options->format, names.data);
    if (!options->output)
        return cli_usage_error("export", "-o FILE is needed (- is standard output)");
    if (options->has_from && options->has_to && options->to_ns <= options->from_ns)
        return cli_usage_error("export", "--to has to be later than --from");
    return 0;
}

/* ---- messages of MPI ---- */

/* The messages and the common time line, if the format wants them and there are any. 0, or an exit status after the
 * reason was logged. */
static int load_messages(struct mpi_messages **ret_messages, const struct export_format *format,
                         const struct job_traces *traces, const struct options *options)
{
    struct err err = {0};
    struct progress progress;
    if (format->messages == EXPORT_NO_MESSAGES)
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
        log_error("no calls of MPI were recorded: run the program by `scry run --mpi trace` (see `man scry-run`)");
    else
        job_traces_explain(traces, options->process);
    return EXIT_ERRORS;
}

/* ---- the work ---- */

static void show_progress(struct progress *progress, const struct trace_cursor *cursor, size_t at, size_t count)
{
    uint64_t done, all;
    trace_cursor_progress(cursor, &done, &all);
    progress_show(progress, ((double)at + (all ? (double)done / (double)all : 1)) / (double)count);
}

/* What is asked for by the clock of the trace's host. */
static struct call_filter filter_for(const struct exporter *exporter, const struct export_format *format,
                                     const struct options *options)
{
    struct call_filter filter = options->filter;
    const struct timeline *timeline = exporter->messages ? &exporter->messages->timeline : NULL;
    int64_t from = (int64_t)options->from_ns, to = (int64_t)options->to_ns;
    if (format->clips)
        return filter;
    if (timeline) {
        from -= timeline_map(timeline, exporter->number, from) - from;
        to -= timeline_map(timeline, exporter->number, to) - to;
    }
    if (options->has_from)
        filter.from_ns = exporter->start_ns + (uint64_t)from;
    if (options->has_to)
        filter.to_ns = exporter->start_ns + (uint64_t)to + 1;
    return filter;
}

/* One trace. *events grows by what came out of it, *shown by the calls that passed the filter. */
static int export_trace(struct exporter *exporter, const struct export_format *format, const struct options *options,
                        struct progress *progress, const struct job_traces *traces, uint64_t *events, uint64_t *shown)
{
    struct trace_cursor *cursor = NULL;
    struct calls *calls = NULL;
    struct trace_event event;
    struct err err = {0};
    struct call_visitor visitor = format->visitor;
    const struct call_filter filter = filter_for(exporter, format, options);
    visitor.ctx = exporter;
    exporter->chosen = filter.function || filter.thread || filter.max_depth;
    int code = trace_cursor_new(&cursor, (struct trace *)(uintptr_t)exporter->trace, false, &err);
    if (code < 0) {
        cli_log_error(&err);
        return 0; /* the others are worth something, too */
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
                      const struct options *options)
{
    uint64_t events = 0, shown = 0;
    struct progress progress;
    progress_begin(&progress, "writing");
    progress.off |= isatty(fileno(exporter->out));
    int code = format->begin ? format->begin(exporter) : 0;
    bool all = format->messages == EXPORT_MESSAGES_ONLY;
    if (all)
        events = shown = 1;
    for (size_t i = 0; !all && i < traces->count && code == 0 && !exporter->failed; i++) {
        exporter->trace = traces->list[i];
        exporter->number = i;
        code = export_trace(exporter, format, options, &progress, traces, &events, &shown);
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
        job_traces_explain(traces, options->process);
    else if (code == 0 && !shown && options->filter.function)
        log_warning("nothing of what was recorded matches --fn %s", options->filter.function);
    return code < 0 ? code : !events;
}

/* Writes to a file beside the one that is meant and puts it in its place at the end: a failure leaves no half of one.
 */
static int export_file(struct exporter *exporter, const struct export_format *format, const struct job_traces *traces,
                       const struct options *options)
{
    char temporary[PATH_MAX];
    struct stat st;
    /* what is no plain file is written to as it is: /dev/stdout, a pipe */
    bool direct = stat(options->output, &st) == 0 && !S_ISREG(st.st_mode);
    if ((size_t)snprintf(temporary, sizeof temporary, direct ? "%s" : "%s.part", options->output) >= sizeof temporary) {
        log_error("%s: the name is too long", options->output);
        return EXIT_ERRORS;
    }
    exporter->out = fopen(temporary, "we");
    if (!exporter->out) {
        log_error("cannot write %s: %s", temporary, strerror(errno));
        return EXIT_ERRORS;
    }
    int code = export_all(exporter, format, traces, options);
    if (fclose(exporter->out) != 0 && code == 0)
        code = -errno;
    if (code == 0 && !direct && rename(temporary, options->output) < 0)
        code = -errno;
    if (code < 0)
        log_error("cannot write %s: %s", options->output, strerror(-code));
    if (code && !direct)
        unlink(temporary);
    return code ? EXIT_ERRORS : 0;
}

/* What the job is called and was, for people: its name, or that of the program of its first rank. */
static void describe(struct buf *title, struct buf *command, const struct job_traces *traces,
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

static int export_job(const struct job_traces *traces, const struct options *options)
{
    const struct export_format *format = export_format_find(options->format);
    struct mpi_messages *messages = NULL;
    _cleanup_(buf_done) struct buf title = BUF_INIT, command = BUF_INIT;
    int status = load_messages(&messages, format, traces, options);
    if (status == 0) {
        describe(&title, &command, traces, messages);
        struct exporter exporter = {.out = stdout,
                                    .start_ns = traces->start_ns,
                                    .messages = messages && messages->rank_count ? messages : NULL,
                                    .from_ns = options->has_from ? (int64_t)options->from_ns : INT64_MIN,
                                    .to_ns = options->has_to ? (int64_t)options->to_ns : INT64_MAX,
                                    .title = title.data ? title.data : traces->job,
                                    .command = command.data ? command.data : ""};
        signal(SIGPIPE, SIG_DFL);
        if (strcmp(options->output, "-") == 0) {
            int code = export_all(&exporter, format, traces, options);
            if (code < 0 && !ferror(stdout)) /* else main says so */
                log_error("cannot export: %s", strerror(-code));
            status = code ? EXIT_ERRORS : 0;
        } else {
            status = export_file(&exporter, format, traces, options);
        }
        buf_done(&exporter.text);
    }
    mpi_messages_free(messages);
    return status;
}

int cmd_export(int argc, char **argv)
{
    struct options options = {0};
    log_open("scry export", 0);
    int code = parse(&options, argc, argv);
    if (code)
        return code - 1;
    int status = check(&options);
    if (status)
        return status;
    struct job_traces traces;
    status = job_traces_open(&traces, "export", options.job, options.process);
    if (status == 0 && export_format_find(options.format)->messages != EXPORT_NO_MESSAGES)
        status = job_traces_ranks(&traces);
    if (status == 0)
        job_traces_places(&traces);
    if (status == 0)
        status = export_job(&traces, &options);
    job_traces_close(&traces);
    return status;
}
