/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/oom.h"

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
    *ret_counts = (struct oom_counts){oom_count_node(root), cgroup_oom_kills(root, pid)};
}
