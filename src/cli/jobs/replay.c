/* SPDX-License-Identifier: Apache-2.0 */
/* scry replay: the recorded calls of a job in the order of time. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/jobs/traces.h"
#include "jobdir/record/info.h"
#include "jobdir/mpi/trace.h"
#include "jobdir/export/replay.h"
#include "jobdir/report/rules.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    LOOK_EVERY = 1 << 14, /* events between two reports of progress */
    VALUES_LEAST = 24,    /* characters of values on the narrowest terminal */
};

/* What to show, and how. */
struct choice {
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
    uint32_t program; /* number of its MPI program, from 1; 0: there is only one, or not known */
    size_t threads;
    uint64_t events;
    const struct job_history *history;
    size_t next_pause; /* index of its next pause */
    uint64_t due_ns;   /* when to open it (follow mode) */
    const struct choice *choice;
    struct progress *progress;  /* of a job that is over, until the first line; or NULL */
    size_t number, count;       /* its number among all traces */
    const struct track **shown; /* whose lines came last: a heading marks each change */
    bool open, over, wrote;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    interrupted = 1;
}

/* ---- one trace ---- */

static void before_lines(void *ctx);

static int track_open(struct track *track, struct trace *trace, const struct choice *choice,
                      const struct job_traces *traces, const struct job_history *history, const struct track **shown)
{
    const struct mpi_stats *stats = mpi_trace_stats(job_traces_stats(traces), trace);
    uint64_t start_ns = history->start_ns;
    struct err err = {0};
    struct replay_options replay = choice->replay;
    *track = (struct track){.trace = trace, .choice = choice, .history = history, .shown = shown};
    replay.before = before_lines;
    replay.ctx = track;
    replay.start_ns = start_ns;
    replay.filter.from_ns = choice->from_ns ? start_ns + choice->from_ns : 0;
    replay.filter.to_ns = choice->has_to ? start_ns + choice->to_ns + 1 : 0;
    replay.threads = !replay.filter.thread && trace_threads(trace) > 1;
    if (mpi_trace_new(&track->mpi, trace, stats) < 0) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    if (stats && traces->mpi->worlds > 1)
        track->program = traces->mpi->world_of[stats - traces->mpi->set.ranks] + 1;
    replay.mpi = track->mpi;
    if (trace_cursor_new(&track->cursor, trace, choice->follow, &err) < 0) {
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

static void put_head(const struct track *track, const struct choice *choice, bool first)
{
    if (choice->replay.json)
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
    if (track->progress && track->choice->on_terminal)
        progress_end(track->progress); /* from now on the lines show it */
    if (*track->shown == track)
        return;
    put_head(track, track->choice, !*track->shown);
    *track->shown = track;
}

/* Prints a line of its own: pauses are not records, and nothing filters them. 0, or -errno. */
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

/* Prints the pauses of recording that began before that wall time. 0, or -errno. */
static int put_pauses(struct track *track, uint64_t wall_ns)
{
    const struct choice *choice = track->choice;
    uint64_t from_ns, to_ns, began_ns = trace_number(track->trace, "start_ns"), start_ns = track->history->start_ns;
    int code = 0;
    for (; code == 0 && job_history_pause(track->history, track->next_pause, &from_ns, &to_ns); track->next_pause++) {
        if (from_ns >= wall_ns)
            break;
        bool seen = to_ns > began_ns && to_ns >= start_ns + choice->from_ns;
        if (seen && (!choice->has_to || from_ns <= start_ns + choice->to_ns))
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

/* Shows everything there is. 0, or -errno. */
static int track_run(struct track *track)
{
    struct trace_event event;
    int code = 0;
    while (!track->over && !interrupted && (code = trace_next(track->cursor, &event)) == 1) {
        if (++track->events == 1)
            track->threads = 1;
        if (track->threads < 2 && trace_thread_count(track->trace) > 1 && !track->choice->replay.filter.thread) {
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

static int replay_fail(int code)
{
    if (code == -EIO || code == -EPIPE)
        return EXIT_ERRORS; /* main says why, for standard output */
    log_error("%s", strerror(-code));
    return EXIT_ERRORS;
}

/* ---- all of them ---- */

/* Is the trace shown at all? */
static bool is_wanted(const struct job_traces *traces, const struct trace *trace, const struct choice *choice)
{
    return choice->rank < 0 || mpi_trace_rank(trace, mpi_trace_stats(job_traces_stats(traces), trace)) == choice->rank;
}

static bool has_rank(const struct job_traces *traces, const struct choice *choice)
{
    for (size_t i = 0; i < traces->count; i++)
        if (is_wanted(traces, traces->list[i], choice))
            return true;
    return false;
}

/* Says why nothing was shown, if so. Returns the exit status. */
static int say_nothing(const struct job_traces *traces, const struct choice *choice, uint64_t events, bool wrote)
{
    const struct call_filter *filter = &choice->replay.filter;
    if (!events && traces->count && !has_rank(traces, choice)) {
        log_error("there is no trace of rank %d in %s", choice->rank, traces->job);
        return EXIT_ERRORS;
    }
    if (!events) {
        job_traces_explain(traces, choice->process);
        return EXIT_ERRORS;
    }
    if (wrote)
        return 0;
    _cleanup_(buf_done) struct buf asked = BUF_INIT;
    if (choice->rank >= 0)
        buf_printf(&asked, " --rank %d", choice->rank);
    if (filter->function) {
        buf_puts(&asked, " --fn ");
        text_show(&asked, filter->function);
    }
    if (filter->thread)
        buf_printf(&asked, " --thread %u", filter->thread);
    buf_puts(&asked, choice->from_ns ? " --from" : "");
    buf_puts(&asked, choice->has_to ? " --to" : "");
    buf_puts(&asked, choice->replay.min_ns ? " --min-time" : "");
    buf_puts(&asked, filter->max_depth ? " --max-depth" : "");
    log_warning("no recorded call matches%s", asked.data ? asked.data : "");
    return 0;
}

/* Shows what rules did, and snapshots, of all processes in the order of time, unless only certain calls are wanted. */
static void put_rules(const struct job_traces *traces, const struct choice *choice, const struct job_history *history,
                      bool first)
{
    const struct call_filter *filter = &choice->replay.filter;
    if (filter->function || filter->thread || filter->max_depth || choice->replay.min_ns || choice->rank >= 0 ||
        choice->process)
        return;
    json_t *events = rules_events(&history->model, traces->job, history->start_ns), *event;
    size_t index;
    bool headed = choice->replay.json;
    json_array_foreach(events, index, event)
    {
        double seconds = member_number(event, "seconds");
        if (seconds * NS_PER_SECOND < (double)choice->from_ns ||
            (choice->has_to && seconds * NS_PER_SECOND > (double)choice->to_ns))
            continue;
        if (choice->replay.json) {
            text_print_json(event, JSON_COMPACT | JSON_REAL_PRECISION(15));
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

static int replay_show(struct job_traces *traces, const struct choice *choice)
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
        if (!is_wanted(traces, traces->list[i], choice))
            continue;
        status = track_open(&track, traces->list[i], choice, traces, &history, &shown);
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
        if (shown) /* the next one is another, even in the same place */
            shown = &another;
        track_close(&track);
    }
    progress_end(&progress);
    if (!status && code >= 0)
        put_rules(traces, choice, &history, !shown);
    job_history_close(&history);
    if (status)
        return status;
    if (code < 0)
        return replay_fail(code);
    fflush(stdout);
    return say_nothing(traces, choice, events, wrote);
}

static int show_paged(struct job_traces *traces, const struct choice *choice)
{
    pager_start();
    return pager_end(replay_show(traces, choice));
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

static int follow_more(struct following *following, struct job_traces *traces, const struct choice *choice)
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
        uint64_t start_ns = trace_number(track->trace, "start_ns"); /* 0: too new to say */
        track->due_ns = (start_ns ? start_ns : clock_wall_ns()) + (uint64_t)REPLAY_NAMING_SECONDS * NS_PER_SECOND;
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
static int follow_all(struct following *following, struct job_traces *traces, const struct choice *choice, bool ended)
{
    int code = 0;
    for (size_t i = 0; i < following->count && code >= 0; i++) {
        struct track *track = following->tracks[i];
        if (!track->open && !is_wanted(traces, track->trace, choice)) {
            trace_update(track->trace, NULL); /* it has its rank only when MPI_Init has returned */
            continue;
        }
        if (!track->open && !ended && clock_wall_ns() < track->due_ns && !has_names(track->trace))
            continue;
        if (!track->open) {
            track->over = track_open(track, track->trace, choice, traces, &following->history, &following->shown) != 0;
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
static int replay_follow(struct job_traces *traces, const struct choice *choice)
{
    struct following following = {0};
    int code = 0;
    job_history_open(&following.history, traces);
    while (code >= 0 && !interrupted) {
        bool ended = has_ended(traces); /* ask first, so that nothing is missed */
        traces->is_running = !ended;
        code = job_traces_again(traces, choice->process);
        if (code >= 0)
            code = follow_more(&following, traces, choice);
        following.history.start_ns = traces->start_ns;
        job_history_again(&following.history);
        if (code >= 0)
            code = follow_all(&following, traces, choice, ended);
        if (ended)
            break;
        if (code >= 0 && !interrupted)
            wait_fd(-1, 0, REPLAY_POLL_MS);
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
        return replay_fail(code);
    return interrupted ? 0 : say_nothing(traces, choice, events, wrote);
}

static struct choice choice_of_options(const struct options *options)
{
    size_t columns = cli_columns();
    struct choice choice = {
        .job = options->words[0],
        .process = (pid_t)options_number(options, "process"),
        .rank = options_given(options, "rank") ? (int32_t)options_number(options, "rank") : -1,
        .from_ns = options_number(options, "from"),
        .to_ns = options_number(options, "to"),
        .has_to = options_given(options, "to"),
        .follow = options_on(options, "follow"),
        .on_terminal = columns != 0,
        .replay = {.filter = {.function = options_text(options, "fn"),
                              .thread = (uint32_t)options_number(options, "thread"),
                              .max_depth = (unsigned)options_number(options, "max-depth")},
                   .min_ns = options_number(options, "min-time"),
                   .json = options_on(options, "json"),
                   .types = options_on(options, "types"),
                   .full_times = options_on(options, "times"),
                   .colour = text_has_colours(STDOUT_FILENO),
                   .columns = text_columns(STDOUT_FILENO)},
    };
    if (columns && !choice.replay.full_times)
        choice.replay.value_columns = columns > 3 * VALUES_LEAST ? columns / 3 : VALUES_LEAST;
    return choice;
}

int cmd_replay(const struct options *options)
{
    const struct choice choice = choice_of_options(options);
    signal(SIGPIPE, SIG_DFL); /* `| head` is no error */
    if (choice.follow)
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    struct job_traces traces;
    int status = job_traces_open(&traces, "replay", choice.job, choice.process);
    if (status == 0)
        status = job_traces_ranks(&traces);
    if (status == 0)
        job_traces_places(&traces);
    if (status == 0)
        status = choice.follow ? replay_follow(&traces, &choice) : show_paged(&traces, &choice);
    job_traces_close(&traces);
    return status;
}
