/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of the request language (specification 7.2.1), whose spelling is that of C: one at a time, with the value
 * of those that have one. Errors carry the byte offset, counted from 0.
 */
#ifndef SCRY_LANG_LEXER_H
#define SCRY_LANG_LEXER_H

#include "base/err.h"
#include "lang/value.h"

enum symbol_kind {
    SYMBOL_END,
    SYMBOL_ERROR,      /* malformed, already reported */
    SYMBOL_IDENTIFIER, /* in value.text */
    SYMBOL_VALUE,      /* integer, floating, string or binary, in value */
    SYMBOL_CHARACTER,  /* any other character, also those that the language does not have */
};

struct lexer {
    const char *start, *at, *end; /* at: behind the current symbol */
    const char *symbol;           /* where the current symbol starts */
    enum symbol_kind kind;
    char character; /* SYMBOL_CHARACTER: which; else 0, so it can be compared without looking at the kind */
    int code;       /* the error of SYMBOL_ERROR */
    struct value value;
    struct arena *arena; /* strings with escapes are put here */
    struct err *err;
};

/* Looks at nothing yet; call lexer_next for the first symbol. */
void lexer_init(struct lexer *lexer, struct arena *arena, struct span text, struct err *err);
void lexer_next(struct lexer *lexer);

/* With the identifier `inf` or `nan` as current symbol, makes it a floating value, taking in the ":0x..." of a NaN. For
 * places where a value is expected; elsewhere they are identifiers like any other. */
void lexer_special_float(struct lexer *lexer);

/* Reports "at byte N: expected WHAT, found SYMBOL" at the current symbol and returns -EINVAL; at SYMBOL_ERROR, what was
 * reported before. */
int lexer_expected(struct lexer *lexer, const char *what);

/* The length of a request or result of which only the start is known: up to the first NUL outside binary data. Binary
 * data that would pass `limit` bytes counts as text. With an `end` (may be NULL) nothing from there on is read, and
 * data that would pass it gives SIZE_MAX. */
size_t lexer_length(const char *text, const char *end, size_t limit);

#endif
