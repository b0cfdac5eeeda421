/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a task in a line, from the JSON that task/answer.h has for it. */
#ifndef SCRY_CLI_TASKS_STATE_H
#define SCRY_CLI_TASKS_STATE_H

#include <jansson.h>

#include "base/data/buf.h"
#include "task/store.h"

/* "running on n2, 42 %, 12 s left, waiting for: ...: why it failed" */
void tasks_put_state(struct buf *out, const struct task_store *store, const json_t *task);
/* ", 42 %, 12 s left"; also of a phase */
void tasks_put_progress(struct buf *out, const json_t *json);

const char *tasks_text_of(const json_t *json, const char *member); /* "": it has none */
double tasks_number_of(const json_t *json, const char *member);    /* -1: it has none */

#endif
