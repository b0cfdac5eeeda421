/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the processes that another one had started made that fail, from what is known of their ends: their times, how each
 * ended, and what their parent is and does. Pure functions.
 */
#ifndef SCRY_JOBDIR_LAYERS_CULPRIT_H
#define SCRY_JOBDIR_LAYERS_CULPRIT_H

#include <stdbool.h>

#include "jobdir/record/model.h"

bool culprit_has_failed(const struct job_process *process);
/* Of a process that has ended, as a shell has it: its own status is this one if it ends with that of a child. */
int culprit_status(const struct job_process *process);

/* What is asked, and says no by its status, as grep. */
bool culprit_is_answer(const struct job_process *process);

/* When the first of the children of a shell began after which it started nothing but the programs of its traps; INFINITY: none is known. */
double culprit_trap_start(const struct job_model *model, const struct job_process *shell);

/* The child that made it fail, which has failed; NULL: it failed by itself, as far as is known. */
const struct job_process *culprit_of(const struct job_model *model, const struct job_process *parent);

#endif
