/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bash says in its own memory, read from outside: the line of the simple command that it began last, also within
 * functions and loops. It needs the right to look into the process (ptrace(2), Yama); nothing is stopped. bash exports
 * these variables for its loadable commands: line_number_for_err_trap, variable_context (depth of functions),
 * sourcelevel, this_shell_function, the_printed_command_except_trap. All is hostile, and may change meanwhile.
 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_MEMORY_H
#define SCRY_JOB_SCRIPTS_SHELL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/scripts/script_text.h"

struct shell_memory {
    bool known;
    uint64_t line, depth, sourced, function, printed; /* addresses */
};

/* !known: another shell, another version, or we may not look. */
void shell_memory_find(struct shell_memory *ret_memory, pid_t pid);

enum { SHELL_TEXT = 256 };
struct shell_now {
    uint32_t line, depth, sourced;
    char function[SHELL_TEXT]; /* the innermost; "": none */
    char command[SHELL_TEXT];  /* as bash prints it; cut */
};
/* -ESRCH: it has no memory any more, for it ends or executes something; -EAGAIN: nothing is known, or it changed while
 * it was read. */
int shell_memory_read(const struct shell_memory *memory, pid_t pid, struct shell_now *ret_now);

/* Does the script have this command in this line? If not, the line is one of another file. */
bool shell_now_fits(const struct shell_now *now, const struct script_text *text);

#endif
