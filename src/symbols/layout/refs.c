/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/layout/refs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 1 << 20 };

/* Behind a quoted string that begins at `text`, or at its end. */
static const char *quoted_end(const char *text)
{
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && text[1])
            text++;
    return *text ? text + 1 : text;
}

/* The next of these characters that is not in a quoted string; the end. */
static const char *find_outside(const char *text, char a, char b)
{
    while (*text && *text != a && *text != b)
        text = *text == '"' ? quoted_end(text) : text + 1;
    return text;
}

const char *layout_group(const char *text)
{
    text = find_outside(text, '{', '{');
    return *text ? text : NULL;
}

const char *layout_ref(const char *text)
{
    text = find_outside(text, '@', '@');
    return *text ? text : NULL;
}

const char *layout_group_end(const char *text)
{
    unsigned depth = 0;
    for (; *(text = find_outside(text, '{', '}')); text++) {
        depth += *text == '{' ? 1 : -1U;
        if (depth == 0)
            return text + 1;
    }
    return NULL;
}

int layout_expand(const char *text, uint32_t id, layout_text_fn *find, void *ctx, struct buf *out)
{
    size_t begin = out->len;
    for (;;) {
        const char *at = find_outside(text, '@', '@');
        buf_append(out, text, (size_t)(at - text));
        if (!*at)
            return out->failed ? -ENOMEM : 0;
        char *end;
        unsigned long before = at[1] >= '1' && at[1] <= '9' ? strtoul(at + 1, &end, 10) : 0;
        const char *part = before && before <= id && *end == ';' ? find(ctx, id - (uint32_t)before) : NULL;
        if (!part || !layout_is_part(part) || out->len - begin + strlen(part) > TEXT_LIMIT)
            return -EBADMSG;
        buf_puts(out, part);
        text = end + 1;
    }
}
