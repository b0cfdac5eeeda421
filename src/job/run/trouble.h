/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job may have ended badly: memory that ran out, core files. */
#ifndef SCRY_JOB_RUN_TROUBLE_H
#define SCRY_JOB_RUN_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

/* What the kernel counted so far. */
struct trouble_counts {
    uint64_t node_oom_kills;  /* /proc/vmstat */
    uint64_t group_oom_kills; /* of this process's control group, version 1 or 2 */
    bool group_known;
};
void trouble_count(struct trouble_counts *ret_counts);

/* Where the kernel left the core file of a process (core_pattern(5)): *ret_path is malloc'ed, or NULL with a text for
 * people in `note` ("the core went to ...", or ""). Files older than `since` belong to others. */
void trouble_find_core(pid_t pid, const char *name, const char *cwd, int signo, time_t since, char **ret_path,
                       char *note, size_t note_size);

#endif
