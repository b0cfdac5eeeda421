/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of the request language (specification 7.2.1), spelled as in C: one at a time, with their values. Errors
 * have the byte offset, counted from 0.
 */
#ifndef SCRY_LANG_LEXER_H
#define SCRY_LANG_LEXER_H

#include "base/data/err.h"
#include "lang/value.h"

enum symbol_kind {
    SYMBOL_END,
    SYMBOL_ERROR,      /* malformed, already reported */
    SYMBOL_IDENTIFIER, /* in value.text */
    SYMBOL_VALUE,      /* integer, floating, string or binary, in value */
    SYMBOL_CHARACTER,  /* any other character, also those that the language does not have */
};

struct lexer {
    const char *start, *at, *end; /* at: after the current symbol */
    const char *symbol;           /* where the current symbol starts */
    enum symbol_kind kind;
    char character; /* SYMBOL_CHARACTER: which; else 0, so it can be compared without looking at the kind */
    int code;       /* the error of SYMBOL_ERROR */
    struct value value;
    struct arena *arena; /* strings with escapes are put here */
    struct err *err;
};

/* Reads nothing yet: call lexer_next for the first symbol. */
void lexer_init(struct lexer *lexer, struct arena *arena, struct span text, struct err *err);
void lexer_next(struct lexer *lexer);

/* If the current symbol is the identifier `inf` or `nan`, makes it a floating value, with the ":0x..." of a NaN. For
 * places where a value is expected; elsewhere they are ordinary identifiers. */
void lexer_special_float(struct lexer *lexer);

/* Reports "at byte N: expected WHAT, found SYMBOL" at the current symbol and returns -EINVAL. At SYMBOL_ERROR, returns
 * the earlier error. */
int lexer_expected(struct lexer *lexer, const char *what);

/* What a text consists of for who only goes through it and does not check it. */
struct lexer_piece {
    const char *from, *to; /* binary data: `to` is behind the '#' */
    enum { PIECE_OTHER, PIECE_STRING, PIECE_WORD /* identifier or number, also with points */, PIECE_BINARY } kind;
    bool closed;       /* PIECE_STRING: a '"' ends it, not a NUL or the end */
    uint64_t data_len; /* PIECE_BINARY: so many bytes are announced; they may be more than follow */
};

/* The piece that starts at `at`, which is not the end. With `end` NULL, the text ends at a NUL. */
struct lexer_piece lexer_piece(const char *at, const char *end);

/* The length of a request or result of which only the start is known: up to the first NUL outside binary data. Binary
 * data of more than `limit` bytes count as text. With an `end` (may be NULL), reads nothing from there on, and returns
 * SIZE_MAX if data would pass it. */
size_t lexer_length(const char *text, const char *end, size_t limit);

#endif
