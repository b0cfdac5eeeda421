/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin hands to scry-task, in one environment variable that scry-task takes out: lines HOW, STEP, MEMORY,
 * SCRY, OPTIONS, and the program, which is the rest.
 *
 *   HOW       run: a job of its own; quiet: the same with --quiet; exec: part of the job of a task beside it
 *             part-run, part-quiet, part-exec: part of the job that it is started in (job/launch/propagate.h), if that can
 *             have parts here, else as without "part-"
 *   STEP      the name that the tasks of this step share on this node, for SCRY_STEP; "": nobody else is there
 *   MEMORY    MB that the job or step has on this node, for SCRY_BATCH_MEMORY; "": not known
 *   SCRY      the path of scry
 *   OPTIONS   what was given to --scry: KEY or KEY=VALUE, with blanks between them, and quotes where blanks belong to one
 */
#ifndef SCRY_BATCH_HANDED_H
#define SCRY_BATCH_HANDED_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define HANDED_NAME "SCRY_HANDED"
#define HANDED_PART "part-"

/* The lines, without the program. */
enum { HANDED_HOW, HANDED_STEP, HANDED_MEMORY, HANDED_SCRY, HANDED_WORDS, HANDED_LINES };
enum { HANDED_OPTIONS = 4000, HANDED_SIZE = 16384 };

/* The options in --scry are words with blanks between them. '...' and "..." keep blanks; there are no other signs. */

enum { WORDS_MOST = 60 };

/* Takes the quotes out of the word at *text, and moves behind it. NULL: one is open. */
static inline char *word_take(char **text)
{
    char *word = *text, *to = word, *from = word, quote = '\0';
    for (; *from && (quote || *from != ' '); from++) {
        if (!quote && (*from == '\'' || *from == '"'))
            quote = *from;
        else if (quote && *from == quote)
            quote = '\0';
        else
            *to++ = *from;
    }
    *text = *from ? from + 1 : from;
    *to = '\0';
    return quote ? NULL : word;
}

/* Appends the words to the array of `most` entries, as options: --WORD, malloc'ed, never freed, for they are executed.
 * Changes the text. 0; -EINVAL: a quote is open; -E2BIG: too many, or no memory. */
static inline int words_split(char *text, char **words, size_t *count, size_t most)
{
    while (*(text += strspn(text, " "))) {
        char *word = word_take(&text);
        if (!word)
            return -EINVAL;
        word += strspn(word, "-");
        size_t len = strlen(word);
        char *option = *count < most ? malloc(len + sizeof "--") : NULL;
        if (!option)
            return -E2BIG;
        option[0] = option[1] = '-';
        memcpy(option + 2, word, len + 1);
        words[(*count)++] = option;
    }
    return 0;
}

#endif
