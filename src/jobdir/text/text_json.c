/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"

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
