/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/switches.h"

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "probe/perf_ring.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct perf_event_header;

static bool switch_decode(const struct perf_event_header *record, struct switch_record *ret_record);

void switch_state_free(struct switch_state *state)
{
    free(state->pauses);
}

static struct switch_pause *pause_add(struct switch_state *state)
{
    if (!GROW(state->pauses, state->pause_count, state->pause_cap))
        return NULL;
    struct switch_pause *pause = &state->pauses[state->pause_count++];
    *pause = (struct switch_pause){0};
    return pause;
}

static struct switch_pause *open_pause(struct switch_state *state)
{
    struct switch_pause *last = state->pause_count ? &state->pauses[state->pause_count - 1] : NULL;
    return last && !last->until_ns ? last : NULL;
}

void switch_interrupts(struct switch_state *state, uint64_t time_ns)
{
    struct switch_pause *pause = open_pause(state) ? NULL : pause_add(state);
    if (pause)
        pause->from_ns = time_ns;
}

void switch_resumes(struct switch_state *state, uint64_t time_ns)
{
    struct switch_pause *pause = open_pause(state);
    if (!pause)
        pause = pause_add(state);
    if (pause)
        pause->until_ns = time_ns;
}

/* Between an interrupt and the time at which the thread was let go on. */
static bool is_within(const struct switch_state *state, uint64_t time_ns)
{
    for (size_t i = 0; i < state->pause_count; i++) {
        const struct switch_pause *pause = &state->pauses[i];
        if (pause->from_ns && pause->from_ns < time_ns && (!pause->until_ns || time_ns < pause->until_ns))
            return true;
    }
    return false;
}

/* Was it let go on while it was off the processor? */
static bool was_resumed(const struct switch_state *state, uint64_t out_ns, uint64_t in_ns)
{
    for (size_t i = 0; i < state->pause_count; i++) {
        uint64_t until_ns = state->pauses[i].until_ns;
        if (out_ns < until_ns && until_ns < in_ns)
            return true;
    }
    return false;
}

/* Takes out what ended before. True if there was any. */
static bool end_pauses(struct switch_state *state, uint64_t in_ns)
{
    size_t ended = 0;
    while (ended < state->pause_count && state->pauses[ended].until_ns && state->pauses[ended].until_ns < in_ns)
        ended++;
    state->pause_count -= ended;
    for (size_t i = 0; ended && i < state->pause_count; i++)
        state->pauses[i] = state->pauses[i + ended];
    return ended > 0;
}

static void tell_in(struct switch_state *state, uint64_t time_ns, switch_event_fn *fn, void *ctx)
{
    enum switch_place before = state->reported;
    state->restarted_ns = 0;
    state->reported = SWITCH_RUNS;
    if (before == SWITCH_SLEEPS)
        fn(ctx, SWITCH_UNBLOCKED, time_ns);
    if (before != SWITCH_RUNS)
        fn(ctx, SWITCH_SCHEDULED, time_ns);
}

static void tell_out(struct switch_state *state, switch_event_fn *fn, void *ctx)
{
    const struct switch_record out = state->out;
    if (state->restarted_ns) {
        state->ran_ns += state->runs_ns ? out.time_ns - state->runs_ns : 0;
        state->runs_ns = 0;
        bool may_sleep_on = state->ran_ns < SWITCH_RESTART_NS;
        if (may_sleep_on && out.preempted)
            return;
        if (!may_sleep_on)
            tell_in(state, state->restarted_ns, fn, ctx);
        state->restarted_ns = 0;
        if (may_sleep_on)
            return;
    }
    state->reported = out.preempted ? SWITCH_PREEMPTED : SWITCH_SLEEPS;
    fn(ctx, SWITCH_DESCHEDULED, out.time_ns);
    if (!out.preempted)
        fn(ctx, SWITCH_BLOCKED, out.time_ns);
}

static void take_in(struct switch_state *state, uint64_t time_ns, switch_event_fn *fn, void *ctx)
{
    bool left = state->left;
    state->left = false;
    if (left && !is_within(state, state->out.time_ns) && !was_resumed(state, state->out.time_ns, time_ns))
        tell_out(state, fn, ctx);
    bool resumed = end_pauses(state, time_ns);
    if (is_within(state, time_ns) || state->reported == SWITCH_RUNS)
        return;
    if (resumed && state->reported == SWITCH_SLEEPS) {
        state->restarted_ns = state->runs_ns = time_ns;
        state->ran_ns = 0;
    } else if (state->restarted_ns)
        state->runs_ns = time_ns;
    else
        tell_in(state, time_ns, fn, ctx);
}

void switch_take(struct switch_state *state, const struct switch_record *record, switch_event_fn *fn, void *ctx)
{
    if (record->in) {
        take_in(state, record->time_ns, fn, ctx);
        return;
    }
    if (state->left && !is_within(state, state->out.time_ns)) /* its way back was lost */
        tell_out(state, fn, ctx);
    state->left = true;
    state->out = *record;
}

bool switch_asks_stopped(const struct switch_state *state)
{
    return state->left && !state->out.preempted && !is_within(state, state->out.time_ns) &&
           !was_resumed(state, state->out.time_ns, UINT64_MAX);
}

void switch_settle(struct switch_state *state, bool stopped, uint64_t now_ns, switch_event_fn *fn, void *ctx)
{
    if (state->left) {
        bool own = is_within(state, state->out.time_ns) || was_resumed(state, state->out.time_ns, UINT64_MAX) ||
                   (stopped && !state->out.preempted);
        state->left = false;
        if (!own)
            tell_out(state, fn, ctx);
    } else if (state->restarted_ns && state->runs_ns && state->ran_ns + now_ns - state->runs_ns >= SWITCH_RESTART_NS) {
        tell_in(state, state->restarted_ns, fn, ctx);
    }
}

enum {
    RING_PAGES = 64,    /* 256 KByte: 10900 records; less where there are many processors */
    RINGS_PAGES = 2048, /* all together */
    RING_PAGES_LEAST = 4,
    LOOKS = 3, /* for threads that are made meanwhile by some that are not watched yet */
};

struct switch_ring {
    struct perf_ring perf; /* of an event of our own that writes nothing: those of the processes write into it */
    int cpu;
    uint64_t last_ns; /* of the record read last; what was dropped is later */
};

struct switch_rings {
    struct switch_ring *rings;
    size_t count;
    int epoll;
    uint64_t until_ns;      /* everything earlier was reported */
    struct switched *waits; /* read, but not reported: other rings are behind */
    size_t wait_count, wait_room;
};

struct switch_process {
    struct switch_rings *rings;
    int *events; /* descriptors, for each thread one for each ring */
    size_t count, room;
    pid_t *tids;
    size_t tid_count, tid_room;
};

/* ---- opening ---- */

int switch_rings_open(struct switch_rings **ret_rings, struct err *err)
{
    struct switch_rings *rings = calloc(1, sizeof *rings);
    int *cpus = malloc(PERF_CPUS * sizeof *cpus), code = 0;
    size_t count = cpus ? perf_processors(cpus, PERF_CPUS) : 0, pages = RING_PAGES;
    if (!rings || !cpus || !(rings->rings = calloc(count + 1, sizeof *rings->rings))) {
        free(cpus);
        free(rings);
        return err_set(err, -ENOMEM, "out of memory");
    }
    while (pages > RING_PAGES_LEAST && pages * count > RINGS_PAGES)
        pages /= 2;
    rings->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (rings->epoll < 0)
        code = -errno;
    for (size_t i = 0; i < count && code == 0; i++) {
        struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_DUMMY, UINT32_MAX);
        struct switch_ring *ring = &rings->rings[rings->count];
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        ring->cpu = cpus[i];
        code = perf_ring_open(&ring->perf, &attr, 0, cpus[i], pages);
        if (code == -ENODEV) { /* it went offline */
            code = 0;
            continue;
        }
        rings->count += code == 0;
        if (code == 0 && epoll_ctl(rings->epoll, EPOLL_CTL_ADD, ring->perf.fd, &event) < 0)
            code = -errno;
    }
    free(cpus);
    rings->until_ns = clock_now_ns();
    if (code < 0) {
        switch_rings_close(rings);
        return perf_explain(err, code, "watching context switches");
    }
    *ret_rings = rings;
    return 0;
}

void switch_rings_close(struct switch_rings *rings)
{
    if (!rings)
        return;
    for (size_t i = 0; i < rings->count; i++)
        perf_ring_close(&rings->rings[i].perf);
    if (rings->epoll >= 0)
        close(rings->epoll);
    free(rings->rings);
    free(rings->waits);
    free(rings);
}

int switch_rings_fd(const struct switch_rings *rings)
{
    return rings->epoll;
}

size_t switch_rings_count(const struct switch_rings *rings)
{
    return rings->count;
}

bool switch_rings_whole(const struct switch_rings *rings)
{
    int *cpus = malloc(PERF_CPUS * sizeof *cpus);
    size_t count = cpus ? perf_processors(cpus, PERF_CPUS) : 0, known = 0;
    for (size_t i = 0; i < count; i++) /* both in ascending order */
        for (size_t k = 0; k < rings->count; k++)
            known += rings->rings[k].cpu == cpus[i];
    free(cpus);
    return cpus && known == count;
}

static int watch_thread(struct switch_process *process, pid_t tid)
{
    struct switch_rings *rings = process->rings;
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_DUMMY, UINT32_MAX);
    attr.context_switch = attr.inherit = attr.inherit_thread = 1;
    if (!GROW_TO(process->events, process->count + rings->count, process->room) ||
        !GROW(process->tids, process->tid_count, process->tid_room))
        return -ENOMEM;
    for (size_t i = 0; i < rings->count; i++) {
        int fd = perf_open(&attr, tid, rings->rings[i].cpu);
        if (fd < 0)
            return fd;
        process->events[process->count++] = fd;
        if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, rings->rings[i].perf.fd) < 0)
            return -errno;
    }
    process->tids[process->tid_count++] = tid;
    return 0;
}

static bool is_watched(const struct switch_process *process, pid_t tid)
{
    for (size_t i = 0; i < process->tid_count; i++)
        if (process->tids[i] == tid)
            return true;
    return false;
}

/* Threads that there are; those that they make meanwhile may be found twice, which is seen and does no harm. 1: there
 * were new ones. */
static int watch_threads(struct switch_process *process, pid_t pid)
{
    char path[64];
    int code = 0, found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return -ESRCH;
    for (struct dirent *entry; code >= 0 && (entry = readdir(dir));) {
        pid_t tid = atoi(entry->d_name);
        if (tid <= 0 || is_watched(process, tid))
            continue;
        code = watch_thread(process, tid);
        found = 1;
        if (code == -ESRCH) /* it ended meanwhile */
            code = 0;
    }
    closedir(dir);
    return code < 0 ? code : found;
}

int switch_process_open(struct switch_process **ret_process, struct switch_rings *rings, pid_t pid, struct err *err)
{
    struct switch_process *process = calloc(1, sizeof *process);
    if (!process)
        return err_set(err, -ENOMEM, "out of memory");
    process->rings = rings;
    int code = 1;
    for (int look = 0; look < LOOKS && code == 1; look++)
        code = watch_threads(process, pid);
    if (code < 0) {
        switch_process_close(process);
        if (code == -EINVAL)
            return err_set(err, -EACCES, "watching context switches of processes needs Linux 5.13");
        return code == -ESRCH ? err_set(err, code, "process %d is gone", (int)pid)
                              : perf_explain(err, code, "watching context switches");
    }
    *ret_process = process;
    return 0;
}

void switch_process_close(struct switch_process *process)
{
    if (!process)
        return;
    for (size_t i = 0; i < process->count; i++)
        close(process->events[i]);
    free(process->events);
    free(process->tids);
    free(process);
}

/* ---- reading ---- */

static void switch_keep(struct switch_rings *rings, const struct switched *switched)
{
    if (GROW(rings->waits, rings->wait_count, rings->wait_room))
        rings->waits[rings->wait_count++] = *switched;
    else if (rings->wait_count) /* no memory: from the last one on nothing is known */
        rings->waits[rings->wait_count - 1] =
            (struct switched){.record.time_ns = switched->record.time_ns, .lost_ns = rings->until_ns};
}

static void keep_gap(struct switch_rings *rings, const struct switch_ring *ring, uint64_t to_ns)
{
    uint64_t from_ns = ring->last_ns > rings->until_ns ? ring->last_ns : rings->until_ns;
    switch_keep(rings, &(struct switched){.record.time_ns = to_ns > from_ns ? to_ns : from_ns, .lost_ns = from_ns});
}

static void ring_drain(struct switch_rings *rings, struct switch_ring *ring, uint64_t now_ns)
{
    struct perf_ring *perf = &ring->perf;
    const struct perf_event_header *record;
    struct perf_record_id id;
    struct switched switched = {0};
    uint64_t dropped = 0;
    perf_ring_begin(perf);
    bool full = perf->head - perf->tail > perf->size - perf->copy_size; /* the next may have had no room */
    while ((record = perf_ring_next(perf, &dropped))) {
        if (record->type == PERF_RECORD_LOST && perf_record_id(record, &id)) {
            keep_gap(rings, ring, id.time_ns);
            ring->last_ns = id.time_ns;
        } else if (switch_decode(record, &switched.record)) {
            switch_keep(rings, &switched);
            ring->last_ns = switched.record.time_ns;
        }
    }
    perf_ring_end(perf);
    if (full || dropped)
        keep_gap(rings, ring, now_ns);
}

static uint64_t order_ns(const struct switched *switched)
{
    return switched->record.pid ? switched->record.time_ns : switched->lost_ns;
}

static int by_time(const void *a, const void *b)
{
    uint64_t left = order_ns(a), right = order_ns(b);
    return left < right ? -1 : left > right;
}

/* A thread's switch is in its ring before the next one happens, perhaps on another processor: so of each thread, what
 * is earlier than the look at the first ring is seen in all of them. */
uint64_t switch_rings_read(struct switch_rings *rings, switched_fn *fn, void *ctx)
{
    struct epoll_event events[16];
    epoll_wait(rings->epoll, events, 16, 0); /* first, so that what is written from now on wakes us again */
    uint64_t now_ns = clock_now_ns();
    size_t reported = 0;
    for (size_t i = 0; i < rings->count; i++)
        ring_drain(rings, &rings->rings[i], now_ns);
    if (rings->wait_count > 1)
        qsort(rings->waits, rings->wait_count, sizeof *rings->waits, by_time);
    for (; reported < rings->wait_count && order_ns(&rings->waits[reported]) <= now_ns; reported++)
        fn(ctx, &rings->waits[reported]);
    rings->wait_count -= reported;
    if (rings->wait_count)
        memmove(rings->waits, rings->waits + reported, rings->wait_count * sizeof *rings->waits);
    rings->until_ns = now_ns;
    return now_ns;
}

/* Context-switch records of one thread: a dummy event with context_switch, PERF_RECORD_SWITCH (perf_event_open(2)). */

#ifndef PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
#define PERF_RECORD_MISC_SWITCH_OUT_PREEMPT (1 << 14) /* Linux 4.17 */
#endif

enum { SWITCH_BYTES = 24, THREAD_RING_PAGES = 16 }; /* 64 KByte: 2700 records */

struct switches {
    struct perf_ring ring;
    int epoll; /* edge-triggered: an event whose thread has ended hangs up for ever */
};

static struct perf_event_attr perf_attributes(void)
{
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_DUMMY, 1);
    attr.context_switch = 1;
    return attr;
}

int switches_open(struct switches **ret_switches, pid_t tid, struct err *err)
{
    struct perf_event_attr attr = perf_attributes();
    struct switches *switches = calloc(1, sizeof *switches);
    if (!switches)
        return err_set(err, -ENOMEM, "out of memory");
    switches->epoll = -1;
    int r = perf_ring_open(&switches->ring, &attr, tid, -1, THREAD_RING_PAGES);
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

/* A record of a ring, if it is a context switch. */
static bool switch_decode(const struct perf_event_header *record, struct switch_record *ret_record)
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
    struct perf_event_attr attr = perf_attributes();
    return perf_missing(&attr, "watching context switches");
}
