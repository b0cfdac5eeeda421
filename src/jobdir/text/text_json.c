/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"

#include <stdlib.h>

json_t *text_json(const char *bytes)
{
    if (!bytes)
        return json_null();
    struct buf clean = BUF_INIT;
    text_clean(&clean, bytes);
    json_t *json = clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
    buf_done(&clean);
    return json;
}

void text_put_json(struct buf *out, json_t *json_take)
{
    char *text = json_take ? json_dumps(json_take, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json_take);
    buf_puts(out, text ? text : "");
    buf_putc(out, '\n');
    out->failed |= !text;
    free(text);
}
