/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses what somebody meant by an unknown word. */
#ifndef SCRY_BASE_DATA_NEAR_H
#define SCRY_BASE_DATA_NEAR_H

#include <limits.h>
#include <stddef.h>

enum { NEAR_WORD_SIZE = 64, NEAR_NONE = INT_MAX };

/* The number of letters to change, add, leave out or swap with a neighbour, ignoring case. NEAR_NONE: `other` is too
 * long. */
unsigned near_distance(const char *word, size_t len, const char *other);
/* Beyond this distance, a word of this length was hardly meant. */
unsigned near_limit(size_t len);

/* The word that is nearest so far; start with {.distance = NEAR_NONE}. */
struct near_word {
    unsigned distance;
    char text[NEAR_WORD_SIZE]; /* "": none is similar */
};
void near_take(struct near_word *best, const char *word, size_t len, const char *other);

#endif
