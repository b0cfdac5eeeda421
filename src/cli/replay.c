/* SPDX-License-Identifier: Apache-2.0 */
/* scry replay: the recorded calls of a job in the order of time. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/pager.h"
#include "cli/progress.h"
#include "cli/traces.h"
#include "jobdir/dir.h"
#include "jobdir/info.h"
#include "jobdir/mpi_trace.h"
#include "jobdir/replay.h"
#include "jobdir/rules.h"
#include "jobdir/text.h"

enum {
    POLL_MS = 100,
    LOOK_EVERY = 1 << 14, /* events between looks at the progress */
    NAMING_SECONDS = 3,   /* so long a new process's functions may have no names yet */
    VALUES_LEAST = 24,    /* characters of values that are shown on the narrowest terminal */
};

struct options {
    const char *job;
    pid_t process;
    int32_t rank;            /* -1: all */
    uint64_t from_ns, to_ns; /* after the job's start */
    bool has_to, follow;
    bool on_terminal; /* or in a pager */
    struct replay_options replay;
};

/* One trace that is shown. */
struct track {
    struct trace *trace;
    struct trace_cursor *cursor;
    struct replay *replay;
    struct mpi_trace *mpi;
    uint32_t program; /* of several MPI programs, from 1; 0: there is but one, or it is not known */
    size_t threads;
    uint64_t events;
    const struct job_history *history;
    size_t next_pause; /* of its pauses */
    uint64_t due_ns;   /* when to open it in follow mode */
    const struct options *options;
    struct progress *progress;  /* of a job that is over, until there is something to see; NULL */
    size_t number, count;       /* of so many traces */
    const struct track **shown; /* whose lines came last: a head stands where they change */
    bool open, over, wrote;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    interrupted = 1;
}

static void print_help(void)
{
    printf("Usage: scry replay [OPTION...] JOB\n"
           "\n"
           "Shows the recorded calls of a job in the order of time, as a tree indented by\n"
           "depth: name(arguments), the caller's locals, {locals at the return}, = result,\n"
           "duration and source. A call with others inside it takes two lines. On a terminal\n"
           "long values are cut, elsewhere they are whole.\n" JOBDIR_JOB_HELP "\n"
           "  --fn GLOB       only functions whose name matches, as in 'solve*'\n"
           "  --thread TID    only this thread\n"
           "  --process PID   only this process\n"
           "  --rank N        only this rank of an MPI program\n"
           "  --from T        only calls that began so long after the job's start, or later:\n"
           "                  seconds, or with a unit as in 20ms\n"
           "  --to T          or earlier\n"
           "  --min-time T    only calls that took at least so long, as in 5us\n"
           "  --max-depth N   only N levels of calls inside each other\n"
           "  --types         with the declaration of each function whose values were\n"
           "                  recorded, as in 'int solve(int n)'\n"
           "  --follow        go on while the job runs; end with Ctrl-C\n"
           "  --times         time of day to the nanosecond, durations in nanoseconds\n"
           "  --json          a JSON object a line for each call that ended, and each event\n"
           "  -h, --help      this text\n"
           "\n"
           "On a terminal, a pager shows it: $SCRY_PAGER, $PAGER, or less; empty: none.\n"
           "\n"
           "Example: scry replay --fn 'solve*' --min-time 1ms @last\n");
}

static bool parse_number(const char *text, unsigned long least, unsigned long *ret_number)
{
    char *end;
    errno = 0;
    *ret_number = strtoul(text, &end, 10);
    return !errno && end != text && !*end && *text != '-' && *ret_number >= least && *ret_number <= INT_MAX;
}

/* An option with its value. 0, or the exit status. */
static int take_value(struct options *options, const char *name, const char *value)
{
    unsigned long number = 0;
    bool good = true;
    if (strcmp(name, "--fn") == 0)
        options->replay.filter.function = value;
    else if (strcmp(name, "--from") == 0)
        good = job_time_parse(value, &options->from_ns);
    else if (strcmp(name, "--to") == 0)
        good = options->has_to = job_time_parse(value, &options->to_ns);
    else if (strcmp(name, "--min-time") == 0)
        good = job_time_parse(value, &options->replay.min_ns);
    else if (strcmp(name, "--rank") == 0) {
        good = parse_number(value, 0, &number);
        options->rank = (int32_t)number;
    } else if ((good = parse_number(value, 1, &number)) && strcmp(name, "--thread") == 0)
        options->replay.filter.thread = (uint32_t)number;
    else if (good && strcmp(name, "--process") == 0)
        options->process = (pid_t)number;
    else if (good)
        options->replay.filter.max_depth = (unsigned)number;
    if (good)
        return 0;
    bool time = strcmp(name, "--from") == 0 || strcmp(name, "--to") == 0 || strcmp(name, "--min-time") == 0;
    return cli_usage_error("replay", "%s %s: expected %s", name, value,
                           time                          ? "a time such as 0.5 (seconds), 20ms or 5us"
                           : strcmp(name, "--rank") == 0 ? "the number of a rank"
                                                         : "a number greater than 0");
}

/* 0: go on; else the exit status + 1. */
static int parse(struct options *options, int argc, char **argv)
{
    static const char *const with_value[] = {"--fn",   "--thread", "--process",  "--rank",
                                             "--from", "--to",     "--min-time", "--max-depth"};
    for (int i = 1; i < argc; i++) {
        const char *name = NULL, *value = NULL;
        for (size_t k = 0; k < sizeof with_value / sizeof *with_value && !name; k++) {
            size_t len = strlen(with_value[k]);
            if (strncmp(argv[i], with_value[k], len) == 0 && (!argv[i][len] || argv[i][len] == '=')) {
                name = with_value[k];
                value = argv[i][len] ? argv[i] + len + 1 : i + 1 < argc ? argv[++i] : NULL;
            }
        }
        int code = 0;
        if (name && !value)
            return cli_usage_error("replay", "%s needs a value", name) + 1;
        if (name) {
            code = take_value(options, name, value);
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 1;
        } else if (strcmp(argv[i], "--json") == 0) {
            options->replay.json = true;
        } else if (strcmp(argv[i], "--follow") == 0) {
            options->follow = true;
        } else if (strcmp(argv[i], "--types") == 0) {
            options->replay.types = true;
        } else if (strcmp(argv[i], "--times") == 0) {
            options->replay.full_times = true;
        } else if (argv[i][0] == '-') {
            return cli_unknown_option("replay", argv[i]) + 1;
        } else if (options->job) {
            return cli_usage_error("replay", "one job at a time, not also %s", argv[i]) + 1;
        } else {
            options->job = argv[i];
        }
        if (code)
            return code + 1;
    }
    return options->job ? 0 : cli_usage_error("replay", "name a job (@last is the latest)") + 1;
}

/* ---- one trace ---- */

static void before_lines(void *ctx);

static int track_open(struct track *track, struct trace *trace, const struct options *options,
                      const struct job_traces *traces, const struct job_history *history, const struct track **shown)
{
    const struct mpi_stats *stats = mpi_trace_stats(job_traces_stats(traces), trace);
    uint64_t start_ns = history->start_ns;
    struct err err = {0};
    struct replay_options replay = options->replay;
    *track = (struct track){.trace = trace, .options = options, .history = history, .shown = shown};
    replay.before = before_lines;
    replay.ctx = track;
    replay.start_ns = start_ns;
    replay.filter.from_ns = options->from_ns ? start_ns + options->from_ns : 0;
    replay.filter.to_ns = options->has_to ? start_ns + options->to_ns + 1 : 0;
    replay.threads = !replay.filter.thread && trace_threads(trace) > 1;
    if (mpi_trace_new(&track->mpi, trace, stats) < 0) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    if (stats && traces->mpi->worlds > 1)
        track->program = traces->mpi->world_of[stats - traces->mpi->set.ranks] + 1;
    replay.mpi = track->mpi;
    if (trace_cursor_new(&track->cursor, trace, options->follow, &err) < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    if (replay_new(&track->replay, trace, &replay, stdout) == 0)
        return 0;
    log_error("out of memory");
    return EXIT_ERRORS;
}

static void track_close(struct track *track)
{
    replay_free(track->replay);
    trace_cursor_free(track->cursor);
    mpi_trace_free(track->mpi);
}

static void put_head(const struct track *track, const struct options *options, bool first)
{
    if (options->replay.json)
        return;
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    const char *exe = trace_value(track->trace, "exe"), *state = trace_value(track->trace, "state");
    int32_t rank = mpi_trace_number(track->mpi);
    buf_puts(&line, first ? "" : "\n");
    if (rank >= 0)
        buf_printf(&line, "rank %d", rank);
    if (rank >= 0 && track->program)
        buf_printf(&line, " of program %u", track->program);
    buf_printf(&line, "%sprocess %d  ", rank >= 0 ? ", " : "", (int)trace_pid(track->trace));
    text_show(&line, exe ? exe : "?");
    buf_puts(&line, "  on ");
    text_show(&line, trace_node(track->trace));
    if (state && strcmp(state, "crashed") == 0)
        buf_puts(&line, "  (crashed)");
    else if (state && strcmp(state, "lost") == 0)
        buf_puts(&line, "  (its end was not seen)");
    printf("%s\n", line.data ? line.data : "");
}

static void before_lines(void *ctx)
{
    struct track *track = ctx;
    track->wrote = true;
    if (track->progress && track->options->on_terminal)
        progress_end(track->progress); /* what is seen shows how far it is */
    if (*track->shown == track)
        return;
    put_head(track, track->options, !*track->shown);
    *track->shown = track;
}

/* A line of its own: it is not among what was recorded, which may have nothing that matches. 0, or -errno. */
static int put_pause(struct track *track, uint64_t from_ns, uint64_t to_ns)
{
    int code = replay_idle(track->replay);
    bool wrote = track->wrote;
    if (code == 0)
        code = replay_pause(track->replay, from_ns, to_ns);
    if (code == 0)
        code = replay_idle(track->replay);
    track->wrote = wrote;
    return code;
}

/* Pauses of recording that began before that wall time. 0, or -errno. */
static int put_pauses(struct track *track, uint64_t wall_ns)
{
    const struct options *options = track->options;
    uint64_t from_ns, to_ns, began_ns = trace_number(track->trace, "start_ns"), start_ns = track->history->start_ns;
    int code = 0;
    for (; code == 0 && job_history_pause(track->history, track->next_pause, &from_ns, &to_ns); track->next_pause++) {
        if (from_ns >= wall_ns)
            break;
        bool seen = to_ns > began_ns && to_ns >= start_ns + options->from_ns;
        if (seen && (!options->has_to || from_ns <= start_ns + options->to_ns))
            code = put_pause(track, from_ns, to_ns);
    }
    return code;
}

static void show_progress(const struct track *track)
{
    uint64_t done, all;
    trace_cursor_progress(track->cursor, &done, &all);
    progress_show(track->progress,
                  ((double)track->number + (all ? (double)done / (double)all : 1)) / (double)track->count);
}

/* Shows all that is there. 0, or -errno. */
static int track_run(struct track *track)
{
    struct trace_event event;
    int code = 0;
    while (!track->over && !interrupted && (code = trace_next(track->cursor, &event)) == 1) {
        if (++track->events == 1)
            track->threads = 1;
        if (track->threads < 2 && trace_thread_count(track->trace) > 1 && !track->options->replay.filter.thread) {
            track->threads = 2; /* in follow mode others may come */
            replay_show_threads(track->replay);
        }
        code = put_pauses(track, trace_wall_ns(track->trace, event.time));
        if (code == 0)
            code = replay_event(track->replay, &event);
        if (code < 0)
            return code;
        track->over = code == 1;
        if (track->progress && track->events % LOOK_EVERY == 0)
            show_progress(track);
    }
    return code < 0 ? code : replay_idle(track->replay);
}

static int fail(int code)
{
    if (code == -EIO || code == -EPIPE)
        return EXIT_ERRORS; /* main says why, for standard output */
    log_error("%s", strerror(-code));
    return EXIT_ERRORS;
}

/* ---- all of them ---- */

/* Whether it is shown at all. */
static bool is_wanted(const struct job_traces *traces, const struct trace *trace, const struct options *options)
{
    return options->rank < 0 ||
           mpi_trace_rank(trace, mpi_trace_stats(job_traces_stats(traces), trace)) == options->rank;
}

static bool has_rank(const struct job_traces *traces, const struct options *options)
{
    for (size_t i = 0; i < traces->count; i++)
        if (is_wanted(traces, traces->list[i], options))
            return true;
    return false;
}

/* Why nothing was shown, if so. The exit status. */
static int say_nothing(const struct job_traces *traces, const struct options *options, uint64_t events, bool wrote)
{
    const struct call_filter *filter = &options->replay.filter;
    if (!events && traces->count && !has_rank(traces, options)) {
        log_error("there is no trace of rank %d in %s", options->rank, traces->job);
        return EXIT_ERRORS;
    }
    if (!events) {
        job_traces_explain(traces, options->process);
        return EXIT_ERRORS;
    }
    if (wrote)
        return 0;
    _cleanup_(buf_done) struct buf asked = BUF_INIT;
    if (options->rank >= 0)
        buf_printf(&asked, " --rank %d", options->rank);
    if (filter->function) {
        buf_puts(&asked, " --fn ");
        text_show(&asked, filter->function);
    }
    if (filter->thread)
        buf_printf(&asked, " --thread %u", filter->thread);
    buf_puts(&asked, options->from_ns ? " --from" : "");
    buf_puts(&asked, options->has_to ? " --to" : "");
    buf_puts(&asked, options->replay.min_ns ? " --min-time" : "");
    buf_puts(&asked, filter->max_depth ? " --max-depth" : "");
    log_warning("nothing of what was recorded matches%s", asked.data ? asked.data : "");
    return 0;
}

/* What rules did, and snapshots: of all processes, in the order of time, unless certain calls were asked for. */
static void put_rules(const struct job_traces *traces, const struct options *options, const struct job_history *history,
                      bool first)
{
    const struct call_filter *filter = &options->replay.filter;
    if (filter->function || filter->thread || filter->max_depth || options->replay.min_ns || options->rank >= 0 ||
        options->process)
        return;
    json_t *events = rules_events(&history->model, traces->job, history->start_ns), *event;
    size_t index;
    bool headed = options->replay.json;
    json_array_foreach(events, index, event)
    {
        double seconds = json_number_value(json_object_get(event, "seconds"));
        if (seconds * NS_PER_SECOND < (double)options->from_ns ||
            (options->has_to && seconds * NS_PER_SECOND > (double)options->to_ns))
            continue;
        if (options->replay.json) {
            json_dumpf(event, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
            putchar('\n');
            continue;
        }
        _cleanup_(buf_done) struct buf line = BUF_INIT;
        rules_event_text(&line, event);
        printf("%s%12.6f  %s\n",
               headed  ? ""
               : first ? "rules and snapshots\n"
                       : "\nrules and snapshots\n",
               seconds, line.data ? line.data : "");
        headed = true;
    }
    json_decref(events);
}

static int show(struct job_traces *traces, const struct options *options)
{
    static const struct track another;
    const struct track *shown = NULL;
    uint64_t events = 0;
    bool wrote = false;
    struct track track;
    struct job_history history;
    int status = 0, code = 0;
    struct progress progress;
    progress_begin(&progress, "reading the trace");
    job_history_open(&history, traces);
    for (size_t i = 0; i < traces->count && !status && code >= 0; i++) {
        if (!is_wanted(traces, traces->list[i], options))
            continue;
        status = track_open(&track, traces->list[i], options, traces, &history, &shown);
        track.progress = &progress;
        track.number = i;
        track.count = traces->count;
        code = status ? 0 : track_run(&track);
        if (!status && code == 0 && track.events && !track.over)
            code = put_pauses(&track, job_history_end(&history, trace_pid(track.trace)));
        if (!status && code == 0)
            code = replay_idle(track.replay);
        events += track.events;
        wrote |= track.wrote;
        if (shown) /* the next one is another, be it at the same place */
            shown = &another;
        track_close(&track);
    }
    progress_end(&progress);
    if (!status && code >= 0)
        put_rules(traces, options, &history, !shown);
    job_history_close(&history);
    if (status)
        return status;
    if (code < 0)
        return fail(code);
    fflush(stdout);
    return say_nothing(traces, options, events, wrote);
}

static int show_paged(struct job_traces *traces, const struct options *options)
{
    pager_start();
    return pager_end(show(traces, options));
}

static bool has_ended(const struct job_traces *traces)
{
    struct job_info info = {0};
    bool ended = job_info_read(traces->job, &info, NULL) < 0 || job_state(traces->job, &info) != JOB_RUNNING;
    job_info_done(&info);
    return ended;
}

struct following {
    struct track **tracks;
    size_t count;
    const struct track *shown;
    struct job_history history;
};

static int follow_more(struct following *following, struct job_traces *traces, const struct options *options)
{
    if (following->count == traces->count)
        return 0;
    struct track **grown = realloc(following->tracks, traces->count * sizeof(struct track *));
    if (!grown)
        return -ENOMEM;
    following->tracks = grown;
    if (!traces->start_ns)
        traces->start_ns = trace_number(traces->list[0], "start_ns");
    while (following->count < traces->count) {
        struct track *track = calloc(1, sizeof *track);
        if (!track)
            return -ENOMEM;
        track->trace = traces->list[following->count];
        uint64_t start_ns = trace_number(track->trace, "start_ns"); /* 0: it is so new that it does not say */
        track->due_ns = (start_ns ? start_ns : clock_wall_ns()) + (uint64_t)NAMING_SECONDS * NS_PER_SECOND;
        grown[following->count++] = track;
    }
    return 0;
}

/* The symbols of a program that has just started are still being read. */
static bool has_names(struct trace *trace)
{
    size_t known = 0;
    if (trace_update(trace, NULL) < 0)
        return true;
    for (uint32_t id = 0; id < trace_function_count(trace); id++) {
        const struct trace_function *function = trace_function(trace, id);
        known += function != NULL;
        if (function && strncmp(function->name, "0x", 2) == 0)
            return false;
    }
    return known > 0;
}

/* Shows what is new. `ended`: nothing more will come. */
static int follow_all(struct following *following, struct job_traces *traces, const struct options *options, bool ended)
{
    int code = 0;
    for (size_t i = 0; i < following->count && code >= 0; i++) {
        struct track *track = following->tracks[i];
        if (!track->open && !is_wanted(traces, track->trace, options)) {
            trace_update(track->trace, NULL); /* which rank it is, it says when MPI_Init has returned */
            continue;
        }
        if (!track->open && !ended && clock_wall_ns() < track->due_ns && !has_names(track->trace))
            continue;
        if (!track->open) {
            track->over = track_open(track, track->trace, options, traces, &following->history, &following->shown) != 0;
            track->open = true;
        }
        if (ended && track->cursor)
            trace_cursor_close(track->cursor);
        trace_update(track->trace, NULL);
        job_traces_places(traces);
        if (!track->over)
            code = track_run(track);
    }
    if (code >= 0 && fflush(stdout) != 0)
        code = -EIO;
    return code;
}

/* Until the job has ended or Ctrl-C. */
static int follow(struct job_traces *traces, const struct options *options)
{
    struct following following = {0};
    int code = 0;
    job_history_open(&following.history, traces);
    while (code >= 0 && !interrupted) {
        bool ended = has_ended(traces); /* before looking, so that nothing is missed */
        traces->is_running = !ended;
        code = job_traces_again(traces, options->process);
        if (code >= 0)
            code = follow_more(&following, traces, options);
        following.history.start_ns = traces->start_ns;
        job_history_again(&following.history);
        if (code >= 0)
            code = follow_all(&following, traces, options, ended);
        if (ended)
            break;
        if (code >= 0 && !interrupted)
            poll(NULL, 0, POLL_MS);
    }
    uint64_t events = 0;
    bool wrote = false;
    for (size_t i = 0; i < following.count; i++) {
        events += following.tracks[i]->events;
        wrote |= following.tracks[i]->wrote;
        track_close(following.tracks[i]);
        free(following.tracks[i]);
    }
    free(following.tracks);
    job_history_close(&following.history);
    if (code < 0)
        return fail(code);
    return interrupted ? 0 : say_nothing(traces, options, events, wrote);
}

int cmd_replay(int argc, char **argv)
{
    struct options options = {.rank = -1};
    log_open("scry replay", 0);
    int code = parse(&options, argc, argv);
    if (code)
        return code - 1;
    signal(SIGPIPE, SIG_DFL); /* `| head` is no error */
    if (options.follow)
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    options.replay.colour = cli_color(STDOUT_FILENO);
    size_t columns = cli_columns();
    options.on_terminal = columns != 0;
    options.replay.columns = text_columns(STDOUT_FILENO);
    if (columns && !options.replay.full_times)
        options.replay.value_columns = columns > 3 * VALUES_LEAST ? columns / 3 : VALUES_LEAST;
    struct job_traces traces;
    int status = job_traces_open(&traces, "replay", options.job, options.process);
    if (status == 0)
        status = job_traces_ranks(&traces);
    if (status == 0)
        job_traces_places(&traces);
    if (status == 0)
        status = options.follow ? follow(&traces, &options) : show_paged(&traces, &options);
    job_traces_close(&traces);
    return status;
}
