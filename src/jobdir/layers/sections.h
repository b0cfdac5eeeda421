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
void logs_text(struct buf *out, const struct layers *layers, bool ascii);
void health_text(struct buf *out, const struct layers *layers, bool ascii);

/* For programs, of a struct layers. */
extern const struct field scripts_fields[], logs_fields[], health_fields[];

/* python_functions of these alone; a new reference. */
json_t *scripts_python_functions(const struct layers *layers);

#endif
