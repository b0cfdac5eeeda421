/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <utlist.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "probe/switches.h"
#include "probe/proc.h"
#include "shm/waits.h"

struct watched_thread {
    struct switch_watch *watch;
    pid_t tid;
    struct switches *switches;
    struct loop_source *source;
    struct switch_state state;
    struct watched_thread *next;
    bool waits; /* for its turn */
    struct watched_thread *next_waiting, *prev;
};

struct switch_watch {
    struct process *process;
    unsigned users; /* armed conditional requests */
    bool reading;   /* records are being told: what ends the watch meanwhile leaves it to the reader */
    struct watched_thread *threads;
};

static void switch_raise(struct process *process, struct thread *thread, const char *service, uint64_t time_ns)
{
    struct monitor *monitor = process->object.monitor;
    struct event event = {.service = registry_find(monitor->registry, span_str(service)),
                          .process = process,
                          .thread = thread,
                          .object = thread ? &thread->object : &process->object,
                          .time_ns = time_ns};
    if (event.service && event.service->enabled)
        event_raise(monitor, &event);
}

static void switch_happened(void *ctx, enum switch_event what, uint64_t time_ns)
{
    static const struct {
        const char *thread, *process;
    } services[] = {
        [SWITCH_SCHEDULED] = {"thread_has_been_scheduled", "proc_has_been_scheduled"},
        [SWITCH_DESCHEDULED] = {"thread_has_been_descheduled", "proc_has_been_descheduled"},
        [SWITCH_BLOCKED] = {"thread_has_blocked", NULL},
        [SWITCH_UNBLOCKED] = {"thread_has_been_unblocked", NULL},
    };
    struct watched_thread *watched = ctx;
    struct process *process = watched->watch->process;
    if (process->object.gone || process->switching != watched->watch)
        return; /* an action list has ended the watch */
    struct thread *thread = process_thread(process, watched->tid);
    if (!thread)
        return;
    switch_raise(process, thread, services[what].thread, time_ns);
    if (services[what].process)
        switch_raise(process, NULL, services[what].process, time_ns);
}

static void watched_free(struct watched_thread *watched)
{
    struct monitor *monitor = watched->watch->process->object.monitor;
    if (watched->waits)
        DL_DELETE2(monitor->switched, watched, prev, next_waiting);
    loop_remove(watched->source);
    switches_close(watched->switches);
    switch_state_free(&watched->state);
    free(watched);
}

static void watch_free(struct switch_watch *watch)
{
    while (watch->threads) {
        struct watched_thread *next = watch->threads->next;
        watched_free(watch->threads);
        watch->threads = next;
    }
    free(watch);
}

static bool is_in_stop(const struct watched_thread *watched)
{
    struct proc_stat stat;
    const struct process *process = watched->watch->process;
    return process->trace.seized && proc_stat_read(process->pid, watched->tid, &stat) == 0 && stat.state == 't';
}

/* Until the end of the turn. True if there is more. */
static bool read_records(struct watched_thread *watched, uint64_t end_ns, uint64_t *inout_lost)
{
    struct monitor *monitor = watched->watch->process->object.monitor;
    struct switch_record record;
    bool more = true, stopped = false;
    switches_begin(watched->switches);
    if (monitor->tracer) /* what led to these records is known now */
        tracer_receive(monitor->tracer);
    while (clock_now_ns() < end_ns && (more = switches_next(watched->switches, &record, inout_lost)))
        switch_take(&watched->state, &record, switch_happened, watched);
    if (!more && switch_asks_stopped(&watched->state)) {
        stopped = is_in_stop(watched);
        if (monitor->tracer && !stopped)
            tracer_receive(monitor->tracer);
    }
    more |= switches_end(watched->switches); /* newer ones tell where the thread was */
    if (!more)
        switch_settle(&watched->state, stopped, clock_now_ns(), switch_happened, watched);
    return more;
}

static void queue(struct watched_thread *watched);

/* The rings one after the other, each as far as the time goes: what lists of requests do makes new records, and tools
 * have their turn between. */
static void read_turn(void *ctx)
{
    struct monitor *monitor = ctx;
    uint64_t end_ns = clock_now_ns() + SWITCHING_TURN_NS;
    monitor->switch_turn = NULL;
    monitor_enter(monitor);
    while (monitor->switched && clock_now_ns() < end_ns) {
        struct watched_thread *watched = monitor->switched;
        struct switch_watch *watch = watched->watch;
        struct process *process = watch->process;
        uint64_t lost = 0;
        DL_DELETE2(monitor->switched, watched, prev, next_waiting);
        watched->waits = false;
        watch->reading = true;
        if (read_records(watched, end_ns, &lost))
            queue(watched);
        watch->reading = false;
        if (lost)
            log_info("process %d: %llu context switches were not told", process->pid, (unsigned long long)lost);
        if (process->switching != watch) /* a list ended it */
            watch_free(watch);
    }
    if (monitor->switched && !monitor->switch_turn)
        monitor->switch_turn = loop_add_deferred(monitor->loop, read_turn, monitor);
    monitor_leave(monitor);
}

static void queue(struct watched_thread *watched)
{
    struct monitor *monitor = watched->watch->process->object.monitor;
    if (!watched->waits)
        DL_APPEND2(monitor->switched, watched, prev, next_waiting);
    watched->waits = true;
    if (!monitor->switch_turn)
        monitor->switch_turn = loop_add_deferred(monitor->loop, read_turn, monitor);
}

static void rings_readable(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    queue(ctx);
}

void switching_catch_up(struct monitor *monitor)
{
    for (const struct process *process = monitor->processes; process; process = process->hh.next)
        for (struct watched_thread *at = process->switching ? process->switching->threads : NULL; at; at = at->next)
            queue(at);
}

void switching_note(struct process *process, const struct tracer_event *raw)
{
    struct watched_thread *at = process->switching ? process->switching->threads : NULL;
    while (at && at->tid != raw->tid)
        at = at->next;
    if (at && raw->kind == TRACER_INTERRUPTS)
        switch_interrupts(&at->state, raw->time_ns);
    else if (at)
        switch_resumes(&at->state, raw->time_ns);
}

/* Who sleeps now will be unblocked; who is in a stop of ours was not told to have left. */
static enum switch_place place_of(pid_t pid, pid_t tid)
{
    struct proc_stat stat;
    if (proc_stat_read(pid, tid, &stat) < 0)
        return SWITCH_UNKNOWN;
    return stat.state == 'S' || stat.state == 'D' ? SWITCH_SLEEPS : stat.state == 't' ? SWITCH_RUNS : SWITCH_UNKNOWN;
}

static int watch_thread(struct switch_watch *watch, pid_t tid, struct err *err)
{
    for (struct watched_thread *t = watch->threads; t; t = t->next)
        if (t->tid == tid)
            return 0;
    struct watched_thread *watched = calloc(1, sizeof *watched);
    if (!watched)
        return err_set(err, -ENOMEM, "out of memory");
    watched->watch = watch;
    watched->tid = tid;
    int code = switches_open(&watched->switches, tid, err);
    if (code < 0) {
        free(watched);
        return code;
    }
    watched->state.reported = place_of(watch->process->pid, tid);
    watched->source = loop_add_fd(watch->process->object.monitor->loop, switches_fd(watched->switches), EPOLLIN,
                                  rings_readable, watched);
    if (!watched->source) {
        watched_free(watched);
        return err_set(err, -ENOMEM, "out of memory");
    }
    watched->next = watch->threads;
    watch->threads = watched;
    return 0;
}

/* Threads that ended: their descriptors are given back. The loop reads at once, so their records have been told. */
static void forget_ended(struct process *process)
{
    for (struct watched_thread **at = &process->switching->threads; *at;) {
        struct watched_thread *watched = *at;
        struct thread *thread;
        HASH_FIND(hh, process->threads, &watched->tid, sizeof watched->tid, thread);
        if (thread) {
            at = &watched->next;
            continue;
        }
        *at = watched->next;
        watched_free(watched);
    }
}

void switching_refresh(struct process *process)
{
    if (!process->switching)
        return;
    if (process_refresh(process, 0) < 0)
        return; /* it ends now */
    forget_ended(process);
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        struct err err = {0};
        if (watch_thread(process->switching, thread->tid, &err) < 0)
            log_info("%s", err.text);
    }
}

int switching_arm(struct csr *csr, struct process *process, struct err *err)
{
    (void)csr;
    if (!process->switching) {
        process->switching = calloc(1, sizeof *process->switching);
        if (!process->switching)
            return err_set(err, -ENOMEM, "out of memory");
        process->switching->process = process;
    }
    process_refresh(process, 0);
    int code = 0;
    for (struct thread *thread = process->threads; thread && code == 0; thread = thread->hh.next) {
        code = watch_thread(process->switching, thread->tid, err);
        if (code == -ESRCH)
            code = 0; /* it ended meanwhile */
    }
    if (code < 0 && process->switching->users == 0)
        switching_end(process);
    if (code == 0) {
        process->switching->users++;
        err_set(err, 0, "asynchronous: the event is told after it happened, the thread is not held");
    }
    return code;
}

void switching_disarm(struct csr *csr, struct process *process)
{
    (void)csr;
    if (process->switching && process->switching->users && --process->switching->users == 0)
        switching_end(process);
}

void switching_wish(struct trace_need *need)
{
    need->watch.switches = true;
}

void switching_end(struct process *process)
{
    struct switch_watch *watch = process->switching;
    process->switching = NULL;
    if (watch && !watch->reading)
        watch_free(watch);
}
