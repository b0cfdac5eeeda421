/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened last in a job that failed: the last records of all layers on one time line, and above them the most
 * probable reason (jobdir/layers/cause.h). Times are relative to the end.
 */
#ifndef SCRY_JOBDIR_LAYERS_LAST_H
#define SCRY_JOBDIR_LAYERS_LAST_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/layers/cause.h"
#include "jobdir/text/fields.h"

/* {reason, events}; a new reference, or NULL when out of memory. */
json_t *last_json(const struct job_end *end);
extern const struct field last_fields[];             /* of it */
json_t *last_reason_json(const struct job_end *end); /* .reason alone; null if nothing is known of its end */
extern const struct field last_reason_fields[];      /* of it */

/* A line on what would have shown the reason, below it, if there is something to say; and what the job said last. */
void last_unknown_text(struct buf *out, const json_t *last);
void last_said_text(struct buf *out, const json_t *last);
/* Lines for people, of that: those that say most, in the order of their times. Not whole: at most a handful. */
void last_text(struct buf *out, const json_t *last, bool whole, const char *colour);

#endif
