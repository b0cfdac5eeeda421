/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces secrets on a command line by *** before it is recorded. Every command line in a job directory goes through
 * this file.
 */
#ifndef SCRY_JOB_RECORD_HIDE_ARGS_H
#define SCRY_JOB_RECORD_HIDE_ARGS_H

#include <jansson.h>

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

#endif
