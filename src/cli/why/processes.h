/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks the threads of processes that are no ranks (job/places/blocked.h). */
#ifndef SCRY_CLI_WHY_PROCESSES_H
#define SCRY_CLI_WHY_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/text/fields.h"

void why_processes_text(struct buf *out, const pid_t *pids, size_t count);
extern const struct field why_process_fields[];
json_t *why_processes_json(const pid_t *pids, size_t count); /* a new reference */
/* Is a library of MPI loaded in the process? */
bool why_processes_use_mpi(pid_t pid);

#endif
