/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_TASK_PROCESS_H
#define SCRY_TASK_PROCESS_H

#include "task/store.h"

#include <jansson.h>
#include <stdint.h>

/*
 * What a build or a run has left behind: processes that say they are of the task (SCRY_TASK) and went on when its command had
 * ended. They are ended, as a batch system does it: nobody would hold them to the task's limits, and the next run is to be alone. A
 * phase of the state says so, `left_behind`: how many they were, and the names of their programs.
 */

uint64_t task_left_count(const json_t *left);

/* What a run on another machine says of it (far.sh), to the phase of that run. Nothing, if it has left nothing. */
void task_left_note_far(const struct task *task, uint64_t run);

#endif
