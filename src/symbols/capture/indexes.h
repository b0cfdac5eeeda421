/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_CAPTURE_NUMBERS_H
#define SCRY_SYMBOLS_CAPTURE_NUMBERS_H

#include "symbols/capture/internal.h"
#include "symbols/client/client.h"

#include <ctype.h>
#include <errno.h>

/* Inside capture/numbers.c and capture/indexes.c, which read expressions together. All functions: 0, or -EINVAL with
 * what is wrong, and where, in *parser->problem. */

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

#endif
