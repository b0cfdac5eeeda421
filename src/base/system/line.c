/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/line.h"

#include <errno.h>
#include <unistd.h>

/* Byte by byte: what follows is not ours. */
bool line_read(char *text, size_t size)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t got = read(STDIN_FILENO, &text[len], 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || text[len] == '\n') {
            text[len] = 0;
            return got > 0 || len > 0;
        }
        len++;
    }
    return false;
}
