/* SPDX-License-Identifier: Apache-2.0 */
/* What scry run asks of the monitor when the command has ended. */
#ifndef SCRY_JOB_RUN_WATCH_END_H
#define SCRY_JOB_RUN_WATCH_END_H

#include "job/run/job.h"

/* Takes the last sample, with the processes that ended since the one before, and has all traces brought to disk. It
 * waits for both, but not for a monitor that does not answer. */
void watch_end(struct job *job);

#endif
