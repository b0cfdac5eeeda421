/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/lines.h"

#include <stdbool.h>

enum { UNIT = 2 /* bytes of a code unit */, NO_LINE = -128 };

static int64_t checked(int64_t line)
{
    return line >= 0 && line <= INT32_MAX ? line : -1;
}

/* Pairs: so many bytes on, so many lines on. */
static int64_t by_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t address = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        address += table[i];
        if (address > at)
            break;
        line += (int8_t)table[i + 1];
    }
    return line;
}

/* Pairs: a range of so many bytes, so many lines on from the one before. */
static int64_t by_ranges(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t end = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int delta = table[i + 1] < 128 ? table[i + 1] : table[i + 1] - 256;
        end += table[i];
        line += delta == NO_LINE ? 0 : delta;
        if (at < end)
            return delta == NO_LINE ? -1 : line;
    }
    return -1;
}

/* A number in pieces of six bits, the lowest first; bit 6: more follow. False: the table ends in it. */
static bool get_number(const uint8_t *table, size_t size, size_t *i, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 36; shift += 6) {
        if (*i >= size)
            return false;
        uint8_t byte = table[(*i)++];
        number |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64)) {
            *ret_number = number;
            return true;
        }
    }
    return false;
}

/* Entries: the first byte has bit 7, what follows it has not. */
static int64_t by_locations(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    int64_t end = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t first = table[i++];
        const int kind = first >> 3 & 15;
        uint64_t number;
        if (!(first & 128))
            return -1;
        end += ((first & 7) + 1) * UNIT;
        if (kind == NO_COLUMNS || kind == LONG) {
            if (!get_number(table, size, &i, &number))
                return -1;
            line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
        } else if (kind >= ONE_LINE && kind < NO_COLUMNS) {
            line += kind - ONE_LINE;
        }
        if (at < end)
            return kind == NONE ? -1 : line;
        while (i < size && !(table[i] & 128))
            i++;
    }
    return -1;
}

int64_t python_line(enum python_lines kind, const uint8_t *table, size_t size, int64_t first_line, int64_t at)
{
    if (at < 0)
        return checked(first_line);
    return checked(kind == PYTHON_LINES_LNOTAB   ? by_lnotab(table, size, first_line, at)
                   : kind == PYTHON_LINES_RANGES ? by_ranges(table, size, first_line, at)
                                                 : by_locations(table, size, first_line, at));
}
