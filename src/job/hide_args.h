/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets on a command line: what is recorded of it has *** in their place. This is the one place where the words of a
 * command line go into a job directory.
 */
#ifndef SCRY_JOB_HIDE_ARGS_H
#define SCRY_JOB_HIDE_ARGS_H

#include <jansson.h>

/* `regex` (as --hide-args takes it), and what is hidden anyway, made ready: for many command lines. Out of memory: all
 * words are hidden. */
struct hide_args;
struct hide_args *hide_args_new(const char *regex);
void hide_args_free(struct hide_args *hide);

/* The words as an array of strings, at most TEXT_LIMIT bytes and a word; a new reference, NULL when out of memory.
 * Hidden is what follows the names of usual secrets (see scry-run(1)), and what `regex` finds besides: from the
 * beginning of its last group, or of the match without one, to the end of the word; where the group is empty there, the
 * next word. NULL: only the usual ones; "" or "off": nothing is hidden. */
json_t *hide_args_json(char *const *command, const struct hide_args *hide);

#endif
