/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/follow.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "probe/node.h"
#include "probe/proc.h"
#include "shm/waits.h"

bool task_record_decode(const struct perf_event_header *record, struct task_record *ret_record)
{
    const uint32_t *words = (const uint32_t *)(record + 1);
    size_t body = record->size - sizeof *record;
    struct perf_record_id id;
    if (!perf_record_id(record, &id))
        return false;
    *ret_record = (struct task_record){.type = (uint16_t)record->type, .time_ns = id.time_ns};
    switch (record->type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT: /* pid, ppid, tid, ptid, time */
        if (body != 24 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->ppid = words[1];
        ret_record->tid = words[2];
        ret_record->ptid = words[3];
        return true;
    case PERF_RECORD_COMM: /* pid, tid, name padded to 8 bytes */
        if (body != 8 + 8 + sizeof id && body != 8 + 16 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->tid = words[1];
        ret_record->exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
        memcpy(ret_record->comm, words + 2, body - 8 - sizeof id);
        ret_record->comm[sizeof ret_record->comm - 1] = 0;
        return true;
    case PERF_RECORD_READ: /* pid, tid, value */
        if (body != 16 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->tid = words[1];
        memcpy(&ret_record->value, words + 2, sizeof ret_record->value);
        return true;
    case PERF_RECORD_LOST: /* id, lost */
        if (body != 16 + sizeof id)
            return false;
        memcpy(&ret_record->value, words + 2, sizeof ret_record->value);
        return true;
    default:
        return false;
    }
}

/* By time, for qsort. */
static int task_record_compare(const void *a, const void *b)
{
    const struct task_record *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/*
 * A process tree by perf's side-band records. On each processor one event of the root that counts nothing, inherited by
 * all its descendants, writes FORK, COMM and EXIT of tasks running there into that processor's ring.
 *
 * Processor times come from a task clock that is bound to no processor: with inherit_stat each descendant that ends
 * also writes what it counted, PERF_RECORD_READ, after its EXIT. They have a ring of their own, for the kernel's rings
 * take one writer at a time (which may nest; kernel/events/ring_buffer.c). An event of one processor writes its READs
 * into that processor's ring from wherever the task ends, beside what is written there: the count of nested writers
 * goes wrong, and the ring stands still for ever, without a word. READs alone are written one after the other, under
 * the lock of the clock's children (since Linux 5.13; before, some may spoil each other, and from 5.13 on the kernel
 * forgot to write them, until its commit c418d8b4d7a4 in 6.19: then times of single processes are not known). An
 * inherited event of no processor may not have a ring, but it may write into another's: that of the root's own clock,
 * which is not inherited and has what the root itself needed, for which there is no READ.
 *
 * So each end is reported twice, by EXIT and by READ, in different rings. perf_ring_next and the records below are
 * checked; damaged ones are reported as lost.
 */

enum {
    RING_PAGES = 64,         /* a processor: 256 KByte, some 1800 processes between two readings */
    RING_PAGES_LEAST = 8,    /* where there are many processors, */
    RINGS_PAGES = 1024,      /* so that all rings together take 4 MByte of ours and of the user's locked memory */
    COUNTS_PAGES = 32,       /* for each processor: 3276 READs, */
    COUNTS_PAGES_MOST = 512, /* in a ring of 2 MByte at most */
    RECORD_BYTES = 48,       /* of a FORK or an EXIT */
    READS_MISSED = 8,        /* so many ends without any READ: this kernel writes none */
};

/* A process with threads that live. */
struct process {
    pid_t pid;
    uint32_t threads;
    UT_hash_handle hh;
};

/* A thread that ended and waits for its counts. */
struct ending {
    pid_t tid, pid;
    struct follow_record record;
    bool exited, counted; /* the EXIT has come, the READ has */
    bool reported;        /* handed out without the READ */
    uint64_t cpu_ns;
    uint64_t since_ns;
    UT_hash_handle hh;
};

struct follow {
    pid_t root;
    struct perf_ring counts; /* of READs; its event counts the root's first thread only */
    bool root_over;          /* that thread has ended */
    int clock;               /* counts all, and writes the READs */
    uint32_t missed_reads;   /* when none had come yet */
    bool reads_come;
    int epoll;
    struct perf_ring *rings;
    uint64_t *lost; /* of each ring, reported so far */
    size_t ring_count;
    bool counts_lost; /* the kernel counts what it dropped (PERF_FORMAT_LOST, Linux 6.0) */
    struct process *processes;
    struct ending *endings;
    struct task_record *raws;
    size_t raw_count, raw_room;
};

static struct perf_event_attr perf_attributes(void)
{
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_DUMMY, UINT32_MAX);
    attr.inherit = 1;
    attr.task = 1;
    attr.comm = 1;
    attr.comm_exec = 1;
    return attr;
}

/* ---- opening ---- */
static int watch_ring(const struct follow *follow, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    return epoll_ctl(follow->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_rings(struct follow *follow)
{
    int *cpus = malloc(PERF_CPUS * sizeof *cpus);
    if (!cpus)
        return -ENOMEM;
    size_t count = perf_processors(cpus, PERF_CPUS);
    struct perf_event_attr attr = perf_attributes();
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
        r = watch_ring(follow, ring->fd);
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

/* Where the clock may not write into the ring, times of single processes are not known. */
static int open_clocks(struct follow *follow)
{
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_TASK_CLOCK, UINT32_MAX);
    size_t pages = COUNTS_PAGES;
    while (pages < COUNTS_PAGES_MOST && pages < COUNTS_PAGES * follow->ring_count)
        pages *= 2;
    int r = perf_ring_open(&follow->counts, &attr, follow->root, -1, pages);
    if (r < 0)
        return r;
    attr.inherit = attr.inherit_stat = 1;
    follow->clock = perf_open(&attr, follow->root, -1);
    if (follow->clock < 0)
        return follow->clock;
    if (ioctl(follow->clock, PERF_EVENT_IOC_SET_OUTPUT, follow->counts.fd) < 0)
        follow->missed_reads = READS_MISSED;
    return watch_ring(follow, follow->clock);
}

static int open_all(struct follow *follow)
{
    follow->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (follow->epoll < 0)
        return -errno;
    int r = open_rings(follow);
    if (r == 0)
        r = open_clocks(follow);
    return r < 0 ? r : add_process(follow, follow->root, 1);
}

int follow_open(struct follow **ret_follow, pid_t root, struct err *err)
{
    struct follow *follow = calloc(1, sizeof *follow);
    if (!follow)
        return err_set(err, -ENOMEM, "out of memory");
    follow->root = root;
    follow->counts.fd = follow->clock = follow->epoll = -1;
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

int follow_cpu(const struct follow *follow, uint64_t *ret_ns)
{
    return read(follow->clock, ret_ns, sizeof *ret_ns) == sizeof *ret_ns ? 0 : -errno;
}

void follow_close(struct follow *follow)
{
    if (!follow)
        return;
    for (size_t i = 0; i < follow->ring_count; i++)
        perf_ring_close(&follow->rings[i]);
    if (follow->clock >= 0)
        close(follow->clock);
    perf_ring_close(&follow->counts);
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
    if (follow->epoll >= 0)
        close(follow->epoll);
    free(follow->rings);
    free(follow->lost);
    free(follow->raws);
    free(follow);
}

const char *follow_missing(void)
{
    struct perf_event_attr attr = perf_attributes();
    return perf_missing(&attr, "following processes from outside");
}

/* ---- from the rings ---- */
static struct task_record *new_raw(struct follow *follow)
{
    return GROW(follow->raws, follow->raw_count, follow->raw_room) ? &follow->raws[follow->raw_count] : NULL;
}

static void add_lost(struct follow *follow, uint64_t lost, uint64_t time_ns)
{
    struct task_record *raw = lost ? new_raw(follow) : NULL;
    if (!raw)
        return;
    *raw = (struct task_record){.type = PERF_RECORD_LOST, .time_ns = time_ns, .value = lost};
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

/* Takes over a record, unless it came after `until`; false when it makes no sense. */
static bool record_take(struct follow *follow, struct perf_ring *ring, const struct perf_event_header *record,
                        uint64_t until, struct task_record *raw, bool *ret_later)
{
    bool known = task_record_decode(record, raw);
    *ret_later = known && raw->time_ns > until;
    if (!known || (*ret_later && raw->time_ns > clock_now_ns() + NS_PER_SECOND)) {
        *ret_later = false;
        return false;
    }
    if (*ret_later)
        perf_ring_unread(ring, record);
    else
        raw->order = (uint32_t)follow->raw_count;
    return true;
}

/* Everything in a ring up to `until`. What is newer stays for the next time, when the other rings are as far.
 * *doubtful: the kernel may have dropped some, and counts them itself; *ret_lost: about so many made no sense. */
static int rings_drain(struct follow *follow, struct perf_ring *ring, uint64_t until, bool *doubtful,
                       uint64_t *ret_lost)
{
    uint64_t dropped = 0;
    const struct perf_event_header *record;
    bool later = false;
    int r = 0;
    perf_ring_begin(ring);
    *doubtful = ring->head - ring->tail > ring->size - ring->copy_size; /* full: the next may have had no room */
    while (r == 0 && !later && (record = perf_ring_next(ring, &dropped))) {
        struct task_record *raw = new_raw(follow);
        if (!raw) {
            perf_ring_unread(ring, record);
            r = -ENOMEM;
        } else if (!record_take(follow, ring, record, until, raw, &later)) {
            perf_ring_drop(ring, record, &dropped);
        } else if (!later && raw->type == PERF_RECORD_LOST && (follow->counts_lost || ring == &follow->counts)) {
            *doubtful = true;
        } else if (!later) {
            follow->raw_count++;
        }
    }
    perf_ring_end(ring);
    *ret_lost = (dropped + RECORD_BYTES - 1) / RECORD_BYTES;
    return r;
}

/* The ring of counts last: a READ is written after its EXIT. Its losses are reported with each end. */
static int drain_all(struct follow *follow, uint64_t until)
{
    bool doubtful;
    uint64_t lost;
    int r = 0;
    for (size_t i = 0; i < follow->ring_count && r == 0; i++) {
        r = rings_drain(follow, &follow->rings[i], until, &doubtful, &lost);
        if (doubtful)
            ask_lost(follow, i, until);
        add_lost(follow, lost, until);
    }
    return r < 0 ? r : rings_drain(follow, &follow->counts, until, &doubtful, &lost);
}

/* ---- to records ---- */
static void drop_ending(struct follow *follow, struct ending *ending)
{
    HASH_DEL(follow->endings, ending);
    free(ending);
}

static void record_tell(struct ending *ending, follow_fn *fn, void *ctx)
{
    ending->record.cpu_ns = ending->cpu_ns;
    ending->record.cpu_known = ending->counted;
    fn(ctx, &ending->record);
}

static void ends_finish(struct follow *follow, struct ending *ending, follow_fn *fn, void *ctx)
{
    if (!ending->reported)
        record_tell(ending, fn, ctx);
    drop_ending(follow, ending);
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

/* A thread has ended: whether it was the last one. Of a process whose birth was lost, the leader's end counts. */
static struct follow_record end_thread(struct follow *follow, pid_t pid, pid_t tid, uint64_t time_ns)
{
    struct follow_record record = {.kind = FOLLOW_THREAD_EXIT, .pid = pid, .tid = tid, .time_ns = time_ns};
    struct process *process;
    HASH_FIND_INT(follow->processes, &pid, process);
    record.unborn = !process && pid == tid;
    if (record.unborn) {
        record.kind = FOLLOW_EXIT;
    } else if (process && --process->threads == 0) {
        record.kind = FOLLOW_EXIT;
        HASH_DEL(follow->processes, process);
        free(process);
    }
    return record;
}

/* Its id is in use again: what it still waited for was lost. */
static void give_up(struct follow *follow, struct ending *ending, follow_fn *fn, void *ctx)
{
    if (!ending->exited)
        ending->record = end_thread(follow, ending->pid, ending->tid, ending->since_ns);
    ends_finish(follow, ending, fn, ctx);
}

static bool writes_reads(const struct follow *follow)
{
    return follow->reads_come || follow->missed_reads < READS_MISSED;
}

/* Too late: the other record of it was lost, or is. */
static void wait_no_more(struct follow *follow, struct ending *ending, uint64_t waited_ns, follow_fn *fn, void *ctx)
{
    if (!ending->exited) {
        give_up(follow, ending, fn, ctx);
        return;
    }
    if (!ending->reported) {
        record_tell(ending, fn, ctx);
        follow->missed_reads += !follow->reads_come && follow->missed_reads < READS_MISSED;
    }
    ending->reported = true;
    if (waited_ns >= READS_LATE_NS || !writes_reads(follow))
        drop_ending(follow, ending);
}

static int on_exit_record(struct follow *follow, const struct task_record *raw, follow_fn *fn, void *ctx)
{
    pid_t pid = (pid_t)raw->pid, tid = (pid_t)raw->tid;
    struct ending *ending = find_ending(follow, tid, raw->time_ns);
    if (!ending)
        return -ENOMEM;
    if (ending->exited) {
        give_up(follow, ending, fn, ctx);
        return on_exit_record(follow, raw, fn, ctx);
    }
    ending->exited = true;
    ending->record = end_thread(follow, pid, tid, raw->time_ns);
    ending->record.ppid = (pid_t)raw->ppid;
    if (tid == follow->root && !follow->root_over) { /* later owners of its id have the inherited clock */
        follow->root_over = true;
        ending->counted = read(follow->counts.fd, &ending->cpu_ns, sizeof ending->cpu_ns) == sizeof ending->cpu_ns;
        ends_finish(follow, ending, fn, ctx);
    } else if (ending->counted || !writes_reads(follow)) {
        ends_finish(follow, ending, fn, ctx);
    }
    return 0;
}

static int on_read_record(struct follow *follow, const struct task_record *raw, follow_fn *fn, void *ctx)
{
    if (!writes_reads(follow))
        return 0;
    struct ending *ending = find_ending(follow, (pid_t)raw->tid, raw->time_ns);
    if (!ending)
        return -ENOMEM;
    if (ending->counted) {
        give_up(follow, ending, fn, ctx);
        return on_read_record(follow, raw, fn, ctx);
    }
    follow->reads_come = true;
    ending->pid = (pid_t)raw->pid;
    ending->counted = true;
    ending->cpu_ns = raw->value;
    if (ending->exited)
        ends_finish(follow, ending, fn, ctx);
    return 0;
}

static int on_fork_record(struct follow *follow, const struct task_record *raw, follow_fn *fn, void *ctx)
{
    struct follow_record record = {
        .kind = raw->pid == raw->ppid ? FOLLOW_THREAD : FOLLOW_FORK,
        .pid = (pid_t)raw->pid,
        .tid = (pid_t)raw->tid,
        .ppid = (pid_t)raw->ppid,
        .time_ns = raw->time_ns,
    };
    struct process *process;
    struct ending *earlier;
    HASH_FIND_INT(follow->endings, &record.tid, earlier);
    if (earlier)
        give_up(follow, earlier, fn, ctx);
    HASH_FIND_INT(follow->processes, &record.pid, process);
    bool thread = record.kind == FOLLOW_THREAD && process;
    int r = add_process(follow, record.pid, thread ? process->threads + 1 : record.kind == FOLLOW_THREAD ? 2 : 1);
    fn(ctx, &record);
    return r;
}

static int hand_out(struct follow *follow, const struct task_record *raw, follow_fn *fn, void *ctx)
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
    uint64_t until = clock_now_ns();
    follow->raw_count = 0;
    int r = drain_all(follow, until);
    if (follow->raw_count > 1)
        qsort(follow->raws, follow->raw_count, sizeof *follow->raws, task_record_compare);
    for (size_t i = 0; i < follow->raw_count; i++) {
        int one = hand_out(follow, &follow->raws[i], fn, ctx);
        r = r < 0 ? r : one;
    }
    struct ending *ending, *next;
    HASH_ITER(hh, follow->endings, ending, next)
    {
        uint64_t waited_ns = until > ending->since_ns ? until - ending->since_ns : 0;
        if (waited_ns >= READS_WAIT_NS)
            wait_no_more(follow, ending, waited_ns, fn, ctx);
    }
    return r;
}

/* ---- how tasks end ---- */

enum {
    BUFFER_BYTES = 4 << 20, /* some 10000 ends, where we may have so much */
    AT_ONCE = 64,
    MESSAGE_BYTES = 256,
};

/* <linux/cn_proc.h> of Linux 6.6; defined here since older headers lack them. */
#define EVENT_EXIT UINT32_C(0x80000000)
struct listen_input {
    uint32_t operation, events;
};

/* Inodes of the first namespaces (<linux/proc_ns.h> of the kernel): in others the kernel sends nothing, or numbers
 * that mean other processes here. */
static bool is_first(const char *link, unsigned long inode)
{
    char text[64];
    ssize_t len = readlink(link, text, sizeof text - 1);
    text[len > 0 ? len : 0] = 0;
    const char *number = strchr(text, '[');
    return number && strtoul(number + 1, NULL, 10) == inode;
}

static int events_ask(int fd, const struct listen_input *input, uint16_t size)
{
    _Alignas(NLMSG_ALIGNTO) char request[NLMSG_SPACE(sizeof(struct cn_msg) + sizeof *input)] = {0};
    struct nlmsghdr *header = (struct nlmsghdr *)request;
    struct cn_msg *message = NLMSG_DATA(header);
    header->nlmsg_len = NLMSG_LENGTH(sizeof *message + size);
    header->nlmsg_type = NLMSG_DONE;
    message->id = (struct cb_id){CN_IDX_PROC, CN_VAL_PROC};
    message->len = size;
    memcpy(message->data, input, size);
    return send(fd, request, header->nlmsg_len, 0) < 0 ? -errno : 0;
}

/* Before Linux 6.6 the kernel knows the first request alone, and sends all events; the second one says which. */
static int listen_to(int fd)
{
    const struct listen_input input = {PROC_CN_MCAST_LISTEN, EVENT_EXIT};
    int code = events_ask(fd, &input, sizeof input.operation);
    return code < 0 ? code : events_ask(fd, &input, sizeof input);
}

int exits_open(struct err *err)
{
    static const char contained[] = "in a container (namespace) the kernel reports no ends of processes";
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    int bytes = BUFFER_BYTES;
    if (!is_first("/proc/self/ns/pid", 0xEFFFFFFC) || !is_first("/proc/self/ns/user", 0xEFFFFFFD))
        return err_set(err, -EACCES, "%s", contained);
    _cleanup_(closep) int fd = socket(PF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
    if (fd < 0)
        return err_set(err, -errno, "this kernel reports no ends of processes (built without CONFIG_PROC_EVENTS)");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    int code = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : listen_to(fd);
    if (code == -ECONNREFUSED)
        return err_set(err, -EACCES, "%s", contained);
    if (code == -EPERM || code == -EACCES)
        return err_set(err, -EACCES, "the kernel reports ends of processes to root alone (before Linux 6.6)");
    if (code < 0)
        return err_errno(err, code, "ends of processes cannot be read (process events)");
    return TAKE_FD(fd);
}

static void event_take(const char *bytes, size_t size, exits_fn *fn, void *ctx)
{
    const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)bytes;
    const struct cn_msg *message = NLMSG_DATA(header);
    struct proc_event event;
    size_t most = NLMSG_LENGTH(sizeof *message) + sizeof event;
    /* later kernels may extend events */
    size_t least = NLMSG_LENGTH(sizeof *message) + offsetof(struct proc_event, event_data.exit.parent_pid);
    if (size < least || message->id.idx != CN_IDX_PROC || message->id.val != CN_VAL_PROC)
        return;
    memset(&event, 0, sizeof event);
    memcpy(&event, message->data, (size < most ? size : most) - NLMSG_LENGTH(sizeof *message));
    if ((uint32_t)event.what != EVENT_EXIT)
        return;
    const struct exit_event reported = {.pid = event.event_data.exit.process_tgid,
                                        .tid = event.event_data.exit.process_pid,
                                        .status = (int)event.event_data.exit.exit_code,
                                        .time_ns = event.timestamp_ns};
    fn(ctx, &reported);
}

int exits_read(int fd, exits_fn *fn, void *ctx)
{
    _Alignas(NLMSG_ALIGNTO) char bytes[AT_ONCE][MESSAGE_BYTES];
    struct sockaddr_nl from[AT_ONCE];
    struct iovec parts[AT_ONCE];
    struct mmsghdr messages[AT_ONCE];
    int code = 0;
    for (;;) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            parts[i] = (struct iovec){bytes[i], sizeof bytes[i]};
            messages[i] = (struct mmsghdr){
                .msg_hdr = {
                    .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &parts[i], .msg_iovlen = 1}};
        }
        int count = recvmmsg(fd, messages, AT_ONCE, MSG_DONTWAIT, NULL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == ENOBUFS) {
            code = -ENOBUFS;
            continue;
        }
        if (count < 0)
            return errno == EAGAIN ? code : -errno;
        for (int i = 0; i < count; i++)
            if (from[i].nl_pid == 0) /* the kernel */
                event_take(bytes[i], messages[i].msg_len, fn, ctx);
    }
}
