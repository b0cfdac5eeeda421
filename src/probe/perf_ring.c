/* SPDX-License-Identifier: Apache-2.0 */
/* perf events and their rings (perf_event_open(2), "MMAP layout"). */
#include "probe/perf_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/node.h"

struct perf_event_attr perf_attr(uint64_t software_event, uint32_t wake_bytes)
{
    return (struct perf_event_attr){
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(struct perf_event_attr),
        .config = software_event,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .exclude_kernel = 1, /* asked for by perf_event_paranoid 2; software clocks count the kernel's time anyway */
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = wake_bytes,
    };
}

int perf_open(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int perf_ring_open(struct perf_ring *ring, const struct perf_event_attr *attr, pid_t tid, int cpu, size_t pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *ring = (struct perf_ring){.fd = -1, .copy_size = attr->sample_type & PERF_SAMPLE_STACK_USER ? 1 << 16 : 512};
    ring->copy = malloc(ring->copy_size);
    if (!ring->copy)
        return -ENOMEM;
    for (;; pages /= 2) {
        struct perf_event_attr own = *attr;
        size_t size = pages * page;
        if (own.wakeup_watermark > size / 4)
            own.wakeup_watermark = (uint32_t)(size / 4);
        int fd = perf_open(&own, tid, cpu);
        if (fd < 0) {
            perf_ring_close(ring);
            return fd;
        }
        void *block = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (block != MAP_FAILED) {
            ring->fd = fd;
            ring->page = block;
            ring->size = size;
            return 0;
        }
        int r = -errno;
        close(fd);
        if ((r != -EPERM && r != -ENOMEM) || pages == 1) {
            perf_ring_close(ring);
            return r == -EPERM ? -ENOMEM : r; /* the limit, not a refusal */
        }
    }
}

void perf_ring_close(struct perf_ring *ring)
{
    if (ring->page)
        munmap(ring->page, ring->size + (size_t)sysconf(_SC_PAGESIZE));
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring->copy);
    *ring = (struct perf_ring){.fd = -1};
}

void perf_ring_begin(struct perf_ring *ring)
{
    /* acquire: the records before data_head are written before it moves */
    ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

/* "0-3,8" */
size_t perf_processors(int *ret_cpus, size_t most)
{
    char text[4096];
    size_t count = 0;
    if (!node_read_text(text, sizeof text, "/sys/devices/system/cpu/online")) {
        long online = sysconf(_SC_NPROCESSORS_CONF);
        for (int cpu = 0; cpu < online && count < most; cpu++)
            ret_cpus[count++] = cpu;
        return count;
    }
    const char *at = text;
    for (long first, last; node_next_range(&at, &first, &last);)
        for (long cpu = first; cpu <= last && count < most; cpu++)
            ret_cpus[count++] = (int)cpu;
    return count;
}

static void copy_out(const struct perf_ring *ring, uint64_t at, void *to, size_t len)
{
    const char *data = (const char *)ring->page + (size_t)sysconf(_SC_PAGESIZE);
    size_t offset = (size_t)(at & (ring->size - 1));
    size_t first = len < ring->size - offset ? len : ring->size - offset;
    memcpy(to, data + offset, first);
    memcpy((char *)to + first, data, len - first);
}

const struct perf_event_header *perf_ring_next(struct perf_ring *ring, uint64_t *dropped)
{
    struct perf_event_header *header = (struct perf_event_header *)ring->copy;
    uint64_t left = ring->head - ring->tail;
    if (left == 0)
        return NULL;
    if (left >= sizeof *header && left <= ring->size) {
        copy_out(ring, ring->tail, header, sizeof *header);
        size_t size = header->size;
        bool known = header->type > 0 && header->type < PERF_RECORD_MAX;
        if (known && size >= sizeof *header && size % 8 == 0 && size <= left && size <= ring->copy_size) {
            copy_out(ring, ring->tail, ring->copy, size);
            header->size = (uint16_t)size;
            ring->tail += size;
            return header;
        }
    }
    *dropped += left < ring->size ? left : ring->size;
    ring->tail = ring->head;
    return NULL;
}

void perf_ring_drop(struct perf_ring *ring, const struct perf_event_header *record, uint64_t *dropped)
{
    *dropped += ring->head - ring->tail + record->size;
    ring->tail = ring->head;
}

void perf_ring_unread(struct perf_ring *ring, const struct perf_event_header *record)
{
    ring->tail -= record->size;
}

void perf_ring_end(struct perf_ring *ring)
{
    /* release: the kernel may overwrite what we have read only now */
    __atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

bool perf_record_id(const struct perf_event_header *record, struct perf_record_id *ret_id)
{
    if (record->size < sizeof *record + sizeof *ret_id)
        return false;
    memcpy(ret_id, (const char *)record + record->size - sizeof *ret_id, sizeof *ret_id);
    return true;
}

static int paranoid_level(void)
{
    char text[16] = "";
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -100;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    return len > 0 ? atoi(text) : -100;
}

int perf_explain(struct err *err, int code, const char *what)
{
    int level = paranoid_level();
    switch (code) {
    case -EACCES:
    case -EPERM:
        if (level >= 3)
            return err_set(err, -EACCES,
                           "%s needs perf events, and kernel.perf_event_paranoid is %d: ask for 2 (sysctl "
                           "kernel.perf_event_paranoid=2) or the capability CAP_PERFMON",
                           what, level);
        return err_set(err, -EACCES,
                       "%s needs perf events, and the kernel refuses them: the process is another user's or protected, "
                       "or a container forbids perf_event_open",
                       what);
    case -ENOSYS:
        return err_set(err, -EACCES, "%s needs perf events, and this kernel was built without them", what);
    case -ENOMEM:
        return err_set(err, -EACCES,
                       "%s needs memory for perf records, and kernel.perf_event_mlock_kb is used up by other tools "
                       "(or memory is short)",
                       what);
    case -EMFILE:
        return err_set(err, -EACCES, "%s needs a descriptor per processor, and the limit of open files is reached",
                       what);
    default:
        return err_errno(err, code, "%s: perf_event_open", what);
    }
}

const char *perf_missing(const struct perf_event_attr *attr, const char *what)
{
    static _Thread_local struct err err;
    struct perf_event_attr own = *attr;
    own.inherit = own.inherit_stat = 0; /* possible on the whole of a thread only without */
    int fd = perf_open(&own, 0, -1);
    if (fd >= 0) {
        close(fd);
        return NULL;
    }
    perf_explain(&err, fd, what);
    return err.text;
}
