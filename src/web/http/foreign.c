/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/foreign.h"

#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct span foreign_trim(struct span text)
{
    while (text.len && (*text.ptr == ' ' || *text.ptr == '\t'))
        text = span_of(text.ptr + 1, text.len - 1);
    while (text.len && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool foreign_next(struct span *list, char separator, struct span *ret_part)
{
    if (!list->len)
        return false;
    const char *end = memchr(list->ptr, separator, list->len);
    size_t len = end ? (size_t)(end - list->ptr) : list->len, used = end ? len + 1 : len;
    *ret_part = foreign_trim(span_of(list->ptr, len));
    *list = span_of(list->ptr + used, list->len - used);
    return true;
}

struct span foreign_cookie(struct span header, const char *name)
{
    struct span part, found = {"", 0};
    size_t len = strlen(name), count = 0;
    while (foreign_next(&header, ';', &part))
        if (part.len > len && part.ptr[len] == '=' && memcmp(part.ptr, name, len) == 0) {
            found = span_of(part.ptr + len + 1, part.len - len - 1);
            count++;
        }
    return count == 1 ? found : span_of("", 0);
}

/* ";q=0", "; q=0.000": not acceptable. */
static bool is_refused(struct span parameters)
{
    struct span part;
    while (foreign_next(&parameters, ';', &part)) {
        if (part.len < 3 || (part.ptr[0] != 'q' && part.ptr[0] != 'Q') || part.ptr[1] != '=')
            continue;
        for (size_t i = 2; i < part.len; i++)
            if (part.ptr[i] != '0' && part.ptr[i] != '.')
                return false;
        return true;
    }
    return false;
}

bool foreign_takes_gzip(struct span header)
{
    struct span part;
    while (foreign_next(&header, ',', &part)) {
        const char *semicolon = memchr(part.ptr, ';', part.len);
        struct span name = foreign_trim(span_of(part.ptr, semicolon ? (size_t)(semicolon - part.ptr) : part.len));
        struct span rest =
            semicolon ? span_of(semicolon + 1, part.len - (size_t)(semicolon + 1 - part.ptr)) : span_of("", 0);
        if (name.len == 4 && strncasecmp(name.ptr, "gzip", 4) == 0)
            return !is_refused(rest);
    }
    return false;
}

bool foreign_has_tag(struct span header, const char *tag)
{
    struct span part;
    if (span_is(foreign_trim(header), "*"))
        return true;
    while (foreign_next(&header, ',', &part)) {
        if (part.len > 2 && part.ptr[0] == 'W' && part.ptr[1] == '/')
            part = span_of(part.ptr + 2, part.len - 2);
        if (span_is(part, tag))
            return true;
    }
    return false;
}

bool foreign_number(struct span text, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (!text.len || text.len > 19) /* which always fits */
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.ptr[i]))
            return false;
        number = number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret_number = number;
    return true;
}

enum foreign_range foreign_range(struct span header, uint64_t size, uint64_t *ret_from, uint64_t *ret_len)
{
    static const char unit[] = "bytes=";
    uint64_t first = 0, last = 0;
    header = foreign_trim(header);
    if (header.len < sizeof unit - 1 || strncasecmp(header.ptr, unit, sizeof unit - 1) != 0 ||
        memchr(header.ptr, ',', header.len))
        return RANGE_NONE;
    header = foreign_trim(span_of(header.ptr + sizeof unit - 1, header.len - (sizeof unit - 1)));
    const char *dash = memchr(header.ptr, '-', header.len);
    if (!dash)
        return RANGE_NONE;
    struct span from = span_of(header.ptr, (size_t)(dash - header.ptr));
    struct span to = span_of(dash + 1, header.len - from.len - 1);
    if ((from.len && !foreign_number(from, &first)) || (to.len && !foreign_number(to, &last)) ||
        (!from.len && !to.len) || (from.len && to.len && last < first))
        return RANGE_NONE;
    if (!from.len) { /* the last so many */
        first = last < size ? size - last : 0;
        if (last && !size)
            return RANGE_NONE; /* the end of what is empty is there; only, a part cannot say so (RFC 9110, 14.1.2) */
        last = last ? size - 1 : 0;
        if (first == size)
            return RANGE_BEYOND;
    } else if (!to.len || last >= size) {
        last = size - 1;
    }
    if (!size || first >= size)
        return RANGE_BEYOND;
    *ret_from = first;
    *ret_len = last - first + 1;
    return RANGE_PART;
}

bool foreign_is_id(struct span text)
{
    if (!text.len || text.len > FOREIGN_ID_MOST || !is_word(*text.ptr))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (!is_word(text.ptr[i]) && text.ptr[i] != '.' && text.ptr[i] != '_' && text.ptr[i] != '-')
            return false;
    return true;
}

bool foreign_is_path(struct span text)
{
    bool start = true;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < ' ' || c == 0x7f || c == '\\' || (start && (c == '.' || c == '/')))
            return false;
        start = c == '/';
    }
    return !start;
}
