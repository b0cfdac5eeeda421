/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/utf8.h"

size_t utf8_length(const void *bytes, size_t left)
{
    const unsigned char *at = bytes;
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return len;
}

bool utf8_is_control(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } controls[] = {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
                    {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
                    {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},
                    {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                    {0x1d173, 0x1d17a}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};
    for (size_t i = 0; i < sizeof controls / sizeof *controls && character >= controls[i].first; i++)
        if (character <= controls[i].last)
            return true;
    return false;
}

uint32_t utf8_character(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint32_t character = len == 1 ? at[0] : at[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        character = character << 6 | (at[i] & 0x3f);
    return character;
}

bool utf8_starts_control(const void *bytes, size_t len)
{
    return utf8_is_control(utf8_character(bytes, len));
}
