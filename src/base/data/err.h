/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that a person will read. A function that can fail returns 0 or -errno. If the reason matters, its last
 * parameter is a struct err *, which may be NULL. No allocation: the text is in the struct.
 */
#ifndef SCRY_BASE_DATA_ERR_H
#define SCRY_BASE_DATA_ERR_H

#include <limits.h>
#include <stddef.h>

enum { ERR_TEXT_SIZE = 512 };

struct err {
    int code;                 /* negative errno, 0 when no error was set */
    char text[ERR_TEXT_SIZE]; /* what was wrong, where, what to do; cut at the end if too long */
};

/* Sets *err (when not NULL) and returns code, so that it can be used as `return err_set(err, -EINVAL, ...)`. */
int err_set(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the text of errno `-code` appended. */
int err_errno(struct err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What somebody may have meant by an unknown word. */

enum { FUZZY_SIZE = 64, FUZZY_NONE = INT_MAX };

/* The number of letters to change, add, leave out or swap with a neighbour, ignoring case. FUZZY_NONE: `other` is too
 * long. */
unsigned fuzzy_distance(const char *word, size_t len, const char *other);
/* Beyond this distance, a word of this length was hardly meant. */
unsigned fuzzy_limit(size_t len);

/* The most similar word so far; start with {.distance = FUZZY_NONE}. */
struct fuzzy_match {
    unsigned distance;
    char text[FUZZY_SIZE]; /* "": none is similar */
};
void fuzzy_match_try(struct fuzzy_match *best, const char *word, size_t len, const char *other);

#endif
