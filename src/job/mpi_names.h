/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines of the source the call sites of MPI statistics are (job/place_names.h). */
#ifndef SCRY_JOB_MPI_NAMES_H
#define SCRY_JOB_MPI_NAMES_H

#include "base/err.h"
#include "jobdir/report/mpi_report.h"

enum { MPI_NAMES_TIMEOUT_MS = 10000 };

/* Sets function, file and line of all sites of the set, also of those that threads are in. What cannot be found stays
 * "". 0; 1: some could not be found, with err saying why for the first; -ENOMEM. */
int mpi_names_find(struct mpi_stats_set *set, const char *jobdir, unsigned timeout_ms, struct err *err);

/* What `scry report` shows of MPI: read, named, added up. *ret_report is NULL where there is nothing, also on errors.
 * 0, -ENOENT: it ran no MPI program; -errno with err. */
int mpi_names_report(struct mpi_report **ret_report, const char *jobdir, unsigned timeout_ms, struct err *err);

#endif
