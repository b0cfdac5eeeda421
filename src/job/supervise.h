/* SPDX-License-Identifier: Apache-2.0 */
/* One job, from its start to its summary. */
#ifndef SCRY_JOB_SUPERVISE_H
#define SCRY_JOB_SUPERVISE_H

#include "job/options.h"

enum { JOB_FAILED_BEFORE_START = 125 };

/* Runs the command and returns what scry run exits with. Prints to standard error only. */
int job_run(struct run_options *options);

#endif
