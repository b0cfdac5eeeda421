/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tracing/traced.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/tracing/loading.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/runstate.h"
#include "monitor/tracing/steps.h"
#include "monitor/engine/switching.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"

struct sighting {
    struct monitor *monitor;
    struct process *process;
    struct thread *thread; /* NULL if out of memory */
    const struct tracer_event *raw;
};

static void raise(const struct sighting *seen, const char *service, const struct value *outputs, size_t count,
                  int first_par)
{
    struct event event = {.service = registry_find(seen->monitor->registry, span_str(service)),
                          .process = seen->process,
                          .thread = seen->thread,
                          .object = seen->thread ? &seen->thread->object : &seen->process->object,
                          .time_ns = seen->raw->time_ns,
                          .outputs = outputs,
                          .output_count = count,
                          .first_par = first_par,
                          .raw = seen->raw};
    if (event.service && event.service->enabled)
        event_raise(seen->monitor, &event);
}

/* par0: the call's number when it starts, its result when it ends (as for library calls); par1...: the parameters. The
 * former event of the end has the result once more, as par1. */
static void raise_syscall(const struct sighting *seen, bool ended)
{
    const struct tracer_event *raw = seen->raw;
    struct value outputs[8], *first = outputs + 1;
    size_t count = 1;
    *first = ended ? value_int(raw->result) : value_uint(raw->number);
    for (uint32_t i = 0; i < raw->arg_count && i < 6; i++)
        first[count++] = value_uint(raw->args[i]);
    raise(seen, ended ? "thread_has_ended_sys_call" : "thread_has_started_sys_call", first, count, 0);
    outputs[0] = *first;
    if (ended)
        raise(seen, "scry_thread_has_ended_sys_call", outputs, count + 1, 0);
}

static void raise_new_thread(const struct sighting *seen, struct process *process, pid_t tid)
{
    struct thread *thread;
    HASH_FIND(hh, process->threads, &tid, sizeof tid, thread);
    if (thread && thread->exit_reported)
        thread_ended(thread); /* its number was given to another one */
    thread = process_thread(process, tid);
    if (!thread)
        return;
    struct err err = {0};
    if (process->trace.seized && steps_new_thread(thread, &err) < 0)
        log_info("%s", err.text);
    if (seen->thread)
        memcpy(thread->parent, seen->thread->object.token, sizeof thread->parent);
    struct value token = value_token(span_str(thread->object.token));
    raise(seen, "thread_creates_thread", &token, 1, 0);
}

/* First the process, then its initial thread (8.1.3, service 4). */
static void raise_new_process(const struct sighting *seen)
{
    struct err err;
    struct process *child = process_get(seen->monitor, seen->raw->child, &err);
    if (!child)
        return; /* killed before we could look */
    struct value token = value_token(span_str(child->object.token));
    raise(seen, "thread_creates_proc", &token, 1, 0);
    raise_new_thread(seen, child, child->pid);
}

void traced_started_for(struct process *creator, struct thread *thread, pid_t child)
{
    const struct tracer_event raw = {.child = child, .time_ns = clock_now_ns()};
    const struct sighting seen = {creator->object.monitor, creator, thread, &raw};
    raise_new_process(&seen);
}

static void executed(const struct sighting *seen)
{
    struct process *process = seen->process;
    char path[PATH_MAX];
    process->trace.break_count = 0;
    while (process->calls)
        tracing_forget_call(process, process->calls->place.slot);
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (thread->tid != process->pid)
            thread_ended(thread);
    }
    csr_process_executed(process);
    /* the thread that goes on may be another one than that we know by this number */
    runstate_restore(process);
    tracing_unsettle(process);
    if (seen->raw->hold && proc_denied_privilege(process->pid, path, sizeof path)) {
        struct value file = value_string(span_str(path));
        raise(seen, "scry_thread_denied_privilege", &file, 1, 0);
    }
}

static void raise_call_ended(const struct sighting *seen)
{
    double floating;
    memcpy(&floating, &seen->raw->args[0], sizeof floating);
    const struct value outputs[] = {value_uint(seen->raw->addr), value_int(seen->raw->result),
                                    value_floating(floating)};
    raise(seen, "scry_thread_call_returned", outputs, sizeof outputs / sizeof *outputs, 0);
}

static void raise_signal(const struct sighting *seen)
{
    const struct tracer_event *raw = seen->raw;
    const struct value fault[] = {value_uint(raw->args[0]), value_uint(raw->args[1])};
    const struct value outputs[] = {value_int(raw->signo), value_list(fault, raw->arg_count)};
    raise(seen, "thread_received_signal", outputs, sizeof outputs / sizeof *outputs, 0);
}

/* When the last thread goes, so does the process, and its memory can still be read now. */
static void thread_exits(const struct sighting *seen)
{
    struct thread *thread = seen->thread;
    if (!thread || thread->exit_reported)
        return;
    raise(seen, "thread_has_terminated", NULL, 0, 0);
    thread->exit_reported = true;
    process_refresh(seen->process, 0);
    for (struct thread *other = seen->process->threads; other; other = other->hh.next)
        if (!other->exit_reported)
            return;
    if (!seen->process->exit_reported) {
        seen->process->exit_reported = true;
        struct sighting last = *seen;
        last.thread = NULL;
        raise(&last, "proc_has_terminated", NULL, 0, 0);
    }
}

static void translate(const struct sighting *seen)
{
    const struct tracer_event *raw = seen->raw;
    switch (raw->kind) {
    case TRACER_LET_GO:     /* of no process */
    case TRACER_INTERRUPTS: /* no events */
    case TRACER_RESUMES:
        break;
    case TRACER_BREAK:
        raise(seen, "thread_reached_addr", NULL, 0, 0);
        break;
    case TRACER_STEP:
        if (raw->number & TRACER_STEP_INTO)
            raise(seen, "thread_executed_insn", NULL, 0, 0);
        if (raw->number & TRACER_STEP_OVER)
            raise(seen, "thread_executed_insn_call", NULL, 0, 0);
        break;
    case TRACER_SYSCALL_ENTER:
    case TRACER_SYSCALL_EXIT:
        raise_syscall(seen, raw->kind == TRACER_SYSCALL_EXIT);
        break;
    case TRACER_SIGNAL:
        raise_signal(seen);
        break;
    case TRACER_NEW_PROCESS:
        raise_new_process(seen);
        break;
    case TRACER_NEW_THREAD:
        raise_new_thread(seen, seen->process, raw->child);
        break;
    case TRACER_EXEC:
        executed(seen);
        break;
    case TRACER_THREAD_EXIT:
        thread_exits(seen);
        break;
    case TRACER_CALL_ENDED:
        tracing_forget_call(seen->process, raw->args[1]);
        raise_call_ended(seen);
        break;
    case TRACER_LOADED:
        loading_ended(seen->process, 0);
        break;
    case TRACER_LOADABLE:
        loading_try(seen->process);
        break;
    case TRACER_GONE:
        loading_ended(seen->process, -ESRCH);
        free(seen->process->trace.breaks);
        seen->process->trace = (struct trace_state){.holds = seen->process->trace.holds};
        for (struct thread *thread = seen->process->threads; thread; thread = thread->hh.next) {
            thread->stopped = false;
            thread->step = TRACER_STEP_NONE;
        }
        break;
    }
}

/* A thread waits for what it was seen to do: as long as its lists run, or longer (event.h). */
struct traced_hold {
    struct hold hold;
    struct monitor *monitor;
    char process[TOKEN_TEXT_SIZE];
    uint64_t raw;
    unsigned tracer_deaths; /* a tracer after this one may use the same number */
};

static void release(struct hold *hold)
{
    struct traced_hold *traced = (struct traced_hold *)hold;
    struct monitor *monitor = traced->monitor;
    struct scry_object *process = object_find(monitor, span_str(traced->process));
    monitor_enter(monitor);
    if (traced->tracer_deaths == monitor->tracer_deaths) /* else it went on when its tracer died */
        tracing_release_hold(monitor, (struct process *)process, traced->raw);
    monitor_leave(monitor);
    free(traced);
}

static struct hold *hold_new(const struct sighting *seen)
{
    struct traced_hold *traced = seen->raw->hold ? calloc(1, sizeof *traced) : NULL;
    if (!traced)
        return NULL;
    traced->hold.release = release;
    traced->monitor = seen->monitor;
    traced->raw = seen->raw->hold;
    traced->tracer_deaths = seen->monitor->tracer_deaths;
    memcpy(traced->process, seen->process->object.token, sizeof traced->process);
    return &traced->hold;
}

void traced_event(void *ctx, const struct tracer_event *raw)
{
    struct monitor *monitor = ctx;
    if (raw->kind == TRACER_LET_GO) {
        log_warning(
            "this monitor was stopped: %llu threads that waited for it were let go on, %llu events are not known",
            (unsigned long long)raw->args[0], (unsigned long long)raw->args[1]);
        return;
    }
    if (raw->kind == TRACER_INTERRUPTS || raw->kind == TRACER_RESUMES) {
        struct process *process = process_find(monitor, raw->pid);
        if (process)
            switching_note(process, raw);
        return;
    }
    struct sighting seen = {.monitor = monitor, .process = process_find(monitor, raw->pid), .raw = raw};
    if (!seen.process) {
        tracing_release_hold(monitor, NULL, raw->hold);
        return;
    }
    monitor_enter(monitor);
    if (raw->hold)
        seen.process->trace.holds++;
    struct hold *hold = hold_new(&seen);
    hold_begin(monitor, hold);
    if (raw->kind != TRACER_GONE)
        seen.thread = process_thread(seen.process, raw->tid);
    pause_at("traced.held");
    translate(&seen);
    /* the object may not change its state until the lists of raised user events are done, too */
    event_run_queue(monitor);
    pause_at("traced.done");
    if (hold)
        hold_end(monitor, hold);
    else
        tracing_release_hold(monitor, seen.process, raw->hold);
    monitor_leave(monitor);
}
