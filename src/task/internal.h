/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#ifndef SCRY_TASK_INTERNAL_H
#define SCRY_TASK_INTERNAL_H

#include "task/store.h"

int task_write_json(const char *dir, const char *name, const json_t *json, struct err *err);
/* Takes the lock of a task, waiting for it (or -EWOULDBLOCK). Its descriptor, or -errno. */
int task_lock(const char *dir, bool wait);
/* Removes a directory with all that is in it, without following links. 0 or -errno. */
int task_remove_tree(const char *dir);

#endif
