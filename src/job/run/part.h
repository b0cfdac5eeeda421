/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job on several nodes: its parts (jobdir/record/parts.h), as those that begin it and those that are one see it. A part is
 * written by the `scry run --part-of` that stands before the launcher's daemon on its node, or by `scry exec` where a batch
 * system starts the tasks (job/launch/propagate.h): in the job directory if that is seen there, else on the node, from where
 * scry-parts brings it (job/parts/fetch.h). Where nobody may ssh, the part's monitor comes by itself (scry link await, join).
 * That is listened for only if the batch system gave the job several nodes, or the command names srun or salloc.
 */
#ifndef SCRY_JOB_RUN_PART_H
#define SCRY_JOB_RUN_PART_H

#include "job/run/job.h"
#include "jobdir/report/report.h"

/* Makes the directory of the job, with a new id, as its options say. Or, of a part: in that of the job, if it is seen here (a shared file system); else where the job has
 * its own, if there is nothing; else among this node's jobs. 0 or -errno with err. */
int part_directory(struct job *job, struct err *err);

/* Before the launch: what the command is to hand on to other nodes. */
void part_prepare(struct job *job);

/* scry set has changed the job: parts that begin from now on are to begin so. */
void part_changed(const struct job *job, const char *key, const char *value);

/* Now and then: has scry-parts bring the parts of other nodes, when a launcher has gone to one. */
void part_tick(struct job *job);

/* After the command's end: launchers do not wait for their daemons on other nodes, which end a moment later. Waits for
 * the parts that are seen here, and not for long. */
void part_wait(struct job *job);

/* A part whose node may end with it: when all is written, waits until that was read, and not for long. */
void part_wait_brought(struct job *job);

/* A record of a process: whether it goes to other nodes in a way that scry does not follow. */
void part_look_at(struct job *job, const json_t *process);
/* At the end: notes each node that a launcher went to and nothing comes from. */
void part_note_unwatched(struct job *job);
/* At the end: says so if other nodes have files of their own by the names that --log gives. */
void part_note_logs(struct job *job);
/* At the end: what the parts have recorded, for the summary, if that does not take long. */
void part_load(struct job_report *report);

/* Begins a line for people: "scry: ", and of a part its node, for lines of all nodes come out in one place. */
void part_put_who(struct buf *out, const struct job *job);

#endif
