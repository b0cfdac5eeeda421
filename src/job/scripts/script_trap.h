/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shell script says of the programs that it starts: which it starts after it has failed, in the traps of its exit and of
 * its errors, and in the functions that these call; of which it tests whether they fail, and where it kills some. By the words of its text, not as a
 * shell understands it: what stands in quotes, or is only known when it is executed, is not found. Pure; safe on any bytes.
 */
#ifndef SCRY_JOB_SCRIPTS_SCRIPT_TRAP_H
#define SCRY_JOB_SCRIPTS_SCRIPT_TRAP_H

#include <stddef.h>

#include <jansson.h>

enum { SCRIPT_TRAP_COMMANDS = 32 }; /* the rest is left out */

struct script_trap {
    json_t *commands; /* names, each once, without a directory; NULL: there are none */
    json_t *only;     /* those of them that stand nowhere else in the script; NULL: none does */
};

/* Pass it to script_trap_done. */
struct script_trap script_trap_find(const char *text, size_t len);
void script_trap_done(struct script_trap *trap);

enum { SCRIPT_TESTED_MOST = 200 }; /* commands of a script; of one that has more nothing is said */

/* Lists of the words with which commands begin, as far as they are known before it is executed: ["grep -q x", ...]. */
struct script_tested {
    json_t *
        commands; /* whose status the script asks for, in if, while, until, behind !, before ||, or by $?, or whose errors it
                         throws away, everywhere it has them */
    json_t *conditions; /* those of them that are in if, while, until, behind !, or tested by $?, not only told */
    json_t *piped;      /* in front of a |, of which it wants to see the errors */
};

/* Pass it to script_tested_done. */
struct script_tested script_tested_find(const char *text, size_t len);
void script_tested_done(struct script_tested *tested);

enum { SCRIPT_KILLS_MOST = 8 };

/* [{line, signal, self}, ...]: where it sends a signal by kill, pkill or killall, the first of each; self: to the shell itself, or its group.
 * A new reference; NULL: nowhere. */
json_t *script_kills_find(const char *text, size_t len);

#endif
