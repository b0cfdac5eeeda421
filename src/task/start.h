/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the runner of a user's tasks (scry-tasks), unless one runs. It gets a session, an environment and a umask of its
 * own, so it outlives whoever starts it, and a task runs alike whoever submits it.
 */
#ifndef SCRY_TASK_START_H
#define SCRY_TASK_START_H

#include "base/data/err.h"
#include "task/store.h"

/* That of the user who calls, to be called after a change of the store. 0 or -errno with err. */
int task_runner_wake(const struct task_store *store, struct err *err);

/* The same, if something is queued or under way: after the runner was killed, or the machine started again. */
void task_runner_look(const struct task_store *store);

#endif
