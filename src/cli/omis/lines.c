/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/lines.h"

#include <ctype.h>

#include "lang/request.h"

void omis_lines_feed(struct omis_lines *lines, const char *bytes, size_t len)
{
    buf_drop(&lines->bytes, lines->used);
    lines->at -= lines->used;
    lines->used = 0;
    buf_append(&lines->bytes, bytes, len);
}

/* The next state, after one character outside of binary data. */
static void step(struct omis_lines *lines, char c)
{
    bool digit = isdigit((unsigned char)c), word = isalnum((unsigned char)c) || c == '_';
    switch (lines->state) {
    case LINES_ESCAPE:
        lines->state = LINES_STRING;
        return;
    case LINES_STRING:
        lines->state = c == '"' ? LINES_PLAIN : c == '\\' ? LINES_ESCAPE : LINES_STRING;
        return;
    case LINES_NUMBER:
        if (digit && lines->number <= REQUEST_SIZE_LIMIT)
            lines->number = lines->number * 10 + (size_t)(c - '0');
        if (digit)
            return;
        break;
    case LINES_PLAIN:
    case LINES_WORD:
        break;
    }
    if (lines->state == LINES_PLAIN && digit) {
        lines->state = LINES_NUMBER;
        lines->number = (size_t)(c - '0');
    } else {
        lines->state = c == '"' ? LINES_STRING : word ? LINES_WORD : LINES_PLAIN;
    }
}

bool omis_lines_next(struct omis_lines *lines, bool last, struct span *ret_line)
{
    size_t start = lines->used, len = lines->bytes.len;
    while (lines->at < len) {
        char c = lines->bytes.data[lines->at++];
        if (c == '\n') {
            *ret_line = span_of(lines->bytes.data + start, lines->at - 1 - start);
            lines->used = lines->at;
            lines->state = LINES_PLAIN;
            return true;
        }
        if (c == '#' && lines->state == LINES_NUMBER && lines->number <= REQUEST_SIZE_LIMIT) {
            /* may point beyond the data: the rest will come */
            lines->at += lines->number;
            lines->state = LINES_PLAIN;
        } else {
            step(lines, c);
        }
    }
    if (!last || len == start)
        return false;
    *ret_line = span_of(lines->bytes.data + start, len - start);
    lines->used = lines->at = len;
    lines->state = LINES_PLAIN;
    return true;
}

void omis_lines_done(struct omis_lines *lines)
{
    buf_done(&lines->bytes);
    *lines = (struct omis_lines){0};
}
