/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum word { ALONE = 1, SIGN = 2, INT = 4, SIZE = 8, LONG = 16 };

static const struct {
    const char *name;
    enum word word;
    struct number_type type;
} words[] = {
    {"unsigned", SIGN, {32, false, false}},   {"signed", SIGN, {32, true, false}},
    {"int", INT, {32, true, false}},          {"char", SIZE, {8, true, false}},
    {"short", SIZE, {16, true, false}},       {"long", LONG, {64, true, false}},
    {"float", ALONE, {32, true, true}},       {"double", ALONE, {64, true, true}},
    {"bool", ALONE, {1, false, false}},       {"_Bool", ALONE, {1, false, false}},
    {"size_t", ALONE, {64, false, false}},    {"ssize_t", ALONE, {64, true, false}},
    {"ptrdiff_t", ALONE, {64, true, false}},  {"intptr_t", ALONE, {64, true, false}},
    {"uintptr_t", ALONE, {64, false, false}}, {"int8_t", ALONE, {8, true, false}},
    {"uint8_t", ALONE, {8, false, false}},    {"int16_t", ALONE, {16, true, false}},
    {"uint16_t", ALONE, {16, false, false}},  {"int32_t", ALONE, {32, true, false}},
    {"uint32_t", ALONE, {32, false, false}},  {"int64_t", ALONE, {64, true, false}},
    {"uint64_t", ALONE, {64, false, false}},
};

/* The next word; -1: none of these. */
static int word_at(const char **at)
{
    size_t length = 0;
    while (isspace((unsigned char)**at))
        ++*at;
    while (isalnum((unsigned char)(*at)[length]) || (*at)[length] == '_')
        length++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == length && memcmp(*at, words[i].name, length) == 0) {
            *at += length;
            return (int)i;
        }
    return -1;
}

/* Can the word stand beside those before it, in C? */
static bool goes_with(enum word word, unsigned before, bool is_char)
{
    switch (word) {
    case ALONE:
        return !before;
    case LONG: /* at most two */
        return !(before & (ALONE | SIZE | 2 * LONG));
    case SIZE:
        return !(before & (ALONE | SIZE | LONG)) && !(is_char && before & INT);
    case INT:
        return !(before & (ALONE | INT)) && !is_char;
    default:
        return !(before & (ALONE | SIGN));
    }
}

size_t number_type_read(const char *text, struct number_type *ret_type)
{
    struct number_type type = {32, true, false};
    const char *at = text + 1;
    unsigned before = 0;
    bool is_char = false;
    if (*text != '(')
        return 0;
    for (int i; (i = word_at(&at)) >= 0;) {
        enum word word = words[i].word;
        is_char |= word == SIZE && words[i].type.bits == 8;
        if (!goes_with(word, before, is_char))
            return 0;
        if (word == ALONE)
            type = words[i].type;
        else if (word == SIGN)
            type.is_signed = words[i].type.is_signed;
        else if (word != INT)
            type.bits = words[i].type.bits;
        before |= word == LONG && before & LONG ? 2 * LONG : word;
    }
    if (!before || *at != ')')
        return 0;
    *ret_type = type;
    return (size_t)(at + 1 - text);
}

/* The number at the start, and the unit after it. false: no number, or not a sensible one. */
static bool split(const char *text, double *ret_value, const char **ret_unit)
{
    char *end;
    errno = 0;
    *ret_value = strtod(text, &end);
    if (end == text || errno || !(*ret_value >= 0) || !isfinite(*ret_value))
        return false;
    while (*end == ' ')
        end++;
    *ret_unit = end;
    return true;
}

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMGTP";
    double value;
    const char *end;
    if (!split(text, &value, &end))
        return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value *= (double)(UINT64_C(1) << 10 * (unit - units + 1));
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || value >= 0x1p63)
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

bool time_parse(const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},     {"min", 60e9},
                 {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"w", 604800e9}};
    double value;
    const char *unit;
    if (!split(text, &value, &unit))
        return false;
    double ns = value == 0 && !*unit ? 1 : 0; /* "0" needs no unit, other numbers would be guesses */
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(unit, units[i].name) == 0)
            ns = units[i].ns;
    if (ns == 0 || value * ns > 1e18)
        return false;
    *ret_ns = (uint64_t)(value * ns);
    return true;
}
