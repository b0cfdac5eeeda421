/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tracing/tracing.h"

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "probe/cells.h"
#include "probe/proc.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

static void tracing_release_hold(struct monitor *monitor, struct process *process, uint64_t hold);
static void tracing_forget_call(struct process *process, uint64_t slot);

struct sighting {
    struct monitor *monitor;
    struct process *process;
    struct thread *thread; /* NULL if out of memory */
    const struct tracer_event *raw;
};

static void trace_raise(const struct sighting *seen, const char *service, const struct value *outputs, size_t count,
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
    trace_raise(seen, ended ? "thread_has_ended_sys_call" : "thread_has_started_sys_call", first, count, 0);
    outputs[0] = *first;
    if (ended)
        trace_raise(seen, "scry_thread_has_ended_sys_call", outputs, count + 1, 0);
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
    trace_raise(seen, "thread_creates_thread", &token, 1, 0);
}

/* First the process, then its initial thread (8.1.3, service 4). */
static void raise_new_process(const struct sighting *seen)
{
    struct err err;
    struct process *child = process_get(seen->monitor, seen->raw->child, &err);
    if (!child)
        return; /* killed before we could look */
    struct value token = value_token(span_str(child->object.token));
    trace_raise(seen, "thread_creates_proc", &token, 1, 0);
    raise_new_thread(seen, child, child->pid);
}

void traced_started_for(struct process *creator, struct thread *thread, pid_t child)
{
    const struct tracer_event raw = {.child = child, .time_ns = clock_now_ns()};
    const struct sighting seen = {creator->object.monitor, creator, thread, &raw};
    raise_new_process(&seen);
}

static void process_executed(const struct sighting *seen)
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
        trace_raise(seen, "scry_thread_denied_privilege", &file, 1, 0);
    }
}

static void raise_call_ended(const struct sighting *seen)
{
    double floating;
    memcpy(&floating, &seen->raw->args[0], sizeof floating);
    const struct value outputs[] = {value_uint(seen->raw->addr), value_int(seen->raw->result),
                                    value_floating(floating)};
    trace_raise(seen, "scry_thread_call_returned", outputs, sizeof outputs / sizeof *outputs, 0);
}

static void raise_signal(const struct sighting *seen)
{
    const struct tracer_event *raw = seen->raw;
    const struct value fault[] = {value_uint(raw->args[0]), value_uint(raw->args[1])};
    const struct value outputs[] = {value_int(raw->signo), value_list(fault, raw->arg_count)};
    trace_raise(seen, "thread_received_signal", outputs, sizeof outputs / sizeof *outputs, 0);
}

/* When the last thread goes, so does the process, and its memory can still be read now. */
static void thread_exits(const struct sighting *seen)
{
    struct thread *thread = seen->thread;
    if (!thread || thread->exit_reported)
        return;
    trace_raise(seen, "thread_has_terminated", NULL, 0, 0);
    thread->exit_reported = true;
    process_refresh(seen->process, 0);
    for (struct thread *other = seen->process->threads; other; other = other->hh.next)
        if (!other->exit_reported)
            return;
    if (!seen->process->exit_reported) {
        seen->process->exit_reported = true;
        struct sighting last = *seen;
        last.thread = NULL;
        trace_raise(&last, "proc_has_terminated", NULL, 0, 0);
    }
}

static void loading_try(struct process *process);

static void event_translate(const struct sighting *seen)
{
    const struct tracer_event *raw = seen->raw;
    switch (raw->kind) {
    case TRACER_LET_GO:     /* of no process */
    case TRACER_INTERRUPTS: /* no events */
    case TRACER_RESUMES:
        break;
    case TRACER_BREAK:
        trace_raise(seen, "thread_reached_addr", NULL, 0, 0);
        break;
    case TRACER_STEP:
        if (raw->number & TRACER_STEP_INTO)
            trace_raise(seen, "thread_executed_insn", NULL, 0, 0);
        if (raw->number & TRACER_STEP_OVER)
            trace_raise(seen, "thread_executed_insn_call", NULL, 0, 0);
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
        process_executed(seen);
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

static void thread_release(struct hold *hold)
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
    traced->hold.release = thread_release;
    traced->monitor = seen->monitor;
    traced->raw = seen->raw->hold;
    traced->tracer_deaths = seen->monitor->tracer_deaths;
    memcpy(traced->process, seen->process->object.token, sizeof traced->process);
    return &traced->hold;
}

/* A tracer_event_fn; ctx is the monitor. Raises the events, runs their lists, releases the hold. */
static void traced_event(void *ctx, const struct tracer_event *raw)
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
    event_translate(&seen);
    /* the object may not change its state until the lists of raised user events are done, too */
    event_run_queue(monitor);
    pause_at("traced.done");
    if (hold)
        hold_end(monitor, hold);
    else
        tracing_release_hold(monitor, seen.process, raw->hold);
    monitor_leave(monitor);
}

enum { NOTED_CALLS = 64 };

/* ---- the tracer process ---- */

/* Something kills each of them, or they die of what they are asked to do. */
static void note_death(struct monitor *monitor)
{
    enum { COUNT = sizeof monitor->tracer_died_ns / sizeof *monitor->tracer_died_ns };
    uint64_t now_ns = clock_now_ns(), *first_ns = &monitor->tracer_died_ns[(monitor->tracer_deaths + 1) % COUNT];
    monitor->tracer_died_ns[monitor->tracer_deaths++ % COUNT] = now_ns;
    monitor->tracing_off |= monitor->tracer_deaths >= COUNT && now_ns - *first_ns < TRACER_DEATHS_NS;
}

/* Its guard has repaired, and the kernel detached, everything; start over where that is possible. */
static void tracer_lost(struct monitor *monitor)
{
    note_death(monitor);
    log_debug("tracer state=died pid=%d deaths=%u off=%d", tracer_pid(monitor->tracer), monitor->tracer_deaths,
              monitor->tracing_off);
    log_error("the tracer (pid %d) died; breakpoints and stops are %s", tracer_pid(monitor->tracer),
              monitor->tracing_off ? "off until this monitor is restarted" : "set up again if that is possible");
    loop_remove(monitor->tracer_source);
    monitor->tracer_source = NULL;
    tracer_stop_all(monitor->tracer);
    monitor->tracer = NULL;
    for (struct process *process = monitor->processes; process; process = process->hh.next) {
        loading_ended(process, -EPIPE);
        free(process->trace.breaks);
        process->trace = (struct trace_state){0};
        for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
            thread->stopped = false;
            thread->step = TRACER_STEP_NONE;
        }
    }
    /* with tracing off this fails, and the tools are told */
    csr_rearm(monitor);
    for (struct process *process = monitor->processes; process; process = process->hh.next)
        runstate_restore(process);
}

static void tracer_readable(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    struct monitor *monitor = ctx;
    monitor_enter(monitor);
    if (monitor->tracer && tracer_dispatch(monitor->tracer) < 0)
        tracer_lost(monitor);
    monitor_leave(monitor);
}

static void tracer_has_pending(void *ctx)
{
    struct monitor *monitor = ctx;
    monitor->tracer_deferred = NULL;
    tracer_readable(ctx, -1, 0);
}

/* The soft limits that the monitor raised for itself, and where it noted what they were (daemon/main.c). */
static const struct {
    __rlimit_resource_t resource;
    const char *variable;
} raised_limits[] = {{RLIMIT_NOFILE, "SCRY_NOFILE"}, {RLIMIT_FSIZE, "SCRY_FSIZE"}};

enum { RAISED_LIMITS = sizeof raised_limits / sizeof *raised_limits };

/* Programs that the tracer starts shall have the limits that the monitor was started with. */
static void limits_lower(struct rlimit ret_saved[RAISED_LIMITS])
{
    for (size_t i = 0; i < RAISED_LIMITS; i++) {
        const char *text = getenv(raised_limits[i].variable);
        getrlimit(raised_limits[i].resource, &ret_saved[i]);
        struct rlimit original = {text ? strtoull(text, NULL, 10) : ret_saved[i].rlim_cur, ret_saved[i].rlim_max};
        setrlimit(raised_limits[i].resource, &original);
    }
}

static void limits_restore(const struct rlimit saved[RAISED_LIMITS])
{
    for (size_t i = 0; i < RAISED_LIMITS; i++)
        setrlimit(raised_limits[i].resource, &saved[i]);
}

bool tracing_lost(const struct monitor *monitor)
{
    return monitor->tracer && tracer_died(monitor->tracer);
}

int tracing_need_tracer(struct monitor *monitor, struct err *err)
{
    if (monitor->tracer)
        return 0;
    if (monitor->tracing_off)
        return err_set(err, -EPIPE,
                       "the tracer died three times within a minute: breakpoints, stops and backtraces are "
                       "off until the monitor is restarted");
    char path[PATH_MAX];
    int code = dirs_libexec("scry-tracer", path, sizeof path, err);
    if (code == 0) {
        struct rlimit saved[RAISED_LIMITS];
        limits_lower(saved);
        code = tracer_start(&monitor->tracer, path, cells_fd(monitor->cells), traced_event, monitor, err);
        limits_restore(saved);
    }
    if (code < 0)
        return code;
    monitor->tracer_source = loop_add_fd(monitor->loop, tracer_fd(monitor->tracer), EPOLLIN, tracer_readable, monitor);
    if (!monitor->tracer_source) {
        tracer_stop_all(monitor->tracer);
        monitor->tracer = NULL;
        return err_set(err, -ENOMEM, "out of memory");
    }
    log_debug("tracer state=started pid=%d deaths=%u", tracer_pid(monitor->tracer), monitor->tracer_deaths);
    return 0;
}

static void tracing_stop(struct monitor *monitor)
{
    loop_remove(monitor->tracer_source);
    loop_remove(monitor->tracer_deferred);
    loop_remove(monitor->tracer_idle);
    monitor->tracer_source = monitor->tracer_deferred = monitor->tracer_idle = NULL;
    if (monitor->tracer) {
        log_debug("tracer state=ended pid=%d", tracer_pid(monitor->tracer));
        tracer_stop_all(monitor->tracer);
    }
    monitor->tracer = NULL;
}

int tracing_seize(struct process *process, struct err *err)
{
    struct monitor *monitor = process->object.monitor;
    if (process->trace.seized)
        return 0;
    int code = tracing_need_tracer(monitor, err);
    pause_at("tracing.seize");
    if (code == 0)
        code = tracer_seize(monitor->tracer, process->pid, err);
    if (code < 0)
        return code;
    log_debug("tracing process=%s pid=%d state=seized", process->object.token, process->pid);
    process->trace.seized = true;
    if (process->switching) { /* before the first stop */
        struct tracer_watch watch = {.switches = true};
        if (tracer_watch(monitor->tracer, process->pid, &watch) == 0)
            process->trace.watch = watch;
    }
    tracing_unsettle(process);
    return 0;
}

static void give_back(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    log_debug("tracing process=%s pid=%d state=released", process->object.token, process->pid);
    if (monitor->tracer)
        tracer_release(monitor->tracer, process->pid);
    free(process->trace.breaks);
    process->trace = (struct trace_state){0};
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next)
        thread->step = TRACER_STEP_NONE;
}

/* ---- what a process needs ---- */

/* A program runs for every thread that comes there: only when all are meant. */
static bool all_threads_meant(const struct csr *csr, const struct process *process)
{
    if (csr_names_threads(csr))
        return false;
    for (const struct thread *thread = process->threads; thread; thread = thread->hh.next)
        if (!thread_visible(thread, csr->object.owner))
            return false;
    return true;
}

void trace_need_break(struct trace_need *need, const struct process *process, uint64_t addr, struct csr *csr)
{
    if (!GROW(need->breaks, need->break_count, need->break_cap)) {
        need->failed = true;
        return;
    }
    need->breaks[need->break_count++] =
        (struct trace_break){.addr = addr, .csr_serial = csr->object.serial, .csr = csr};
    if (csr->program && all_threads_meant(csr, process))
        need->breaks[need->break_count - 1].program_serial = csr->program_serial;
}

/* What requests can use if the process is traced anyway. */
static void add_wishes(const struct process *process, struct trace_need *need)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        for (struct scry_object *object = a->tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            const struct event_ops *ops =
                object_is(object, "c") && csr->enabled ? event_ops_of(csr->event_service) : NULL;
            if (ops && ops->wish && csr_target(csr, process))
                ops->wish(need);
        }
}

static void compute_need(struct process *process, struct trace_need *need)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        for (struct scry_object *object = a->tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            const struct event_ops *ops =
                object_is(object, "c") && csr->enabled ? event_ops_of(csr->event_service) : NULL;
            struct csr_target *target = ops && ops->need ? csr_target(csr, process) : NULL;
            if (!target || target->status >= OMIS_FIRST_ERROR)
                continue;
            need->any = true;
            ops->need(csr, process, need);
        }
    for (struct thread *thread = process->threads; thread && !need->any; thread = thread->hh.next)
        need->any = thread->stopped || runstate_must_wait(thread);
    need->any |= process->trace.holds > 0 || process->loading;
    if (need->any)
        add_wishes(process, need);
}

/* Breakpoints are kept in this order, which is that of a tool's list of objects: newest request first. */
static int break_order(const void *first, const void *second)
{
    const struct trace_break *a = first, *b = second;
    if (a->csr_serial != b->csr_serial)
        return a->csr_serial > b->csr_serial ? -1 : 1;
    return a->addr == b->addr ? 0 : a->addr < b->addr ? -1 : 1;
}

static void sort_breaks(struct trace_break *breaks, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (break_order(&breaks[i - 1], &breaks[i]) > 0) { /* of several tools, seldom */
            qsort(breaks, count, sizeof *breaks, break_order);
            return;
        }
}

/* Sets a breakpoint, or changes the program at one that is set (`was`). False if it is not there, or not any more. */
static bool set_break(struct process *process, struct trace_break *wanted, const struct trace_break *was,
                      const struct csr *csr, int *inout_code, struct err *err)
{
    struct tracer *tracer = process->object.monitor->tracer;
    struct monitor *monitor = process->object.monitor;
    struct err why = {0};
    int code =
        monitor->in_jump && monitor->in_jump(monitor, process->pid, wanted->addr)
            ? err_set(
                  &why, -EBUSY,
                  "no breakpoint can be at %#llx in process %d: a jump to scry's hooks is there, for the function is "
                  "traced",
                  (unsigned long long)wanted->addr, process->pid)
            : tracer_break_set(tracer, process->pid, wanted->addr, wanted->csr_serial,
                               wanted->program_serial ? wanted->csr->program : NULL, &wanted->original, &why);
    if (code == 0)
        return true;
    if (was) /* the former program may not run on: its cells may be another counter's now */
        tracer_break_clear(tracer, process->pid, was->addr, was->csr_serial);
    if (*inout_code == 0 && (!csr || wanted->csr == csr))
        *inout_code = why.text[0] ? err_set(err, code, "%s", why.text)
                                  : err_errno(err, code, "cannot set a breakpoint at %#llx in process %d",
                                              (unsigned long long)wanted->addr, process->pid);
    return false;
}

/* From the breakpoints that are set to those that are needed. The error returned is the first one that concerns `csr`,
 * or any when it is NULL. */
static int update_breaks(struct process *process, struct trace_need *need, const struct csr *csr, struct err *err)
{
    struct trace_state *trace = &process->trace;
    struct trace_break *all = malloc((trace->break_count + need->break_count + 1) * sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory");
    sort_breaks(need->breaks, need->break_count);
    size_t count = 0, now = 0, next = 0;
    int result = 0;
    while (now < trace->break_count || next < need->break_count) {
        struct trace_break *was = now < trace->break_count ? &trace->breaks[now] : NULL;
        struct trace_break *wanted = next < need->break_count ? &need->breaks[next] : NULL;
        int order = !was ? 1 : !wanted ? -1 : break_order(was, wanted);
        now += order <= 0;
        next += order >= 0;
        if (order < 0)
            tracer_break_clear(process->object.monitor->tracer, process->pid, was->addr, was->csr_serial);
        else if (order == 0 && was->program_serial == wanted->program_serial)
            all[count++] = *was;
        else if (set_break(process, wanted, order == 0 ? was : NULL, csr, &result, err))
            all[count++] = *wanted;
    }
    free(trace->breaks);
    trace->breaks = all;
    trace->break_count = count;
    trace->break_cap = count;
    return result;
}

/* Sets those of the need beside those that are set. */
static int add_breaks(struct process *process, struct trace_need *need, const struct csr *csr, struct err *err)
{
    struct trace_state *trace = &process->trace;
    if (!GROW_TO(trace->breaks, trace->break_count + need->break_count, trace->break_cap))
        return err_set(err, -ENOMEM, "out of memory");
    int result = 0;
    for (size_t i = 0; i < need->break_count; i++) {
        struct trace_break *wanted = &need->breaks[i], *at = trace->breaks, *end = at + trace->break_count;
        while (at < end && break_order(at, wanted) < 0)
            at++;
        bool there = at < end && break_order(at, wanted) == 0;
        if (there && at->program_serial == wanted->program_serial)
            continue;
        bool set = set_break(process, wanted, there ? at : NULL, csr, &result, err);
        if (set && there)
            *at = *wanted;
        else if (set) {
            memmove(at + 1, at, (size_t)(end - at) * sizeof *at);
            *at = *wanted;
            trace->break_count++;
        } else if (there) {
            memmove(at, at + 1, (size_t)(end - at - 1) * sizeof *at);
            trace->break_count--;
        }
    }
    return result;
}

static bool same_watch(const struct tracer_watch *a, const struct tracer_watch *b)
{
    return a->signals == b->signals && a->switches == b->switches && a->calls == b->calls &&
           a->new_process == b->new_process && a->new_thread == b->new_thread && a->thread_exit == b->thread_exit &&
           memcmp(a->syscall_enter, b->syscall_enter, sizeof a->syscall_enter) == 0 &&
           memcmp(a->syscall_exit, b->syscall_exit, sizeof a->syscall_exit) == 0;
}

/* Brings the tracer to what the process needs; with `csr`, which was enabled, to what that needs besides. The error
 * returned is the one that concerns `csr` (or seizing as such); NULL: any. */
static int tracing_update(struct process *process, struct csr *csr, struct err *err)
{
    struct trace_need need = {0};
    bool more = csr && process->trace.seized;
    if (more) { /* what is set up stays as it is: 10 000 requests are not enabled one by one in any other way */
        need.any = true;
        need.watch = process->trace.watch;
        event_ops_of(csr->event_service)->need(csr, process, &need);
    } else {
        compute_need(process, &need);
    }
    int code = need.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
    if (!need.any) {
        if (process->trace.seized)
            give_back(process);
    } else if (code == 0 && (code = tracing_seize(process, err)) == 0) {
        struct tracer *tracer = process->object.monitor->tracer;
        if (!same_watch(&need.watch, &process->trace.watch)) {
            code = tracer_watch(tracer, process->pid, &need.watch);
            if (code == 0)
                process->trace.watch = need.watch;
            else
                err_errno(err, code, "cannot watch process %d", process->pid);
        }
        int break_code = more ? add_breaks(process, &need, csr, err) : update_breaks(process, &need, csr, err);
        int step_code = steps_update(process, csr, err);
        code = code ? code : break_code ? break_code : step_code;
        if (more && code < 0)
            tracing_unsettle(process); /* what was set up of it is taken back */
    }
    free(need.breaks);
    return code;
}

void tracing_unsettle(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    if (process->is_unsettled || process->object.gone)
        return;
    process->is_unsettled = true;
    process->next_unsettled = monitor->unsettled;
    monitor->unsettled = process;
}

static bool any_seized(const struct monitor *monitor)
{
    for (const struct process *process = monitor->processes; process; process = process->hh.next)
        if (process->trace.seized)
            return true;
    return false;
}

/* Beside the monitor runs a tracer only while one is needed; the delay is for tools that ask again soon. */
static void tracer_unused(void *ctx)
{
    struct monitor *monitor = ctx;
    monitor->tracer_idle = NULL;
    if (monitor->tracer && !any_seized(monitor))
        tracing_stop(monitor);
}

static void watch_idle(struct monitor *monitor)
{
    loop_remove(monitor->tracer_idle);
    monitor->tracer_idle = NULL;
    if (!any_seized(monitor))
        monitor->tracer_idle = loop_add_timer(monitor->loop, TRACER_IDLE_NS, 0, tracer_unused, monitor);
}

static void tracing_settle(struct monitor *monitor)
{
    bool changed = monitor->unsettled != NULL;
    struct process *process = monitor->unsettled;
    monitor->unsettled = NULL;
    while (process) {
        struct process *next = process->next_unsettled;
        process->is_unsettled = false;
        struct err err = {0};
        if (process->trace.seized && tracing_update(process, NULL, &err) < 0)
            log_info("process %d: %s", process->pid, err.text);
        process = next;
    }
    if (monitor->tracer && changed)
        watch_idle(monitor);
    if (monitor->tracer && tracer_pending(monitor->tracer) && !monitor->tracer_deferred)
        monitor->tracer_deferred = loop_add_deferred(monitor->loop, tracer_has_pending, monitor);
}

void tracing_note_call(struct process *process, const struct tracer_call_place *place)
{
    tracing_forget_call(process, place->slot);
    struct noted_call *noted = calloc(1, sizeof *noted);
    if (!noted)
        return;
    noted->place = *place;
    noted->next = process->calls;
    process->calls = noted;
    /* of those that end while nobody traces the process nothing is heard */
    struct noted_call *last = noted;
    for (int i = 1; last && i < NOTED_CALLS; i++)
        last = last->next;
    if (last && last->next)
        tracing_forget_call(process, last->next->place.slot);
}

static void tracing_forget_call(struct process *process, uint64_t slot)
{
    for (struct noted_call **at = &process->calls; *at; at = &(*at)->next)
        if ((*at)->place.slot == slot) {
            struct noted_call *noted = *at;
            *at = noted->next;
            free(noted);
            return;
        }
}

/* Puts `len` bytes at `from` over what lies there in a piece of memory that was read. */
static void breaks_show(uint64_t from, const void *shown, size_t len, uint64_t addr, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < len; i++)
        if (from + i - addr < size)
            bytes[from + i - addr] = ((const uint8_t *)shown)[i];
}

static void hide_calls(const struct process *process, uint64_t addr, uint8_t *bytes, size_t len)
{
    for (const struct noted_call *noted = process->calls; noted; noted = noted->next) {
        const struct tracer_call_place *place = &noted->place;
        uint64_t there = 0;
        breaks_show(place->stub, place->original, sizeof place->original, addr, bytes, len);
        /* the stack is the program's: only if that is still the return address */
        if (place->slot + sizeof there - addr < len + sizeof there &&
            proc_memory_read(process->pid, place->slot, &there, sizeof there, NULL) == 0 && there == place->stub)
            breaks_show(place->slot, &place->pc, sizeof place->pc, addr, bytes, len);
    }
}

void tracing_hide_breaks(const struct process *process, uint64_t addr, void *bytes, size_t len)
{
    hide_calls(process, addr, bytes, len);
    for (size_t i = 0; i < process->trace.break_count; i++) {
        const struct trace_break *at = &process->trace.breaks[i];
        if (at->addr >= addr && at->addr - addr < len)
            ((uint8_t *)bytes)[at->addr - addr] = at->original;
    }
}

int tracing_write(struct process *process, uint64_t addr, const void *bytes, size_t len)
{
    int code = tracer_write_memory(process->object.monitor->tracer, process->pid, addr, bytes, len);
    for (size_t i = 0; code == 0 && i < process->trace.break_count; i++) {
        struct trace_break *at = &process->trace.breaks[i];
        if (at->addr >= addr && at->addr - addr < len)
            at->original = ((const uint8_t *)bytes)[at->addr - addr];
    }
    return code;
}

static void tracing_release_hold(struct monitor *monitor, struct process *process, uint64_t hold)
{
    if (!hold)
        return;
    if (process) {
        process->trace.holds--;
        tracing_unsettle(process);
    }
    if (monitor->tracer)
        tracer_release_hold(monitor->tracer, hold);
}

const struct monitor_tracing tracing_for_engine = {
    .update = tracing_update,
    .unsettle = tracing_unsettle,
    .settle = tracing_settle,
    .stop = tracing_stop,
    .lost = tracing_lost,
    .forget_call = tracing_forget_call,
    .inspect_done = runstate_inspect_done,
    .release = runstate_release,
    .loading_ended = loading_ended,
};

struct loading {
    struct monitor *monitor;
    struct process *process; /* NULL: it is over, and is told soon */
    struct tracer_load load;
    loading_done_fn *fn; /* NULL: nobody waits */
    void *ctx;
    uint64_t began_ns, pause_ns;
    struct loop_source *timer; /* until the next try, or until it is told */
    int code;
    int64_t result;
    struct err err;
};

static void loading_tell(void *ctx)
{
    struct loading *loading = ctx;
    loop_remove(loading->timer);
    if (loading->fn)
        loading->fn(loading->ctx, loading->code, loading->result, &loading->err);
    free(loading);
}

static void try_again(void *ctx);

/* The process is given back unless something else needs it. */
static void loading_over(struct loading *loading, int code)
{
    struct process *process = loading->process;
    loading->code = code;
    loading->process = NULL;
    process->loading = NULL;
    tracing_unsettle(process);
    if (loading->timer)
        loop_remove(loading->timer);
    loading->timer = loading->fn ? loop_add_timer(loading->monitor->loop, 1, 0, loading_tell, loading) : NULL;
    if (!loading->timer) /* or there is no memory to wait */
        loading_tell(loading);
}

/* Told that a thread has come, it is not to be told again before the next try at its time: a program that comes there
 * all the time is not to be stopped all the time. */
static void loading_attempt(struct loading *loading, bool tells)
{
    struct process *process = loading->process;
    struct monitor *monitor = loading->monitor;
    struct err *err = &loading->err;
    *err = (struct err){0};
    monitor_enter(monitor);
    if (loading->timer)
        loop_remove(loading->timer);
    loading->timer = NULL;
    uint64_t passed_ns = clock_now_ns() - loading->began_ns;
    loading->load.tells = tells && passed_ns < LOADING_NS;
    int code = tracing_seize(process, err);
    if (code == 0)
        code = tracer_load(monitor->tracer, process->pid, &loading->load, err);
    if (code == -EAGAIN && passed_ns < LOADING_NS) {
        loading->timer = loop_add_timer(monitor->loop, loading->pause_ns, 0, try_again, loading);
        if (loading->pause_ns < LOADING_AGAIN_MS * UINT64_C(1000000))
            loading->pause_ns *= 2;
        code = loading->timer ? 0 : err_set(err, -ENOMEM, "out of memory");
    }
    if (code == -EAGAIN) {
        const struct err last = *err;
        code =
            err_set(err, -EOPNOTSUPP, "no moment was found at which it is safe, the last time because %s", last.text);
    }
    if (code < 0)
        loading_over(loading, code);
    monitor_leave(monitor);
}

static void try_again(void *ctx)
{
    loading_attempt(ctx, true);
}

/* The tracer says that a thread has come to where it may be done. Nothing is being loaded: fine. */
static void loading_try(struct process *process)
{
    if (process->loading && process->loading->timer)
        loading_attempt(process->loading, false);
}

struct loading *loading_start(struct process *process, const struct tracer_load *load, loading_done_fn *fn, void *ctx,
                              struct err *err)
{
    if (process->loading) {
        err_set(err, -EBUSY, "a library is being loaded into process %d", process->pid);
        return NULL;
    }
    struct monitor *monitor = process->object.monitor;
    struct loading *loading = calloc(1, sizeof *loading);
    if (loading) {
        *loading = (struct loading){.monitor = monitor,
                                    .process = process,
                                    .load = *load,
                                    .fn = fn,
                                    .ctx = ctx,
                                    .began_ns = clock_now_ns(),
                                    .pause_ns = LOADING_FIRST_MS * UINT64_C(1000000)};
        loading->timer = loop_add_timer(monitor->loop, 1, 0, try_again, loading);
    }
    if (!loading || !loading->timer) {
        free(loading);
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    return process->loading = loading;
}

void loading_cancel(struct loading *loading)
{
    loading->fn = NULL;
    if (loading->process && loading->timer) /* it has not begun */
        loading_over(loading, -ECANCELED);
    else if (!loading->process)
        loading_tell(loading);
}

void loading_ended(struct process *process, int code)
{
    struct loading *loading = process->loading;
    if (!loading)
        return;
    if (code == 0)
        code = tracer_load_result(loading->monitor->tracer, process->pid, &loading->result, &loading->err);
    else
        err_set(&loading->err, code, "process %d ended or was detached, or the tracer ended, before it was done",
                process->pid);
    loading_over(loading, code);
}
