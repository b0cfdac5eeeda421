/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "fuzz.h"

enum { BREAKS = 256, EVENTS = 256 };

struct fake_break {
    pid_t pid;
    uint64_t addr, id;
    bool has_program;
    struct code_program program;
};

struct fake_event {
    struct tracer_event event;
    bool told, released; /* of its hold */
};

struct tracer {
    int fd;
    bool lost;
    tracer_event_fn *fn;
    void *ctx;
    code_cell *cells;
    struct fake_break breaks[BREAKS];
    size_t break_count;
    struct fake_event events[EVENTS]; /* all there were; hold: index + 1 */
    size_t event_count, next_event;
};

struct fake_child fake_children[FAKE_CHILDREN];
static struct tracer *running;
static enum fake_mode mode;
bool fake_tracer_may_keep;

struct fake_child *fake_child_of(pid_t tid)
{
    for (size_t i = 0; i < FAKE_CHILDREN; i++)
        for (size_t k = 0; k < fake_children[i].thread_count; k++)
            if (fake_children[i].tids[k] == tid)
                return &fake_children[i];
    return NULL;
}

/* ---- what the fuzzer does ---- */

void fake_tracer_reset(void)
{
    mode = FAKE_WORKS;
    fuzz_expect(!running);
}

static void wake(void)
{
    uint64_t one = 1;
    fuzz_expect(write(running->fd, &one, sizeof one) == sizeof one);
}

void fake_tracer_mode(enum fake_mode new_mode)
{
    mode = new_mode == FAKE_LOST ? FAKE_WORKS : new_mode; /* the next one works */
    if (new_mode == FAKE_LOST && running) {
        running->lost = true;
        wake();
    }
}

static void queue(struct tracer_event event, bool held)
{
    if (running->event_count == EVENTS)
        return;
    event.time_ns = clock_now_ns();
    event.hold = held ? running->event_count + 1 : 0;
    running->events[running->event_count++] = (struct fake_event){.event = event};
    wake();
}

/* Runs the programs at a breakpoint. True if somebody wants to be told of the hit. */
static bool run_programs(pid_t pid, uint64_t addr)
{
    bool tell = false;
    for (size_t i = 0; i < running->break_count; i++) {
        struct fake_break *at = &running->breaks[i];
        if (at->pid != pid || at->addr != addr)
            continue;
        struct code_event event = {.time_ns = clock_now_ns()};
        if (at->has_program)
            code_run(&at->program, &event, running->cells);
        else
            tell = true;
    }
    return tell;
}

static void clear_breaks(pid_t pid)
{
    size_t kept = 0;
    for (size_t i = 0; i < running->break_count; i++)
        if (running->breaks[i].pid != pid)
            running->breaks[kept++] = running->breaks[i];
    running->break_count = kept;
}

void fake_tracer_happens(enum tracer_event_kind kind, size_t child_index, size_t thread, unsigned detail, bool held)
{
    struct fake_child *child = &fake_children[child_index % FAKE_CHILDREN];
    struct fake_child *other = &fake_children[(child_index + 1) % FAKE_CHILDREN];
    if (!running || running->lost || !child->seized)
        return;
    struct tracer_event event = {.kind = kind,
                                 .pid = child->pid,
                                 .tid = child->tids[thread % child->thread_count],
                                 .addr = detail,
                                 .number = detail,
                                 .signo = (int)(detail % 64) + 1,
                                 .child = kind == TRACER_NEW_PROCESS ? other->pid
                                                                     : child->tids[detail % child->thread_count],
                                 .arg_count = detail % 7,
                                 .result = -(int64_t)detail};
    if (kind == TRACER_BREAK && !run_programs(child->pid, detail))
        return;
    if (kind == TRACER_EXEC) {
        clear_breaks(child->pid);
        event.tid = child->pid;
    }
    if (kind == TRACER_GONE) {
        clear_breaks(child->pid);
        child->seized = held = false;
    }
    queue(event, held);
}

void fake_tracer_child_ended(struct fake_child *child)
{
    if (running && !running->lost && child->seized)
        fake_tracer_happens(TRACER_GONE, (size_t)(child - fake_children), 0, 0, false);
}

bool fake_tracer_is_clean(void)
{
    for (size_t i = 0; i < FAKE_CHILDREN; i++)
        if (fake_children[i].seized)
            return false;
    if (!running)
        return true;
    for (size_t i = 0; i < running->event_count; i++)
        if (running->events[i].event.hold && running->events[i].told && !running->events[i].released)
            return false;
    return running->break_count == 0;
}

/* ---- the functions of tracer/tracer.h ---- */

static int outcome(struct tracer *tracer, struct err *err)
{
    static const int codes[FAKE_MODES] = {0, -EPERM, 0, -ETIME, -ESRCH, 0};
    fuzz_expect(tracer && tracer == running);
    if (tracer->lost)
        return err_set(err, -EPIPE, "the tracer process died");
    return codes[mode] < 0 ? err_errno(err, codes[mode], "the tracer") : 0;
}

int tracer_start(struct tracer **ret_tracer, const char *path, int cells_fd, tracer_event_fn *fn, void *ctx,
                 struct err *err)
{
    fuzz_expect(!running && path && fn);
    if (mode == FAKE_DENIED)
        return err_set(err, -EPERM, "the tracer cannot be started");
    struct tracer *tracer = calloc(1, sizeof *tracer);
    fuzz_expect(tracer != NULL);
    tracer->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tracer->cells = mmap(NULL, CODE_CELLS * sizeof(code_cell), PROT_READ | PROT_WRITE, MAP_SHARED, cells_fd, 0);
    fuzz_expect(tracer->fd >= 0 && tracer->cells != MAP_FAILED);
    tracer->fn = fn;
    tracer->ctx = ctx;
    *ret_tracer = running = tracer;
    return 0;
}

void tracer_stop_all(struct tracer *tracer)
{
    fuzz_expect(tracer == running);
    for (size_t i = 0; i < FAKE_CHILDREN; i++)
        fake_children[i].seized = false;
    munmap(tracer->cells, CODE_CELLS * sizeof(code_cell));
    close(tracer->fd);
    free(tracer);
    running = NULL;
}

int tracer_fd(const struct tracer *tracer)
{
    return tracer->fd;
}

pid_t tracer_pid(const struct tracer *tracer)
{
    fuzz_expect(tracer == running);
    return 1; /* whatever it is, it may not be attached */
}

bool tracer_died(const struct tracer *tracer)
{
    return tracer->lost;
}

bool tracer_pending(const struct tracer *tracer)
{
    return tracer->next_event < tracer->event_count;
}

void tracer_receive(struct tracer *tracer)
{
    fuzz_expect(tracer == running);
}

int tracer_dispatch(struct tracer *tracer)
{
    uint64_t count;
    fuzz_expect(tracer == running);
    ssize_t got = tracer->lost ? 0 : read(tracer->fd, &count, sizeof count);
    (void)got;
    while (tracer->next_event < tracer->event_count) {
        struct fake_event *event = &tracer->events[tracer->next_event++];
        event->told = true;
        tracer->fn(tracer->ctx, &event->event);
        fuzz_expect(tracer == running);
        fuzz_expect(!event->event.hold || event->released || tracer->lost || fake_tracer_may_keep);
    }
    return tracer->lost ? -EPIPE : 0;
}

int tracer_seize(struct tracer *tracer, pid_t pid, struct err *err)
{
    struct fake_child *child = fake_child_of(pid);
    int code = outcome(tracer, err);
    if (code == 0 && (!child || child->pid != pid))
        code = err_set(err, -ESRCH, "there is no process %d", pid);
    if (code == 0)
        child->seized = true;
    return code;
}

int tracer_release(struct tracer *tracer, pid_t pid)
{
    fuzz_expect(tracer == running);
    if (tracer->lost)
        return -EPIPE;
    struct fake_child *child = fake_child_of(pid);
    if (!child || child->pid != pid)
        return 0;
    for (size_t i = 0; i < tracer->event_count; i++) /* not while an event of it is handled */
        fuzz_expect(tracer->events[i].event.pid != pid || !tracer->events[i].told || !tracer->events[i].event.hold ||
                    tracer->events[i].released);
    clear_breaks(pid);
    child->seized = false;
    return 0;
}

int tracer_spawn(struct tracer *tracer, const struct tracer_spawn *spawn, pid_t *ret_pid, struct err *err)
{
    struct fake_child *child = &fake_children[FAKE_CHILDREN - 1];
    fuzz_expect(spawn->path && spawn->argv && spawn->argv[0]);
    int code = outcome(tracer, err);
    if (code == 0 && child->seized)
        code = err_set(err, -EAGAIN, "only one program can be started");
    if (code < 0)
        return code;
    child->seized = true;
    *ret_pid = child->pid;
    return 0;
}

/* What is done to a thread needs its process seized; one that ended meanwhile answers so. */
static int thread_outcome(struct tracer *tracer, pid_t tid, struct err *err)
{
    struct fake_child *child = fake_child_of(tid);
    int code = outcome(tracer, err);
    if (code == 0 && (!child || !child->seized))
        code = err_set(err, -ESRCH, "thread %d is not traced", tid);
    return code;
}

int tracer_watch(struct tracer *tracer, pid_t pid, const struct tracer_watch *watch)
{
    fuzz_expect(watch != NULL);
    return thread_outcome(tracer, pid, NULL);
}

static int each_thread(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes)
{
    int code = outcome(tracer, NULL);
    fuzz_expect(count > 0);
    for (size_t i = 0; i < count; i++) {
        int one = code < 0 ? code : thread_outcome(tracer, tids[i], NULL);
        if (mode == FAKE_PARTLY && i % 2 == 1)
            one = -ETIME;
        if (ret_codes)
            ret_codes[i] = one;
    }
    return code;
}

int tracer_stop(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes)
{
    return each_thread(tracer, tids, count, ret_codes);
}

int tracer_continue(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes)
{
    return each_thread(tracer, tids, count, ret_codes);
}

int tracer_release_hold(struct tracer *tracer, uint64_t hold)
{
    fuzz_expect(tracer == running && hold > 0 && hold <= tracer->event_count);
    fuzz_expect(tracer->events[hold - 1].told && !tracer->events[hold - 1].released);
    tracer->events[hold - 1].released = true;
    return tracer->lost ? -EPIPE : 0;
}

int tracer_step(struct tracer *tracer, pid_t tid, enum tracer_step_mode step)
{
    fuzz_expect(step <= TRACER_STEP_BOTH);
    return thread_outcome(tracer, tid, NULL);
}

int tracer_get_regs(struct tracer *tracer, pid_t tid, struct user_regs_struct *ret_regs)
{
    memset(ret_regs, 0, sizeof *ret_regs);
    return thread_outcome(tracer, tid, NULL);
}

int tracer_set_regs(struct tracer *tracer, pid_t tid, const struct user_regs_struct *regs)
{
    fuzz_expect(regs != NULL);
    return thread_outcome(tracer, tid, NULL);
}

int tracer_get_xstate(struct tracer *tracer, pid_t tid, void *ret_bytes, size_t *inout_size)
{
    *inout_size = 832;
    memset(ret_bytes, 0, *inout_size);
    return thread_outcome(tracer, tid, NULL);
}

int tracer_set_xstate(struct tracer *tracer, pid_t tid, const void *bytes, size_t size)
{
    fuzz_expect(bytes && size == 832);
    return thread_outcome(tracer, tid, NULL);
}

int tracer_goto(struct tracer *tracer, pid_t tid, uint64_t addr, struct err *err)
{
    (void)addr;
    return thread_outcome(tracer, tid, err);
}

int tracer_call(struct tracer *tracer, pid_t tid, uint64_t addr, struct tracer_call_place *ret_place, struct err *err)
{
    *ret_place = (struct tracer_call_place){.slot = addr, .pc = addr, .stub = addr};
    return thread_outcome(tracer, tid, err);
}

int tracer_backtrace(struct tracer *tracer, pid_t tid, size_t max_depth, struct tracer_frame **ret_frames,
                     size_t *ret_count, struct err *err)
{
    int code = thread_outcome(tracer, tid, err);
    if (code < 0)
        return code;
    *ret_count = max_depth == 1 ? 1 : 2;
    *ret_frames = calloc(*ret_count, sizeof **ret_frames);
    fuzz_expect(*ret_frames != NULL);
    return 0;
}

int tracer_write_memory(struct tracer *tracer, pid_t pid, uint64_t addr, const void *bytes, size_t len)
{
    (void)addr;
    fuzz_expect(bytes && len);
    return thread_outcome(tracer, pid, NULL);
}

static struct fake_break *find_break(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id)
{
    for (size_t i = 0; i < tracer->break_count; i++)
        if (tracer->breaks[i].pid == pid && tracer->breaks[i].addr == addr && tracer->breaks[i].id == id)
            return &tracer->breaks[i];
    return NULL;
}

int tracer_break_set(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id, const struct code_program *program,
                     uint8_t *ret_original, struct err *err)
{
    int code = thread_outcome(tracer, pid, err);
    if (code < 0)
        return code;
    fuzz_expect(!program || code_check(program, CODE_CELLS));
    struct fake_break *at = find_break(tracer, pid, addr, id);
    if (!at) {
        if (tracer->break_count == BREAKS)
            return err_set(err, -ENOMEM, "too many breakpoints");
        at = &tracer->breaks[tracer->break_count++];
    }
    *at = (struct fake_break){.pid = pid, .addr = addr, .id = id, .has_program = program != NULL};
    if (program)
        at->program = *program;
    *ret_original = 0x90;
    return 0;
}

int tracer_break_clear(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id)
{
    struct fake_break *at = find_break(tracer, pid, addr, id);
    if (at && !tracer->lost) /* also where the rest fails: what is cleared is gone */
        *at = tracer->breaks[--tracer->break_count];
    return outcome(tracer, NULL);
}

int tracer_load(struct tracer *tracer, pid_t pid, const struct tracer_load *load, struct err *err)
{
    return err_set(err, -EAGAIN, "the fake tracer loads nothing");
}

int tracer_load_result(struct tracer *tracer, pid_t pid, int64_t *ret_result, struct err *err)
{
    return -ESRCH;
}
