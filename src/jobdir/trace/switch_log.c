/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/switch_log.h"

#include <stdlib.h>
#include <uthash.h>

struct switch_thread {
    uint32_t tid;
    enum { NOT_KNOWN, RUNS, WAITS, PREEMPTED } place;
    uint64_t since;
    UT_hash_handle hh;
};

void switch_log_init(struct switch_log *log, uint64_t from)
{
    *log = (struct switch_log){.from = from, .floor = from, .entries = BUF_INIT};
}

static void forget(struct switch_log *log, struct switch_thread *thread)
{
    HASH_DEL(log->threads, thread);
    free(thread);
}

void switch_log_done(struct switch_log *log)
{
    struct switch_thread *thread, *next;
    HASH_ITER(hh, log->threads, thread, next)
    forget(log, thread);
    buf_done(&log->entries);
}

static struct switch_thread *thread_of(struct switch_log *log, uint32_t tid)
{
    struct switch_thread *thread;
    HASH_FIND(hh, log->threads, &tid, sizeof tid, thread);
    if (thread)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread) {
        log->failed = true;
        return NULL;
    }
    *thread = (struct switch_thread){.tid = tid, .place = NOT_KNOWN, .since = log->floor};
    HASH_ADD(hh, log->threads, tid, sizeof thread->tid, thread);
    return thread;
}

static void put(struct switch_log *log, const struct switch_thread *thread, enum trace_off how, uint64_t end)
{
    if (end > thread->since)
        trace_switch_put(&log->entries, &log->last_end, thread->tid, how, thread->since, end);
    log->failed |= log->entries.failed;
}

static enum trace_off off_of(const struct switch_thread *thread)
{
    return thread->place == WAITS       ? TRACE_OFF_WAITING
           : thread->place == PREEMPTED ? TRACE_OFF_PREEMPTED
                                        : TRACE_OFF_UNKNOWN;
}

void switch_log_thread(struct switch_log *log, uint32_t tid, bool waits)
{
    struct switch_thread *thread = thread_of(log, tid);
    if (thread && waits)
        thread->place = WAITS;
}

void switch_log_take(struct switch_log *log, uint32_t tid, bool in, bool preempted, uint64_t time)
{
    struct switch_thread *thread = time >= log->floor ? thread_of(log, tid) : NULL;
    if (!thread)
        return;
    /* One that comes where it is, or leaves where it is not: one switch at least was not seen. */
    if (in)
        put(log, thread, off_of(thread), time);
    else if (thread->place == WAITS || thread->place == PREEMPTED)
        put(log, thread, TRACE_OFF_UNKNOWN, time);
    thread->place = in ? RUNS : preempted ? PREEMPTED : WAITS;
    thread->since = time > thread->since ? time : thread->since;
}

void switch_log_gap(struct switch_log *log, uint64_t from, uint64_t to)
{
    from = from > log->floor ? from : log->floor;
    if (to <= from)
        return;
    for (struct switch_thread *thread = log->threads; thread; thread = thread->hh.next) {
        if (thread->place != RUNS)
            put(log, thread, off_of(thread), from);
        thread->place = NOT_KNOWN;
        thread->since = to;
    }
    trace_switch_put(&log->entries, &log->last_end, 0, TRACE_OFF_UNKNOWN, from, to);
    log->failed |= log->entries.failed;
    log->floor = to;
}

void switch_log_until(struct switch_log *log, uint64_t time, switch_lives_fn *lives, void *ctx)
{
    struct switch_thread *thread, *next;
    HASH_ITER(hh, log->threads, thread, next)
    {
        if (thread->place == RUNS)
            continue;
        if (thread->place != NOT_KNOWN && !lives(ctx, thread->tid)) {
            forget(log, thread);
            continue;
        }
        put(log, thread, off_of(thread), time);
        thread->since = time > thread->since ? time : thread->since;
    }
}

size_t switch_log_threads(const struct switch_log *log)
{
    return HASH_COUNT(log->threads);
}
