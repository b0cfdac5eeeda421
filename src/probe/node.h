/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PROBE_NODE_H
#define SCRY_PROBE_NODE_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

/*
 * What Linux knows about this node: the members of node_get_info (specification 8.1.1). Static facts are read once;
 * rates are differences between two samples at least 1 s apart. Samples are taken at the start, and when rates are
 * asked for: who asks every 15 s or more often has averages as fresh as the specification wants them; else they are
 * over the time since the last sample. Within the first second the interval is shorter, within the first 0.1 s rates
 * are -1 (node_probe_wait_ns). What cannot be known is -1 or "".
 */

struct node_probe;

int node_probe_new(struct node_probe **ret_probe);
void node_probe_free(struct node_probe *probe);

/* How long it is until rates among these members are known; 0: now, or there are none. */
uint64_t node_probe_wait_ns(const struct node_probe *probe, uint64_t flags);

/* A flag, not of the specification: only what a few reads of files tell. Unless they are known from before, benchmarks (the first
 * request for bit 2 or 3 takes some 20 ms of processor time), sleeping processes (a look at every process) and rates
 * within the first 0.1 s are -1. */
enum { NODE_AT_HAND = 1 << 14, NODE_INFO_BITS = 15 };

/* Appends the members selected by `flags` (bits 0-13, NODE_AT_HAND) in the language's syntax, comma-separated, as
 * node_get_info returns them. -EINVAL for other bits. */
int node_probe_print(struct node_probe *probe, uint64_t flags, struct buf *out, struct err *err);

/*
 * Inside the probe: the parts of node.h. What is not known is -1 or "". Paths in /proc and /sys are those of proc(5)
 * and the kernel's Documentation/ABI.
 */

/* Reads the beginning of a small file as a string without its last newline; false if there is none. */
bool node_read_text(char *ret_text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The next range of a list of numbers such as "0-3,8"; moves *at after it. False: there is none. */
bool node_next_range(const char **at, long *ret_first, long *ret_last);

/* ---- memory (memory_room.c) ---- */

/*
 * How much memory this process may still get, together with what shares its limit. A batch job's control group (cgroup,
 * version 1 or 2; see cgroups(7)) mostly contains the job and its watchers; whoever takes its last page makes the
 * kernel kill one of them. Cheap enough for a few calls a second.
 */

struct memory_room {
    uint64_t limit; /* the one that leaves least, in bytes; of the node where there is none */
    uint64_t left;  /* below it; file pages that can be given back count as left. UINT64_MAX: nothing is known */
};

void memory_room_read(struct memory_room *ret_room);
/* The same from other files: `groups` is the content of /proc/PID/cgroup, `root` where control groups are mounted. false: the
 * group itself is not to be seen there, so it may have limits that nobody knows. */
#define MEMORY_ROOM_ROOT "/sys/fs/cgroup"
bool memory_room_of(const char *groups, const char *root, struct memory_room *ret_room);

#endif
