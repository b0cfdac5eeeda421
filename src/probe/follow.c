/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process tree by perf's side-band records. On each processor one task-clock event of the root, inherited by all its
 * descendants, writes FORK, COMM and EXIT of tasks running there into that processor's ring. When a task ends, each of
 * its inherited events (one a processor) also writes what it counted: PERF_RECORD_READ, thanks to inherit_stat. A READ
 * follows the EXIT of its task and lies in the ring of its event, so the sum of a task is known once as many have come
 * as there are rings. The root's own events are not inherited and write no READ: a separate counter that only the root
 * has is read at its end.
 *
 * The kernel writes the READ of another processor's event into that processor's ring, which the ring's algorithm does
 * not expect (kernel/events/ring_buffer.c: one writer, which may nest); a torn record is possible though never seen.
 * perf_ring_next drops what makes no sense, the records below are checked for their sizes, and it is told as lost.
 */
#include "probe/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <uthash.h>

#include "base/clock.h"
#include "probe/node_internal.h"
#include "probe/perf_ring.h"
#include "probe/proc.h"

enum {
    RING_PAGES = 64,      /* a processor: 256 KByte, some 1000 processes between two readings */
    RING_PAGES_LEAST = 8, /* where there are many processors, */
    RINGS_PAGES = 1024,   /* so that all rings together take 4 MByte of ours and of the user's locked memory */
    CPUS_MAX = 8192,
};
/* An EXIT without all its READs is held back for the next reading, but not longer. Unless the ring overflowed they come
 * within microseconds. */
#define READS_WAIT_NS UINT64_C(200000000)

/* A process with threads that live. */
struct process {
    pid_t pid;
    uint32_t threads;
    UT_hash_handle hh;
};

/* A thread that ended and waits for its counts. */
struct ending {
    pid_t tid;
    struct follow_record record;
    bool exited; /* the EXIT has come; the READs may overtake it where clocks of processors differ */
    uint32_t reads;
    uint64_t cpu_ns;
    uint64_t since_ns;
    UT_hash_handle hh;
};

/* A record as it came out of a ring. */
struct raw {
    uint64_t time_ns;
    uint32_t order; /* keeps a ring's order among equal times */
    uint16_t type;
    bool exec;
    uint32_t pid, ppid, tid, ptid;
    uint64_t value; /* READ, LOST */
    char comm[16];
};

struct follow {
    pid_t root;
    int root_clock; /* counts the root's first thread only; -1 after its end */
    int epoll;
    struct perf_ring *rings;
    uint64_t *lost; /* of each ring, told so far */
    size_t ring_count;
    bool counts_lost; /* the kernel counts what it dropped (PERF_FORMAT_LOST, Linux 6.0) */
    struct process *processes;
    struct ending *endings;
    struct raw *raws;
    size_t raw_count, raw_room;
};

static struct perf_event_attr attributes(void)
{
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_TASK_CLOCK, UINT32_MAX);
    attr.inherit = 1;
    attr.inherit_stat = 1;
    attr.task = 1;
    attr.comm = 1;
    attr.comm_exec = 1;
    return attr;
}

/* ---- opening ---- */
/* "0-3,8" */
static size_t online_processors(int *cpus)
{
    char text[4096];
    size_t count = 0;
    if (!node_read_text(text, sizeof text, "/sys/devices/system/cpu/online")) {
        long online = sysconf(_SC_NPROCESSORS_CONF);
        for (int cpu = 0; cpu < online && cpu < CPUS_MAX; cpu++)
            cpus[count++] = cpu;
        return count;
    }
    const char *at = text;
    for (long first, last; node_next_range(&at, &first, &last);)
        for (long cpu = first; cpu <= last && count < CPUS_MAX; cpu++)
            cpus[count++] = (int)cpu;
    return count;
}

static int open_rings(struct follow *follow)
{
    int *cpus = malloc(CPUS_MAX * sizeof *cpus);
    if (!cpus)
        return -ENOMEM;
    size_t count = online_processors(cpus);
    struct perf_event_attr attr = attributes();
    follow->rings = calloc(count ? count : 1, sizeof *follow->rings);
    follow->lost = calloc(count ? count : 1, sizeof *follow->lost);
    int r = follow->rings && follow->lost ? 0 : -ENOMEM;
    attr.read_format = PERF_FORMAT_LOST;
    follow->counts_lost = true;
    size_t pages = RING_PAGES;
    while (pages > RING_PAGES_LEAST && pages * count > RINGS_PAGES)
        pages /= 2;
    for (size_t i = 0; i < count && r == 0; i++) {
        struct perf_ring *ring = &follow->rings[follow->ring_count];
        r = perf_ring_open(ring, &attr, follow->root, cpus[i], pages);
        if (r == -EINVAL && follow->counts_lost) {
            attr.read_format = 0;
            follow->counts_lost = false;
            r = perf_ring_open(ring, &attr, follow->root, cpus[i], pages);
        }
        if (r == -ENODEV) { /* went offline since we looked */
            r = 0;
            continue;
        }
        if (r < 0)
            break;
        follow->ring_count++;
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        if (epoll_ctl(follow->epoll, EPOLL_CTL_ADD, ring->fd, &event) < 0)
            r = -errno;
    }
    free(cpus);
    return r == 0 && follow->ring_count == 0 ? -ENODEV : r;
}

static int add_process(struct follow *follow, pid_t pid, uint32_t threads)
{
    struct process *process;
    HASH_FIND_INT(follow->processes, &pid, process);
    if (!process) {
        process = calloc(1, sizeof *process);
        if (!process)
            return -ENOMEM;
        process->pid = pid;
        HASH_ADD_INT(follow->processes, pid, process);
    }
    process->threads = threads;
    return 0;
}

static int open_all(struct follow *follow)
{
    struct perf_event_attr clock = perf_attr(PERF_COUNT_SW_TASK_CLOCK, 0);
    follow->root_clock = perf_open(&clock, follow->root, -1);
    if (follow->root_clock < 0)
        return follow->root_clock;
    follow->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (follow->epoll < 0)
        return -errno;
    int r = open_rings(follow);
    return r < 0 ? r : add_process(follow, follow->root, 1);
}

int follow_open(struct follow **ret_follow, pid_t root, struct err *err)
{
    struct follow *follow = calloc(1, sizeof *follow);
    if (!follow)
        return err_set(err, -ENOMEM, "out of memory");
    follow->root = root;
    follow->root_clock = follow->epoll = -1;
    int r = open_all(follow);
    if (r < 0) {
        follow_close(follow);
        return r == -ESRCH ? err_set(err, r, "process %d is gone", (int)root)
                           : perf_explain(err, r, "following processes from outside");
    }
    *ret_follow = follow;
    return 0;
}

int follow_fd(const struct follow *follow)
{
    return follow->epoll;
}

void follow_close(struct follow *follow)
{
    if (!follow)
        return;
    for (size_t i = 0; i < follow->ring_count; i++)
        perf_ring_close(&follow->rings[i]);
    struct process *process, *next_process;
    HASH_ITER(hh, follow->processes, process, next_process)
    {
        HASH_DEL(follow->processes, process);
        free(process);
    }
    struct ending *ending, *next_ending;
    HASH_ITER(hh, follow->endings, ending, next_ending)
    {
        HASH_DEL(follow->endings, ending);
        free(ending);
    }
    if (follow->root_clock >= 0)
        close(follow->root_clock);
    if (follow->epoll >= 0)
        close(follow->epoll);
    free(follow->rings);
    free(follow->lost);
    free(follow->raws);
    free(follow);
}

const char *follow_missing(void)
{
    struct perf_event_attr attr = attributes();
    return perf_missing(&attr, "following processes from outside");
}

/* ---- from the rings ---- */
/* Takes over what we use of a record; false for kinds and sizes that we do not expect. */
static bool decode(const struct perf_event_header *record, struct raw *raw)
{
    const uint32_t *words = (const uint32_t *)(record + 1);
    size_t body = record->size - sizeof *record;
    struct perf_record_id id;
    if (!perf_record_id(record, &id))
        return false;
    *raw = (struct raw){.type = (uint16_t)record->type, .time_ns = id.time_ns};
    switch (record->type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT: /* pid, ppid, tid, ptid, time */
        if (body != 24 + sizeof id)
            return false;
        raw->pid = words[0];
        raw->ppid = words[1];
        raw->tid = words[2];
        raw->ptid = words[3];
        return true;
    case PERF_RECORD_COMM: /* pid, tid, name padded to 8 bytes */
        if (body < 8 + 8 + sizeof id)
            return false;
        raw->pid = words[0];
        raw->tid = words[1];
        raw->exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
        size_t len = body - 8 - sizeof id;
        memcpy(raw->comm, words + 2, len < sizeof raw->comm ? len : sizeof raw->comm - 1);
        raw->comm[sizeof raw->comm - 1] = 0;
        return true;
    case PERF_RECORD_READ: /* pid, tid, value, and what was dropped where the kernel counts that */
        if (body != 16 + sizeof id && body != 24 + sizeof id)
            return false;
        raw->pid = words[0];
        raw->tid = words[1];
        memcpy(&raw->value, words + 2, sizeof raw->value);
        return true;
    case PERF_RECORD_LOST: /* id, lost */
        if (body < 16)
            return false;
        memcpy(&raw->value, words + 2, sizeof raw->value);
        return true;
    default:
        return false;
    }
}

static struct raw *new_raw(struct follow *follow)
{
    if (follow->raw_count == follow->raw_room) {
        size_t room = follow->raw_room ? follow->raw_room * 2 : 256;
        struct raw *grown = realloc(follow->raws, room * sizeof *grown);
        if (!grown)
            return NULL;
        follow->raws = grown;
        follow->raw_room = room;
    }
    return &follow->raws[follow->raw_count];
}

static void add_lost(struct follow *follow, uint64_t lost, uint64_t time_ns)
{
    struct raw *raw = lost ? new_raw(follow) : NULL;
    if (!raw)
        return;
    *raw = (struct raw){.type = PERF_RECORD_LOST, .time_ns = time_ns, .value = lost};
    raw->order = (uint32_t)follow->raw_count++;
}

/* A LOST record is written before the next record that has room, so after the last records of a tree there is none.
 * Asking the kernel for its count wakes that processor up: only where something may be lost. */
static void ask_lost(struct follow *follow, size_t index, uint64_t time_ns)
{
    uint64_t values[2]; /* the clock, what was dropped */
    if (!follow->counts_lost || read(follow->rings[index].fd, values, sizeof values) != sizeof values)
        return;
    add_lost(follow, values[1] - follow->lost[index], time_ns);
    follow->lost[index] = values[1];
}

/* Everything in a ring up to `until`. What is newer stays for the next time, when the other rings are as far. */
static int drain(struct follow *follow, size_t index, uint64_t until)
{
    struct perf_ring *ring = &follow->rings[index];
    bool torn = false;
    const struct perf_event_header *record;
    int r = 0;
    perf_ring_begin(ring);
    bool doubtful = ring->head - ring->tail > ring->size - sizeof ring->copy; /* full: the next may have had no room */
    while (r == 0 && (record = perf_ring_next(ring, &torn))) {
        struct raw *raw = new_raw(follow);
        if (!raw) {
            perf_ring_unread(ring, record);
            r = -ENOMEM;
        } else if (decode(record, raw)) {
            if (raw->time_ns > until && raw->time_ns < until + NS_PER_SECOND) {
                perf_ring_unread(ring, record);
                break;
            }
            if (raw->type == PERF_RECORD_LOST && follow->counts_lost)
                doubtful = true;
            else
                raw->order = (uint32_t)follow->raw_count++;
        }
    }
    perf_ring_end(ring);
    if (doubtful)
        ask_lost(follow, index, until);
    add_lost(follow, torn, until);
    return r;
}

static int compare_raws(const void *a, const void *b)
{
    const struct raw *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* ---- to records ---- */
static void finish(struct follow *follow, struct ending *ending, follow_fn *fn, void *ctx)
{
    ending->record.cpu_ns = ending->cpu_ns;
    ending->record.cpu_known = ending->reads >= follow->ring_count;
    fn(ctx, &ending->record);
    HASH_DEL(follow->endings, ending);
    free(ending);
}

static struct ending *find_ending(struct follow *follow, pid_t tid, uint64_t time_ns)
{
    struct ending *ending;
    HASH_FIND_INT(follow->endings, &tid, ending);
    if (!ending && (ending = calloc(1, sizeof *ending))) {
        ending->tid = tid;
        ending->since_ns = time_ns;
        HASH_ADD_INT(follow->endings, tid, ending);
    }
    return ending;
}

/* Whether that was the last thread. Of a process whose birth was lost, the leader's end counts. */
static bool drop_thread(struct follow *follow, pid_t pid, pid_t tid)
{
    struct process *process;
    HASH_FIND_INT(follow->processes, &pid, process);
    if (!process)
        return pid == tid;
    if (--process->threads > 0)
        return false;
    HASH_DEL(follow->processes, process);
    free(process);
    return true;
}

/* The root's first thread has a counter of its own, once; later owners of its id have inherited events. */
static bool take_root_clock(struct follow *follow, uint64_t *ret_ns)
{
    uint64_t ns;
    bool known = read(follow->root_clock, &ns, sizeof ns) == sizeof ns;
    close(follow->root_clock);
    follow->root_clock = -1;
    if (known)
        *ret_ns = ns;
    return known;
}

static int on_exit_record(struct follow *follow, const struct raw *raw, follow_fn *fn, void *ctx)
{
    struct follow_record record = {
        .kind = drop_thread(follow, (pid_t)raw->pid, (pid_t)raw->tid) ? FOLLOW_EXIT : FOLLOW_THREAD_EXIT,
        .pid = (pid_t)raw->pid,
        .tid = (pid_t)raw->tid,
        .ppid = (pid_t)raw->ppid,
        .time_ns = raw->time_ns,
    };
    if (record.tid == follow->root && follow->root_clock >= 0) {
        record.cpu_known = take_root_clock(follow, &record.cpu_ns);
        fn(ctx, &record);
        return 0;
    }
    struct ending *ending = find_ending(follow, record.tid, raw->time_ns);
    if (!ending)
        return -ENOMEM;
    if (ending->exited) { /* its id is in use again: the READs of the former were lost */
        finish(follow, ending, fn, ctx);
        return on_exit_record(follow, raw, fn, ctx);
    }
    ending->exited = true;
    ending->record = record;
    if (ending->reads >= follow->ring_count)
        finish(follow, ending, fn, ctx);
    return 0;
}

static int on_read_record(struct follow *follow, const struct raw *raw, follow_fn *fn, void *ctx)
{
    struct ending *ending = find_ending(follow, (pid_t)raw->tid, raw->time_ns);
    if (!ending)
        return -ENOMEM;
    ending->reads++;
    ending->cpu_ns += raw->value;
    if (ending->exited && ending->reads >= follow->ring_count)
        finish(follow, ending, fn, ctx);
    return 0;
}

static int on_fork_record(struct follow *follow, const struct raw *raw, follow_fn *fn, void *ctx)
{
    struct follow_record record = {
        .kind = raw->pid == raw->ppid ? FOLLOW_THREAD : FOLLOW_FORK,
        .pid = (pid_t)raw->pid,
        .tid = (pid_t)raw->tid,
        .ppid = (pid_t)raw->ppid,
        .time_ns = raw->time_ns,
    };
    struct process *process;
    HASH_FIND_INT(follow->processes, &record.pid, process);
    bool thread = record.kind == FOLLOW_THREAD && process;
    int r = add_process(follow, record.pid, thread ? process->threads + 1 : record.kind == FOLLOW_THREAD ? 2 : 1);
    fn(ctx, &record);
    return r;
}

static int hand_out(struct follow *follow, const struct raw *raw, follow_fn *fn, void *ctx)
{
    struct follow_record record = {.pid = (pid_t)raw->pid, .tid = (pid_t)raw->tid, .time_ns = raw->time_ns};
    switch (raw->type) {
    case PERF_RECORD_FORK:
        return on_fork_record(follow, raw, fn, ctx);
    case PERF_RECORD_EXIT:
        return on_exit_record(follow, raw, fn, ctx);
    case PERF_RECORD_READ:
        return on_read_record(follow, raw, fn, ctx);
    case PERF_RECORD_COMM:
        record.kind = raw->exec ? FOLLOW_EXEC : FOLLOW_NAME;
        memcpy(record.comm, raw->comm, sizeof record.comm);
        fn(ctx, &record);
        return 0;
    default:
        record.kind = FOLLOW_LOST;
        record.lost = raw->value;
        fn(ctx, &record);
        return 0;
    }
}

int follow_read(struct follow *follow, follow_fn *fn, void *ctx)
{
    struct epoll_event event[16];
    /* First, so that what is written from now on wakes us again; each ring reports once. */
    while (epoll_wait(follow->epoll, event, 16, 0) == 16)
        ;
    int r = 0;
    uint64_t until = clock_now_ns();
    follow->raw_count = 0;
    for (size_t i = 0; i < follow->ring_count && r == 0; i++)
        r = drain(follow, i, until);
    if (follow->raw_count > 1)
        qsort(follow->raws, follow->raw_count, sizeof *follow->raws, compare_raws);
    for (size_t i = 0; i < follow->raw_count; i++) {
        int one = hand_out(follow, &follow->raws[i], fn, ctx);
        r = r < 0 ? r : one;
    }
    struct ending *ending, *next;
    HASH_ITER(hh, follow->endings, ending, next)
    {
        if (until - ending->since_ns < READS_WAIT_NS || until < ending->since_ns)
            continue;
        if (ending->exited) {
            finish(follow, ending, fn, ctx);
        } else { /* counts without an EXIT, which was lost */
            HASH_DEL(follow->endings, ending);
            free(ending);
        }
    }
    return r;
}
