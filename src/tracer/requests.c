/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor's requests, one function each. They may wait; the statuses that come meanwhile are handled. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "shm/waits.h"
#include "tracer/tracee.h"

struct request {
    const struct wire_message *message;
    const char *bytes; /* the payload */
    size_t len;
    uint64_t ret_a;
    struct buf result;
    struct err err;
};

typedef int request_fn(struct request *request);

static struct process *wanted_process(pid_t pid)
{
    struct process *process = process_find(pid);
    return process && process->wanted ? process : NULL;
}

static struct thread *wanted_thread(pid_t tid)
{
    struct thread *thread = thread_find(tid);
    if (!thread) { /* its creation may have begun before its creator was seized */
        struct process *process = wanted_process((pid_t)proc_status_number(tid, 0, "Tgid"));
        if (process && attach_seize_new(process) > 0)
            thread = thread_find(tid);
    }
    return thread && thread->process->wanted && !thread->exited ? thread : NULL;
}

static int do_seize(struct request *request)
{
    return attach_seize(request->message->id, &request->err);
}

static int do_release(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    if (process)
        attach_release(process);
    return 0;
}

static int do_spawn(struct request *request)
{
    pid_t pid = 0;
    int code = spawn_process(request->bytes, request->len, &pid, &request->err);
    request->ret_a = (uint64_t)pid;
    return code;
}

static int do_watch(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    struct tracer_watch watch;
    if (!process)
        return -ESRCH;
    if (request->len != sizeof watch)
        return -EINVAL;
    memcpy(&watch, request->bytes, sizeof watch);
    return syscall_watch(process, &watch);
}

/* ---- run states ---- */

struct stopping {
    const char *bytes;
    size_t count;
    uint64_t begun_ns;
};

static pid_t tid_at(const char *bytes, size_t index)
{
    pid_t tid;
    memcpy(&tid, bytes + index * sizeof tid, sizeof tid);
    return tid;
}

static bool all_stopped(void *ctx)
{
    const struct stopping *stopping = ctx;
    /* one that waits inside the kernel (vfork, a disk) cannot execute anything either, and will stop before it does */
    bool look = clock_now_ns() - stopping->begun_ns > TRACER_STOPPING_NS;
    for (size_t i = 0; i < stopping->count; i++) {
        const struct thread *thread = wanted_thread(tid_at(stopping->bytes, i));
        if (thread && !thread->in_stop && !(look && thread_is_blocked(thread)))
            return false;
    }
    return true;
}

static int do_stop(struct request *request)
{
    struct stopping stopping = {request->bytes, request->len / sizeof(pid_t), clock_now_ns()};
    for (size_t i = 0; i < stopping.count; i++) {
        struct thread *thread = wanted_thread(tid_at(request->bytes, i));
        if (!thread)
            continue;
        thread->stopped = true;
        thread_update(thread);
    }
    int waited = pump_until(all_stopped, &stopping);
    for (size_t i = 0; i < stopping.count; i++) {
        struct thread *thread = wanted_thread(tid_at(request->bytes, i));
        int code = thread ? 0 : -ESRCH;
        if (thread && waited < 0 && !thread->in_stop && !thread_is_blocked(thread)) {
            thread->stopped = false; /* not done is not half done */
            code = waited;
        }
        buf_append(&request->result, &code, sizeof code);
    }
    return 0;
}

static int do_continue(struct request *request)
{
    for (size_t i = 0; i < request->len / sizeof(pid_t); i++) {
        struct thread *thread = wanted_thread(tid_at(request->bytes, i));
        int code = thread ? 0 : -ESRCH;
        if (thread) {
            thread->stopped = false;
            thread_update(thread);
        }
        buf_append(&request->result, &code, sizeof code);
    }
    return 0;
}

static int do_step(struct request *request)
{
    struct thread *thread = wanted_thread(request->message->id);
    if (!thread)
        return -ESRCH;
    if (request->message->a > TRACER_STEP_BOTH)
        return -EINVAL;
    return step_start(thread, (enum tracer_step_mode)request->message->a, &request->err);
}

/* ---- registers ---- */

/* Runs fn while the thread is in a stop. */
static int with_halted(struct request *request, int (*fn)(struct request *request, struct thread *thread))
{
    struct thread *thread = wanted_thread(request->message->id);
    if (!thread)
        return -ESRCH;
    int code = thread_halt(thread);
    if (code < 0)
        return code;
    code = fn(request, thread);
    thread_unpause(thread);
    return code;
}

static int get_regs(struct request *request, struct thread *thread)
{
    int code = thread_load_regs(thread);
    if (code == 0)
        buf_append(&request->result, &thread->regs, sizeof thread->regs);
    return code;
}

static int set_regs(struct request *request, struct thread *thread)
{
    if (request->len != sizeof thread->regs)
        return -EINVAL;
    int code = regs_leave_event(thread, &request->err);
    if (code == 0)
        code = thread_load_regs(thread);
    if (code < 0)
        return code;
    struct user_regs_struct before = thread->regs;
    bool was_dirty = thread->regs_dirty;
    memcpy(&thread->regs, request->bytes, sizeof thread->regs);
    thread_regs_changed(thread);
    code = thread_flush_regs(thread);
    if (code < 0) { /* the kernel refuses some values */
        thread->regs = before;
        thread->regs_dirty = was_dirty;
        return err_errno(&request->err, code == -EIO ? -EINVAL : code, "the registers of thread %d", thread->tid);
    }
    return 0;
}

static int get_xstate(struct request *request, struct thread *thread)
{
    size_t size = TRACER_XSTATE_SIZE;
    char *to = buf_reserve(&request->result, size);
    if (!to)
        return -ENOMEM;
    int code = regs_get_xstate(thread, to, &size);
    if (code == 0)
        request->result.len += size;
    return code;
}

static int set_xstate(struct request *request, struct thread *thread)
{
    return regs_set_xstate(thread, request->bytes, request->len);
}

static int go_to(struct request *request, struct thread *thread)
{
    int code = regs_leave_event(thread, &request->err);
    if (code == 0)
        code = thread_load_regs(thread);
    if (code < 0)
        return code;
    thread->regs.rip = request->message->a;
    thread->regs.orig_rax = (unsigned long long)-1;
    thread_regs_changed(thread);
    thread->break_done = false; /* even if it is there already: the breakpoint is reached again */
    return thread_flush_regs(thread);
}

static int call(struct request *request, struct thread *thread)
{
    struct tracer_call_place place;
    const struct call_wanted wanted = {.addr = request->message->a};
    int code = call_start(thread, &wanted, &place, &request->err);
    if (code == 0)
        buf_append(&request->result, &place, sizeof place);
    return code;
}

static int do_get_regs(struct request *request)
{
    return with_halted(request, get_regs);
}

static int do_set_regs(struct request *request)
{
    return with_halted(request, set_regs);
}

static int do_get_xstate(struct request *request)
{
    return with_halted(request, get_xstate);
}

static int do_set_xstate(struct request *request)
{
    return with_halted(request, set_xstate);
}

static int do_goto(struct request *request)
{
    return with_halted(request, go_to);
}

static int do_call(struct request *request)
{
    return with_halted(request, call);
}

static int do_backtrace(struct request *request)
{
    struct thread *thread = wanted_thread(request->message->id);
    if (!thread)
        return -ESRCH;
    return unwind_thread(thread, request->message->a, &request->result, NULL, &request->err);
}

/* ---- libraries ---- */

static int do_load(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    const char *end = request->bytes + request->len;
    const char *symbol = request->len ? memchr(request->bytes, 0, request->len) : NULL;
    const char *data = symbol && ++symbol < end ? memchr(symbol, 0, (size_t)(end - symbol)) : NULL;
    if (!process)
        return err_set(&request->err, -ESRCH, "process %d is not traced", request->message->id);
    if (!data++)
        return -EINVAL;
    const struct tracer_load wanted = {request->bytes, symbol, data, (size_t)(end - data), request->message->a != 0};
    return load_start(process, &wanted, &request->err);
}

static int do_load_result(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    int64_t result = 0;
    int code = process ? load_result(process, &result, &request->err) : -ESRCH;
    request->ret_a = (uint64_t)result;
    return code;
}

/* ---- memory and breakpoints ---- */

static int write_untraced(pid_t pid, uint64_t addr, const char *bytes, size_t len)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -EPERM;
    for (size_t done = 0; done < len;) {
        ssize_t put = pwrite(fd, bytes + done, len - done, (off_t)(addr + done));
        if (put <= 0)
            return -EIO;
        done += (size_t)put;
    }
    return 0;
}

static int do_write(struct request *request)
{
    struct process *process = process_find(request->message->id);
    if (!process || !process->threads)
        return write_untraced(request->message->id, request->message->a, request->bytes, request->len);
    return breakpoint_write(process, request->message->a, request->bytes, request->len);
}

static int do_break_set(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    struct code_program program;
    if (!process)
        return err_set(&request->err, -ESRCH, "process %d is not traced", request->message->id);
    if (request->len && request->len != sizeof program)
        return -EINVAL;
    if (request->len)
        memcpy(&program, request->bytes, sizeof program);
    uint8_t original = 0;
    int code = breakpoint_set(process, request->message->a, request->message->b, request->len ? &program : NULL,
                              &original, &request->err);
    request->ret_a = original;
    return code;
}

static int do_break_clear(struct request *request)
{
    struct process *process = wanted_process(request->message->id);
    if (process)
        breakpoint_clear(process, request->message->a, request->message->b);
    return 0;
}

static request_fn *const handlers[WIRE_KIND_COUNT] = {
    [WIRE_SEIZE] = do_seize,
    [WIRE_RELEASE] = do_release,
    [WIRE_SPAWN] = do_spawn,
    [WIRE_WATCH] = do_watch,
    [WIRE_STOP] = do_stop,
    [WIRE_CONTINUE] = do_continue,
    [WIRE_STEP] = do_step,
    [WIRE_GET_REGS] = do_get_regs,
    [WIRE_SET_REGS] = do_set_regs,
    [WIRE_GET_XSTATE] = do_get_xstate,
    [WIRE_SET_XSTATE] = do_set_xstate,
    [WIRE_GOTO] = do_goto,
    [WIRE_CALL] = do_call,
    [WIRE_BACKTRACE] = do_backtrace,
    [WIRE_LOAD] = do_load,
    [WIRE_LOAD_RESULT] = do_load_result,
    [WIRE_WRITE] = do_write,
    [WIRE_BREAK_SET] = do_break_set,
    [WIRE_BREAK_CLEAR] = do_break_clear,
};

void request_handle(const struct wire_message *message, char *payload, size_t len)
{
    if (message->kind == WIRE_RELEASE_HOLD) {
        hold_release(message->a);
        return;
    }
    struct request request = {.message = message, .bytes = payload, .len = len};
    request_fn *fn = message->kind < WIRE_KIND_COUNT ? handlers[message->kind] : NULL;
    int code = fn ? fn(&request) : -EOPNOTSUPP;
    if (code == 0 && request.result.failed)
        code = -ENOMEM;
    if (code < 0)
        reply_send(message, code, 0, request.err.text, strlen(request.err.text));
    else
        reply_send(message, 0, request.ret_a, request.result.data, request.result.len);
    buf_done(&request.result);
}
