/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/lane.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/layers/sections.h"
#include "jobdir/trace/calls.h"
#include "shm/mpi_told.h"
#include "web/view/ask.h"
#include "web/view/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void pass_free(struct view *view);

/* Opens a job directory: what is known of it before any event of its traces is read. */

void view_note(struct view *view, const char *line)
{
    const char *at = view->notes.data;
    for (size_t left = view->notes.len; left;) {
        size_t size = strlen(at) + 1;
        if (strcmp(at, line) == 0)
            return;
        at += size;
        left -= size;
    }
    if (view->notes.len < VIEW_NOTES)
        buf_append(&view->notes, line, strlen(line) + 1);
}

static void note_problem(void *ctx, const char *text)
{
    view_note(ctx, text);
}

/* ---- functions ---- */

static const char *const class_names[] = {"compute", "p2p", "wait", "collective", "onesided", "io", "other"};

const char *view_class_name(enum view_class class)
{
    return class_names[class];
}

enum view_class view_class_of(uint32_t call)
{
    if (call == CALL_NONE || call >= CALL_COUNT)
        return VIEW_COMPUTE;
    switch (call_infos[call].class) {
    case CALL_CLASS_P2P:
    case CALL_CLASS_COMPLETION:
        return VIEW_P2P;
    case CALL_CLASS_COLLECTIVE:
        return VIEW_COLLECTIVE;
    case CALL_CLASS_ONESIDED:
        return VIEW_ONESIDED;
    case CALL_CLASS_IO:
        return VIEW_IO;
    default:
        return VIEW_OTHER;
    }
}

struct view_function *view_function_named(struct view *view, const char *name, const char *file, uint32_t line)
{
    char *key;
    int len = asprintf(&key, "%s\t%s\t%u", name, file, line);
    struct view_function *function = NULL;
    if (len < 0)
        return NULL;
    HASH_FIND(hh, view->functions, key, (size_t)len, function);
    if (function || view->function_count >= VIEW_FUNCTIONS ||
        !GROW(view->function_list, view->function_count, view->function_room) ||
        !(function = calloc(1, sizeof *function)) || !(function->name = strdup(name)) ||
        !(function->file = strdup(file))) {
        free(key);
        if (function && !function->key) {
            free((char *)function->name);
            free(function);
            function = NULL;
        }
        return function;
    }
    function->key = key;
    function->line = line;
    function->number = (uint32_t)view->function_count;
    view->function_list[view->function_count++] = function;
    HASH_ADD_KEYPTR(hh, view->functions, function->key, (size_t)len, function);
    return function;
}

struct view_function *view_function_in(struct view *view, const struct trace *trace, uint32_t id)
{
    char room[32];
    const struct trace_function *known = trace_function(trace, id);
    struct view_function *function = view_function_named(view, call_name(trace, id, room, sizeof room),
                                                         known ? known->file : "", known ? known->line : 0);
    if (function && known)
        function->class = view_class_of(mpi_function_call(known->address));
    return function;
}

uint32_t view_function(struct view *view, size_t trace, uint32_t id)
{
    struct view_trace *in = &view->traces[trace];
    if (id < in->function_room && in->functions[id])
        return in->functions[id] - 1;
    const struct view_function *function = view_function_in(view, view->list[trace], id);
    if (!function)
        return UINT32_MAX;
    if (trace_function(view->list[trace], id) && GROW_ZERO_TO(in->functions, (size_t)id + 1, in->function_room))
        in->functions[id] = function->number + 1;
    return function->number;
}

/* ---- lanes ---- */

/* Which rank a trace is of, and which of its threads. */
static void find_rank(struct view *view, size_t trace)
{
    const struct trace *of = view->list[trace];
    const struct mpi_stats *stats = view->report.mpi ? mpi_trace_stats(&view->report.mpi->set, of) : NULL;
    const struct mpi_stats_thread *thread = stats ? mpi_report_main(stats) : NULL;
    struct view_trace *in = &view->traces[trace];
    in->rank = mpi_trace_rank(of, stats);
    in->rank_thread = thread ? (uint32_t)thread->tid : (uint32_t)trace_pid(of);
    if (in->rank >= 0)
        in->world = mpi_programs_number(&view->programs, mpi_trace_world(of, stats));
}

static void set_rank(const struct view *view, struct view_lane *lane)
{
    const struct view_trace *of = &view->traces[lane->key.trace];
    bool is_rank = of->rank >= 0 && lane->key.tid == of->rank_thread;
    lane->rank = is_rank ? of->rank : -1;
    lane->world = is_rank ? of->world : 0;
}

struct view_lane *view_lane(struct view *view, size_t trace, uint32_t tid, uint32_t serial)
{
    struct view_lane *lane;
    const struct view_lane_key key = {trace, tid, serial};
    HASH_FIND(hh, view->lanes, &key, sizeof key, lane);
    if (lane)
        return lane;
    if (view->lane_count >= VIEW_LANES) {
        view_note(view, "there are more threads than can be shown: the others are left out");
        return NULL;
    }
    if (!GROW(view->lane_list, view->lane_count, view->lane_room) || !(lane = calloc(1, sizeof *lane)))
        return NULL;
    *lane = (struct view_lane){
        .key = key, .number = (uint32_t)view->lane_count, .rank = -1, .from_ns = INT64_MAX, .to_ns = INT64_MIN};
    view->lane_list[view->lane_count++] = lane;
    HASH_ADD(hh, view->lanes, key, sizeof lane->key, lane);
    set_rank(view, lane);
    return lane;
}

struct seeing {
    struct view *view;
    size_t trace;
};

static void see_packet(void *ctx, const struct packet_head *head)
{
    const struct seeing *seeing = ctx;
    struct view_lane *lane = view_lane(seeing->view, seeing->trace, head->tid, head->thread_serial);
    if (!lane)
        return;
    seeing->view->traces[seeing->trace].bytes += head->packet_size / 8;
    int64_t from = timeline_ns(&seeing->view->timeline, seeing->trace, head->time_begin),
            to = timeline_ns(&seeing->view->timeline, seeing->trace, head->time_end);
    lane->from_ns = from < lane->from_ns ? from : lane->from_ns;
    lane->to_ns = to > lane->to_ns ? to : lane->to_ns;
}

static int by_place(const void *a, const void *b)
{
    const struct view_lane *left = *(struct view_lane *const *)a, *right = *(struct view_lane *const *)b;
    if ((left->rank < 0) != (right->rank < 0))
        return left->rank < 0 ? 1 : -1;
    if (left->key.trace != right->key.trace)
        return left->key.trace < right->key.trace ? -1 : 1;
    if (left->key.serial != right->key.serial)
        return left->key.serial < right->key.serial ? -1 : 1; /* as they began */
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Looks at the heads of all packets: which lanes there are, and the picture's window. */
static int view_see_lanes(struct view *view)
{
    view->from_ns = INT64_MAX;
    view->to_ns = INT64_MIN;
    view->bytes = 0;
    for (size_t i = 0; i < view->lane_count; i++) {
        view->lane_list[i]->from_ns = INT64_MAX;
        view->lane_list[i]->to_ns = INT64_MIN;
    }
    for (size_t i = 0; i < view->trace_count; i++) {
        struct seeing seeing = {view, i};
        view->traces[i].bytes = 0;
        trace_each_packet(view->list[i], see_packet, &seeing);
        view->bytes += view->traces[i].bytes;
        uint64_t until = trace_until(view->list[i]);
        int64_t end = until ? timeline_ns(&view->timeline, i, until) : INT64_MIN;
        view->to_ns = end > view->to_ns && view->traces[i].bytes ? end : view->to_ns;
    }
    for (size_t i = 0; i < view->lane_count; i++)
        set_rank(view, view->lane_list[i]);
    qsort(view->lane_list, view->lane_count, sizeof *view->lane_list, by_place);
    for (size_t i = 0; i < view->lane_count; i++) {
        struct view_lane *lane = view->lane_list[i];
        lane->number = (uint32_t)i;
        view->from_ns = lane->from_ns < view->from_ns ? lane->from_ns : view->from_ns;
        view->to_ns = lane->to_ns > view->to_ns ? lane->to_ns : view->to_ns;
    }
    if (view->from_ns >= view->to_ns) {
        view->from_ns = view->lane_count ? view->from_ns : 0;
        view->to_ns = view->from_ns + 1;
    }
    view->until_ns = view->to_ns;
    if (view->running) /* it has room to grow */
        view->to_ns += view->to_ns - view->from_ns;
    return 0;
}

/* ---- the directory ---- */

static int open_traces(struct view *view, struct err *err)
{
    char **paths;
    size_t count;
    int code = trace_list(view->job, &paths, &count, err);
    if (code < 0)
        return code;
    view->path_count = count;
    view->list = calloc(count + 1, sizeof(struct trace *));
    for (size_t i = 0; i < count; i++) {
        struct err why = {0};
        if (view->list && paths[i]) {
            if (trace_open(&view->list[view->trace_count], paths[i], note_problem, view, &why) == 0)
                trace_append_all(view->list[view->trace_count++], paths + i + 1, count - i - 1, note_problem, view);
            else if (!view->running)
                view_note(view, why.text);
        }
        free(paths[i]);
    }
    free(paths);
    if (view->list && view->trace_count)
        code = mpi_trace_order(view->list, view->trace_count, view->report.mpi ? &view->report.mpi->set : NULL);
    view->traces = calloc(view->trace_count + 1, sizeof *view->traces);
    if (!view->list || !view->traces || code < 0)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < view->trace_count; i++)
        find_rank(view, i);
    return 0;
}

static int read_mpi(struct view *view, struct err *err)
{
    int code = mpi_report_read(&view->report.mpi, view->job, err);
    if (code == -ENOENT)
        return 0;
    if (code == 0)
        code = mpi_report_add_up(view->report.mpi);
    if (code == 0)
        code = job_report_find_ends(&view->report, &view->report.mpi->set);
    if (code == 0)
        mpi_programs_init(&view->programs, &view->report.mpi->set);
    return code;
}

int64_t view_ranks_wanted(struct view *view)
{
    enum { PROGRAMS = sizeof view->programs.names / sizeof *view->programs.names };
    const struct mpi_stats_set *set = &view->report.mpi->set;
    bool seen[PROGRAMS] = {false};
    int64_t ranks = 0;
    for (size_t i = 0; i < set->count; i++) {
        uint32_t program = mpi_programs_number(&view->programs, set->ranks[i].namespace);
        if (program < PROGRAMS && !seen[program])
            ranks += set->ranks[i].world_size;
        if (program < PROGRAMS)
            seen[program] = true;
    }
    return ranks;
}

/* Ranks that nothing here is of, as where a node's part of the job is missing, or never came. */
static void note_missing_ranks(struct view *view)
{
    int64_t ranks = view_ranks_wanted(view), traced = 0;
    char note[128];
    for (size_t i = 0; i < view->trace_count; i++)
        traced += view->traces[i].rank >= 0;
    snprintf(note, sizeof note,
             "%" PRId64 " of %" PRId64 " ranks have no trace in the job directory: they are left out", ranks - traced,
             ranks);
    if (traced && traced < ranks)
        view_note(view, note);
}

static void note_what_is_missing(struct view *view)
{
    if (!view->trace_count)
        view_note(view,
                  view->running
                      ? "there is no trace yet: none was asked for when the job began, or it has just begun; scry "
                        "set JOB trace=... records from now on"
                      : "the job has no trace: no single calls were recorded");
    else if (!view->lane_count)
        view_note(view, "the traces are empty: no call that was asked for was made");
    if (view->report.mpi && !view->running)
        note_missing_ranks(view);
    if (view->report.mpi && view->report.mpi->unreadable_count)
        view_note(view, view->report.mpi->unreadable.text);
}

static int open_anew(struct view *view, const char *path, struct err *err)
{
    *view = (struct view){0};
    if (!realpath(path, view->job))
        return err_errno(err, -errno, "cannot open the job directory %s", path);
    int code = job_report_load(&view->report, view->job, err);
    view->running = code == 0 && view->report.state == JOB_RUNNING;
    view->key = code == 0 && !view->running ? saved_key(view) : 0;
    if (code == 0)
        code = read_mpi(view, err);
    if (code == 0)
        code = open_traces(view, err);
    if (code == 0)
        code = timeline_init(&view->timeline, view->list, view->trace_count, view->report.info.started_ns);
    if (code == 0)
        code = view_see_lanes(view);
    note_what_is_missing(view);
    return code < 0 && err && !err->code ? err_set(err, code, "cannot read %s: %s", view->job, strerror(-code)) : code;
}

int view_open(struct view *ret_view, const char *path, struct err *err)
{
    int code = open_anew(ret_view, path, err);
    if (code < 0 || ret_view->running || saved_read(ret_view) >= 0)
        return code;
    view_close(ret_view);
    return open_anew(ret_view, path, err);
}

bool view_has_changed(const struct view *view)
{
    struct job_info info = {0};
    enum job_state state;
    bool changed = job_info_read_state(view->job, &info, &state, NULL) == 0 && (state == JOB_RUNNING) != view->running;
    job_info_done(&info);
    char **paths;
    size_t count;
    if (!view->running || changed || trace_list(view->job, &paths, &count, NULL) < 0)
        return changed;
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    for (size_t i = 0; i < view->trace_count && !changed; i++)
        changed = view->traces[i].rank < 0 && mpi_trace_rank(view->list[i], NULL) >= 0;
    return changed || count != view->path_count;
}

void view_close(struct view *view)
{
    pass_free(view);
    lines_free(view);
    tree_free(view);
    whole_free(view);
    json_decref(view->python);
    HASH_FREE_ALL(view->lanes);
    HASH_FREE_ALL(view->functions, free(each->key); free((char *)each->name); free((char *)each->file));
    for (size_t i = 0; i < view->trace_count; i++) {
        trace_close(view->list[i]);
        if (view->traces)
            free(view->traces[i].functions);
    }
    free(view->list);
    free(view->traces);
    free(view->lane_list);
    free(view->function_list);
    mpi_programs_done(&view->programs);
    timeline_done(&view->timeline);
    job_report_done(&view->report);
    buf_done(&view->notes);
    *view = (struct view){0};
}

/* ---- what takes a pass over the traces ---- */

/* The functions of Python, which no trace has: of a job that runs as its records say now. */
static json_t *python_functions(const struct view *view)
{
    if (!view->running)
        return scripts_python_functions(&view->report.model.layers);
    struct job_model now;
    json_t *problems = json_array(), *functions = NULL;
    if (job_model_init(&now, 0) == 0 && job_model_read(&now, view->job, problems, NULL) == 0)
        functions = scripts_python_functions(&now.layers);
    job_model_done(&now);
    json_decref(problems);
    return functions;
}

int view_load_functions(struct view *view, void (*progress)(void *ctx, double share), void *ctx, struct err *err)
{
    const struct job_functions_options options = {
        .by_process = true, .profiled = tree_take, .profiled_ctx = view, .progress = progress, .ctx = ctx};
    tree_free(view);
    job_functions_free(view->report.functions);
    view->report.functions = NULL;
    json_decref(view->python);
    view->python = python_functions(view);
    return job_report_load_functions(&view->report, &options, err);
}

int view_load_messages(struct view *view, void (*progress)(void *ctx, double share), void *ctx, struct err *err)
{
    const struct mpi_messages_options options = {.start_ns = view->report.info.started_ns,
                                                 .stats = view->report.mpi ? &view->report.mpi->set : NULL,
                                                 .limit = VIEW_ENDS,
                                                 .progress = progress,
                                                 .ctx = ctx};
    struct mpi_messages *messages;
    int code = mpi_messages_load(&messages, view->list, view->trace_count, &options, err);
    if (code < 0)
        return code;
    timeline_done(&view->timeline);
    view->timeline = messages->timeline;
    messages->timeline = (struct timeline){0};
    if (view->timeline.host_count > 1 && !view->pass)
        view_see_lanes(view); /* once more, by the times as they are known now */
    code = lines_make(view, messages);
    mpi_messages_free(messages);
    return code < 0 ? err_set(err, code, "out of memory for the messages") : 0;
}

enum {
    ABREAST = 64,           /* traces that are read side by side, of a job that has ended */
    CELLS = 48 << 20,       /* of all pyramids, four bytes each */
    DEPTH_GUESS = 12,       /* so many depths a lane has, when the levels are chosen */
    EVENT_BYTES = 10,       /* about, in a trace */
    COLUMN_EVENTS = 8,      /* fewer events of a lane in a column are as soon read again */
    POINT_BYTES = 32 << 10, /* between two points, at least; */
    POINTS = 1 << 16,       /* about as many there are at most */
};

struct pass {
    struct reading {
        struct trace_cursor *cursor;
        struct view_lane **lanes; /* by thread->index */
        size_t lane_room;
        bool done;
    } * readings;            /* by trace */
    size_t first;            /* those before are done */
    bool grown;              /* the job has gone beyond the window */
    struct open_calls *open; /* by lane */
    size_t open_room;
};

/* As many levels as there is room for, and as there are events for. */
static unsigned levels_for(const struct view *view)
{
    uint64_t lanes = view->lane_count ? view->lane_count : 1, events = view->bytes / EVENT_BYTES;
    uint64_t most = CELLS / (lanes * DEPTH_GUESS), useful = events / (lanes * COLUMN_EVENTS);
    unsigned levels = 1;
    while (levels < PYRAMID_LEVELS && (UINT64_C(2) << levels) * PYRAMID_COLUMNS <= most &&
           ((uint64_t)PYRAMID_COLUMNS << levels) <= useful)
        levels++;
    return levels;
}

static int pass_begin(struct view *view)
{
    view->pass = calloc(1, sizeof *view->pass);
    if (!view->pass || !(view->pass->readings = calloc(view->trace_count + 1, sizeof *view->pass->readings)))
        return -ENOMEM;
    view->pyramid =
        (struct pyramid){.from = view->from_ns, .to = view->to_ns, .levels = levels_for(view), .most_cells = CELLS};
    for (size_t i = 0; i < view->trace_count; i++)
        view->traces[i].until_ns = INT64_MIN;
    view->point_bytes = view->bytes / POINTS > POINT_BYTES ? view->bytes / POINTS : POINT_BYTES;
    return 0;
}

/* What is read of one trace. */
static void done_with(struct reading *reading)
{
    trace_cursor_free(reading->cursor);
    free(reading->lanes);
    *reading = (struct reading){.done = true};
}

/* Forgets all of it. */
static void pass_free(struct view *view)
{
    struct pass *pass = view->pass;
    for (size_t i = 0; i < view->lane_count; i++) {
        struct view_lane *lane = view->lane_list[i];
        pyramid_lane_free(lane->pyramid);
        lane_free_points(lane);
        lane->pyramid = NULL;
        lane->calls = lane->depth = 0;
    }
    if (!pass)
        return;
    for (size_t i = 0; pass->readings && i < view->trace_count; i++)
        done_with(&pass->readings[i]);
    for (size_t i = 0; i < pass->open_room; i++)
        open_calls_done(&pass->open[i]);
    free(pass->open);
    free(pass->readings);
    free(pass);
    view->pass = NULL;
    view->complete = false;
}

/* ---- events ---- */

static struct view_lane *lane_of(struct view *view, size_t trace, const struct trace_thread *thread)
{
    struct reading *reading = &view->pass->readings[trace];
    if (thread->index < reading->lane_room && reading->lanes[thread->index])
        return reading->lanes[thread->index];
    struct view_lane *lane = view_lane(view, trace, thread->tid, thread->serial);
    if (!lane || !GROW_ZERO_TO(reading->lanes, thread->index + 1, reading->lane_room) ||
        !GROW_ZERO_TO(view->pass->open, (size_t)lane->number + 1, view->pass->open_room) ||
        (!lane->pyramid && pyramid_lane_new(&lane->pyramid, &view->pyramid) < 0))
        return NULL;
    reading->lanes[thread->index] = lane;
    return lane;
}

struct pointing {
    struct view *view;
    size_t trace;
};

static void take_point(void *ctx, const struct trace_point *point)
{
    const struct pointing *pointing = ctx;
    struct view_lane *lane = view_lane(pointing->view, pointing->trace, point->tid, point->serial);
    if (lane)
        lane_add_point(pointing->view, lane, point);
}

static void mark_valued(struct view *view, size_t trace, uint32_t id)
{
    uint32_t function = view_function(view, trace, id);
    if (function != UINT32_MAX)
        view->function_list[function]->valued = 1;
}

static void take_event(struct view *view, size_t trace, const struct trace_event *event)
{
    if (event->kind != TRACE_ENTRY && event->kind != TRACE_EXIT)
        return;
    struct view_lane *lane = lane_of(view, trace, event->thread);
    if (!lane)
        return;
    struct open_calls *open = &view->pass->open[lane->number];
    int64_t now = timeline_ns(&view->timeline, trace, event->time);
    view->until_ns = now > view->until_ns ? now : view->until_ns;
    view->pass->grown |= now > view->to_ns;
    lane->to_ns = now > lane->to_ns ? now : lane->to_ns;
    if (event->layout)
        mark_valued(view, trace, event->function);
    if (event->kind == TRACE_ENTRY) {
        struct open_call *call = open_calls_enter(open, event->stack, event->function, event->entry_time);
        uint32_t function = view_function(view, trace, event->function);
        if (call && function != UINT32_MAX)
            pyramid_begin(lane->pyramid, call->row, function, now);
        lane->calls++;
        lane->depth = call && call->row >= lane->depth ? call->row + 1 : lane->depth;
        return;
    }
    struct open_call call;
    if (!open_calls_leave(open, event, &call))
        return;
    if (event->alone) {
        uint32_t function = view_function(view, trace, event->function);
        if (function != UINT32_MAX)
            pyramid_begin(lane->pyramid, call.row, function, timeline_ns(&view->timeline, trace, event->entry_time));
        lane->calls++;
    }
    pyramid_end(lane->pyramid, call.row, now);
}

/* ---- calls that are open ---- */

/* All was read that there was when that was asked for, trace_until: calls that are open go on until then. On other nodes
 * that is not known of a process alone. */
static void see_until(struct view *view, size_t trace, uint64_t ticks)
{
    const struct reading *reading = &view->pass->readings[trace];
    const char *state = trace_value(view->list[trace], "state");
    int64_t until = ticks                                    ? timeline_ns(&view->timeline, trace, ticks)
                    : state && strcmp(state, "running") == 0 ? INT64_MAX
                                                             : INT64_MIN;
    view->traces[trace].until_ns = until;
    for (size_t i = 0; i < reading->lane_room && until < INT64_MAX; i++) {
        struct view_lane *lane = reading->lanes[i];
        if (!lane || !view->pass->open[lane->number].count || until <= lane->to_ns)
            continue;
        lane->to_ns = until;
        view->until_ns = until > view->until_ns ? until : view->until_ns;
        view->pass->grown |= until > view->to_ns;
    }
}

const struct open_calls *pass_open(const struct view *view, const struct view_lane *lane)
{
    bool over = !view->pass || pyramid_now(lane->pyramid) == INT64_MAX;
    return over || lane->number >= view->pass->open_room ? NULL : &view->pass->open[lane->number];
}

int64_t pass_open_until(const struct view *view, const struct view_lane *lane)
{
    int64_t now = pyramid_now(lane->pyramid), until = view->traces[lane->key.trace].until_ns;
    until = until < view->until_ns ? until : view->until_ns;
    return until > now ? until : now;
}

/* ---- traces ---- */

static int open_reading(struct view *view, size_t trace, struct err *err)
{
    return trace_cursor_new(&view->pass->readings[trace].cursor, view->list[trace], view->running, err);
}

/* All that a trace has is read; its lanes have nothing more. */
static void pass_finish_trace(struct view *view, size_t trace)
{
    struct reading *reading = &view->pass->readings[trace];
    for (size_t i = 0; i < reading->lane_room; i++)
        if (reading->lanes[i])
            pyramid_finish(reading->lanes[i]->pyramid, view->to_ns);
    done_with(reading);
}

/* 1: there is more; 0: not now. */
static int read_slice(struct view *view, size_t trace, struct err *err)
{
    struct reading *reading = &view->pass->readings[trace];
    struct pointing pointing = {view, trace};
    struct trace_event event;
    uint64_t until = view->running ? trace_until(view->list[trace]) : 0; /* before its files are looked at */
    int code = reading->cursor ? 0 : open_reading(view, trace, err);
    if (code < 0) {
        view_note(view, err->text);
        reading->done = true;
        return code == -ENOMEM ? code : 0;
    }
    trace_cursor_points(reading->cursor, take_point, &pointing);
    for (unsigned i = 0; i < VIEW_SLICE && (code = trace_next(reading->cursor, &event)) == 1; i++)
        take_event(view, trace, &event);
    trace_cursor_points(reading->cursor, NULL, NULL);
    if (code == 1)
        return 1;
    if (code < 0)
        view_note(view, strerror(-code));
    if (code < 0 || !view->running)
        pass_finish_trace(view, trace);
    else
        see_until(view, trace, until);
    return 0;
}

static void see_progress(struct view *view)
{
    double read = 0;
    for (size_t i = 0; i < view->trace_count; i++) {
        uint64_t done, all;
        const struct reading *reading = &view->pass->readings[i];
        if (reading->cursor)
            trace_cursor_progress(reading->cursor, &done, &all);
        else
            done = reading->done ? view->traces[i].bytes : 0;
        read += (double)done;
    }
    view->progress = view->bytes && read < (double)view->bytes ? read / (double)view->bytes : view->complete;
}

/* The window grows with the job: by doubling it, so that reading all of it again is seldom. */
static void pass_grow(struct view *view)
{
    int64_t length = view->until_ns - view->from_ns;
    pass_free(view);
    view->to_ns = view->from_ns + 2 * length;
}

int pass_work(struct view *view, struct err *err)
{
    int code = view->pass ? 0 : pass_begin(view);
    if (code < 0)
        return err_set(err, code, "out of memory");
    struct pass *pass = view->pass;
    size_t last = view->running ? view->trace_count : pass->first + ABREAST;
    last = last < view->trace_count ? last : view->trace_count;
    bool more = false;
    for (size_t i = pass->first; i < last && code >= 0; i++)
        if (!pass->readings[i].done) {
            code = read_slice(view, i, err);
            more |= code == 1;
        }
    if (code < 0)
        return code;
    while (pass->first < view->trace_count && pass->readings[pass->first].done)
        pass->first++;
    view->complete = pass->first == view->trace_count;
    see_progress(view);
    if (pass->grown && view->running) {
        pass_grow(view);
        return 1;
    }
    if (view->pyramid.full)
        view_note(view,
                  "there are more calls inside each other than the picture has room for: the innermost are not in "
                  "its overview");
    return more || (!view->complete && !view->running);
}
