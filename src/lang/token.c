/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/token.h"

#include "lang/lexer.h"
#include "lang/reply.h"
#include "lang/value.h"

#include <endian.h>
#include <errno.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Takes "_NUMBER" off the end of *text: at most `most`, without leading zeros, so that each token has one spelling. */
static bool take_number(struct span *text, uint64_t most, uint64_t *ret_number)
{
    size_t from = text->len;
    while (from > 0 && is_digit(text->ptr[from - 1]))
        from--;
    size_t count = text->len - from;
    if (!count || !from || text->ptr[from - 1] != '_' || (text->ptr[from] == '0' && count > 1))
        return false;
    uint64_t number = 0;
    for (size_t i = from; i < text->len; i++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (unsigned)(text->ptr[i] - '0'), &number))
            return false;
    if (number > most)
        return false;
    text->len = from - 1;
    *ret_number = number;
    return true;
}

/* "p" or "pa_c": words that start with a letter, joined by underscores. */
static bool is_token_class(struct span text)
{
    if (!text.len || text.len >= TOKEN_CLASS_SIZE || text.ptr[text.len - 1] == '_')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool first = i == 0 || text.ptr[i - 1] == '_';
        if (!is_letter(text.ptr[i]) && (first || (!is_digit(text.ptr[i]) && text.ptr[i] != '_')))
            return false;
    }
    return true;
}

bool token_parse(struct span text, struct token *ret_token)
{
    struct token token = {.class = ""};
    uint64_t last, node;
    if (!take_number(&text, UINT64_MAX, &last))
        return false;
    if (span_is(text, "n")) {
        if (last > UINT32_MAX)
            return false;
        token.node = (uint32_t)last;
    } else if (span_is(text, "u")) {
        if (last != 0)
            return false;
    } else {
        if (!take_number(&text, UINT32_MAX, &node) || span_is(text, "n") || span_is(text, "u"))
            return false;
        token.node = (uint32_t)node;
        token.serial = last;
    }
    if (!is_token_class(text))
        return false;
    memcpy(token.class, text.ptr, text.len);
    *ret_token = token;
    return true;
}

void token_print(struct buf *out, const struct token *token)
{
    bool node = strcmp(token->class, "n") == 0, undefined = strcmp(token->class, "u") == 0;
    buf_puts(out, token->class);
    buf_putc(out, '_');
    value_print_uint(out, undefined ? 0 : token->node);
    if (!node && !undefined) {
        buf_putc(out, '_');
        value_print_uint(out, token->serial);
    }
}

/* Classes of the basic system are letters, those of extensions have an underscore: "log_1_2" in an error's text is no
 * token. */
static bool is_class_name(const char *name)
{
    return !name[1] || strchr(name, '_');
}

/* What stands around tokens in values and in sentences, but not inside the name of a file or host. */
static bool stands_alone(struct span text, const char *from, const char *to)
{
    const char *end = text.ptr + text.len;
    bool before = from == text.ptr || (unsigned char)from[-1] <= ' ' || strchr("([{,;<'", from[-1]);
    return before && (to == end || (unsigned char)*to <= ' ' || strchr(")]},:;.!?>'", *to));
}

/* The word is copied, with another number if it is a token. */
static void put_word(struct buf *out, struct span text, const char *from, const char *to,
                     const struct renumber *numbers)
{
    const char *end = to;
    while (end > from && end[-1] == '.') /* of a sentence */
        end--;
    struct token token;
    if (token_parse(span_of(from, (size_t)(end - from)), &token) && token.node && is_class_name(token.class) &&
        stands_alone(text, from, to)) {
        token.node = numbers->ours(numbers->ctx, token.node);
        if (token.node)
            token_print(out, &token);
        else
            buf_puts(out, "u_0");
        from = end;
    }
    buf_append(out, from, (size_t)(to - from));
}

void renumber_text(struct buf *out, struct span text, const struct renumber *numbers)
{
    const char *copied = text.ptr, *at = text.ptr, *end = text.ptr + text.len;
    bool strings = true;
    while (at < end) {
        if (*at == '"' && !strings) {
            at++;
            continue;
        }
        struct lexer_piece piece = lexer_piece(at, end);
        at = piece.to;
        if (piece.kind == PIECE_WORD) {
            buf_append(out, copied, (size_t)(piece.from - copied));
            put_word(out, text, piece.from, piece.to, numbers);
            copied = at;
        } else if (piece.kind == PIECE_BINARY && piece.data_len <= (size_t)(end - at)) {
            at += piece.data_len;
        } else if (piece.kind == PIECE_STRING && !piece.closed) {
            strings = false; /* an error's text: a character like others, and so are those behind it */
            at = piece.from + 1;
        }
    }
    buf_append(out, copied, (size_t)(end - copied));
}

/* With its length before it. */
static void put_sized(struct buf *out, struct span text, const struct renumber *numbers)
{
    size_t at = out->len;
    buf_put_u32(out, 0);
    renumber_text(out, text, numbers);
    if (out->failed)
        return;
    uint32_t len = htole32((uint32_t)(out->len - at - sizeof len));
    memcpy(out->data + at, &len, sizeof len);
}

/* Tools put objects into requests as they are: tokens, and nothing else. */
static bool are_tokens(struct span objects)
{
    struct token token;
    for (size_t from = 0; objects.len && from <= objects.len;) {
        const char *comma = memchr(objects.ptr + from, ',', objects.len - from);
        size_t to = comma ? (size_t)(comma - objects.ptr) : objects.len;
        if (!token_parse(span_of(objects.ptr + from, to - from), &token))
            return false;
        from = to + 1;
    }
    return true;
}

int renumber_reply(struct buf *out, struct span reply, const struct renumber *numbers)
{
    struct reply_reader reader;
    if (!reply_read_begin(&reader, reply))
        return -EBADMSG;
    buf_put_u32(out, reader.service_count);
    for (uint32_t i = 0; i < reader.service_count; i++) {
        uint32_t count = reply_read_service(&reader);
        buf_put_u32(out, count);
        for (; count; count--) {
            struct reply_part part = reply_read_part(&reader);
            if (!are_tokens(part.objects))
                return -EBADMSG;
            buf_put_u32(out, (uint32_t)part.status);
            put_sized(out, part.objects, numbers);
            if (part.has_text)
                put_sized(out, part.text, numbers);
            else
                buf_put_u32(out, REPLY_NO_RESULT);
        }
    }
    return out->failed ? -ENOMEM : 0;
}
