/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bash shells as the library inside tells of them (src/bash, --script calls and lines): commands that failed, lines,
 * and at the end how often and how long each line was executed. A part of the source in scripts.h.
 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_INSIDE_H
#define SCRY_JOB_SCRIPTS_SHELL_INSIDE_H

#include <stdbool.h>

#include "job/observe/observe.h"

struct shell_inside;

/* NULL with err. */
struct shell_inside *shell_inside_new(struct observer *observer, struct err *err);
/* Does it tell of the script of that process, and so of its end? NULL is fine: no. */
bool shell_inside_has(const struct shell_inside *inside, pid_t pid);
/* It has another name, so it executes something else perhaps. NULL is fine. */
void shell_inside_process(struct shell_inside *inside, pid_t pid);
/* NULL is fine. */
void shell_inside_process_ended(struct shell_inside *inside, const struct observed_process *process);
void shell_inside_free(struct shell_inside *inside);

#endif
