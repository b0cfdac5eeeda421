/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the source lines of the call sites in MPI statistics (job/places/place_names.h). */
#ifndef SCRY_JOB_PLACES_MPI_NAMES_H
#define SCRY_JOB_PLACES_MPI_NAMES_H

#include "base/data/err.h"
#include "jobdir/report/mpi_report.h"

/* Sets function, file and line of all sites of the set, also of those that threads are in; "" if not found. 0; 1: some
 * were not found, with err for the first; -ENOMEM. */
int mpi_names_find(struct mpi_stats_set *set, const char *jobdir, unsigned timeout_ms, struct err *err);

/* Reads, names and sums up what `scry report` shows of MPI. *ret_report is NULL if there is nothing, also on errors. 0,
 * -ENOENT: no MPI program ran; -errno with err. */
int mpi_names_report(struct mpi_report **ret_report, const char *jobdir, unsigned timeout_ms, struct err *err);

#endif
