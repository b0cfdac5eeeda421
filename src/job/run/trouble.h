/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job may have ended badly: core files. */
#ifndef SCRY_JOB_RUN_TROUBLE_H
#define SCRY_JOB_RUN_TROUBLE_H

#include <stddef.h>
#include <sys/types.h>

/* Where the kernel left the core file of a process (core_pattern(5)): *ret_path is malloc'ed, or NULL with a text for
 * people in `note` ("the core went to ...", or ""). Files older than `since` belong to others. */
void trouble_find_core(pid_t pid, const char *name, const char *cwd, int signo, time_t since, char **ret_path,
                       char *note, size_t note_size);

#endif
