/* SPDX-License-Identifier: Apache-2.0 */
/* Inside capture/numbers.c and capture/indexes.c, which read expressions together. All functions: 0, or -EINVAL with
 * what is wrong, and where, in *parser->problem. */
#ifndef SCRY_SYMBOLS_CAPTURE_NUMBERS_H
#define SCRY_SYMBOLS_CAPTURE_NUMBERS_H

#include <ctype.h>
#include <errno.h>

#include "symbols/capture/internal.h"
#include "symbols/client/client.h"

enum { NEST_LIMIT = 16 };

struct parser { /* of one expression */
    struct emitter *emitter;
    const char *text, *at;
    numbers_find_fn *find;
    void *ctx;
    struct number_problem *problem;
    unsigned nest;
    bool calculates; /* indexes; else they are integers */
};

static inline int bad(struct parser *parser, enum number_problem_kind kind)
{
    *parser->problem = (struct number_problem){.kind = kind, .at = (unsigned)(parser->at - parser->text) + 1};
    return -EINVAL;
}

static inline void skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t')
        parser->at++;
}

/* An identifier, with :: in C++; memo.c: and function: in front belong to it. */
static inline size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$' || (unsigned char)at[n] >= 0x80 ||
           (at[n] == ':' && at[n + 1] == ':' && (isalpha((unsigned char)at[n + 2]) || at[n + 2] == '_')) ||
           (n > 0 && at[n] == ':' && at[n - 1] == ':'))
        n++;
    return isdigit((unsigned char)*at) ? 0 : n;
}

/* An expression as far as it goes: what it names. Blanks may be left behind it. */
int numbers_unary(struct parser *parser, struct resolved *at);
/* What conditions and indexes see as an integer; pointers are none. */
bool numbers_is_whole(enum type_kind kind);

/* From '[' on: so many indexes, or as many as the array has dimensions. The place goes to that element. */
int indexes_follow(struct parser *parser, struct resolved *at, unsigned dimensions, const uint64_t *counts);
/* `sizeof(...)`: nothing is read for it. */
bool numbers_is_sizeof(const struct parser *parser);
int numbers_size_of(struct parser *parser, int64_t *ret_size);

#endif
