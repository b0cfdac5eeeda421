/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/oom.h"

#include "job/health/look.h"

enum { VMSTAT = 16 << 10 };

int64_t oom_count_node(const char *root)
{
    char text[VMSTAT];
    return look_read(root, text, sizeof text, "/proc/vmstat") < 0 ? -1 : look_find(text, "oom_kill");
}

void oom_count_again(const char *root, struct oom_counts *counts)
{
    counts->node = oom_count_node(root);
    counts->group = counts->place.version ? cgroup_oom_kills(root, &counts->place) : -1;
}

void oom_count(const char *root, pid_t pid, struct oom_counts *ret_counts)
{
    if (!cgroup_find_memory(root, pid, &ret_counts->place))
        ret_counts->place.version = 0;
    oom_count_again(root, ret_counts);
}
