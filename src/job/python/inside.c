/* SPDX-License-Identifier: Apache-2.0 */
#include "job/python/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "job/observe/script_rings.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    WINDOW_FUNCTIONS = 20, /* in one record */
    WHOLE_ROWS = 200,
    TIDS = 64, /* threads of a process whose exceptions are on their way */
    REASONS = 8,
    EXCEPTIONS_MOST = 2000, /* of a process */
    RING_CALLS = 600 << 10, /* so much a process takes of the runtime directory, at least */
    RING_LINES = 1300 << 10,
};

struct state {
    struct observer *observer;
    char *told[REASONS]; /* reasons why one is not watched, which are noted once */
    struct script_rings *rings;
    bool no_room; /* was noted */
};

/* Raised, and not known yet whether it is caught. */
struct raised {
    int32_t tid;
    uint64_t time_ns;
    struct python_exception_record row; /* name, message, file, function and traceback are owned */
};

struct process {
    char *file, *version;
    struct script_sum_copy *before; /* of each sum, at the last window */
    size_t before_room;
    uint64_t began_ns, window_ns;
    uint32_t now;
    uint64_t dropped;
    struct raised raised[TIDS];
    unsigned raised_count, exceptions;
    bool aside; /* it tells nothing any more */
};

struct row {
    uint32_t index;
    uint64_t count, total, self, failed;
};

static char *copy(const struct script_text *text)
{
    return strndup(text->bytes ? text->bytes : "", text->bytes ? text->size : 0);
}

/* ---- exceptions ---- */

static void drop_raised(struct process *process, struct raised *raised)
{
    free((char *)raised->row.name);
    free((char *)raised->row.message);
    free((char *)raised->row.file);
    free((char *)raised->row.function);
    json_decref(raised->row.traceback);
    *raised = process->raised[--process->raised_count];
}

static void tell_raised(struct state *state, struct process *process, struct raised *raised, bool caught)
{
    raised->row.caught = caught;
    if (process->exceptions++ < EXCEPTIONS_MOST)
        observe_put(state->observer, RECORD_python_exception, &raised->row);
    drop_raised(process, raised);
}

static struct raised *find_raised(struct process *process, int32_t tid)
{
    for (unsigned i = 0; i < process->raised_count; i++)
        if (process->raised[i].tid == tid)
            return &process->raised[i];
    return NULL;
}

static void on_exception(struct state *state, struct process *process, const struct script_event *event)
{
    struct raised *before = find_raised(process, event->tid);
    bool named = event->texts[SCRIPT_COMMAND].bytes != NULL;
    if (before && !named)
        tell_raised(state, process, before, event->status == SCRIPT_CAUGHT);
    else if (before && event->status == SCRIPT_UNCAUGHT) /* the same one, at its end */
        drop_raised(process, before);
    else if (before)
        tell_raised(state, process, before, true);
    if (!named)
        return;
    if (process->raised_count == TIDS)
        tell_raised(state, process, &process->raised[0], true);
    struct raised *raised = &process->raised[process->raised_count++];
    *raised = (struct raised){
        .tid = event->tid,
        .time_ns = event->time_ns,
        .row = {.pid = event->pid,
                .tid = event->tid,
                .name = copy(&event->texts[SCRIPT_COMMAND]),
                .message = copy(&event->texts[SCRIPT_MESSAGE]),
                .file = copy(&event->texts[SCRIPT_FILE]),
                .function = copy(&event->texts[SCRIPT_FUNCTION]),
                .line = event->line,
                .message_cut = event->cut >> SCRIPT_MESSAGE & 1,
                .traceback = script_frames_json(event),
                .time = observe_seconds(state->observer, event->time_ns)},
    };
    if (event->status != SCRIPT_RAISED)
        tell_raised(state, process, raised, event->status == SCRIPT_CAUGHT);
}

/* Module level is not left before the end: what was raised there, and is not told of for so long, was caught. If it was
 * not, that comes as another one. */
static void tell_late(struct state *state, struct process *process)
{
    uint64_t now_ns = clock_now_ns();
    for (unsigned i = process->raised_count; i-- > 0;)
        if (now_ns > process->raised[i].time_ns + PYTHON_RAISED_NS)
            tell_raised(state, process, &process->raised[i], true);
}

/* Adopts it. */
static bool is_new(struct state *state, char *reason)
{
    for (size_t i = 0; reason && i < REASONS; i++) {
        if (!state->told[i]) {
            state->told[i] = reason;
            return true;
        }
        if (strcmp(state->told[i], reason) == 0)
            break;
    }
    free(reason);
    return false;
}

static void on_record(void *ctx, struct script_rings_ring *ring, const struct script_event *event)
{
    struct state *state = ctx;
    struct process *process = ring->own;
    if (!process)
        return;
    if (event->kind == SCRIPT_STARTED) {
        free(process->file);
        free(process->version);
        process->file = copy(&event->texts[SCRIPT_FILE]);
        process->version = copy(&event->texts[SCRIPT_COMMAND]);
        process->began_ns = event->time_ns;
    } else if (event->kind == SCRIPT_EXCEPTION) {
        on_exception(state, process, event);
    } else if (event->kind == SCRIPT_WENT_ON) {
        process->aside = false;
    } else if (event->kind == SCRIPT_STEPPED_ASIDE) {
        char *reason = copy(&event->texts[SCRIPT_MESSAGE]);
        process->aside = true;
        if (is_new(state, reason))
            observe_note(state->observer, NOTE(script_aside, .pid = (uint64_t)ring->pid, .reason = reason));
    }
}

/* ---- sums ---- */

static int by_self(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return one->self < other->self ? 1 : one->self > other->self ? -1 : 0;
}

/* The rows of a kind, less what they were before; in the order of their self time. *ret_calls: of all. */
static struct row *rows_of(struct process *process, const struct script_rings_ring *ring, uint32_t kind, bool whole,
                           size_t *ret_count, uint64_t *ret_calls)
{
    uint32_t sums = script_view_sums(ring->view);
    struct row *rows = calloc(sums ? sums : 1, sizeof *rows);
    struct script_sum_copy sum;
    *ret_count = 0;
    *ret_calls = 0;
    for (uint32_t i = 0; rows && i < sums; i++) {
        if (!script_view_sum(ring->view, i, false, &sum) || sum.kind != kind)
            continue;
        struct row row = {i, sum.count, sum.total_ns, sum.self_ns, sum.failed};
        if (!whole && i < process->before_room) {
            const struct script_sum_copy *before = &process->before[i];
            row.count -= before->count < row.count ? before->count : row.count;
            row.total -= before->total_ns < row.total ? before->total_ns : row.total;
            row.self -= before->self_ns < row.self ? before->self_ns : row.self;
        }
        *ret_calls += row.count;
        if (row.count || row.self)
            rows[(*ret_count)++] = row;
    }
    if (rows)
        qsort(rows, *ret_count, sizeof *rows, by_self);
    return rows;
}

static json_t *functions_json(const struct state *state, const struct script_rings_ring *ring, const struct row *rows,
                              size_t count)
{
    json_t *list = json_array();
    struct script_sum_copy sum;
    for (size_t i = 0; i < count; i++)
        if (script_view_sum(ring->view, rows[i].index, true, &sum))
            json_array_append_new(
                list, json_pack("{s:o, s:o, s:i, s:I, s:I, s:I}", "function", text_json(sum.function), "file",
                                text_json(sum.file), "line", (int)sum.line, "calls", (json_int_t)rows[i].count,
                                "total_ns", (json_int_t)script_rings_ns(state->rings, ring, rows[i].total), "self_ns",
                                (json_int_t)script_rings_ns(state->rings, ring, rows[i].self)));
    return list;
}

static void tell_calls(struct state *state, struct script_rings_ring *ring, bool whole)
{
    struct process *process = ring->own;
    size_t count, most = whole ? WHOLE_ROWS : WINDOW_FUNCTIONS;
    uint64_t calls;
    _cleanup_(freep) struct row *rows = rows_of(process, ring, SCRIPT_SUM_FUNCTION, whole, &count, &calls);
    if (!rows || !count)
        return;
    json_t *list = functions_json(state, ring, rows, count < most ? count : most);
    observe_put(state->observer,
                RECORD(python_calls, .pid = ring->pid, .whole = whole, .calls = calls, .functions = list));
    json_decref(list);
}

static void remember(struct process *process, const struct script_rings_ring *ring)
{
    uint32_t sums = script_view_sums(ring->view);
    if (!GROW_ZERO_TO(process->before, sums, process->before_room))
        return;
    for (uint32_t i = 0; i < sums; i++)
        script_view_sum(ring->view, i, false, &process->before[i]);
}

static void tell_now(struct state *state, struct script_rings_ring *ring)
{
    struct process *process = ring->own;
    struct script_sum_copy sum;
    uint32_t now = script_view_now(ring->view);
    if (now == process->now || now == UINT32_MAX || !script_view_sum(ring->view, now, true, &sum))
        return;
    process->now = now;
    observe_put(state->observer, RECORD(script_line,
                                        .at = {.pid = ring->pid,
                                               .language = "python",
                                               .file = sum.file,
                                               .line = sum.line,
                                               .function = sum.function[0] ? sum.function : NULL},
                                        .how = "inside", .time = -1));
}

static void tell_lines(struct state *state, struct script_rings_ring *ring)
{
    struct process *process = ring->own;
    struct script_sum_copy sum;
    size_t count;
    uint64_t calls;
    _cleanup_(freep) struct row *rows = rows_of(process, ring, SCRIPT_SUM_LINE, true, &count, &calls);
    if (!rows || !count)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < WHOLE_ROWS; i++)
        if (script_view_sum(ring->view, rows[i].index, true, &sum))
            json_array_append_new(list,
                                  json_pack("{s:o, s:i, s:I, s:i, s:f}", "file", text_json(sum.file), "line",
                                            (int)sum.line, "count", (json_int_t)rows[i].count, "failed", 0, "seconds",
                                            (double)script_rings_ns(state->rings, ring, rows[i].self) / NS_PER_SECOND));
    observe_put(state->observer,
                RECORD(script_end, .pid = ring->pid, .file = process->file ? process->file : "", .status = -1,
                       .seconds = (double)(clock_now_ns() - process->began_ns) / NS_PER_SECOND, .lines = list));
    json_decref(list);
}

/* ---- a process ---- */

static void set_lines(struct state *state, pid_t pid, bool inside)
{
    struct observed_process *process;
    HASH_FIND_INT(state->observer->processes, &pid, process);
    if (process)
        process->lines_inside = inside;
}

static void on_began(void *ctx, struct script_rings_ring *ring)
{
    struct process *process = calloc(1, sizeof *process);
    if (process)
        *process = (struct process){.began_ns = clock_now_ns(), .window_ns = clock_now_ns(), .now = UINT32_MAX};
    ring->own = process;
}

static void on_looked(void *ctx, struct script_rings_ring *ring)
{
    struct state *state = ctx;
    struct process *process = ring->own;
    uint64_t now_ns = clock_now_ns();
    double every = state->observer->options->sample_seconds;
    if (process)
        set_lines(state, ring->pid, state->observer->options->script == RUN_SCRIPT_LINES && !process->aside);
    if (process)
        tell_late(state, process);
    if (process)
        tell_now(state, ring);
    if (!process || (double)(now_ns - process->window_ns) < (every > 1 ? every : 1) * NS_PER_SECOND)
        return;
    process->window_ns = now_ns;
    tell_calls(state, ring, false);
    remember(process, ring);
}

static void on_ended(void *ctx, struct script_rings_ring *ring)
{
    struct state *state = ctx;
    struct process *process = ring->own;
    if (!process)
        return;
    set_lines(state, ring->pid, false);
    while (process->raised_count)
        tell_raised(state, process, &process->raised[0], true);
    if (process->before) /* there were windows: together they have all, too */
        tell_calls(state, ring, false);
    tell_calls(state, ring, true);
    tell_lines(state, ring);
    uint64_t dropped = ring->view->ring->dropped, sums = ring->view->ring->sums_dropped;
    if (dropped || sums || ring->view->damaged)
        observe_note(state->observer,
                     NOTE(script_dropped, .pid = (uint64_t)ring->pid, .file = process->file ? process->file : "",
                          .records = dropped + ring->view->damaged, .sums = sums));
    free(process->file);
    free(process->version);
    free(process->before);
    free(process);
}

static const struct script_rings_use use = {
    .language = "python", .began = on_began, .record = on_record, .looked = on_looked, .ended = on_ended};

/* ---- the source ---- */

/* A process that finds none cannot say so. */
static void check_room(void *ctx)
{
    struct state *state = ctx;
    uint64_t ring = state->observer->options->script == RUN_SCRIPT_LINES ? RING_LINES : RING_CALLS;
    if (state->no_room || script_rings_have_room(state->rings, ring))
        return;
    state->no_room = true;
    observe_note(state->observer, NOTE(source_off, .source = "Python from inside, in processes that start now",
                                       .reason = "there is no room in the runtime directory (SCRY_RUNTIME_DIR)"));
}

static void *inside_start(struct observer *observer, struct err *err)
{
    if (observer->options->script < RUN_SCRIPT_CALLS)
        return NULL;
    struct state *state = calloc(1, sizeof *state);
    if (!state) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    state->observer = observer;
    state->rings = script_rings_new(observer, &use, state, err);
    if (state->rings) {
        check_room(state);
        return state;
    }
    free(state);
    return NULL;
}

static void process_changed(void *ctx, const struct observed_process *process)
{
    struct state *state = ctx;
    script_rings_process_changed(state->rings, process->pid);
}

static void inside_end(void *ctx)
{
    struct state *state = ctx;
    script_rings_free(state->rings);
    for (size_t i = 0; i < REASONS; i++)
        free(state->told[i]);
    free(state);
}

const struct observe_source python_inside = {.name = "Python from inside",
                                             .start = inside_start,
                                             .tick = check_room,
                                             .process = process_changed,
                                             .process_ended = process_changed,
                                             .end = inside_end};
