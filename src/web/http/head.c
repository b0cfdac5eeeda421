/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/head.h"

#include <string.h>

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

/* Those that libwebsockets knows, but CONNECT, with which it would leave HTTP. visit.c says which path has which. */
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
        head->body = UINT64_MAX; /* visit.c refuses both */
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
