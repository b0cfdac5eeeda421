/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of tasks, as JSON: `scry task --json` and the server say the same. Times are seconds since 1970. All return
 * a new reference, or NULL with err.
 */
#ifndef SCRY_TASK_ANSWER_H
#define SCRY_TASK_ANSWER_H

#include "task/store.h"

/* What a list says of a task. */
json_t *task_answer_head(const struct task_store *store, const char *id, struct err *err);
/* {"tasks": [...]}, the latest first; `limit` 0: all. What cannot be read is left out; err says so of the latest, or its code is 0. */
json_t *task_answer_list(const struct task_store *store, size_t limit, struct err *err);
/* One task with all: its phases with how far they are, its runs, and what it is. */
json_t *task_answer_one(const struct task_store *store, const char *id, struct err *err);
/* {"verdict", "tasks": [...]} by their numbers of processes: of each the median of its runs, speed-up and efficiency against
 * the smallest. One id of a series stands for all of it. -EINVAL: none of them has a run that ended well. */
json_t *task_answer_scaling(const struct task_store *store, const char *const *ids, size_t count, struct err *err);

/* Of the members of "tasks" there, how far it scales, as a sentence; null: there is nothing to say. */
json_t *task_scaling_verdict(const json_t *tasks);

/* The schemas of these. */
json_t *task_list_schema(void);
json_t *task_schema(void);
json_t *task_scaling_schema(void);

/* The job directory of its last run that ended well, else of its last one. -ENOENT. */
int task_last_run(const struct task_store *store, const char *id, char ret_path[PATH_MAX], struct err *err);

#endif
