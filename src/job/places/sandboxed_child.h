/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work in a child that has a deadline and answers through a pipe. For debug information: reading it takes memory
 * and time, and files may be damaged.
 */
#ifndef SCRY_JOB_PLACES_SANDBOXED_CHILD_H
#define SCRY_JOB_PLACES_SANDBOXED_CHILD_H

#include <jansson.h>

typedef json_t *sandboxed_child_fn(const void *ctx); /* runs in the child */

/* The child's answer: a new reference, or NULL if it took too long or failed. */
json_t *sandboxed_child_run(sandboxed_child_fn *task, const void *ctx, unsigned timeout_ms);

#endif
