/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_TASKS_TASK_H
#define SCRY_CLI_TASKS_TASK_H

#include "base/data/buf.h"
#include "task/store.h"

#include <jansson.h>

/* What is said of a task in a line, from the JSON that task/answer.h has for it. */

/* "running on n2, 42 %, 12 s left, waiting for: ...: why it failed" */
void tasks_put_state(struct buf *out, const struct task_store *store, const json_t *task);

const char *tasks_text_of(const json_t *json, const char *member); /* "": it has none */

#endif
