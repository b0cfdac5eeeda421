/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the job without the agent, for instance statically linked or privileged ones. A process with the agent
 * reports its command line; these do not. Their files are read once, when the job has ended.
 */
#ifndef SCRY_JOB_WATCH_UNTRACED_H
#define SCRY_JOB_WATCH_UNTRACED_H

#include <stdint.h>

struct untraced; /* NULL: there are none */
struct recorder;

/* Adds a process that ended without reporting its command line. `name` is the kernel's. `command`, the first word of
 * its command line, and `directory`, where it ran, may be NULL. */
void untraced_add(struct untraced **untraced, const char *name, const char *command, const char *directory);

/* Makes a note for each program. `directory` is searched for names, beside PATH. */
void untraced_note(struct untraced *untraced, struct recorder *recorder, const char *directory);

void untraced_free(struct untraced *untraced);

#endif
