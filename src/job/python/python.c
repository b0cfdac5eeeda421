/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sources of the observer. python_inside: Python programs as the library inside tells of them (src/python, --script calls,
 * lines). python_source: where the Python programs of the job are, read from their memory (symbols/python/python.h); nothing
 * is put into them: a record "script_line" when the first thread is at another line of the user's own code, and
 * "python_stack" with all threads at times and when they stand still, both only where there is something new.
 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "job/observe/observe.h"
#include "job/observe/script_rings.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/python/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_JSON_FRAMES = 2000 }; /* of all threads together; of those behind them there are no frames */

/* Inside job/python: stacks as records have them. */

static json_t *frames_json(const struct python_thread *thread, size_t most)
{
    json_t *frames = json_array();
    for (size_t i = 0; i < thread->count && i < most; i++) {
        const struct python_frame *frame = &thread->frames[i];
        json_t *row = json_pack("{s:o, s:o}", "function", text_json(frame->function), "file", text_json(frame->file));
        if (row && frame->line >= 0)
            json_object_set_new(row, "line", json_integer(frame->line));
        if (!row || json_array_append_new(frames, row) < 0) {
            json_decref(frames);
            return NULL;
        }
    }
    return frames;
}

/* [{tid, name, frames}, ...]; a new reference, or NULL when out of memory. `name`: the process's; a thread that has the
 * same has none. */
static json_t *python_stacks_json(const struct python_stacks *stacks, pid_t pid, const char *name)
{
    json_t *threads = json_array();
    size_t room = STACK_JSON_FRAMES;
    for (size_t i = 0; threads && i < stacks->count; i++) {
        const struct python_thread *thread = &stacks->threads[i];
        char comm[64];
        json_t *row = json_pack("{s:i, s:o}", "tid", (int)thread->tid, "frames", frames_json(thread, room));
        if (!row || json_array_append_new(threads, row) < 0) {
            json_decref(threads);
            return NULL;
        }
        proc_comm(pid, thread->tid, comm, sizeof comm);
        if (*comm && strcmp(comm, name) != 0)
            json_object_set_new(row, "name", text_json(comm));
        if (thread->moved)
            json_object_set_new(row, "moved", json_true());
        if (thread->cut || thread->count > room)
            json_object_set_new(row, "cut", json_true());
        room -= thread->count < room ? thread->count : room;
    }
    return threads;
}

enum {
    WINDOW_FUNCTIONS = 20, /* in one record */
    WHOLE_ROWS = 200,
    TIDS = 64,              /* threads of a process whose exceptions are on their way */
    EXCEPTIONS_MOST = 2000, /* of a process */
    RING_CALLS = 600 << 10, /* so much a process takes of the runtime directory, at least */
    RING_LINES = 1300 << 10,
};

struct state {
    struct observer *observer;
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
                .name = script_text_copy(&event->texts[SCRIPT_COMMAND]),
                .message = script_text_copy(&event->texts[SCRIPT_MESSAGE]),
                .file = script_text_copy(&event->texts[SCRIPT_FILE]),
                .function = script_text_copy(&event->texts[SCRIPT_FUNCTION]),
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

static void on_record(void *ctx, struct script_rings_ring *ring, const struct script_event *event)
{
    struct state *state = ctx;
    struct process *process = ring->own;
    if (!process)
        return;
    if (event->kind == SCRIPT_STARTED) {
        free(process->file);
        free(process->version);
        process->file = script_text_copy(&event->texts[SCRIPT_FILE]);
        process->version = script_text_copy(&event->texts[SCRIPT_COMMAND]);
        process->began_ns = event->time_ns;
    } else if (event->kind == SCRIPT_EXCEPTION) {
        on_exception(state, process, event);
    } else if (event->kind == SCRIPT_WENT_ON) {
        process->aside = false;
    } else if (event->kind == SCRIPT_STEPPED_ASIDE) {
        process->aside = true;
        script_rings_note_aside(state->rings, ring, event);
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
    script_rings_process_changed(state->rings, process->pid, false);
}

static void inside_end(void *ctx)
{
    struct state *state = ctx;
    script_rings_free(state->rings);
    free(state);
}

const struct observe_source python_inside = {.name = "Python from inside",
                                             .start = inside_start,
                                             .tick = check_room,
                                             .process = process_changed,
                                             .process_ended = process_changed,
                                             .end = inside_end};

enum {
    STILL_LOOKS = 2,  /* so often the same line: it stands */
    FIRST_LOOKS = 2,  /* to find Python in a process; it may be loaded later, so from then on */
    LATER_LOOKS = 30, /* every so many looks */
    FAILURES = 3,     /* then it is another program */
    COST = 100,       /* looking may take one in so many parts of the time */
};

struct program {
    pid_t pid;
    char name[64];
    bool found, given_up;
    unsigned looks, failures, still;
    struct python_program python;
    char *file, *function; /* of the last record; NULL: there was none */
    int64_t line;
    uint64_t stack_ns; /* when all threads were looked at */
    json_t *threads;   /* of the last record */
    UT_hash_handle hh;
};

struct outside {
    struct observer *observer;
    struct program *programs; /* by pid */
    uint64_t next_ns;
    bool refused; /* that it is was said */
};

static void *outside_start(struct observer *observer, struct err *err)
{
    (void)err;
    if (observer->options->script == RUN_SCRIPT_OFF)
        return NULL;
    struct outside *outside = calloc(1, sizeof *outside);
    if (outside)
        outside->observer = observer;
    return outside;
}

static void program_free(struct program *program)
{
    free(program->file);
    free(program->function);
    json_decref(program->threads);
    free(program);
}

/* Looks at none yet: most processes end soon, and what is executed has to be loaded first. */
static void process(void *state, const struct observed_process *process)
{
    struct outside *outside = state;
    struct program *program;
    HASH_FIND_INT(outside->programs, &process->pid, program);
    if (!program) {
        program = calloc(1, sizeof *program);
        if (!program)
            return;
        program->pid = process->pid;
        HASH_ADD_INT(outside->programs, pid, program);
    }
    program->found = program->given_up = false; /* it may have executed something */
    program->looks = program->failures = program->still = 0;
    memcpy(program->name, process->name, sizeof program->name);
}

static void process_ended(void *state, const struct observed_process *process)
{
    struct outside *outside = state;
    struct program *program;
    HASH_FIND_INT(outside->programs, &process->pid, program);
    if (!program)
        return;
    HASH_DEL(outside->programs, program);
    program_free(program);
}

/* Only who has asked for it is told, and once. */
static void give_up(struct outside *outside, struct program *program, const char *reason)
{
    char source[64];
    program->given_up = true;
    if (outside->refused || !outside->observer->options->script_given)
        return;
    outside->refused = true;
    snprintf(source, sizeof source, "Python in process %d", program->pid);
    observe_note(outside->observer, NOTE(source_off, .source = source, .reason = reason));
}

static void find(struct outside *outside, struct program *program)
{
    char version[PYTHON_VERSION_SIZE], reason[64];
    if (program->looks++ >= FIRST_LOOKS && program->looks % LATER_LOOKS)
        return;
    int r = python_find(&program->python, program->pid);
    program->found = r == 0;
    if (r == -ENOTSUP && !program->python.version && outside->observer->options->script >= RUN_SCRIPT_CALLS) {
        program->given_up = true; /* the library inside says so */
    } else if (r == -ENOTSUP) {
        python_version(version, program->python.version);
        snprintf(reason, sizeof reason, "version %s is not known", program->python.version ? version : "before 3.9");
        give_up(outside, program, reason);
    } else if (r == -EACCES && strncmp(program->name, "python", strlen("python")) == 0) {
        give_up(outside, program, strerror(EACCES));
    } else if (r == -EACCES) {
        program->given_up = true;
    }
}

static bool same(const char *old, const char *now)
{
    return old && strcmp(old, now) == 0;
}

static void tell_line(struct outside *outside, struct program *program, const struct python_thread *thread)
{
    const struct python_frame *frame = python_own_frame(thread);
    if (!frame || (program->looks <= FIRST_LOOKS && !python_is_own_code(frame->file)))
        return; /* it is just starting */
    if (same(program->file, frame->file) && same(program->function, frame->function) && program->line == frame->line) {
        program->still++;
        return;
    }
    free(program->file);
    free(program->function);
    program->file = strdup(frame->file);
    program->function = strdup(frame->function);
    program->line = frame->line;
    program->still = 0;
    struct observed_process *process;
    HASH_FIND_INT(outside->observer->processes, &program->pid, process);
    if (process && process->lines_inside)
        return;
    observe_put(outside->observer, RECORD(script_line, .how = "outside", .time = -1,
                                          .at = {.pid = program->pid,
                                                 .language = "python",
                                                 .file = frame->file,
                                                 .function = frame->function,
                                                 .line = frame->line}));
}

static void tell_stack(struct outside *outside, struct program *program, const struct python_stacks *stacks)
{
    char version[PYTHON_VERSION_SIZE];
    json_t *threads = python_stacks_json(stacks, program->pid, program->name);
    if (threads && !json_equal(threads, program->threads)) {
        python_version(version, program->python.version);
        observe_put(outside->observer, RECORD(python_stack, .pid = program->pid, .version = version, .threads = threads,
                                              .cut = stacks->cut));
    }
    json_decref(program->threads);
    program->threads = threads;
}

/* 0 or -errno. The first thread alone, and all of them now and then, or when that is not in Python. */
static int look_at(struct outside *outside, struct program *program, uint64_t now_ns)
{
    const struct python_memory memory = python_memory_of(&program->pid);
    struct python_stacks stacks;
    bool all = program->looks >= FIRST_LOOKS && now_ns - program->stack_ns >= PYTHON_STACK_NS;
    program->looks++;
    int r =
        python_read(&stacks, &program->python, &memory, all ? 0 : program->pid, all ? PYTHON_FRAMES : PYTHON_OWN_FRAME);
    if (stacks.count && stacks.threads[0].tid == program->pid)
        tell_line(outside, program, &stacks.threads[0]);
    if (!all && program->still == STILL_LOOKS) {
        python_stacks_done(&stacks);
        r = python_read(&stacks, &program->python, &memory, 0, PYTHON_FRAMES);
        all = true;
    }
    if (all && r == 0 && stacks.count) {
        tell_stack(outside, program, &stacks);
        program->stack_ns = now_ns;
    }
    python_stacks_done(&stacks);
    return r;
}

static void tick(void *state)
{
    struct outside *outside = state;
    const uint64_t begin_ns = clock_now_ns();
    if (begin_ns < outside->next_ns)
        return;
    for (struct program *program = outside->programs; program; program = program->hh.next) {
        if (program->given_up)
            continue;
        if (!program->found)
            find(outside, program);
        if (!program->found)
            continue;
        program->failures = look_at(outside, program, begin_ns) == 0 ? 0 : program->failures + 1;
        if (program->failures == FAILURES) {
            program->found = false;
            program->looks = 0;
        }
    }
    const uint64_t pause_ns = (clock_now_ns() - begin_ns) * COST;
    outside->next_ns = begin_ns + (pause_ns > PYTHON_LINE_NS ? pause_ns : PYTHON_LINE_NS);
}

static void outside_end(void *state)
{
    struct outside *outside = state;
    struct program *program, *next;
    HASH_ITER(hh, outside->programs, program, next)
    {
        HASH_DEL(outside->programs, program);
        program_free(program);
    }
    free(outside);
}

const struct observe_source python_source = {
    .name = "python",
    .start = outside_start,
    .process = process,
    .process_ended = process_ended,
    .tick = tick,
    .end = outside_end,
};
