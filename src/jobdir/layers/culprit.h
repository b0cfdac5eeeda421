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

/* Whether a text is that something was ended by this signal, or that a worker of a pool is gone. */
bool culprit_mentions_end(const char *text, int signo);

/* Whether tee(1) ran beside it in a pipeline: what it says is where that writes. */
bool culprit_has_tee(const struct job_model *model, pid_t pid);

/* What scripts only look something up with, as the shims of pyenv do; name may be NULL. */
bool culprit_is_lookup(const char *name);
/* What scripts clean up with, and take their results away; name may be NULL. */
bool culprit_is_utility(const char *name);
/* What is asked, and says no by its status, as grep. */
bool culprit_is_answer(const struct job_process *process);

/* Of a pipeline, not the last: whether it ran beside others that its shell started at once behind it, and before whose end it ended: else
 * they did not read on, which many programs take for an error. */
bool culprit_is_stage(const struct job_model *model, const struct job_process *process);

/* Of a pipeline: whether what its shell started at once behind it had ended well before, and so wanted no more, as head. */
bool culprit_is_unread(const struct job_model *model, const struct job_process *process);

/* Whether the text of a script tests the status of this command wherever it has it. */
bool culprit_was_tested(const struct job_model *model, const struct job_process *process, pid_t shell);

/* Of a process that failed in a job that did not: whether whoever started it has handled that, as far as is known. It was
 * started again and succeeded; or a shell that tells of its commands from inside tells of none that failed, or by its text tests the
 * command's status, of a crash otherwise than by ||, or starts it in its traps; or it is make that ended well. That a script only went on says nothing: most go on behind whatever fails. */
bool culprit_is_handled(const struct job_model *model, const struct job_process *process);

/* When the first of the children of a shell began after which it started nothing but the programs of its traps; INFINITY: none is known. */
double culprit_trap_start(const struct job_model *model, const struct job_process *shell);

/* The child that made it fail, which has failed; NULL: it failed by itself, as far as is known. */
const struct job_process *culprit_of(const struct job_model *model, const struct job_process *parent);

#endif
