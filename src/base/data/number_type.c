/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/number_type.h"

#include <ctype.h>
#include <string.h>

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
