/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens (specification 7.2.2) of this monitor: PREFIX NODE '_' SERIAL, such as p_2_17 or pa_c_1_4; a node is n_NODE.
 * Opaque to tools, unique in the whole monitoring system, never reused. u_0 is the undefined token.
 */
#ifndef SCRY_LANG_TOKEN_H
#define SCRY_LANG_TOKEN_H

#include "base/data/buf.h"
#include "base/data/span.h"
#include "lang/signature.h"

struct token {
    char class[TOKEN_CLASS_SIZE]; /* "p", "pa_c", ... */
    uint32_t node;                /* 0 in u_0 */
    uint64_t serial;              /* 0 for nodes and u_0 */
};

/* Does the text have the form of a token? Whether the object exists is not known here. */
bool token_parse(struct span text, struct token *ret_token);
void token_print(struct buf *out, const struct token *token);

#endif
