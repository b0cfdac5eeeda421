/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs write: a source of the observer (job/observe/observe.h). It follows the files that --log names, and
 * standard error and standard output where these are files, and records lines that match, and progress. It takes at most
 * LOGS_SHARE of a processor; what cannot be looked at in that time is passed over, counted and said.
 */
#ifndef SCRY_JOB_LOGS_LOGS_H
#define SCRY_JOB_LOGS_LOGS_H

#include "job/observe/observe.h"

enum { LOGS_SHARE_PERCENT = 20 };

/* Whether --log and --log-patterns can be followed, before the job is started. 0, or -errno with err for people. */
int logs_check(const struct run_options *options, struct err *err);

#endif
