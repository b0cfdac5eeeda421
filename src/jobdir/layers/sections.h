/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report says of scripts and Python, of logs, and of the node's health: made from the model's layers. Nothing is
 * said where there are no such records.
 */
#ifndef SCRY_JOBDIR_LAYERS_SECTIONS_H
#define SCRY_JOBDIR_LAYERS_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/buf.h"
#include "jobdir/record/layers.h"
#include "jobdir/text/fields.h"

/* For people, of the whole report. */
void scripts_text(struct buf *out, const struct layers *layers);
/* Its last value: "0.15", "nan, seen since 12.3 s". */
void metric_put_last(struct buf *out, const struct layer_metric *metric, int digits);
/* Of a few, those that came first: "loss 0.15 (from 0.05 to 3), rate 0.1 and 2 more"; nothing, and false: there are none. */
bool metrics_brief_text(struct buf *out, const struct layers *layers);
void logs_text(struct buf *out, const struct layers *layers, bool ascii);
void health_text(struct buf *out, const struct layers *layers, bool ascii);

/* For programs, of a struct layers. */
extern const struct field scripts_fields[], logs_fields[], health_fields[];
extern const struct field metrics_brief_fields[]; /* the last value of each metric */

/* python_functions of these alone; a new reference. */
json_t *scripts_python_functions(const struct layers *layers);

#endif
