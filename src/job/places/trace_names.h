/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the source lines that the calls in traces come from (job/places/place_names.h). */
#ifndef SCRY_JOB_PLACES_TRACE_NAMES_H
#define SCRY_JOB_PLACES_TRACE_NAMES_H

#include "base/data/arena.h"
#include "base/data/err.h"
#include "jobdir/report/functions.h"
#include "jobdir/trace/trace.h"

/* Names the places of the traces (trace_place), in `arena`, which must outlive them. Places that are not found have no
 * name. 0; 1: some were not found, with err for the first; -ENOMEM. */
int trace_names_find(struct trace *const *traces, size_t count, const char *jobdir, struct arena *arena,
                     struct err *err);

/* Likewise for the first FUNCTIONS_SITES places that a report's functions are called from. */
int trace_names_sites(struct job_functions *functions, const char *jobdir, struct err *err);

#endif
