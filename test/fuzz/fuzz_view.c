/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of any bytes to scry-view, one a line, about a job with a small trace: each is answered with one line of
 * JSON that has its id, and says "ok" or what is wrong.
 */
#include "view_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!root[0]) {
        view_job_make();
        view_job_open();
        view_job_read();
    }
    for (const char *at = (const char *)data, *end = at + size; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line ? line : end) - at);
        if (len)
            view_job_ask(at, len);
        at += len + 1;
    }
    return 0;
}
