/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of one program have most of their text in common: what a struct is made of. So a layout may have, instead of
 * a part of it, `@N;`: the text whose number is N less than its own. Such a text is numbered as layouts are, and comes
 * before them; it begins with `{`, as no layout does. Plain code, safe on any bytes.
 */
#ifndef SCRY_SYMBOLS_LAYOUT_REFS_H
#define SCRY_SYMBOLS_LAYOUT_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"

/* The text of a number, borrowed; NULL: there is none. */
typedef const char *layout_text_fn(void *ctx, uint32_t id);

/* Appends the text of layout `id` as layout_parse() takes it. 0; -EBADMSG: it refers to what is not there, or is too
 * long; -ENOMEM. */
int layout_expand(const char *text, uint32_t id, layout_text_fn *find, void *ctx, struct buf *out);
/* Whether it is only a part of layouts. */
static inline bool layout_is_part(const char *text)
{
    return *text == '{';
}
/* Behind the group in braces that begins at `text`; NULL: it does not end. */
const char *layout_group_end(const char *text);
/* The next brace that opens a group; NULL: there is none. */
const char *layout_group(const char *text);
/* The next `@N;`; NULL: there is none. */
const char *layout_ref(const char *text);

#endif
