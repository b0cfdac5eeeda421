/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the commands of a shell script begin and end: of those that stand in no other one, as a shell reads them before
 * it executes them. A function, a loop, a list with && is one command. This is a scanner, not the shell's parser: it
 * knows quotes, substitutions, here documents, compound commands. Aliases and the like can fool it, so whoever uses it
 * compares the ends with where the shell really stopped to read (scripts.h). Pure; safe on any bytes.
 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_SCAN_H
#define SCRY_JOB_SCRIPTS_SHELL_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shell_command {
    uint32_t first_line, last_line; /* from 1 */
    size_t end;                     /* offset behind the newline after its last line */
};

struct shell_commands {
    struct shell_command *list; /* ascending */
    size_t count, room;
};

/* Appends the commands up to the first that is not understood or not complete. false: out of memory. */
bool shell_scan(struct shell_commands *commands, const char *text, size_t len);

#endif
