/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/data/hash.h"
#include "lang/reply.h"
#include "lang/token.h"

struct omis_word {
    bool service;
    UT_hash_handle hh;
    char text[];
};

void omis_words_add(struct omis_words *words, struct span text, bool service)
{
    struct omis_word *word;
    HASH_FIND(hh, words->set, text.ptr, text.len, word);
    if (word || text.len == 0 || words->count >= OMIS_WORDS_LIMIT)
        return;
    word = calloc(1, sizeof *word + text.len + 1);
    if (!word)
        return;
    memcpy(word->text, text.ptr, text.len);
    word->service = service;
    HASH_ADD_KEYPTR(hh, words->set, word->text, text.len, word);
    words->count++;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Where the string that starts at `at` ends. */
static size_t skip_string(const char *text, size_t at, size_t len)
{
    for (at++; at < len && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < len ? at + 1 : len;
}

static void add_tokens(struct omis_words *words, const char *text, size_t len)
{
    struct token token;
    for (size_t at = 0; at < len;) {
        if (text[at] == '"') {
            at = skip_string(text, at, len);
        } else if (is_word(text[at])) {
            size_t start = at;
            while (at < len && is_word(text[at]))
                at++;
            struct span word = span_of(text + start, at - start);
            if (token_parse(word, &token))
                omis_words_add(words, word, false);
        } else {
            at++;
        }
    }
}

void omis_words_add_reply(struct omis_words *words, Omis_reply reply)
{
    for (size_t i = 0; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++) {
            add_tokens(words, result->obj_list, strlen(result->obj_list));
            if (result->result && result->status < OMIS_FIRST_ERROR)
                add_tokens(words, result->result, strlen(result->result));
        }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct omis_match omis_words_match(const struct omis_words *words, struct span prefix)
{
    struct omis_match match = {.words = calloc(words->count + 1, sizeof *match.words)};
    struct omis_word *word, *after;
    if (!match.words)
        return match;
    HASH_ITER(hh, words->set, word, after)
    {
        if (strlen(word->text) >= prefix.len && memcmp(word->text, prefix.ptr, prefix.len) == 0) {
            match.words[match.count++] = word->text;
            match.service = word->service;
        }
    }
    match.service = match.service && match.count == 1;
    qsort(match.words, match.count, sizeof *match.words, compare);
    if (match.count) {
        const char *first = match.words[0], *last = match.words[match.count - 1];
        while (first[match.common] && first[match.common] == last[match.common])
            match.common++;
    }
    return match;
}

void omis_words_done(struct omis_words *words)
{
    HASH_FREE_ALL(words->set);
    *words = (struct omis_words){0};
}
