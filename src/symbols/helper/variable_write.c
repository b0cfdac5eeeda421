/* SPDX-License-Identifier: Apache-2.0 */
/* Values given as text become the bytes of a type. */
#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/helper/variable_internal.h"

static int put_integer(uint64_t value, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = i < 8 ? (uint8_t)(value >> 8 * i) : (uint8_t)((int64_t)value < 0 ? 0xff : 0);
    return 0;
}

/* One character of C text, with its escapes; NULL: there is none. */
static const char *read_char(const char *at, char *ret_char)
{
    static const char from[] = "abfnrtv0", to[] = "\a\b\f\n\r\t\v";
    if (*at == 0)
        return NULL;
    if (*at != '\\') {
        *ret_char = *at;
        return at + 1;
    }
    at++;
    if (*at >= '0' && *at <= '7') {
        unsigned value = 0;
        for (int i = 0; i < 3 && *at >= '0' && *at <= '7'; i++)
            value = value * 8 + (unsigned)(*at++ - '0');
        *ret_char = (char)value;
        return at;
    }
    const char *known = *at ? strchr(from, *at) : NULL;
    if (*at == 0)
        return NULL;
    *ret_char = known ? to[known - from] : *at;
    return at + 1;
}

static bool find_enumerator(Dwarf_Die *type, const char *name, uint64_t *ret_value)
{
    const char *last = strrchr(name, ':');
    last = last ? last + 1 : name;
    return type_enumerator(type, last, strlen(last), ret_value);
}

static int encode_integer(Dwarf_Die *type, const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    char *end, c;
    bool is_signed = type_is_signed(type) && type_kind_of(type) != TYPE_POINTER;
    errno = 0;
    bool negative = text[0] == '-';
    uint64_t value = negative ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end == text || *end) {
        const char *after = text[0] == '\'' ? read_char(text + 1, &c) : NULL;
        if (after && strcmp(after, "'") == 0)
            value = (uint64_t)(int64_t)c;
        else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
            value = text[0] == 't';
        else if (type_kind_of(type) != TYPE_ENUM || !find_enumerator(type, text, &value))
            return err_set(err, -EINVAL, "%s is no value of this type", text);
        return put_integer(value, bytes, size);
    }
    bool fits = !errno;
    if (size < 8 && !is_signed)
        fits &= !negative && value >> size * 8 == 0;
    else if (size < 8)
        fits &= (int64_t)value >= -(INT64_C(1) << (size * 8 - 1)) && (int64_t)value < INT64_C(1) << (size * 8 - 1);
    else
        fits &= is_signed ? negative || value <= INT64_MAX : !negative;
    if (type_kind_of(type) == TYPE_BOOL)
        fits = value <= 1;
    return fits ? put_integer(value, bytes, size) : err_set(err, -EINVAL, "%s does not fit into this type", text);
}

static int encode_float(const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    char *end;
    long double value = strtold(text, &end);
    if (end == text || *end)
        return err_set(err, -EINVAL, "%s is no number", text);
    memset(bytes, 0, size);
    if (size == 4)
        memcpy(bytes, &(float){(float)value}, 4);
    else if (size == 8)
        memcpy(bytes, &(double){(double)value}, 8);
    else
        memcpy(bytes, &value, 10);
    return 0;
}

/* Text for an array of char: in quotes with escapes, or as it is. */
static int encode_text(const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    size_t n = 0, length = strlen(text);
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    const char *at = text + quoted, *end = text + length - quoted;
    memset(bytes, 0, size);
    while (at < end) {
        char c = *at;
        at = quoted ? read_char(at, &c) : at + 1;
        if (!at || n == size)
            return err_set(err, -EINVAL, "the text does not fit into %zu bytes", size);
        bytes[n++] = (uint8_t)c;
    }
    return n < size ? 0 : err_set(err, -EINVAL, "the text and its end do not fit into %zu bytes", size);
}

int variable_encode(Dwarf_Die *type, const char *text, uint8_t *ret_bytes, size_t size, struct err *err)
{
    Dwarf_Die stripped, element;
    while (isspace((unsigned char)*text))
        text++;
    if (!type_strip(type, &stripped))
        return err_set(err, -EINVAL, "nothing can be written there");
    switch (type_kind_of(&stripped)) {
    case TYPE_SIGNED:
    case TYPE_UNSIGNED:
    case TYPE_CHAR:
    case TYPE_BOOL:
    case TYPE_ENUM:
    case TYPE_POINTER:
        return encode_integer(&stripped, text, ret_bytes, size, err);
    case TYPE_FLOAT:
        return encode_float(text, ret_bytes, size, err);
    case TYPE_ARRAY:
        if (type_of(&stripped, &element) && type_strip(&element, &element) && type_kind_of(&element) == TYPE_CHAR &&
            type_size(&element) == 1)
            return encode_text(text, ret_bytes, size, err);
        break;
    default:
        break;
    }
    return err_set(err, -EINVAL,
                   "only numbers, enumerators, pointers and arrays of char can be written; name a member");
}
