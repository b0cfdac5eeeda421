/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said of crashed processes: their core files, and the backtraces taken live (--crash-stack) or from them.
 */
#ifndef SCRY_JOB_CRASH_H
#define SCRY_JOB_CRASH_H

#include "job/job.h"

/* Completes the crashes of the model, before they are written. */
void crash_explain(struct job *job);

/* Is there a trace of this process (0: of any)? Its calls led to the crash, which the report shows. */
bool crash_is_traced(const struct job *job, pid_t pid);

#endif
