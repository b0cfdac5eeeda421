/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/process.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "probe/proc.h"
#include "shm/waits.h"

enum { UNATTACHED_LIMIT = 4096 };

struct process *process_find(struct monitor *monitor, pid_t pid)
{
    struct process *process;
    HASH_FIND(hh, monitor->processes, &pid, sizeof pid, process);
    return process;
}

static void process_free(struct scry_object *object)
{
    struct process *process = (struct process *)object;
    free(process->trace.breaks);
    while (process->calls)
        object->monitor->tracing->forget_call(process, process->calls->place.slot);
    free(process);
}

static void free_claims(struct thread *thread)
{
    while (thread->claims) {
        struct thread_claim *next = thread->claims->next;
        free(thread->claims);
        thread->claims = next;
    }
}

void thread_ended(struct thread *thread)
{
    HASH_DELETE(hh, thread->process->threads, thread);
    free_claims(thread);
    object_end(&thread->object);
}

/* Ends the objects of a process without raising anything. */
static void process_end(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        thread_ended(thread);
    }
    switching_end(process);
    message_queue_end(process);
    loop_remove(process->exit_source);
    process->exit_source = NULL;
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
    HASH_DELETE(hh, monitor->processes, process);
    if (process->is_unsettled) {
        struct process **at = &monitor->unsettled;
        while (*at != process)
            at = &(*at)->next_unsettled;
        *at = process->next_unsettled;
        process->is_unsettled = false;
    }
    object_end(&process->object);
}

/* Processes that were only named are forgotten when there are very many of them and they have ended. */
static void sweep_unattached(struct monitor *monitor)
{
    if (HASH_COUNT(monitor->processes) < UNATTACHED_LIMIT || HASH_COUNT(monitor->processes) % UNATTACHED_LIMIT)
        return;
    struct process *process, *next;
    HASH_ITER(hh, monitor->processes, process, next)
    {
        struct proc_stat stat;
        if (!process->attachments &&
            (proc_stat_read(process->pid, 0, &stat) < 0 || stat.start_ticks != process->start_ticks))
            process_end(process);
    }
}

struct process *process_get(struct monitor *monitor, pid_t pid, struct err *err)
{
    struct proc_stat stat;
    int code = proc_stat_read(pid, 0, &stat);
    if (code < 0) {
        err_set(err, -ESRCH, "there is no process %d", pid);
        return NULL;
    }
    struct process *process = process_find(monitor, pid);
    if (process && process->start_ticks == stat.start_ticks)
        return process;
    if (process) /* the number was given to another process */
        process_terminated(process);
    sweep_unattached(monitor);
    process = calloc(1, sizeof *process);
    if (!process) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    process->pid = pid;
    process->pidfd = -1;
    process->start_ticks = stat.start_ticks;
    process->object.free = process_free;
    object_init(&process->object, monitor, object_class_get(monitor, "p"), NULL);
    HASH_ADD(hh, monitor->processes, pid, sizeof process->pid, process);
    return process;
}

static void process_exited(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    struct process *process = ctx;
    struct monitor *monitor = process->object.monitor;
    pid_t pid = process->pid;
    monitor_enter(monitor); /* so that its memory stays ours */
    /* what the tracer saw of its last moments comes first */
    if (monitor->tracer)
        tracer_dispatch(monitor->tracer);
    if (process_find(monitor, pid) == process)
        process_terminated(process);
    monitor_leave(monitor);
}

static int check_may_attach(struct session *session, const struct process *process, struct err *err)
{
    const struct monitor *monitor = process->object.monitor;
    if (process->pid == getpid())
        return err_set(err, -EPERM, "pid %d is the monitor itself", process->pid);
    if (monitor->tracer && process->pid == tracer_pid(monitor->tracer))
        return err_set(err, -EPERM, "pid %d is the monitor's tracer", process->pid);
    if (session->peer_pid && process->pid == session->peer_pid)
        return err_set(err, -EPERM, "pid %d is the requesting tool itself", process->pid);
    struct proc_status status;
    int code = proc_status_read(process->pid, 0, &status);
    if (code < 0)
        return err_set(err, -ESRCH, "there is no process %d", process->pid);
    if (geteuid() != 0 && status.uid != geteuid())
        return err_set(err, -EPERM, "process %d belongs to user %u, the monitor runs as user %u", process->pid,
                       status.uid, geteuid());
    struct proc_stat stat;
    if (proc_stat_read(process->pid, 0, &stat) == 0 && stat.state == 'Z' && stat.threads <= 1)
        return err_set(err, -ESRCH, "process %d has already terminated (zombie)", process->pid);
    return 0;
}

static void sample_all(void *ctx)
{
    struct monitor *monitor = ctx;
    bool any = false;
    for (struct process *process = monitor->processes; process; process = process->hh.next)
        if (process->attachments) {
            process_sample(process);
            switching_refresh(process);
            any = true;
        }
    switching_catch_up(monitor);
    if (!any) {
        loop_remove(monitor->sampler);
        monitor->sampler = NULL;
    }
}

/* 0: it has ended. */
static uint64_t start_of(pid_t pid, pid_t tid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, tid, &stat) == 0 ? stat.start_ticks : 0;
}

/* Threads keep their tokens while nobody watches the process; but their numbers may be others' meanwhile. */
static void forget_other_threads(struct process *process)
{
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (thread->start_ticks && thread->start_ticks != start_of(process->pid, thread->tid))
            thread_ended(thread);
    }
}

/* The first tool: from now on we are told when the process ends. */
static int process_watch(struct process *process, struct err *err)
{
    struct monitor *monitor = process->object.monitor;
    if (process->pidfd >= 0)
        return 0;
    int fd = proc_pidfd(process->pid);
    if (fd < 0)
        return err_errno(err, fd, "cannot attach to process %d", process->pid);
    struct proc_stat stat;
    if (proc_stat_read(process->pid, 0, &stat) < 0 || stat.start_ticks != process->start_ticks) {
        close(fd);
        return err_set(err, -ESRCH, "process %d has ended", process->pid);
    }
    process->exit_source = loop_add_fd(monitor->loop, fd, EPOLLIN, process_exited, process);
    if (!process->exit_source) {
        close(fd);
        return err_set(err, -ENOMEM, "out of memory");
    }
    process->pidfd = fd;
    forget_other_threads(process);
    process->resident_byte_seconds = 0; /* counted from the attaching on */
    process->resident_sampled_ns = clock_now_ns();
    if (!monitor->sampler)
        monitor->sampler = loop_add_timer(monitor->loop, PROCESS_SAMPLE_NS, PROCESS_SAMPLE_NS, sample_all, monitor);
    return 0;
}

int process_attach(struct session *session, struct process *process, struct err *err)
{
    struct tool *tool = session->tool;
    if (tool_attachment(tool, process))
        return 0;
    int code = confine_process(tool, process->pid, err) == OMIS_OK ? 0 : -EPERM;
    if (code == 0)
        code = check_may_attach(session, process, err);
    if (code == 0)
        code = process_watch(process, err);
    if (code < 0)
        return code;
    struct attachment *attachment = calloc(1, sizeof *attachment);
    if (!attachment)
        return err_set(err, -ENOMEM, "out of memory");
    attachment->tool = tool;
    attachment->process = process;
    attachment->next_of_process = process->attachments;
    process->attachments = attachment;
    if (tool->last_attachment) /* in the order of attaching */
        tool->last_attachment->next_of_tool = attachment;
    else
        tool->attachments = attachment;
    attachment->previous_of_tool = tool->last_attachment;
    tool->last_attachment = attachment;
    tool->attachment_count++;
    csr_process_attached(tool, process);
    return 0;
}

static void remove_attachment(struct process *process, struct tool *tool)
{
    struct attachment **at = &process->attachments;
    while (*at && (*at)->tool != tool)
        at = &(*at)->next_of_process;
    struct attachment *attachment = *at;
    if (!attachment)
        return;
    *at = attachment->next_of_process;
    if (attachment->previous_of_tool)
        attachment->previous_of_tool->next_of_tool = attachment->next_of_tool;
    else
        tool->attachments = attachment->next_of_tool;
    if (attachment->next_of_tool)
        attachment->next_of_tool->previous_of_tool = attachment->previous_of_tool;
    else
        tool->last_attachment = attachment->previous_of_tool;
    tool->attachment_count--;
    free(attachment);
}

void process_detach(struct tool *tool, struct process *process)
{
    const struct monitor_tracing *tracing = process->object.monitor->tracing;
    if (!tool_attachment(tool, process))
        return;
    csr_process_detached(tool, process);
    tracing->release(tool, process);
    remove_attachment(process, tool);
    if (process->attachments)
        return;
    tracing->loading_ended(process, -ESRCH);
    /* nobody watches it any more: it keeps its token, and costs nothing */
    struct err err;
    tracing->update(process, NULL, &err);
    loop_remove(process->exit_source);
    process->exit_source = NULL;
    close(process->pidfd);
    process->pidfd = -1;
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        thread->start_ticks = start_of(process->pid, thread->tid);
        if (!thread->start_ticks)
            thread_ended(thread);
    }
    process->snapshot = 0;
}

struct thread *process_thread(struct process *process, pid_t tid)
{
    struct thread *thread;
    HASH_FIND(hh, process->threads, &tid, sizeof tid, thread);
    if (thread)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    struct monitor *monitor = process->object.monitor;
    thread->process = process;
    thread->tid = tid;
    object_init(&thread->object, monitor, object_class_get(monitor, "t"), NULL);
    HASH_ADD(hh, process->threads, tid, sizeof thread->tid, thread);
    return thread;
}

static bool has_ended(pid_t pid, pid_t tid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, tid, &stat) == 0 && stat.state == 'Z';
}

int process_refresh(struct process *process, uint64_t execution)
{
    if (process->object.gone)
        return -ESRCH;
    if (execution && process->snapshot == execution)
        return 0;
    pid_t *tids;
    size_t count;
    int code = proc_threads(process->pid, &tids, &count);
    if (code < 0)
        return code;
    process->snapshot = execution;
    uint64_t now = clock_now_ns();
    for (size_t i = 0; i < count; i++) {
        if (tids[i] == process->pid && count > 1 && has_ended(process->pid, tids[i]))
            continue; /* the first thread is listed until the last one ends */
        struct thread *thread = process_thread(process, tids[i]);
        if (thread)
            thread->seen = now;
    }
    free(tids);
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (thread->seen != now)
            thread_ended(thread);
    }
    return 0;
}

static void raise_end(struct process *process, struct thread *thread, const char *service)
{
    struct monitor *monitor = process->object.monitor;
    struct event event = {.service = registry_find(monitor->registry, span_str(service)),
                          .process = process,
                          .thread = thread,
                          .object = thread ? &thread->object : &process->object,
                          .time_ns = clock_now_ns()};
    if (event.service)
        event_raise(monitor, &event);
}

void process_terminated(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    if (process->terminated)
        return;
    process->terminated = true;
    monitor_enter(monitor);
    monitor->tracing->loading_ended(process, -ESRCH);
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (!thread->exit_reported)
            raise_end(process, thread, "thread_has_terminated");
    }
    if (!process->exit_reported)
        raise_end(process, NULL, "proc_has_terminated");
    if (!monitor->executing) /* a running list is finished first, even if the object is gone then */
        event_run_queue(monitor);
    csr_process_gone(process);
    while (process->attachments)
        remove_attachment(process, process->attachments->tool);
    process_end(process);
    monitor_leave(monitor);
}

void process_sample(struct process *process)
{
    struct proc_stat stat;
    if (proc_stat_read(process->pid, 0, &stat) < 0)
        return;
    uint64_t now = clock_now_ns();
    if (process->resident_sampled_ns)
        process->resident_byte_seconds +=
            (double)stat.resident_bytes * (double)(now - process->resident_sampled_ns) / 1e9;
    process->resident_sampled_ns = now;
}

struct thread_claim *thread_claim(struct thread *thread, struct tool *tool, bool create)
{
    for (struct thread_claim *claim = thread->claims; claim; claim = claim->next)
        if (claim->tool == tool)
            return claim;
    struct thread_claim *claim = create ? calloc(1, sizeof *claim) : NULL;
    if (claim) {
        claim->tool = tool;
        claim->next = thread->claims;
        thread->claims = claim;
    }
    return claim;
}

bool thread_visible(const struct thread *thread, const struct tool *tool)
{
    for (const struct thread_claim *claim = thread->claims; claim; claim = claim->next)
        if (claim->tool == tool)
            return !claim->detached;
    return true;
}

void process_free_all(struct monitor *monitor)
{
    struct process *process, *next;
    HASH_ITER(hh, monitor->processes, process, next)
    {
        while (process->attachments)
            remove_attachment(process, process->attachments->tool);
        process_end(process);
    }
}
