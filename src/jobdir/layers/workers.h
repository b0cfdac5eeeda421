/* SPDX-License-Identifier: Apache-2.0 */
/* What had failed before a program stood still, and may be what it waits for: workers that it had started, by fork, and that failed while
 * it lived on; an exception that ended a thread of it. Pure functions. */
#ifndef SCRY_JOBDIR_LAYERS_WORKERS_H
#define SCRY_JOBDIR_LAYERS_WORKERS_H

#include <stdbool.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"

/* Appends "python3 (pid 12) had lost 2 workers: pid 13, exit status 1 at 0.3 s, and pid 14, SIGKILL at 0.4 s", of the process that lost one
 * last. `lives`: "has" and only of one that still runs; else of one that did at that time. false: none. */
bool workers_put_lost(struct buf *out, const struct job_model *model, double seconds, bool lives);
/* Appends "ValueError: bad item 3, at work.py:6", if that is the last that was logged, not long before, or with seconds < 0 whenever that
 * was. false: it is not. */
bool workers_put_exception(struct buf *out, const struct job_model *model, double seconds);

#endif
