/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/switching.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "monitor/event.h"
#include "monitor/monitor.h"
#include "monitor/process.h"
#include "probe/proc.h"
#include "probe/switches.h"

struct watched_thread {
    struct switch_watch *watch;
    pid_t tid;
    struct switches *switches;
    struct loop_source *source;
    bool blocked; /* the last switch-out was not a preemption */
    struct watched_thread *next;
};

struct switch_watch {
    struct process *process;
    unsigned users;   /* armed conditional requests */
    bool reading;     /* records are being told: what ends the watch meanwhile leaves it to the reader */
    uint64_t read_ns; /* when the sampler read all of it last */
    struct watched_thread *threads;
};

static void raise(struct process *process, struct thread *thread, const char *service, uint64_t time_ns)
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

static void switched(void *ctx, const struct switch_record *record)
{
    struct watched_thread *watched = ctx;
    struct process *process = watched->watch->process;
    if (process->object.gone || process->switching != watched->watch)
        return; /* an action list has ended the watch */
    struct thread *thread = process_thread(process, watched->tid);
    if (!thread)
        return;
    if (record->in) {
        if (watched->blocked)
            raise(process, thread, "thread_has_been_unblocked", record->time_ns);
        raise(process, thread, "thread_has_been_scheduled", record->time_ns);
        raise(process, NULL, "proc_has_been_scheduled", record->time_ns);
        watched->blocked = false;
        return;
    }
    watched->blocked = !record->preempted;
    raise(process, thread, "thread_has_been_descheduled", record->time_ns);
    raise(process, NULL, "proc_has_been_descheduled", record->time_ns);
    if (watched->blocked)
        raise(process, thread, "thread_has_blocked", record->time_ns);
}

static void watched_free(struct watched_thread *watched)
{
    loop_remove(watched->source);
    switches_close(watched->switches);
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

/* Hands out the records of one thread, or of all (NULL). What they trigger may end the watch, which is freed then. */
static void read_records(struct switch_watch *watch, struct watched_thread *only)
{
    struct process *process = watch->process;
    struct monitor *monitor = process->object.monitor;
    uint64_t lost = 0;
    monitor_enter(monitor);
    watch->reading = true;
    for (struct watched_thread *watched = only ? only : watch->threads; watched;
         watched = only ? NULL : watched->next) {
        uint64_t more = 0;
        switches_read(watched->switches, switched, watched, &more);
        lost += more;
    }
    watch->reading = false;
    if (lost)
        log_info("process %d: %llu context switches were not told", process->pid, (unsigned long long)lost);
    if (process->switching != watch)
        watch_free(watch);
    monitor_leave(monitor);
}

static void readable(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    struct watched_thread *watched = ctx;
    read_records(watched->watch, watched);
}

static struct switch_watch *find_not_read(const struct monitor *monitor, uint64_t since_ns)
{
    for (const struct process *process = monitor->processes; process; process = process->hh.next)
        if (process->switching && process->switching->read_ns < since_ns)
            return process->switching;
    return NULL;
}

void switching_catch_up(struct monitor *monitor)
{
    uint64_t now = clock_now_ns();
    struct switch_watch *watch;
    while ((watch = find_not_read(monitor, now))) { /* from the start each time: anything may have changed */
        watch->read_ns = now;
        read_records(watch, NULL);
    }
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
    struct proc_stat stat; /* who sleeps now will be unblocked */
    watched->blocked = proc_stat_read(watch->process->pid, tid, &stat) == 0 && (stat.state == 'S' || stat.state == 'D');
    watched->source =
        loop_add_fd(watch->process->object.monitor->loop, switches_fd(watched->switches), EPOLLIN, readable, watched);
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

void switching_end(struct process *process)
{
    struct switch_watch *watch = process->switching;
    process->switching = NULL;
    if (watch && !watch->reading)
        watch_free(watch);
}
