/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LANG_TOKEN_H
#define SCRY_LANG_TOKEN_H

#include "base/data/buf.h"
#include "lang/signature.h"

/*
 * Tokens (specification 7.2.2) of this monitor: PREFIX NODE '_' SERIAL, such as p_2_17 or pa_c_1_4; a node is n_NODE.
 * Opaque to tools, unique in the whole monitoring system, never reused. u_0 is the undefined token.
 */

struct token {
    char class[TOKEN_CLASS_SIZE]; /* "p", "pa_c", ... */
    uint32_t node;                /* 0 in u_0 */
    uint64_t serial;              /* 0 for nodes and u_0 */
};

/* Does the text have the form of a token? Whether the object exists is not known here. */
bool token_parse(struct span text, struct token *ret_token);
void token_print(struct buf *out, const struct token *token);

/*
 * Translates the numbers of nodes in tokens: what comes over an edge between monitors has the other one's
 * (monitor/tree/tree.h). Texts in quotes and binary data stay as they are. Pure.
 */

struct renumber {
    void *ctx;
    /* The number here of their node; 0: unknown, its tokens become u_0. */
    uint32_t (*ours)(void *ctx, uint32_t theirs);
};

/* Appends a list of values or of tokens (obj_list) or an error's text with the tokens translated. */
void renumber_text(struct buf *out, struct span text, const struct renumber *numbers);
/* Appends an encoded reply (lang/reply.h) likewise. 0, -EBADMSG or -ENOMEM. */
int renumber_reply(struct buf *out, struct span reply, const struct renumber *numbers);

#endif
