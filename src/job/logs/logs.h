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

/* Makes a file of memory for numbers that programs say themselves (shm/metrics.h), which is there as long as this process, whose pid is
 * `self`. ret_path: how others open it; "": there is none. The observer makes it what it has to be. */
void metrics_share(char *ret_path, size_t size, pid_t self);

/* Whether --log and --log-patterns can be followed, before the job is started. 0, or -errno with err for people. */
int logs_check(const struct run_options *options, struct err *err);

#endif
