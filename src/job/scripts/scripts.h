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

/*
 * Where a shell is in its script, by the position in the open file. bash reads ahead, and goes back to the end of the
 * command that it has read when it starts a process for it. So a position at the end of a command says that this
 * command, or something that it calls, is executed. Any other one, and the end of the file, is where bash has read
 * ahead: then what is executed stands behind the command that was seen last.
 *
 * Where bash can be asked for its line (shell.h), that has to stand in this place, unless it is in a function.
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

/*
 * What a shell script says of the programs that it starts: which it starts after it has failed, in the traps of its exit and of
 * its errors, and in the functions that these call; of which it tests whether they fail, and where it kills some. By the words of its text, not as a
 * shell understands it: what stands in quotes, or is only known when it is executed, is not found. Pure; safe on any bytes.
 */

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

enum { SCRIPT_PRINTS_MOST = 100, SCRIPT_PRINTS_LEAST = 3, SCRIPT_PRINTS_BYTES = 100 };

/* How the texts begin that it prints by echo and printf, as far as that is known before it is executed: what a program that it starts says is
 * another text; "": one that is not known, or too short. A new reference; NULL: nothing. */
json_t *script_prints_find(const char *text, size_t len);

/* What a shell executes, which has this command line: the text behind -c, or that of its script, which is read now. false: not known. */
bool script_text_of(struct buf *out, const struct command_fields *command);

/* Programs that pass on what they read, line by line; NULL ends them. */
extern const char *const script_passing[];
enum { SCRIPT_OUTPUTS_MOST = 16 };

/* [{file, words}, ...]: the files into which the script has the output of a program with one of these names written, by it or by those that
 * read from it in a pipeline, as far as their names are known before it is executed; words: it is as the program wrote it. Names are
 * without a directory, NULL ends them. A new reference; NULL: there are none. */
json_t *script_outputs_find(const char *text, size_t len, const char *const *names);

#endif
