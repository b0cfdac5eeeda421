/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hides secrets: on a command line, before it is recorded (every command line in a job directory goes through this file), and
 * in what a job prints, before it is published.
 */
#ifndef SCRY_JOBDIR_TEXT_HIDE_ARGS_H
#define SCRY_JOBDIR_TEXT_HIDE_ARGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { HIDE_ARGS_GROUPS = 31 }; /* of a regular expression, at most */

/* Prepares `regex` (the value of --hide-args) and the usual rules for many command lines. Out of memory: all words are
 * hidden. */
struct hide_args;
struct hide_args *hide_args_new(const char *regex);
void hide_args_free(struct hide_args *hide);

/* The words as an array of strings, at most TEXT_LIMIT bytes and a word. A new reference, NULL when out of memory.
 * Hides what follows the usual names of secrets (scry-run(1)) and what `regex` matches: from the start of its last
 * group, or of the match if it has no group, to the end of the word; if the group is empty, the next word. `regex`
 * NULL: only the usual ones; "" or "off": nothing. */
json_t *hide_args_json(char *const *command, struct hide_args *hide);

/* Overwrites by asterisks, in each line of `len` bytes (a byte behind them may be changed for a moment), what would be
 * hidden of it as a word: from where a secret begins to the end of the line. So all else stays at its offset. The last line may go
 * on behind: what would be hidden of it if it does is. */
void hide_text(struct hide_args *hide, char *bytes, size_t len);
static inline bool hide_ends_line(char byte)
{
    return byte == '\n' || byte == '\r' || byte == '\0';
}
/* Nothing is hidden. */
bool hide_is_off(const struct hide_args *hide);

#endif
