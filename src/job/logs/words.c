/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"

enum { CLASSES = 72, STATES_MOST = 32000, HIT = 0x8000 };

struct word {
    uint16_t len, row;
    bool begins, ends;
    int next; /* another one that ends in the same state; -1: none */
};

struct state {
    uint16_t next[CLASSES]; /* with HIT, if a word ends there; while it is built, 0 is none */
    uint16_t fallback;      /* the longest proper end that begins a word, too */
    uint16_t shorter;       /* the nearest of those in which a word ends; 0: none */
    int word;               /* the first that ends here; -1: none */
};

struct words {
    unsigned char class[256]; /* 0: in no word */
    size_t classes;
    struct state *states;
    size_t state_count, state_room;
    struct word *words;
    size_t word_count, word_room;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool add_state(struct words *words)
{
    if (words->state_count == STATES_MOST || !GROW(words->states, words->state_count, words->state_room))
        return false;
    words->states[words->state_count++] = (struct state){.word = -1};
    return true;
}

static bool class_of(struct words *words, char c, unsigned char *ret_class)
{
    unsigned char low = (unsigned char)tolower((unsigned char)c);
    if (!words->class[low]) {
        if (words->classes == CLASSES)
            return false;
        words->class[low] = words->class[toupper(low)] = (unsigned char)words->classes++;
    }
    *ret_class = words->class[low];
    return true;
}

static bool add_word(struct words *words, const char *text, size_t len, size_t row)
{
    struct word word = {.row = (uint16_t)row, .begins = len && *text == '<'};
    text += word.begins;
    len -= word.begins;
    word.ends = len && text[len - 1] == '>';
    len -= word.ends;
    word.len = (uint16_t)len;
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char class;
        if (!class_of(words, text[i], &class))
            return false;
        size_t next = words->states[at].next[class];
        if (!next) {
            next = words->state_count;
            if (!add_state(words))
                return false;
            words->states[at].next[class] = (uint16_t)next;
        }
        at = next;
    }
    if (!len || !GROW(words->words, words->word_count, words->word_room))
        return !len;
    word.next = words->states[at].word;
    words->states[at].word = (int)words->word_count;
    words->words[words->word_count++] = word;
    return true;
}

/* In order of their depth: a fallback is done before whoever needs it. */
static bool link_states(struct words *words)
{
    uint16_t *queue = calloc(words->state_count, sizeof *queue);
    size_t done = 0, count = 1;
    if (!queue)
        return false;
    for (; done < count; done++) {
        size_t at = queue[done];
        struct state *state = &words->states[at];
        const struct state *back = &words->states[state->fallback];
        state->shorter = back->word >= 0 ? state->fallback : back->shorter;
        for (size_t class = 0; class < CLASSES; class ++) {
            uint16_t next = state->next[class], other = at ? back->next[class] : 0;
            if (next) {
                words->states[next].fallback = other;
                queue[count++] = next;
            } else {
                state->next[class] = other;
            }
        }
    }
    free(queue);
    for (size_t i = 0; i < words->state_count; i++)
        for (size_t class = 0; class < CLASSES; class ++) {
            const struct state *next = &words->states[words->states[i].next[class]];
            if (next->word >= 0 || next->shorter)
                words->states[i].next[class] |= HIT;
        }
    return true;
}

struct words *words_new(const char *const *rows, size_t count)
{
    struct words *words = calloc(1, sizeof *words);
    if (!words)
        return NULL;
    words->classes = 1;
    bool good = add_state(words);
    for (size_t row = 0; good && row < count && row < WORDS_ROWS; row++)
        for (const char *text = rows[row]; good && *text; text += strcspn(text, "|"), text += *text == '|')
            good = add_word(words, text, strcspn(text, "|"), row);
    if (good && link_states(words))
        return words;
    words_free(words);
    return NULL;
}

void words_free(struct words *words)
{
    if (!words)
        return;
    free(words->states);
    free(words->words);
    free(words);
}

/* The rows of the words that end in this state, behind bytes[end - 1]. */
static uint64_t rows_at(const struct words *words, size_t at, const char *bytes, size_t len, size_t end)
{
    uint64_t rows = 0;
    for (; at; at = words->states[at].shorter)
        for (int i = words->states[at].word; i >= 0; i = words->words[i].next) {
            const struct word *word = &words->words[i];
            size_t start = end - word->len;
            bool begins = !word->begins || start == 0 || !is_name(bytes[start - 1]);
            bool ends = !word->ends || end == len || !is_name(bytes[end]);
            rows |= begins && ends ? UINT64_C(1) << word->row : 0;
        }
    return rows;
}

size_t words_find(const struct words *words, const char *bytes, size_t len, size_t from)
{
    const struct state *states = words->states;
    uint16_t at = 0;
    for (size_t i = from; i < len; i++) {
        at = states[at].next[words->class[(unsigned char)bytes[i]]];
        if (!(at & HIT))
            continue;
        at &= (uint16_t)~HIT;
        if (rows_at(words, at, bytes, len, i + 1))
            return i;
    }
    return len;
}

uint64_t words_rows(const struct words *words, const char *bytes, size_t len)
{
    uint64_t rows = 0;
    uint16_t at = 0;
    for (size_t i = 0; i < len; i++) {
        at = words->states[at].next[words->class[(unsigned char)bytes[i]]];
        if (!(at & HIT))
            continue;
        at &= (uint16_t)~HIT;
        rows |= rows_at(words, at, bytes, len, i + 1);
    }
    return rows;
}
