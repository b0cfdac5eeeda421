/* SPDX-License-Identifier: Apache-2.0 */
/* Inside job/python: stacks as records have them. */
#ifndef SCRY_JOB_PYTHON_STACK_JSON_H
#define SCRY_JOB_PYTHON_STACK_JSON_H

#include <jansson.h>

#include "symbols/python/python.h"

enum { STACK_JSON_FRAMES = 2000 }; /* of all threads together; of those behind them there are no frames */

/* [{tid, name, frames}, ...]; a new reference, or NULL when out of memory. `name`: the process's; a thread that has the
 * same has none. */
json_t *python_stacks_json(const struct python_stacks *stacks, pid_t pid, const char *name);

#endif
