/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading debug information takes memory and time, and meets damaged files: it is done aside, in a child that has a
 * deadline and answers through a pipe.
 */
#ifndef SCRY_JOB_ASIDE_H
#define SCRY_JOB_ASIDE_H

#include <jansson.h>

typedef json_t *aside_fn(const void *ctx); /* runs in the child */

/* What it says: a new reference, or NULL when it took too long or failed. */
json_t *aside_run(aside_fn *task, const void *ctx, unsigned timeout_ms);

#endif
