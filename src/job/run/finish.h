/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_RUN_FINISH_H
#define SCRY_JOB_RUN_FINISH_H

#include "base/data/buf.h"
#include "job/observe/observe.h"
#include "job/run/job.h"

/* The end of a job: the result, warnings, job.json, report.txt and the summary. */

/* Appends to `text` the summary; of a quiet job only that no calls were recorded, where they were to be. */
void finish(struct job *job, int exit_code, struct buf *text);
/* The job was not started: removes its directory. */
void finish_failed(struct job *job);
/* Hands the current job.json to the process that writes it; now: which waits until it is on disk. */
void finish_put_info(struct job *job, bool now);
void finish_done(struct job *job);

/* What the observer of a job looks at (job/observe/observe.h): the one table, which ends with NULL. */

extern const struct observe_source *const observe_sources[];

/* What scry run asks of the monitor when the command has ended. */

/* Takes the last sample, with the processes that ended since the one before, and has all traces brought to disk. It
 * waits for both, but not for a monitor that does not answer. */
void watch_end(struct job *job);

#endif
