/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_SCRIPTS_SCRIPTS_H
#define SCRY_JOB_SCRIPTS_SCRIPTS_H

#include "job/observe/observe.h"
#include "job/scripts/shell.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The source "scripts" of the observer: where the shell scripts of the job are, from outside (--script outside, and all
 * levels above it, for the shells that these do not reach). It reads two files in /proc for each shell at a look. Looks
 * come ten times a second while something changes, seldom otherwise, and take a small share of a processor at most.
 */

extern const struct observe_source scripts_source;

/*
 * Where a shell is in its script, by the position in the open file. bash reads ahead, and goes back to the end of the
 * command that it has read when it starts a process for it. So a position at the end of a command says that this
 * command, or something that it calls, is executed. Any other one, and the end of the file, is where bash has read
 * ahead: then what is executed stands behind the command that was seen last.
 *
 * Where bash can be asked for its line (shell_memory.h), that has to stand in this place, unless it is in a function.
 *
 * dash never goes back: its position says nothing in a script of less than 8 KB. Pure.
 */

struct place {
    uint32_t first_line, last_line; /* what is executed stands in these; 0: not known */
    bool exact;                     /* they are one command */
    size_t position;
    size_t done; /* everything before this offset was executed, or skipped */
};

/* The position is another one now, or the first one. */
void place_move(struct place *place, const struct script_source *text, size_t position);

#endif
