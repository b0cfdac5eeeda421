/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about crashed processes: their core files, and backtraces, taken live (--crash-stack) or from core
 * files. */
#ifndef SCRY_JOB_RUN_CRASH_H
#define SCRY_JOB_RUN_CRASH_H

#include "job/run/job.h"

/* Completes the crashes of the model, before they are written. */
void crash_explain(struct job *job);

/* Whether any process has a trace; true where that is not known. */
bool crash_any_traced(const struct job *job);

#endif
