/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "jobdir/text/fields.h"

/* Files may say what no number of ours can hold. */
static json_int_t whole(double number)
{
    return number >= 0x1p63 ? INT64_MAX : number > -0x1p63 ? (json_int_t)number : INT64_MIN;
}

static void put_number(const struct field *field, const json_t *json, void *at)
{
    bool unknown = (!json || json_is_null(json)) && field->flags & FIELD_NEGATIVE_IS_NULL;
    double number = unknown ? -1 : json_is_boolean(json) ? json_is_true(json) : json_number_value(json);
    json_int_t integer = json_is_integer(json) ? json_integer_value(json) : whole(number);
    if (field->type == FIELD_SECONDS && field->held != HELD_DOUBLE)
        integer = whole(number * 1e9);
    switch (field->held) {
    case HELD_BOOL:
        *(bool *)at = number != 0;
        return;
    case HELD_I32:
        *(int32_t *)at = (int32_t)integer;
        return;
    case HELD_U32:
        *(uint32_t *)at = integer > 0 ? (uint32_t)integer : 0;
        return;
    case HELD_I64:
        *(int64_t *)at = integer;
        return;
    case HELD_U64:
        *(uint64_t *)at = integer > 0 ? (uint64_t)integer : 0;
        return;
    case HELD_DOUBLE:
        *(double *)at = number;
        return;
    default:
        return;
    }
}

static void read_into(const struct field *fields, const json_t *object, char *row)
{
    for (const struct field *field = fields; field->type != FIELD_END; field++) {
        json_t *json = json_object_get(object, field->name);
        void *at = row + field->at;
        if (field->type == FIELD_PART && !(field->flags & FIELD_POINTER))
            read_into(field->of, object, at);
        else if (field->held == HELD_TEXT)
            *(const char **)at = json_string_value(json);
        else if (field->held == HELD_JSON)
            *(json_t **)at = json_is_null(json) ? NULL : json;
        else if (field->type == FIELD_OBJECT && !(field->flags & FIELD_POINTER))
            read_into(field->of, json, at);
        else if ((json || field->flags & FIELD_NEGATIVE_IS_NULL) && field->held != HELD_INSIDE)
            put_number(field, json, at);
    }
}

void fields_read(const struct field *fields, const json_t *object, void *ret_row, size_t size)
{
    memset(ret_row, 0, size);
    read_into(fields, object, ret_row);
}
