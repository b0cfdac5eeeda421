/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may still get, together with what shares its limit. A batch job's control group (cgroup,
 * version 1 or 2; see cgroups(7)) mostly contains the job and its watchers; whoever takes its last page makes the
 * kernel kill one of them. Cheap enough for a few calls a second.
 */
#ifndef SCRY_PROBE_MEMORY_ROOM_H
#define SCRY_PROBE_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

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
