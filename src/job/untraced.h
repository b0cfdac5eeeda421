/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the job into which the agent is not loaded, as those that are linked statically or run with privileges.
 * They are found by what is missing: a process with the agent says its command line, these do not. What their files
 * say is looked at once, when the job has ended.
 */
#ifndef SCRY_JOB_UNTRACED_H
#define SCRY_JOB_UNTRACED_H

#include <stdint.h>

struct untraced; /* NULL: there are none */
struct recorder;

/* A process has ended that did not say its command line. `name` as the kernel has it; what is not known of the command
 * is NULL: its first word, and the directory that it stood in. */
void untraced_add(struct untraced **untraced, const char *name, const char *command, const char *directory);

/* A note for each program. `directory`: where programs are that only have a name, beside those of PATH. */
void untraced_note(struct untraced *untraced, struct recorder *recorder, const char *directory);

void untraced_free(struct untraced *untraced);

#endif
