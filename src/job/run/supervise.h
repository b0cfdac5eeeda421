/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job, from its start to its summary. */
#ifndef SCRY_JOB_RUN_SUPERVISE_H
#define SCRY_JOB_RUN_SUPERVISE_H

#include "job/watch/options.h"

enum { JOB_FAILED_BEFORE_START = 125 };

/* Runs the command and returns scry run's exit status. Prints to standard error only. */
int job_run(struct run_options *options);

#endif
