/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which of many words occur in bytes, in one pass whatever their number (Aho and Corasick, Communications of the
 * ACM 18, 1975). Upper and lower case of ASCII are the same. A word belongs to a row, a bit of a mask; rows have
 * several words, separated by `|`. `<` at the start of a word, and `>` at its end, want a place where a name begins or
 * ends.
 */
#ifndef SCRY_JOB_LOGS_WORDS_H
#define SCRY_JOB_LOGS_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { WORDS_ROWS = 64 };

struct words;

/* The words of rows[i] are bit i. NULL: out of memory, or more words than it can hold (some thousand bytes of 60
 * different ones). */
struct words *words_new(const char *const *rows, size_t count);
void words_free(struct words *words); /* NULL is fine */

/* Where the first word that begins at or after `from` ends: its last byte. len: there is none. */
size_t words_find(const struct words *words, const char *bytes, size_t len, size_t from);
/* The rows of all words in it. */
uint64_t words_rows(const struct words *words, const char *bytes, size_t len);

#endif
