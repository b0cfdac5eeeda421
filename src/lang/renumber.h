/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the numbers of nodes in tokens: what comes over an edge between monitors has the other one's
 * (doc/explain/nodes.md). Texts in quotes and binary data stay as they are. Pure.
 */
#ifndef SCRY_LANG_RENUMBER_H
#define SCRY_LANG_RENUMBER_H

#include "base/data/buf.h"
#include "base/data/span.h"

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
