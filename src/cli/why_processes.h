/* SPDX-License-Identifier: Apache-2.0 */
/* Of processes that are no ranks: what their threads are blocked in (job/blocked.h). */
#ifndef SCRY_CLI_WHY_PROCESSES_H
#define SCRY_CLI_WHY_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"

void why_processes_text(struct buf *out, const pid_t *pids, size_t count);
json_t *why_processes_json(const pid_t *pids, size_t count); /* a new reference */
/* Appends what one thread is blocked in, for behind "computes in"; false: it runs, or is gone. */
bool why_processes_blocked(struct buf *out, pid_t pid, pid_t tid);

/* Whether a process has a library of MPI in it. */
bool why_processes_use_mpi(pid_t pid);

#endif
