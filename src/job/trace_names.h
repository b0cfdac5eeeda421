/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines of the source the calls of traces come from (job/place_names.h). */
#ifndef SCRY_JOB_TRACE_NAMES_H
#define SCRY_JOB_TRACE_NAMES_H

#include "base/arena.h"
#include "base/err.h"
#include "jobdir/report/functions.h"
#include "jobdir/trace/trace.h"

/* Names the places of the traces (trace_place). The names are in `arena`, which has to stay as long as they do. What
 * cannot be found has none. 0; 1: some could not be found, with err saying why for the first; -ENOMEM. */
int trace_names_find(struct trace *const *traces, size_t count, const char *jobdir, struct arena *arena,
                     struct err *err);

/* Names the first FUNCTIONS_SITES places that a report's functions are called from; likewise. */
int trace_names_sites(struct job_functions *functions, const char *jobdir, struct err *err);

#endif
