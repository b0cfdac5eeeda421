/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#ifndef SCRY_TASK_INTERNAL_H
#define SCRY_TASK_INTERNAL_H

#include "task/store.h"

/* A path in the directory that a machine has in the store: with the marks of its tasks, and its runner's lock. "" for
 * `host`: this one. */
enum { TASK_HOST_PATH_SIZE = PATH_MAX + 512 };
void task_host_path(const struct task_store *store, const char *host, const char *name,
                    char ret_path[TASK_HOST_PATH_SIZE]);
#define TASK_RUNNER_LOCK ".runner"

int task_write_json(const char *dir, const char *name, const json_t *json, struct err *err);
/* The locks of a task: of its state, held for moments only; of its files, held while one comes in, and never waited for. */
#define TASK_STATE_LOCK "lock"
#define TASK_FILES_LOCK "files.lock"
/* Its descriptor, or -errno; -EWOULDBLOCK, if it is not to be waited for. */
int task_lock(const char *dir, const char *lock, bool wait);
/* The job directories of a task are linked into the directory of jobs: removes the link of that one. */
void task_unlink_job(const struct task *task, const char *job);
/* Removes a directory with all that is in it, without following links. 0 or -errno. */
int task_remove_tree(const char *dir);

#endif
