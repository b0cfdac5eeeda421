/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#ifndef SCRY_TASK_INTERNAL_H
#define SCRY_TASK_INTERNAL_H

#include "task/store.h"

int task_write_json(const char *dir, const char *name, const json_t *json, struct err *err);
/* The locks of a task: of its state, held for moments only; of its files, held while one comes in, and never waited for. */
#define TASK_STATE_LOCK "lock"
#define TASK_FILES_LOCK "files.lock"
/* Its descriptor, or -errno; -EWOULDBLOCK, if it is not to be waited for. */
int task_lock(const char *dir, const char *lock, bool wait);
/* Removes a directory with all that is in it, without following links. 0 or -errno. */
int task_remove_tree(const char *dir);

#endif
