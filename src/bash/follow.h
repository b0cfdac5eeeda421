/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the place of bash's function that executes a command, of whatever kind, and calls it. */
#ifndef SCRY_BASH_FOLLOW_H
#define SCRY_BASH_FOLLOW_H

#include <stdbool.h>

#include "bash/shell.h"

/* The function that does what bash's own did, once that is replaced. */
extern shell_execute_fn *follow_original;
/* `directory` is borrowed for good. */
void follow_start(const char *directory, bool lines);
shell_execute_fn follow_command;

#endif
