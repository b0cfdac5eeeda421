/* SPDX-License-Identifier: Apache-2.0 */
/* The options in --scry: words with blanks between them. '...' and "..." keep blanks; there are no other signs. */
#ifndef SCRY_BATCH_WORDS_H
#define SCRY_BATCH_WORDS_H

#include <stddef.h>

enum { WORDS_MOST = 60 };

/* Appends the words to the array of `most` entries, as options: --WORD, malloc'ed, never freed, for they are executed.
 * Changes the text. 0; -EINVAL: a quote is open; -E2BIG: too many, or no memory. */
int words_split(char *text, char **words, size_t *count, size_t most);

#endif
