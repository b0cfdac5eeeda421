/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the probe: one perf event and the ring of records that the kernel writes for it (perf_event_open(2)). Records
 * are checked before they are used: those of inherited events may be written by several processors at a time, and a
 * torn one must not harm us. Not thread-safe.
 */
#ifndef SCRY_PROBE_PERF_RING_H
#define SCRY_PROBE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct perf_ring {
    int fd;
    struct perf_event_mmap_page *page; /* NULL: no ring, the event only counts */
    size_t size;                       /* of the data after the page, a power of two */
    uint64_t tail, head;               /* the next byte to read, and the kernel's position at the last check */
    unsigned char *copy;               /* of a record */
    size_t copy_size;                  /* ours are all shorter */
};

/* The common attributes of our events: nothing of the kernel, times by CLOCK_MONOTONIC, thread id and time at the end
 * of every record (struct perf_record_id), a wake-up at a watermark of wake_bytes. */
struct perf_event_attr perf_attr(uint64_t software_event, uint32_t wake_bytes);

struct perf_record_id {
    uint32_t pid, tid;
    uint64_t time_ns;
};

/* The event without a ring: a descriptor or -errno. */
int perf_open(const struct perf_event_attr *attr, pid_t tid, int cpu);

/* Opens the event with a ring of at most `pages` pages (a power of two); fewer when the limit of locked memory
 * (perf_event_mlock_kb) leaves no more. -ENODEV: the processor is offline. */
int perf_ring_open(struct perf_ring *ring, const struct perf_event_attr *attr, pid_t tid, int cpu, size_t pages);
void perf_ring_close(struct perf_ring *ring);

enum { PERF_CPUS = 8192 };
/* The online processors, at most `most`. Returns their number. */
size_t perf_processors(int *ret_cpus, size_t most);

/* Reads the kernel's position. */
void perf_ring_begin(struct perf_ring *ring);
/* The next whole record, valid until the next call, or NULL. If the rest of the ring makes no sense, drops it and adds
 * its bytes to *dropped. perf_ring_drop does the same if the caller cannot use the record just read. perf_ring_unread
 * steps back before it. */
const struct perf_event_header *perf_ring_next(struct perf_ring *ring, uint64_t *dropped);
void perf_ring_drop(struct perf_ring *ring, const struct perf_event_header *record, uint64_t *dropped);
void perf_ring_unread(struct perf_ring *ring, const struct perf_event_header *record);
/* Gives the read part back to the kernel. */
void perf_ring_end(struct perf_ring *ring);

/* The id at the end of a record; false when the record is too short. */
bool perf_record_id(const struct perf_event_header *record, struct perf_record_id *ret_id);

/* Why perf_event_open failed with that code, for people; the same text in err when given. */
int perf_explain(struct err *err, int code, const char *what);
/* NULL, or why events of this kind cannot be opened here; the text lives until the thread's next call. */
const char *perf_missing(const struct perf_event_attr *attr, const char *what);

#endif
