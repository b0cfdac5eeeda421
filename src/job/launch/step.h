/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks that a batch system starts beside each other on one node, as one job. SCRY_STEP has the name that they
 * share. One of them is `scry run`: it offers its job under that name, by a link in the runtime directory. The others are
 * `scry exec`: they look for it, and wait a moment, for all of them start at once.
 */
#ifndef SCRY_JOB_LAUNCH_STEP_H
#define SCRY_JOB_LAUNCH_STEP_H

#include <stdbool.h>
#include <stddef.h>

/* Offers the job in this directory, in place of an older one of that name. The link stays: a task may come late, to a job
 * that is already over. Links of yesterday are removed. Without SCRY_STEP, or if the link cannot be made, nothing
 * happens. */
void step_offer(const char *dir);

/* Whether this is the first that asks this, of those with the same SCRY_STEP on this node: then it is to offer the job. */
bool step_lead(void);

/* Takes out of the environment what is for scry alone: SCRY_STEP, and SCRY_BATCH_MEMORY (job/record/batch.h). */
void step_forget(void);

/* The directory of the job that is offered. Waits at most as WAIT_STEP says. false: there is no SCRY_STEP, or no job. */
bool step_find(char *ret_dir, size_t size);

#endif
