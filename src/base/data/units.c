/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    } units[] = {{"ns", 1},     {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},
                 {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"w", 604800e9}};
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
