/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/lexer.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lang/value.h"

enum { CLASS_OTHER, CLASS_SPACE = 1, CLASS_LETTER = 2, CLASS_DIGIT = 4, CLASS_HEX = 8 };

static const uint8_t classes[256] = {
    [' '] = CLASS_SPACE,
    ['\t' ... '\r'] = CLASS_SPACE, /* \t \n \v \f \r */
    ['0' ... '9'] = CLASS_DIGIT | CLASS_HEX,
    ['A' ... 'F'] = CLASS_LETTER | CLASS_HEX,
    ['G' ... 'Z'] = CLASS_LETTER,
    ['a' ... 'f'] = CLASS_LETTER | CLASS_HEX,
    ['g' ... 'z'] = CLASS_LETTER,
    ['_'] = CLASS_LETTER,
};

static inline bool is_class(char c, unsigned class)
{
    return classes[(unsigned char)c] & class;
}

static const char *skip_class(const char *at, const char *end, unsigned class)
{
    while (at < end && is_class(*at, class))
        at++;
    return at;
}

static unsigned hex_value(char c)
{
    return is_class(c, CLASS_DIGIT) ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

void lexer_init(struct lexer *lexer, struct arena *arena, struct span text, struct err *err)
{
    const char *start = text.ptr ? text.ptr : "";
    *lexer = (struct lexer){
        .start = start, .at = start, .end = start + text.len, .symbol = start, .arena = arena, .err = err};
}

/* ---- errors ---- */

/* Do not use the current symbol after this. */
static void __attribute__((format(printf, 4, 5)))
fail(struct lexer *lexer, const char *where, int code, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lexer->kind = SYMBOL_ERROR;
    lexer->code = err_set(lexer->err, code, "at byte %zu: %s", (size_t)(where - lexer->start), text);
    lexer->at = lexer->end;
}

/* The source text from..to for a message: quoted, shortened, control characters replaced. */
static const char *quoted(char text[64], const char *from, const char *to)
{
    enum { LONGEST = 24 };
    size_t used = 0;
    text[used++] = '\'';
    for (; from < to && used < LONGEST + 1; from++) {
        unsigned char c = (unsigned char)*from;
        if (c >= 0x20 && c < 0x7f)
            text[used++] = (char)c;
        else
            used += (size_t)snprintf(text + used, 5, "\\%03o", c);
    }
    snprintf(text + used, 64 - used, "'%s", from < to ? "..." : "");
    return text;
}

int lexer_expected(struct lexer *lexer, const char *what)
{
    char text[64];
    const char *from = lexer->symbol, *to = lexer->at;
    switch (lexer->kind) {
    case SYMBOL_ERROR:
        return lexer->code;
    case SYMBOL_END:
        fail(lexer, from, -EINVAL, "expected %s, found the end", what);
        break;
    case SYMBOL_VALUE:
        if (lexer->value.kind == VALUE_BINARY)
            to -= lexer->value.text.len;
        fail(lexer, from, -EINVAL, "expected %s, found %s", what, quoted(text, from, to));
        break;
    case SYMBOL_IDENTIFIER:
    case SYMBOL_CHARACTER:
        fail(lexer, from, -EINVAL, "expected %s, found %s", what, quoted(text, from, to));
        break;
    }
    return lexer->code;
}

/* ---- strings ---- */

static size_t utf8_put(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(marks[len] | code);
    return len;
}

/* \x with any number of digits, \u with 4, \U with 8. at: after the letter. Returns the position after the escape, or
 * NULL. */
static const char *read_hex_escape(struct lexer *lexer, const char *at, char **out)
{
    char letter = at[-1];
    const char *digits = at;
    size_t most = letter == 'u' ? 4 : letter == 'U' ? 8 : SIZE_MAX;
    uint32_t code = 0;
    bool over = false;
    for (; at < lexer->end && is_class(*at, CLASS_HEX) && (size_t)(at - digits) < most; at++) {
        over |= code > UINT32_MAX >> 4;
        code = code << 4 | hex_value(*at);
    }
    if (at == digits || (letter != 'x' && (size_t)(at - digits) < most)) {
        fail(lexer, digits - 2, -EINVAL, "\\%c needs %s hexadecimal digit%s", letter,
             letter == 'x'   ? "at least one"
             : letter == 'u' ? "four"
                             : "eight",
             letter == 'x' ? "" : "s");
        return NULL;
    }
    if (letter == 'x' ? over || code > 0xff : code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        fail(lexer, digits - 2, -EINVAL, "\\%c%.*s is no %s", letter, (int)(at - digits < 16 ? at - digits : 16),
             digits, letter == 'x' ? "byte (as in C, \\x takes all hexadecimal digits that follow)" : "character");
        return NULL;
    }
    if (letter == 'x')
        *(*out)++ = (char)code;
    else
        *out += utf8_put(*out, code);
    return at;
}

/* at: after the backslash, before the end. Returns the position after the escape, or NULL after reporting. The result
 * is never longer than the escape. */
static const char *read_escape(struct lexer *lexer, const char *at, char **out)
{
    static const char letters[] = "abfnrtv\\'\"?", meanings[] = "\a\b\f\n\r\t\v\\'\"?";
    char letter = *at;
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        *(*out)++ = meanings[found - letters];
        return at + 1;
    }
    if (letter == 'x' || letter == 'u' || letter == 'U')
        return read_hex_escape(lexer, at + 1, out);
    if (letter < '0' || letter > '7') {
        char text[64];
        fail(lexer, at - 1, -EINVAL, "unknown escape %s in a string (a backslash is written \\\\)",
             quoted(text, at - 1, at + 1));
        return NULL;
    }
    unsigned code = 0;
    const char *digits = at;
    for (; at < lexer->end && at - digits < 3 && *at >= '0' && *at <= '7'; at++)
        code = code * 8 + (unsigned)(*at - '0');
    if (code > 0xff) {
        fail(lexer, digits - 1, -EINVAL, "\\%.3s is no byte", digits);
        return NULL;
    }
    *(*out)++ = (char)code;
    return at;
}

/* Copies the string from..to with its escapes resolved. False after reporting. */
static bool resolve_escapes(struct lexer *lexer, const char *from, const char *to)
{
    char *copy = arena_alloc(lexer->arena, (size_t)(to - from)), *out = copy;
    if (!copy) {
        fail(lexer, lexer->symbol, -ENOMEM, "out of memory");
        return false;
    }
    while (from < to) {
        if (*from != '\\') {
            *out++ = *from++;
            continue;
        }
        from = read_escape(lexer, from + 1, &out);
        if (!from)
            return false;
    }
    lexer->value.text = span_of(copy, (size_t)(out - copy));
    return true;
}

static void read_string(struct lexer *lexer)
{
    const char *from = lexer->symbol + 1, *at = from;
    bool escapes = false;
    for (; at < lexer->end && *at != '"' && *at != '\n' && *at; at++)
        if (*at == '\\') {
            escapes = true;
            if (++at == lexer->end)
                break;
        }
    if (at == lexer->end) {
        fail(lexer, lexer->symbol, -EINVAL, "the string that starts here has no closing '\"'");
        return;
    }
    if (*at != '"') {
        fail(lexer, at, -EINVAL, "a string cannot hold %s as it is: write %s", *at ? "a newline" : "a NUL",
             *at ? "\\n" : "\\0");
        return;
    }
    lexer->value = (struct value){.kind = VALUE_STRING, .offset = lexer->value.offset};
    lexer->kind = SYMBOL_VALUE;
    if (!escapes)
        lexer->value.text = span_of(from, (size_t)(at - from));
    else if (!resolve_escapes(lexer, from, at))
        return;
    lexer->at = at + 1;
}

/* ---- numbers ---- */

/* Reads digits of the given base. False: more than 64 bits. */
static bool read_digits(const char *at, const char *end, unsigned base, uint64_t *ret_number)
{
    uint64_t number = 0;
    bool fits = true;
    for (; at < end; at++)
        fits = fits && !__builtin_mul_overflow(number, base, &number) &&
               !__builtin_add_overflow(number, hex_value(*at), &number);
    *ret_number = number;
    return fits;
}

static void malformed_number(struct lexer *lexer, const char *hint)
{
    char text[64];
    const char *to = lexer->at;
    while (to < lexer->end && (is_class(*to, CLASS_DIGIT | CLASS_LETTER) || *to == '.'))
        to++;
    fail(lexer, lexer->symbol, -EINVAL, "malformed number %s%s", quoted(text, lexer->symbol, to), hint);
}

static void read_integer(struct lexer *lexer, const char *digits, unsigned base)
{
    uint64_t bits;
    bool negative = *lexer->symbol == '-';
    for (const char *at = digits; base == 8 && at < lexer->at; at++)
        if (*at > '7') {
            malformed_number(lexer, ": a leading 0 makes it octal, as in C");
            return;
        }
    if (!read_digits(digits, lexer->at, base, &bits) || (negative && bits > UINT64_C(1) << 63)) {
        char text[64];
        fail(lexer, lexer->symbol, -ERANGE, "the integer %s is out of range (-2^63 to 2^64-1)",
             quoted(text, lexer->symbol, lexer->at));
        return;
    }
    if (negative)
        bits = -bits;
    lexer->value = (struct value){
        .kind = VALUE_INTEGER, .offset = lexer->value.offset, .integer = {.bits = bits, .negative = negative && bits}};
}

static void read_floating(struct lexer *lexer)
{
    struct span literal = span_of(lexer->symbol, (size_t)(lexer->at - lexer->symbol));
    char text[64];
    if (literal.len > FLOAT_SIZE_LIMIT)
        fail(lexer, lexer->symbol, -E2BIG, "the number %s is longer than %d characters",
             quoted(text, lexer->symbol, lexer->at), FLOAT_SIZE_LIMIT);
    else if (float_read(literal, &lexer->value) < 0)
        fail(lexer, lexer->symbol, -ERANGE, "the number %s is out of range", quoted(text, lexer->symbol, lexer->at));
}

/* at: after the '#'. */
static void read_binary(struct lexer *lexer, const char *at)
{
    uint64_t len;
    bool fits = read_digits(lexer->symbol, at - 1, 10, &len);
    if (!fits || len > (size_t)(lexer->end - at)) {
        fail(lexer, lexer->symbol, -EINVAL, "binary data of %.*s%s bytes announced, but only %zu bytes follow",
             (int)(at - 1 - lexer->symbol > 24 ? 24 : at - 1 - lexer->symbol), lexer->symbol,
             at - 1 - lexer->symbol > 24 ? "..." : "", (size_t)(lexer->end - at));
        return;
    }
    lexer->value =
        (struct value){.kind = VALUE_BINARY, .offset = lexer->value.offset, .text = span_of(at, (size_t)len)};
    lexer->at = at + len;
}

/* Skips an exponent at `at`: e or p, sign, digits. Returns its end; `at` if there is none; NULL if it has no digits. */
static const char *skip_exponent(const char *at, const char *end, char letter)
{
    if (at >= end || (*at | 0x20) != letter)
        return at;
    at++;
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    const char *after = skip_class(at, end, CLASS_DIGIT);
    return after == at ? NULL : after;
}

/* C's suffixes mean nothing here: u, l, ll of integers, f and l of floats. */
static const char *skip_suffix(const char *at, const char *end, bool floating)
{
    if (floating)
        return at + (at < end && ((*at | 0x20) == 'f' || (*at | 0x20) == 'l'));
    bool is_unsigned = at < end && (*at | 0x20) == 'u';
    at += is_unsigned;
    if (at < end && (*at | 0x20) == 'l')
        at += at + 1 < end && at[1] == *at ? 2 : 1;
    return at + (!is_unsigned && at < end && (*at | 0x20) == 'u');
}

/* The current symbol starts like a number: with an optional sign and a digit, or a point and a digit. */
static void read_number(struct lexer *lexer)
{
    const char *end = lexer->end, *digits = lexer->symbol;
    bool sign = *digits == '-' || *digits == '+';
    digits += sign;
    bool hex = end - digits > 1 && digits[0] == '0' && (digits[1] | 0x20) == 'x';
    unsigned class = hex ? CLASS_HEX : CLASS_DIGIT;
    if (hex)
        digits += 2;
    const char *at = skip_class(digits, end, class);
    if (!hex && !sign && at < end && *at == '#') {
        lexer->kind = SYMBOL_VALUE;
        read_binary(lexer, at + 1);
        return;
    }
    size_t count = (size_t)(at - digits);
    bool point = at < end && *at == '.';
    if (point) {
        const char *fraction = at + 1;
        at = skip_class(fraction, end, class);
        count += (size_t)(at - fraction);
    }
    const char *mantissa_end = at;
    at = skip_exponent(at, end, hex ? 'p' : 'e');
    bool exponent = at && at != mantissa_end;
    lexer->at = at ? at : mantissa_end;
    const char *after = at ? skip_suffix(at, end, point || exponent) : NULL;
    if (!at || !count || (hex && point && !exponent) ||
        (after < end && (is_class(*after, CLASS_LETTER | CLASS_DIGIT) || *after == '.'))) {
        malformed_number(lexer,
                         hex && point && at && count ? ": with hexadecimal digits a point needs an exponent (p0)" : "");
        return;
    }
    lexer->kind = SYMBOL_VALUE;
    if (point || exponent)
        read_floating(lexer);
    else
        read_integer(lexer, digits, hex ? 16 : *digits == '0' ? 8 : 10);
    lexer->at = after;
}

/* ---- special floats ---- */

void lexer_special_float(struct lexer *lexer)
{
    struct span name = lexer->value.text;
    uint32_t offset = lexer->value.offset;
    if (span_is(name, "inf")) {
        lexer->value = float_infinity(false);
    } else if (span_is(name, "nan")) {
        const char *at = lexer->at, *end = lexer->end;
        struct span digits = span_str("7ff8000000000000");
        if (end - at > 2 && at[0] == ':' && at[1] == '0' && (at[2] | 0x20) == 'x') {
            lexer->at = skip_class(at + 3, end, CLASS_DIGIT | CLASS_LETTER);
            digits = span_of(at + 3, (size_t)(lexer->at - at - 3));
        }
        if (!float_read_nan(digits, &lexer->value)) {
            char text[64];
            fail(lexer, lexer->symbol, -EINVAL, "%s are not the bits of a NaN", quoted(text, lexer->symbol, lexer->at));
            return;
        }
    } else {
        return;
    }
    lexer->value.offset = offset;
    lexer->kind = SYMBOL_VALUE;
}

/* A sign without a digit: only "-inf" and "+inf" remain. */
static bool read_signed_infinity(struct lexer *lexer)
{
    const char *name = lexer->symbol + 1, *to = skip_class(name, lexer->end, CLASS_LETTER | CLASS_DIGIT);
    if (!span_is(span_of(name, (size_t)(to - name)), "inf"))
        return false;
    uint32_t offset = lexer->value.offset;
    lexer->value = float_infinity(*lexer->symbol == '-');
    lexer->value.offset = offset;
    lexer->kind = SYMBOL_VALUE;
    lexer->at = to;
    return true;
}

/* ---- all symbols ---- */

static bool number_starts(const char *at, const char *end)
{
    if (*at == '-' || *at == '+')
        at++;
    if (at < end && *at == '.')
        at++;
    return at < end && is_class(*at, CLASS_DIGIT);
}

void lexer_next(struct lexer *lexer)
{
    if (lexer->kind == SYMBOL_ERROR)
        return;
    const char *at = skip_class(lexer->at, lexer->end, CLASS_SPACE);
    lexer->symbol = at;
    lexer->value.offset = (uint32_t)(at - lexer->start);
    lexer->character = 0;
    if (at == lexer->end) {
        lexer->at = at;
        lexer->kind = SYMBOL_END;
        return;
    }
    if (is_class(*at, CLASS_LETTER)) {
        lexer->at = skip_class(at, lexer->end, CLASS_LETTER | CLASS_DIGIT);
        lexer->kind = SYMBOL_IDENTIFIER;
        lexer->value.kind = VALUE_TOKEN;
        lexer->value.text = span_of(at, (size_t)(lexer->at - at));
        return;
    }
    if (*at == '"') {
        read_string(lexer);
        return;
    }
    if (is_class(*at, CLASS_DIGIT) || ((*at == '-' || *at == '+' || *at == '.') && number_starts(at, lexer->end))) {
        read_number(lexer);
        return;
    }
    if ((*at == '-' || *at == '+') && read_signed_infinity(lexer))
        return;
    lexer->kind = SYMBOL_CHARACTER;
    lexer->character = *at;
    lexer->at = at + 1;
}

/*
 * Makes the same decisions as lexer_next, but only as needed to find binary data: "#" must not count inside strings
 * ("5#"), after a sign (-5#), or in identifiers and other numbers (p_5#, 1.5#).
 */
struct lexer_piece lexer_piece(const char *at, const char *end)
{
    struct lexer_piece piece = {.from = at, .kind = PIECE_OTHER};
    if (*at == '"') {
        piece.kind = PIECE_STRING;
        for (at++; at != end && *at && *at != '"'; at++)
            if (*at == '\\' && at + 1 != end && at[1])
                at++;
        piece.closed = at != end && *at;
        piece.to = at + piece.closed;
        return piece;
    }
    bool plain = is_class(*at, CLASS_DIGIT);
    bool word = plain || is_class(*at, CLASS_LETTER) || *at == '.' || *at == '-' || *at == '+';
    piece.to = ++at;
    if (!word)
        return piece;
    piece.kind = PIECE_WORD;
    while (at != end && (is_class(*at, CLASS_LETTER | CLASS_DIGIT) || *at == '.')) {
        plain = plain && is_class(*at, CLASS_DIGIT);
        at++;
    }
    piece.to = at;
    if (plain && at != end && *at == '#' && read_digits(piece.from, at, 10, &piece.data_len)) {
        piece.kind = PIECE_BINARY;
        piece.to = at + 1;
    }
    return piece;
}

size_t lexer_length(const char *text, const char *end, size_t limit)
{
    const char *at = text;
    while (at != end && *at) {
        struct lexer_piece piece = lexer_piece(at, end);
        at = piece.to;
        if (piece.kind != PIECE_BINARY)
            continue;
        if (end && piece.data_len > (size_t)(end - at))
            return SIZE_MAX;
        size_t used = (size_t)(at - text);
        if (used <= limit && piece.data_len <= limit - used)
            at += piece.data_len;
    }
    return (size_t)(at - text);
}
