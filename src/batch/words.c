/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Takes the quotes out of the word at *text, and moves behind it. NULL: one is open. */
static char *take_word(char **text)
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

int words_split(char *text, char **words, size_t *count, size_t most)
{
    while (*(text += strspn(text, " "))) {
        char *word = take_word(&text);
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
