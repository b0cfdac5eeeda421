/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/oom.h"

#include <stdlib.h>

#include "base/data/cleanup.h"
#include "job/health/cgroup.h"
#include "job/health/look.h"

enum { VMSTAT = 16 << 10 };

int64_t oom_count_node(const char *root)
{
    char text[VMSTAT];
    return look_read(root, text, sizeof text, "/proc/vmstat") < 0 ? -1 : look_find(text, "oom_kill");
}

void oom_count(const char *root, pid_t pid, struct oom_counts *ret_counts)
{
    _cleanup_(freep) struct cgroup *group = malloc(sizeof *group);
    struct cgroup_state state = {.oom_kills = -1};
    if (group) {
        cgroup_find(root, pid, group);
        cgroup_read(root, group, &state);
    }
    *ret_counts = (struct oom_counts){oom_count_node(root), state.oom_kills};
}
