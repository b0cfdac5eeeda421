/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing the interposer into an MPI process that was not started by scry and is attached (monitor/tracing/loading.h):
 * asked for by mpi_load, or needed by an event of library calls. A second request while it is under way waits for
 * the same end.
 *
 * MPI runs already there, so neither the number of a rank's calls nor the origin of its communicators can be compared with
 * others: communicators have no identity, queues have doubts, and mpi_why draws no conclusions (mpi_stats.late).
 */
#ifndef SCRY_MONITOR_MPI_LATE_H
#define SCRY_MONITOR_MPI_LATE_H

#include <stdbool.h>

#include "base/data/err.h"

struct monitor;
struct mpi_registry;
struct process;

/* The end; code 0: its calls are caught from here on; -errno: err says why not. `process` NULL: it is gone. From the
 * loop, never from inside one of these functions. */
typedef void mpi_late_fn(void *ctx, struct process *process, int code, const struct err *err);

/* 0: begun, and fn is called once, if nobody forgets it. -errno: it cannot be done here, err says why. */
int mpi_late_begin(struct process *process, mpi_late_fn *fn, void *ctx, struct err *err);
/* fn of this ctx is not called any more for this process. What nobody waits for is not begun. true: it was still
 * to be called. */
bool mpi_late_forget(struct process *process, const void *ctx);
/* Of all processes; NULL: of all. */
void mpi_late_forget_all(struct mpi_registry *registry, const void *ctx);

#endif
