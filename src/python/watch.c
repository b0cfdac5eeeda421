/* SPDX-License-Identifier: Apache-2.0 */
#include "python/watch.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "python/internal.h"

enum { RING = 64 << 10, TEXTS = 256 << 10, FUNCTIONS = 4096, LINES = 12288 };

struct watch watch;

static char directory[SCRIPT_PATH];
static pthread_key_t at_thread_end;
static __thread struct watch_thread *self_pointer __attribute__((tls_model("initial-exec")));

static inline uint64_t ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* Only one thread at a time writes them: it has the GIL. The reader may come at any time. */
static inline void add(_Atomic uint64_t *to, uint64_t more)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + more, memory_order_relaxed);
}

/* ---- the ring ---- */

static bool open_ring(void)
{
    int error;
    struct script_open open = {.directory = directory,
                               .language = "python",
                               .ring_size = RING,
                               .sum_count = FUNCTIONS + (watch.lines ? LINES : 0),
                               .texts_size = TEXTS,
                               .in_ticks = true};
    watch.writer = script_writer_open(&open, &error);
    if (!watch.writer) {
        watch.directory = NULL;
        return false;
    }
    watch.ring = script_writer_ring(watch.writer);
    watch.generation++;
    const char *version = py.Py_GetVersion ? py.Py_GetVersion() : "";
    script_put(watch.writer,
               &(struct script_event){.kind = SCRIPT_STARTED,
                                      .line = -1,
                                      .duration_ns = UINT64_MAX,
                                      .texts = {[SCRIPT_FILE] = {watch.program, (uint32_t)strlen(watch.program)},
                                                [SCRIPT_COMMAND] = {version, (uint32_t)strcspn(version, " ")}}});
    script_ring_bell(watch.writer);
    return true;
}

bool watch_renew(void)
{
    if (watch.writer && script_writer_mine(watch.writer))
        return true;
    watch.writer = NULL; /* the parent's page, which nobody needs any more */
    return watch.directory && open_ring();
}

static void end_thread(void *pointer)
{
    struct watch_thread *self = pointer;
    if (self->raised && watch.writer && self->generation == watch.generation)
        script_put(watch.writer,
                   &(struct script_event){
                       .kind = SCRIPT_EXCEPTION, .tid = self->tid, .duration_ns = UINT64_MAX, .status = SCRIPT_CAUGHT});
    self_pointer = NULL;
    munmap(self->frames, FRAMES * sizeof *self->frames + sizeof *self);
}

bool watch_start(const char *to, bool lines, struct py *program)
{
    const char *bytes;
    size_t size;
    struct py *text = py_text(program, &bytes, &size);
    if (text) {
        size = size < sizeof watch.program - 1 ? size : sizeof watch.program - 1;
        memcpy(watch.program, bytes, size);
        py.Py_DecRef(text);
    }
    if (strlen(to) >= sizeof directory || pthread_key_create(&at_thread_end, end_thread) != 0)
        return false;
    memcpy(directory, to, strlen(to) + 1);
    watch.directory = directory;
    watch.lines = lines;
    return open_ring() && codes_start();
}

void watch_refuse(const char *to, const char *reason)
{
    if (strlen(to) >= sizeof directory)
        return;
    memcpy(directory, to, strlen(to) + 1);
    watch.directory = directory;
    if (open_ring())
        watch_step_aside(reason);
    watch.directory = NULL;
}

void watch_step_aside(const char *reason)
{
    if (watch_ready()) {
        script_put(watch.writer,
                   &(struct script_event){.kind = SCRIPT_STEPPED_ASIDE,
                                          .line = -1,
                                          .duration_ns = UINT64_MAX,
                                          .texts = {[SCRIPT_FILE] = {watch.program, (uint32_t)strlen(watch.program)},
                                                    [SCRIPT_MESSAGE] = {reason, (uint32_t)strlen(reason)}}});
        script_ring_bell(watch.writer);
    }
}

/* ---- threads ---- */

static struct watch_thread *make_self(void)
{
    size_t frames = FRAMES * sizeof(struct watch_frame);
    char *memory = mmap(NULL, frames + sizeof(struct watch_thread), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        watch.directory = NULL; /* nothing is tried again, and again */
        watch.writer = NULL;
        return NULL;
    }
    struct watch_thread *self = (void *)(memory + frames);
    self->frames = (void *)memory;
    self->last = ticks();
    pthread_setspecific(at_thread_end, self);
    self_pointer = self;
    return self;
}

struct watch_thread *watch_self(void)
{
    struct watch_thread *self = self_pointer ? self_pointer : make_self();
    if (self && self->generation != watch.generation) { /* it is new, or in a child of a fork */
        self->generation = watch.generation;
        self->tid = (int32_t)syscall(SYS_gettid);
        self->raised = NULL;
        for (uint32_t i = 0; i < self->depth; i++)
            self->frames[i].line = NULL;
    }
    return self;
}

void watch_go_on(void)
{
    struct watch_thread *self = watch_ready() ? watch_self() : NULL;
    if (!self)
        return;
    if (self->raised)
        watch_caught(self);
    while (self->depth)
        self->frames[--self->depth].code->active--;
    self->beyond = 0;
    script_put(watch.writer,
               &(struct script_event){.kind = SCRIPT_WENT_ON, .line = -1, .duration_ns = UINT64_MAX, .tid = self->tid});
}

/* ---- calls ---- */

/* The time until now belongs to the line that runs. */
static inline uint64_t pass(struct watch_thread *self)
{
    uint64_t now = ticks();
    if (watch.lines) {
        struct script_sum *line = self->depth ? self->frames[self->depth - 1].line : NULL;
        if (line)
            add(&line->self_ns, now - self->last);
        self->last = now;
    }
    return now;
}

void watch_enter(struct watch_code *code, bool counted)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised && !self->depth)
        watch_caught(self);
    uint64_t now = pass(self);
    struct script_sum *sum = code_sum(code);
    if (counted)
        add(&sum->count, 1);
    if (self->depth == FRAMES) {
        self->beyond++;
        return;
    }
    struct watch_frame *frame = &self->frames[self->depth++];
    *frame = (struct watch_frame){.code = code, .begin = now, .outermost = !code->active || code->owner != self};
    if (!code->active)
        code->owner = self;
    code->active++;
}

static void end_line(struct watch_frame *frame, uint64_t now)
{
    if (frame->line)
        add(&frame->line->total_ns, now - frame->line_begin);
}

static void pop(struct watch_thread *self, uint64_t now)
{
    struct watch_frame *frame = &self->frames[--self->depth];
    struct script_sum *sum = code_sum(frame->code);
    uint64_t passed = now - frame->begin;
    end_line(frame, now);
    frame->code->active--;
    if (frame->outermost)
        add(&sum->total_ns, passed);
    add(&sum->self_ns, passed > frame->inner ? passed - frame->inner : 0);
    if (self->depth)
        self->frames[self->depth - 1].inner += passed;
}

/* Greenlets and frames that were there before us leave in another order than they came. */
static bool unwind_to(struct watch_thread *self, const struct watch_code *code, uint64_t now)
{
    uint32_t at = self->depth;
    while (at && self->frames[at - 1].code != code)
        at--;
    if (!at)
        return false;
    while (self->depth > at)
        pop(self, now);
    return true;
}

static void move_exception(struct watch_thread *self, bool failed)
{
    if (!failed && self->raised_at >= self->depth)
        watch_caught(self);
    else if (failed && self->raised_at == self->depth)
        self->raised_at--;
}

void watch_leave(struct watch_code *code, bool failed)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->beyond) {
        self->beyond--;
        return;
    }
    uint64_t now = pass(self);
    if (!unwind_to(self, code, now))
        return;
    if (self->raised)
        move_exception(self, failed);
    if (failed)
        add(&code_sum(code)->failed, 1);
    pop(self, now);
    struct script_sum *line = self->depth ? self->frames[self->depth - 1].line : NULL;
    if (line)
        atomic_store_explicit(&watch.ring->now, script_sum_number(watch.writer, line), memory_order_relaxed);
}

void watch_line(struct watch_code *code, int number)
{
    struct watch_thread *self = watch_self();
    if (!self || self->beyond)
        return;
    if (!self->depth || self->frames[self->depth - 1].code != code) {
        if (!unwind_to(self, code, ticks()))
            watch_enter(code, false); /* it was there before us */
        if (!self->depth || self->frames[self->depth - 1].code != code)
            return;
    }
    struct watch_frame *frame = &self->frames[self->depth - 1];
    struct script_sum *line = code_line(code, number);
    uint64_t now = ticks();
    if (frame->line)
        add(&frame->line->self_ns, now - self->last);
    self->last = now;
    end_line(frame, now);
    frame->line = line;
    frame->line_begin = now;
    add(&line->count, 1);
    atomic_store_explicit(&watch.ring->now, script_sum_number(watch.writer, line), memory_order_relaxed);
}
