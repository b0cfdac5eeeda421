/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_PLACES_PLACE_NAMES_H
#define SCRY_JOB_PLACES_PLACE_NAMES_H

#include "base/data/arena.h"
#include "base/data/err.h"
#include "jobdir/report/functions.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* Finds the source lines of the call sites in MPI statistics (job/places/place_names.h). */

/* Sets function, file and line of all sites of the set, also of those that threads are in; "" if not found. 0; 1: some
 * were not found, with err for the first; -ENOMEM. */
int mpi_names_find(struct mpi_stats_set *set, const char *jobdir, unsigned timeout_ms, struct err *err);

/* Reads, names and sums up what `scry report` shows of MPI. *ret_report is NULL if there is nothing, also on errors. 0,
 * -ENOENT: no MPI program ran; -errno with err. */
int mpi_names_report(struct mpi_report **ret_report, const char *jobdir, unsigned timeout_ms, struct err *err);

/* Finds the source lines that the calls in traces come from (job/places/place_names.h). */

/* Names the places of the traces (trace_place), in `arena`, which must outlive them. Places that are not found have no
 * name. 0; 1: some were not found, with err for the first; -ENOMEM. */
int trace_names_find(struct trace *const *traces, size_t count, const char *jobdir, struct arena *arena,
                     struct err *err);

/* Likewise for the first FUNCTIONS_SITES places that a report's functions are called from. */
int trace_names_sites(struct job_functions *functions, const char *jobdir, struct err *err);

#endif
