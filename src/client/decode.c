/* SPDX-License-Identifier: Apache-2.0 */
#include "client/decode.h"

#include <assert.h>
#include <string.h>

/* To the ';', bracket or brace that ends the member at `at`; *ret_name is its last word. */
static const char *skip_member(const char *at, const char **ret_name, size_t *ret_len)
{
    unsigned depth = 0;
    for (; *at && (depth || !strchr(";]}", *at)); at++)
        depth += (*at == '{') - (*at == '}');
    const char *end = at;
    while (end[-1] == ' ')
        end--;
    *ret_len = 0;
    while (!strchr(" *}>", end[-1 - (ptrdiff_t)*ret_len]))
        ++*ret_len;
    *ret_name = end - *ret_len;
    return at;
}

void decoder_init(struct decoder *ret_decoder, const char *result, uint64_t flags, const struct decode_field *fields)
{
    size_t missing = 0;
    unsigned bracket = 0;
    *ret_decoder = (struct decoder){.fields = fields};
    for (; fields[missing].name; missing++)
        ret_decoder->at[missing] = UINT16_MAX;
    for (const char *at = result + strspn(result, "{ "); *at && *at != '}'; at += strspn(at, " ;")) {
        bool wanted = *at != '[' || flags >> bracket & 1, group = *at == '[';
        at += group;
        do {
            const char *name;
            size_t len;
            at = skip_member(at, &name, &len);
            for (size_t i = 0; wanted && fields[i].name; i++)
                if (strlen(fields[i].name) == len && memcmp(fields[i].name, name, len) == 0) {
                    ret_decoder->at[i] = (unsigned short)ret_decoder->members;
                    missing--;
                }
            ret_decoder->members += wanted;
            at += *at == ';';
            at += strspn(at, " ");
        } while (group && *at && *at != ']');
        at += group && *at;
        bracket += group;
    }
    assert(!missing);
}

size_t decoder_rows(const struct decoder *decoder, const struct omis_value *list)
{
    return decoder->members ? omis_count(list) / decoder->members : 0;
}

void decode(const struct decoder *decoder, const struct omis_value *list, size_t row, void *ret_struct)
{
    for (size_t i = 0; decoder->fields[i].name; i++) {
        void *to = (char *)ret_struct + decoder->fields[i].offset;
        const struct omis_value *value =
            decoder->at[i] < decoder->members ? omis_item(list, row * decoder->members + decoder->at[i]) : NULL;
        int64_t number = omis_kind(value) == OMIS_KIND_INTEGER ? omis_integer(value) : -1;
        switch (decoder->fields[i].type) {
        case DECODE_UNSIGNED:
            *(uint64_t *)to = omis_unsigned(value);
            break;
        case DECODE_INTEGER:
            *(int64_t *)to = number;
            break;
        case DECODE_SHORT:
            *(int32_t *)to = number < INT32_MIN || number > INT32_MAX ? -1 : (int32_t)number;
            break;
        case DECODE_FLOATING:
            *(double *)to = omis_floating(value);
            break;
        case DECODE_FLAG:
            *(bool *)to = omis_unsigned(value) != 0;
            break;
        case DECODE_TEXT:
            *(const char **)to = omis_text(value, NULL);
            break;
        case DECODE_VALUE:
            *(const struct omis_value **)to = value;
            break;
        }
    }
}

/* ---- what requests print ---- */

void decode_request(struct buf *out, const struct decode_field *fields)
{
    buf_puts(out, "print([");
    for (size_t i = 0; fields[i].name; i++)
        buf_printf(out, "%s$%s", i ? ", " : "", fields[i].name);
    buf_puts(out, "])");
}

bool decode_printed(const struct omis_value *result, const struct decode_field *fields, void *ret_struct)
{
    struct decoder decoder = {.fields = fields};
    for (; fields[decoder.members].name; decoder.members++)
        decoder.at[decoder.members] = (unsigned short)decoder.members;
    const struct omis_value *args = omis_item(result, 1); /* behind their number */
    decode(&decoder, args, 0, ret_struct);
    return omis_count(args) == decoder.members;
}
