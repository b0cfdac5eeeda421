/* SPDX-License-Identifier: Apache-2.0 */
/* Services that manipulate and describe threads (specification 8.1.3). Registers are in thread_regs.c. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "monitor/engine/call.h"
#include "monitor/engine/node.h"
#include "monitor/tracing/runstate.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "service/omis/priority.h"
#include "lang/results.h"
#include "lang/put.h"
#include "service/omis/service.h"

/* ---- manipulation ---- */

static void thread_detach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (runstate_detach_thread(call->tool, call_thread(call, i)) < 0)
            call_fail(call, call->objects[i], OMIS_NO_MEMORY, "out of memory");
        else
            call_ok(call, call->objects[i]);
    }
}

static void thread_stop(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_STOP);
}

static void thread_continue(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_CONTINUE);
}

static void thread_suspend(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_SUSPEND);
}

static void thread_resume(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_RESUME);
}

static int send_signal(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    long code = syscall(SYS_tgkill, thread->process->pid, thread->tid, (int)call_integer(call, 1));
    return code < 0 ? -errno : 0;
}

static void thread_send_signal(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, SIGRTMAX))
        call_each(call, send_signal);
}

static void thread_set_priority(struct scry_call *call)
{
    if (!priority_check(call))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct thread *thread = call_thread(call, i);
        priority_set(call, call->objects[i], thread->process->pid, thread->tid);
    }
}

/* Runs a tracer call on each thread. The process is released when the execution is over. */
static void with_tracer(struct scry_call *call, int (*act)(struct tracer *, struct thread *, uint64_t, struct err *))
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct thread *thread = call_thread(call, i);
        struct err err = {0};
        int code = tracing_seize(thread->process, &err);
        if (code == 0)
            code = act(call->monitor->tracer, thread, call_unsigned(call, 1), &err);
        call_done(call, call->objects[i], code, &err);
    }
}

static int go_to(struct tracer *tracer, struct thread *thread, uint64_t addr, struct err *err)
{
    return tracer_goto(tracer, thread->tid, addr, err);
}

static void thread_goto(struct scry_call *call)
{
    with_tracer(call, go_to);
}

/* And what it leaves on the stack is not shown. */
static int call_function(struct tracer *tracer, struct thread *thread, uint64_t addr, struct err *err)
{
    struct tracer_call_place place;
    int code = tracer_call(tracer, thread->tid, addr, &place, err);
    if (code == 0)
        tracing_note_call(thread->process, &place);
    return code;
}

static void thread_call(struct scry_call *call)
{
    with_tracer(call, call_function);
}

/* ---- information ---- */

enum { THREAD_INFO_BITS = 12, THREAD_INFO_STAT = 0xf00 /* the bits that need /proc/PID/task/TID/stat */ };

static const char *parent_of(const struct thread *thread)
{
    return thread->parent[0] ? thread->parent : TOKEN_UNDEFINED;
}

static uint64_t entry_point(pid_t pid)
{
    char path[64];
    Elf64_auxv_t *items = NULL;
    size_t len = 0;
    uint64_t entry = 0;
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    if (file_read(path, (char **)&items, &len) == 0)
        for (size_t i = 0; i < len / sizeof *items; i++)
            if (items[i].a_type == AT_ENTRY)
                entry = items[i].a_un.a_val;
    free(items);
    return entry;
}

/* Of the first thread the program's entry point. The functions of others are known to the thread library only. */
static struct value root_of(const struct thread *thread)
{
    uint64_t entry = thread->tid == thread->process->pid ? entry_point(thread->process->pid) : 0;
    return entry ? value_uint(entry) : value_int(-1);
}

static struct value stack_size(const struct thread *thread)
{
    uint64_t size;
    bool known = proc_stack_size(thread->process->pid, thread->tid, &size) == 0 && size;
    return known ? value_uint(size) : value_int(-1);
}

static struct value member(struct thread *thread, int bit, const struct proc_stat *stat)
{
    switch (bit) {
    case 0:
        return value_token(span_str(thread->process->object.token));
    case 1: /* no thread library gives threads names that mean something outside the process */
    case 7:
        return value_int(thread->tid);
    case 2:
        return root_of(thread);
    case 3:
        return value_token(span_str(parent_of(thread)));
    case 4:
        return value_token(span_str(TOKEN_UNDEFINED));
    case 5:
        return stack_size(thread);
    case 6:
        return value_token(span_str(thread->object.monitor->node->object.token));
    case 8:
        return value_int(runstate_must_wait(thread) ? PROC_STOPPED : proc_state_of(stat));
    case 9:
        return value_floating((double)(stat->user_ns + stat->system_ns) / 1e9);
    case 10:
        return value_int(stat->nice);
    default:
        return value_floating((double)stat->system_ns / 1e9);
    }
}

static int get_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    uint64_t flags = call_unsigned(call, 1);
    struct thread *thread = call_thread(call, index);
    struct proc_stat stat;
    int code = flags & THREAD_INFO_STAT ? proc_stat_read(thread->process->pid, thread->tid, &stat) : 0;
    for (int bit = 0; code == 0 && bit < THREAD_INFO_BITS; bit++)
        if (flags >> bit & 1)
            PUT(text, member(thread, bit, &stat));
    return code;
}

static void thread_get_info(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, (1 << THREAD_INFO_BITS) - 1))
        call_each(call, get_info);
}

static int get_backtrace(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    _cleanup_(freep) struct tracer_frame *frames = NULL;
    size_t count = 0;
    int code = tracing_seize(thread->process, err);
    if (code == 0)
        code =
            tracer_backtrace(call->monitor->tracer, thread->tid, (size_t)call_integer(call, 1), &frames, &count, err);
    PUT(text, count);
    put_list(text);
    for (size_t k = 0; k < count; k++)
        PUT(text, frames[k].pc, frames[k].cfa);
    put_end(text);
    return code;
}

static void thread_get_backtrace(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, INT32_MAX))
        call_each(call, get_backtrace);
}

const struct scry_service thread_services[] = {
    {"thread_detach", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, thread_detach,
     "Leave single threads alone."},
    {"thread_stop", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_PARTIAL, thread_stop,
     "Stop threads, until thread_continue (idempotent)."},
    {"thread_continue", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_PARTIAL, thread_continue,
     "Let stopped threads run (idempotent)."},
    {"thread_suspend", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_REQUIRED, thread_suspend,
     "Suspend threads; each suspend needs its resume."},
    {"thread_resume", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_REQUIRED, thread_resume,
     "Take back one thread_suspend of this tool."},
    {"thread_send_signal", SCRY_MANIPULATION, "token<t>* thread_list, integer sig -> void", SCRY_OPTIONAL,
     thread_send_signal, "Send a signal to each thread."},
    {"thread_set_priority", SCRY_MANIPULATION, "token<t>* thread_list, integer val -> void", SCRY_OPTIONAL,
     thread_set_priority, "Set the nice value (-20 .. 19) of each thread."},
    {"thread_goto", SCRY_MANIPULATION, "token<t>* thread_list, integer addr -> void", SCRY_OPTIONAL | SCRY_MEMORY,
     thread_goto, "Set the program counter of threads."},
    {"thread_call", SCRY_MANIPULATION, "token<t>* thread_list, integer addr -> void", SCRY_OPTIONAL | SCRY_MEMORY,
     thread_call, "Make threads call a function; afterwards they go on as if nothing had happened."},
    {"thread_get_info", SCRY_INFORMATION,
     "token<t>* thread_list, integer flags -> { [token process]; [integer global_id]; [integer root_funct]; [token "
     "parent]; "
     "[token message_queue]; [integer<bytes> stack_size]; [token node]; [integer local_id]; [integer "
     "scheduling_state]; "
     "[floating<s> total_time]; "
     "[integer priority]; [floating<s> system_time] }",
     SCRY_PARTIAL | SCRY_PARTLY, thread_get_info,
     "Static (bits 0-5 of flags) and dynamic (bits 6-11) information on threads; root_funct is known of first "
     "threads."},
    {"thread_get_backtrace", SCRY_INFORMATION, "token<t>* thread_list, integer depth -> " BACKTRACE_RESULT,
     SCRY_REQUIRED, thread_get_backtrace, "The call stacks of threads: innermost frame first; fp: its frame address."},
    SERVICE_END,
};
