/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What trigger rules of a job did (records `rule` and `rules` of jobdir/record/model.h), and the snapshots that were
 * taken of its processes (JOBDIR/snapshots/NNNN.json): for people and as JSON.
 */
#ifndef SCRY_JOBDIR_REPORT_RULES_H
#define SCRY_JOBDIR_REPORT_RULES_H

#include <stdint.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"

/* [{file, seconds, process, program, service, function, args, calls: [names, the innermost first]}], in the order in
 * which they were taken; a new reference. What cannot be read is left out. started_ns: the job's, on the wall clock. */
json_t *snapshots_json(const char *jobdir, uint64_t started_ns);

/* Both in the order of time, as objects with "event": "rule" (rule, fired, results) and "snapshot", and "seconds"; a
 * new reference. */
json_t *rules_events(const struct job_model *model, const char *jobdir, uint64_t started_ns);
/* One of them on one line, without its time. */
void rules_event_text(struct buf *out, const json_t *event);

#endif
