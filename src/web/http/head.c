/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/head.h"

#include <string.h>
#include <strings.h>

static const struct head_refusal bad_line = {400, "Bad Request", "request", "the first line is no request of HTTP/1"},
                                 bad_method = {501, "Not Implemented", "method", "there is no such method here"},
                                 bad_version = {505, "HTTP Version Not Supported", "version",
                                                "only HTTP/1.0 and HTTP/1.1 are spoken here"},
                                 bad_end = {400, "Bad Request", "header", "a line does not end with CR and LF"},
                                 bad_byte = {400, "Bad Request", "header", "a header has a control character"},
                                 bad_name = {400, "Bad Request", "header",
                                             "a line is no header: a name, a colon, a value"},
                                 long_line = {414, "URI Too Long", "too_long", "the URL is too long"},
                                 large = {431, "Request Header Fields Too Large", "too_large",
                                          "the headers are too many or too long: more than 50, or 12 KB"};

/* Those that libwebsockets knows, but CONNECT, with which it would leave HTTP. request.c says which path has which. */
static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};

static bool word_is(const struct head *head, const char *text)
{
    return head->word_len == strlen(text) && memcmp(head->word, text, head->word_len) == 0;
}

static void word_add(struct head *head, unsigned char c)
{
    if (head->word_len < sizeof head->word)
        head->word[head->word_len] = (char)c;
    if (head->word_len <= sizeof head->word) /* one more than there is room for: longer than any that counts */
        head->word_len++;
}

static bool is_method(const struct head *head)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (word_is(head, methods[i]))
            return true;
    return false;
}

/* tchar of RFC 9110, 5.6.2 */
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static const struct head_refusal *take_line(struct head *head, unsigned char c)
{
    if (c == '\n')
        return &bad_end;
    if (head->state == HEAD_VERSION) {
        if (c != '\r') {
            word_add(head, c);
            return NULL;
        }
        head->state = HEAD_LINE_END;
        if (word_is(head, "HTTP/1.1") || word_is(head, "HTTP/1.0"))
            return NULL;
        return head->word_len == strlen("HTTP/x.y") && memcmp(head->word, "HTTP/", 5) == 0 ? &bad_version : &bad_line;
    }
    if (c < ' ' || c == 0x7f)
        return &bad_line;
    if (head->state == HEAD_METHOD) {
        if (c != ' ') {
            word_add(head, c);
            return NULL;
        }
        head->state = HEAD_TARGET;
        return is_method(head) ? NULL : &bad_method;
    }
    if (c == ' ') {
        head->state = HEAD_VERSION;
        head->word_len = 0;
    }
    head->arguments += c == '&' || c == ';';
    return head->arguments > HEAD_ARGUMENTS_MOST ? &long_line : NULL;
}

static const struct head_refusal *take_name(struct head *head, unsigned char c)
{
    if (c == '\n')
        return &bad_end;
    if (c == '\r' && !head->word_len) {
        head->state = HEAD_END;
        return NULL;
    }
    if (c != ':') {
        word_add(head, c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c);
        return is_token(c) ? NULL : &bad_name; /* a space before the colon, or at the beginning (obs-fold), neither */
    }
    head->state = HEAD_VALUE;
    if (word_is(head, "transfer-encoding") || (word_is(head, "content-length") && head->lengths++))
        head->body = UINT64_MAX; /* request.c refuses both */
    if (++head->headers > HEAD_HEADERS_MOST)
        return &large;
    return head->word_len ? NULL : &bad_name;
}

static const struct head_refusal *take_value(struct head *head, unsigned char c)
{
    if (c == '\n')
        return &bad_end;
    if (c == '\r') {
        head->state = HEAD_LINE_END;
        return NULL;
    }
    if ((c < ' ' && c != '\t') || c == 0x7f)
        return &bad_byte;
    if (!word_is(head, "content-length") || c == ' ' || c == '\t' || head->body == UINT64_MAX)
        return NULL;
    if (c < '0' || c > '9' || head->body > UINT64_MAX / 100)
        head->body = UINT64_MAX; /* not a number, or too large for any */
    else
        head->body = head->body * 10 + c - '0';
    return NULL;
}

/* Behind a CR. */
static const struct head_refusal *take_end(struct head *head, unsigned char c)
{
    if (c != '\n')
        return &bad_end;
    if (head->state == HEAD_LINE_END) {
        head->state = HEAD_NAME;
        head->word_len = 0;
        return NULL;
    }
    uint64_t body = head->body;
    memset(head, 0, sizeof *head);
    head->body = body;
    head->state = body == UINT64_MAX ? HEAD_LAST : body ? HEAD_BODY : HEAD_METHOD;
    return NULL;
}

static const struct head_refusal *take_byte(struct head *head, unsigned char c)
{
    if (++head->size > HEAD_MOST)
        return &large;
    switch (head->state) {
    case HEAD_METHOD:
    case HEAD_TARGET:
    case HEAD_VERSION:
        return head->size > HEAD_LINE_MOST ? &long_line : take_line(head, c);
    case HEAD_NAME:
        return take_name(head, c);
    case HEAD_VALUE:
        return take_value(head, c);
    default:
        return take_end(head, c);
    }
}

size_t head_take(struct head *head, const void *bytes, size_t len, const struct head_refusal **ret_refusal)
{
    const unsigned char *all = bytes;
    size_t at = 0, whole = 0;
    *ret_refusal = NULL;
    while (at < len && head->state != HEAD_LAST) {
        if (head->state == HEAD_BODY) {
            size_t here = len - at < head->body ? len - at : (size_t)head->body;
            at += here;
            head->body -= here;
            head->state = head->body ? HEAD_BODY : HEAD_METHOD;
        } else if ((*ret_refusal = take_byte(head, all[at++]))) {
            return whole;
        }
        if (head->state == HEAD_METHOD && !head->size)
            whole = at;
    }
    return len;
}

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

enum { BASE = 36, MOST_DIGITS = 11 }; /* of numbers below 2^53 */

static int base36_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : -1;
}

static bool base36_parse(struct span text, uint64_t *ret_number)
{
    uint64_t value = 0;
    if (!text.len || text.len > MOST_DIGITS)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (base36_digit(text.ptr[i]) < 0)
            return false;
        value = value * BASE + (uint64_t)base36_digit(text.ptr[i]);
    }
    *ret_number = value;
    return true;
}

bool position_parse(struct span text, struct position *ret_position)
{
    struct span part;
    ret_position->count = 0;
    while (foreign_next(&text, ',', &part)) {
        const char *colon = memchr(part.ptr, ':', part.len);
        uint64_t name = 0, offset;
        size_t head = colon ? (size_t)(colon - part.ptr) : 0;
        struct span rest = colon ? span_of(colon + 1, part.len - head - 1) : part;
        bool own = ret_position->count == 0;
        if (own == (colon != NULL) || ret_position->count == POSITION_PARTS || !base36_parse(rest, &offset) ||
            (colon && (!base36_parse(span_of(part.ptr, head), &name) || !name || name > UINT32_MAX))) {
            ret_position->count = 0;
            return false;
        }
        ret_position->parts[ret_position->count++] = (struct position_part){(uint32_t)name, offset};
    }
    return ret_position->count > 0;
}

uint64_t position_of(const struct position *position, uint32_t name)
{
    for (size_t i = 0; i < position->count; i++)
        if (position->parts[i].name == name)
            return position->parts[i].offset;
    return 0;
}

static void put_number(struct buf *out, uint64_t value)
{
    char digits[16];
    size_t at = sizeof digits;
    do
        digits[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[value % BASE];
    while (value /= BASE);
    buf_append(out, digits + at, sizeof digits - at);
}

void position_put(struct buf *out, uint32_t name, uint64_t offset, bool first)
{
    if (!first)
        buf_putc(out, ',');
    if (name) {
        put_number(out, name);
        buf_putc(out, ':');
    }
    put_number(out, offset);
}

uint32_t position_name(const char *part)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *part; part++)
        hash = (hash ^ (unsigned char)*part) * UINT32_C(16777619);
    return hash ? hash : 1;
}
