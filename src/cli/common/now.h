/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each layer of a job is now: its scripts, Python, functions, MPI, logs, the node, warnings, and how far it says
 * it is. For scry top, watch and ps, from the model of a job (jobdir/record/model.h).
 */
#ifndef SCRY_CLI_COMMON_NOW_H
#define SCRY_CLI_COMMON_NOW_H

#include <stddef.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"
#include "jobdir/text/fields.h"

enum now_layer {
    NOW_PROGRESS,
    NOW_SCRIPT, /* of each tree of processes, where the innermost script is */
    NOW_PYTHON,
    NOW_FUNCTION,
    NOW_MPI, /* ranks stand still */
    NOW_LOG,
    NOW_HEALTH,
    NOW_WARNING,
    NOW_LAYERS
};

struct now_line {
    enum now_layer layer;
    const json_t *record; /* of the model */
};
enum { NOW_LINES = 24 };

/* In the order of layers, of each at most `each`, the last ones first. Returns how many. */
size_t now_lines(const struct job_model *model, size_t each, struct now_line ret_lines[NOW_LINES]);
/* Appends the line without its end, for a terminal: the layer in six columns, and what it is at. `seconds`: now, since
 * the start of the job. */
void now_text(struct buf *out, const struct now_line *line, double seconds);

/* The source that told last how far the job is; NULL: none. And of such a record: the share that is done, 0 to 1, and
 * the seconds that are left; -1: unknown. `seconds`: now; -1: the job is over, and nothing is left to do. */
const json_t *now_progress(const struct job_model *model);
double now_share(const json_t *progress);
double now_left(const json_t *progress, double seconds);
/* "42 %, 3 min 05 s left"; nothing if neither is known. */
void now_progress_text(struct buf *out, const json_t *progress, double seconds);

/* For programs. */
struct now {
    const struct job_model *model;
    double seconds;
};
extern const struct field now_fields[], now_progress_fields[]; /* of struct now; of struct now_done */
struct now_done {
    const char *source;
    double done, total, share, left_seconds;
};
/* Of such a record, which may be NULL, as now_progress_fields have it, or null. A new reference. */
json_t *now_progress_json(const json_t *progress, double seconds);

#endif
