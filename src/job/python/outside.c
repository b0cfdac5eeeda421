/* SPDX-License-Identifier: Apache-2.0 */
#include "job/python/outside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "job/python/stack_json.h"
#include "shm/waits.h"

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
