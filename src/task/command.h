/* SPDX-License-Identifier: Apache-2.0 */
/* The `scry submit` that makes the same task again, as a line for a shell. */
#ifndef SCRY_TASK_COMMAND_H
#define SCRY_TASK_COMMAND_H

#include <jansson.h>

#include "base/data/buf.h"

/* Of a checked task. `files`: the directory that has its files; NULL: they are where it is typed. It is of that task alone, also
 * if it is one of a series. */
void task_command(struct buf *out, const json_t *spec, const char *files);

#endif
