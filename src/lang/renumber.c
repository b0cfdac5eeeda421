/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/renumber.h"

#include <endian.h>
#include <errno.h>

#include "lang/lexer.h"
#include "lang/reply.h"
#include "lang/token.h"

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
