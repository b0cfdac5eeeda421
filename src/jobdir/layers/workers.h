/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that a process had started, by fork, and that failed while it lived on: it may wait for what they owe. Pure functions. */
#ifndef SCRY_JOBDIR_LAYERS_WORKERS_H
#define SCRY_JOBDIR_LAYERS_WORKERS_H

#include <stdbool.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"

/* Appends "python3 (pid 12) had lost 2 workers: pid 13, exit status 1 at 0.3 s, and pid 14, SIGKILL at 0.4 s", of the process that lost one
 * last. `lives`: "has" and only of one that still runs; else of one that did at that time. false: none. */
bool workers_put_lost(struct buf *out, const struct job_model *model, double seconds, bool lives);

#endif
