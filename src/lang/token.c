/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/token.h"

#include "lang/value.h"

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
