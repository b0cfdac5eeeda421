/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/err.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct err *err, int code, const char *format, va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
}

int err_set(struct err *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_text(err, code, format, args);
        va_end(args);
    }
    return code;
}

int err_errno(struct err *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_text(err, code, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        /* strerrordesc_np is the signal-safe, thread-safe strerror */
        const char *reason = strerrordesc_np(-code);
        snprintf(err->text + used, sizeof err->text - used, ": %s", reason ? reason : "unknown error");
    }
    return code;
}

unsigned fuzzy_distance(const char *word, size_t len, const char *other)
{
    unsigned rows[3][FUZZY_SIZE], *before = rows[0], *last = rows[1], *now = rows[2];
    size_t other_len = strlen(other);
    if (other_len >= FUZZY_SIZE)
        return FUZZY_NONE;
    for (size_t k = 0; k <= other_len; k++)
        last[k] = (unsigned)k;
    for (size_t i = 1; i <= len; i++) {
        now[0] = (unsigned)i;
        for (size_t k = 1; k <= other_len; k++) {
            int a = tolower((unsigned char)word[i - 1]), b = tolower((unsigned char)other[k - 1]);
            unsigned least = last[k - 1] + (a != b);
            if (last[k] + 1 < least)
                least = last[k] + 1;
            if (now[k - 1] + 1 < least)
                least = now[k - 1] + 1;
            bool swapped =
                i > 1 && k > 1 && a == tolower((unsigned char)other[k - 2]) && b == tolower((unsigned char)word[i - 2]);
            if (swapped && before[k - 2] + 1 < least)
                least = before[k - 2] + 1;
            now[k] = least;
        }
        unsigned *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[other_len];
}

unsigned fuzzy_limit(size_t len)
{
    return (unsigned)len / 3 + 1;
}

void fuzzy_match_try(struct fuzzy_match *best, const char *word, size_t len, const char *other)
{
    unsigned distance = fuzzy_distance(word, len, other);
    if (distance >= best->distance || distance > fuzzy_limit(len))
        return;
    best->distance = distance;
    snprintf(best->text, sizeof best->text, "%s", other);
}
