/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of answers. */
#include "jobdir/text/text.h"
#include "web/view/view.h"

static int append(const char *bytes, size_t size, void *ctx)
{
    buf_append(ctx, bytes, size);
    return 0;
}

void view_put_text(struct buf *out, const char *text)
{
    json_t *string = text_json(text);
    if (!string || json_dump_callback(string, append, out, JSON_ENCODE_ANY | JSON_COMPACT) < 0)
        out->failed = true;
    json_decref(string);
}

void view_put_member(struct buf *out, bool *first, const char *name)
{
    buf_printf(out, "%s\"%s\":", *first ? "" : ",", name);
    *first = false;
}

void view_put_notes(struct buf *out, const struct view *view)
{
    const char *at = view->notes.data;
    buf_putc(out, '[');
    for (size_t left = view->notes.len; left;) {
        size_t size = strlen(at) + 1;
        buf_puts(out, at == view->notes.data ? "" : ",");
        view_put_text(out, at);
        at += size;
        left -= size;
    }
    buf_putc(out, ']');
}
