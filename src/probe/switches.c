/* SPDX-License-Identifier: Apache-2.0 */
/* Context-switch records of one thread: a dummy event with context_switch, PERF_RECORD_SWITCH (perf_event_open(2)). */
#include "probe/switches.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "probe/perf_ring.h"

#ifndef PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
#define PERF_RECORD_MISC_SWITCH_OUT_PREEMPT (1 << 14) /* Linux 4.17 */
#endif

enum { SWITCH_BYTES = 24, RING_PAGES = 16 }; /* 64 KByte: 2700 records */

struct switches {
    struct perf_ring ring;
    int epoll; /* edge-triggered: an event whose thread has ended hangs up for ever */
};

static struct perf_event_attr attributes(void)
{
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_DUMMY, 1);
    attr.context_switch = 1;
    return attr;
}

int switches_open(struct switches **ret_switches, pid_t tid, struct err *err)
{
    struct perf_event_attr attr = attributes();
    struct switches *switches = calloc(1, sizeof *switches);
    if (!switches)
        return err_set(err, -ENOMEM, "out of memory");
    switches->epoll = -1;
    int r = perf_ring_open(&switches->ring, &attr, tid, -1, RING_PAGES);
    if (r == 0) {
        switches->epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        if (switches->epoll < 0 || epoll_ctl(switches->epoll, EPOLL_CTL_ADD, switches->ring.fd, &event) < 0)
            r = -errno;
    }
    if (r < 0) {
        switches_close(switches);
        return r == -ESRCH ? err_set(err, r, "thread %d is gone", (int)tid)
                           : perf_explain(err, r, "watching context switches");
    }
    *ret_switches = switches;
    return 0;
}

int switches_fd(const struct switches *switches)
{
    return switches->epoll;
}

void switches_begin(struct switches *switches)
{
    struct epoll_event event;
    /* First, so that what is written from now on wakes us again. */
    epoll_wait(switches->epoll, &event, 1, 0);
    perf_ring_begin(&switches->ring);
}

bool switch_decode(const struct perf_event_header *record, struct switch_record *ret_record)
{
    struct perf_record_id id;
    if (record->type != PERF_RECORD_SWITCH || !perf_record_id(record, &id))
        return false;
    bool out = record->misc & PERF_RECORD_MISC_SWITCH_OUT;
    *ret_record = (struct switch_record){
        .pid = (pid_t)id.pid,
        .tid = (pid_t)id.tid,
        .time_ns = id.time_ns,
        .in = !out,
        .preempted = out && record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
    };
    return true;
}

bool switches_next(struct switches *switches, struct switch_record *ret_record, uint64_t *inout_lost)
{
    const struct perf_event_header *record;
    uint64_t dropped = 0;
    bool found = false;
    while (!found && (record = perf_ring_next(&switches->ring, &dropped))) {
        if (record->type == PERF_RECORD_LOST && record->size >= sizeof *record + 16)
            *inout_lost += ((const uint64_t *)(record + 1))[1];
        else
            found = switch_decode(record, ret_record);
    }
    *inout_lost += (dropped + SWITCH_BYTES - 1) / SWITCH_BYTES;
    return found;
}

bool switches_end(struct switches *switches)
{
    uint64_t head = switches->ring.head;
    perf_ring_end(&switches->ring);
    perf_ring_begin(&switches->ring);
    return switches->ring.head != head;
}

void switches_close(struct switches *switches)
{
    if (!switches)
        return;
    if (switches->epoll >= 0)
        close(switches->epoll);
    perf_ring_close(&switches->ring);
    free(switches);
}

const char *switches_missing(void)
{
    struct perf_event_attr attr = attributes();
    return perf_missing(&attr, "watching context switches");
}
