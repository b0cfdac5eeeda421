/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that a shell script starts after it has failed: in the traps of its exit and of its errors, and in the
 * functions that these call. By the words of its text, not as a shell understands it: what stands in quotes, or is only
 * known when it is executed, is not found. Pure; safe on any bytes.
 */
#ifndef SCRY_JOB_SCRIPTS_SCRIPT_TRAP_H
#define SCRY_JOB_SCRIPTS_SCRIPT_TRAP_H

#include <stddef.h>

#include <jansson.h>

enum { SCRIPT_TRAP_COMMANDS = 32 }; /* the rest is left out */

/* Their names, each once, without a directory. A new reference; NULL: there are none. */
json_t *script_trap_commands(const char *text, size_t len);

#endif
