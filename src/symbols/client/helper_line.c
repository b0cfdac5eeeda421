/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the helper's protocol, for both of its ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/client/helper.h"

static void put_escaped(struct buf *out, const char *field)
{
    for (; *field; field++) {
        const char *special = strchr("\t\n\\", *field);
        if (special) {
            buf_putc(out, '\\');
            buf_putc(out, *special == '\t' ? 't' : *special == '\n' ? 'n' : '\\');
        } else {
            buf_putc(out, *field);
        }
    }
}

void helper_line(struct buf *out, const char *word, ...)
{
    va_list fields;
    buf_puts(out, word);
    va_start(fields, word);
    for (const char *field; (field = va_arg(fields, const char *));) {
        buf_putc(out, '\t');
        put_escaped(out, field);
    }
    va_end(fields);
    buf_putc(out, '\n');
}

int helper_split(char *line, char *ret_fields[HELPER_FIELDS])
{
    int count = 1;
    char *to = line;
    ret_fields[0] = line;
    for (const char *from = line; *from; from++) {
        if (*from == '\t') {
            *to++ = 0;
            if (count == HELPER_FIELDS)
                return -EBADMSG;
            ret_fields[count++] = to;
        } else if (*from == '\\') {
            from++;
            if (*from != 't' && *from != 'n' && *from != '\\')
                return -EBADMSG;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : '\\';
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    return count;
}

static bool parse(const char *field, int base, uint64_t *ret)
{
    char *end;
    if (!*field || strspn(field, base == 10 ? "0123456789" : "0123456789abcdefABCDEF") != strlen(field))
        return false;
    errno = 0;
    *ret = strtoull(field, &end, base);
    return errno == 0 && !*end;
}

bool helper_number(const char *field, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    uint64_t number;
    if (!parse(field, 10, &number) || number < low || number > high)
        return false;
    *ret_number = number;
    return true;
}

bool helper_address(const char *field, uint64_t *ret_address)
{
    return strncmp(field, "0x", 2) == 0 && parse(field + 2, 16, ret_address);
}
