/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of replies, <scry/omis.h>. A result is copied once and parsed by the language's parser. Texts end with a
 * NUL, because the byte after each (a quotation mark, a comma, a bracket) is overwritten in that copy. The reader's
 * arena holds everything until its end.
 */
#pragma GCC visibility push(default)
#include <scry/omis.h>
#pragma GCC visibility pop

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/arena.h"
#include "lang/reply.h"
#include "lang/request.h"

/* Has only this member: a value of the language. */
struct omis_value {
    struct value value;
};

struct omis_reader {
    Omis_reply reply;
    bool owned;
    size_t action;                     /* of the current result */
    const Omis_object_result *current; /* NULL: before the first, or after the last */
    bool begun, missed;                /* missed: omis_reader_find did not find it */
    struct arena arena;
    /* of the current result, made on demand */
    const struct omis_value *values;
    const char *error;
    const char **objects; /* NULL: not made */
    size_t object_count;
    bool looked; /* `values` and `error` are made */
};

static const struct omis_value no_values = {.value = {.kind = VALUE_LIST}};
static const char no_memory[] = "OMIS_NO_MEMORY: the tool has no memory left to read the reply";

static const struct omis_value *as_public(const struct value *value)
{
    return (const struct omis_value *)(const void *)value;
}

struct omis_reader *omis_reader_new(Omis_reply reply)
{
    struct omis_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->reply = reply;
    return reader;
}

struct omis_reader *omis_reader_take(Omis_reply reply)
{
    struct omis_reader *reader = omis_reader_new(reply);
    if (reader)
        reader->owned = true;
    else
        omis_reply_free(reply);
    return reader;
}

void omis_reader_free(struct omis_reader *reader)
{
    if (!reader)
        return;
    if (reader->owned)
        omis_reply_free(reader->reply);
    arena_done(&reader->arena);
    free(reader);
}

/* ---- the current result ---- */

static bool stand_at(struct omis_reader *reader, const Omis_object_result *result)
{
    reader->begun = true;
    reader->missed = false;
    reader->looked = false;
    reader->objects = NULL;
    reader->current = result && result->obj_list ? result : NULL;
    return reader->current != NULL;
}

int omis_reader_next(struct omis_reader *reader)
{
    if (!reader || !reader->reply || (reader->begun && !reader->current))
        return 0;
    if (!reader->begun)
        reader->action = 0;
    else if (stand_at(reader, reader->current + 1))
        return 1;
    else
        reader->action++;
    for (; reader->reply[reader->action]; reader->action++)
        if (stand_at(reader, reader->reply[reader->action]))
            return 1;
    stand_at(reader, NULL);
    return 0;
}

int omis_reader_find(struct omis_reader *reader, size_t action)
{
    if (!reader || !reader->reply)
        return 0;
    for (reader->action = 0; reader->action < action && reader->reply[reader->action];)
        reader->action++;
    bool found = stand_at(reader, reader->reply[reader->action]);
    reader->missed = !found;
    return found;
}

size_t omis_reader_action(const struct omis_reader *reader)
{
    return reader ? reader->action : 0;
}

Omis_status omis_reader_status(const struct omis_reader *reader)
{
    return reader && reader->current ? reader->current->status : OMIS_OK;
}

const char *omis_reader_text(const struct omis_reader *reader)
{
    return reader && reader->current && reader->current->result ? reader->current->result : "";
}

/* Cuts the list of objects at its commas. */
static void split_objects(struct omis_reader *reader)
{
    size_t len = strlen(reader->current->obj_list), count = len > 0;
    char *copy = arena_dup(&reader->arena, reader->current->obj_list, len);
    for (size_t i = 0; i < len; i++)
        count += reader->current->obj_list[i] == ',';
    reader->object_count = 0;
    reader->objects = copy ? arena_alloc(&reader->arena, (count + 1) * sizeof *reader->objects) : NULL;
    if (!reader->objects)
        return;
    for (char *at = copy; reader->object_count < count; at++) {
        reader->objects[reader->object_count++] = at;
        at += strcspn(at, ",");
        *at = 0;
    }
}

const char *omis_reader_object(struct omis_reader *reader, size_t index)
{
    if (!reader || !reader->current)
        return NULL;
    if (!reader->objects)
        split_objects(reader);
    return reader->objects && index < reader->object_count ? reader->objects[index] : NULL;
}

/* ---- its values ---- */

/* The byte after every text is a separator of the language, or was freed by resolving escapes. */
static void end_texts(const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct value *value = &values[i];
        if (value->kind == VALUE_LIST)
            end_texts(value->list.items, value->list.count);
        else if (value->kind == VALUE_STRING || value->kind == VALUE_TOKEN || value->kind == VALUE_BINARY)
            *(char *)(value->text.ptr + value->text.len) = 0;
    }
}

static void reader_parse(struct omis_reader *reader, struct span text)
{
    struct err err = {0};
    size_t count = 0;
    const struct value *values = NULL;
    char *copy = arena_dup(&reader->arena, text.ptr, text.len);
    struct value *list = arena_alloc(&reader->arena, sizeof *list);
    if (!copy || !list) {
        reader->error = no_memory;
        return;
    }
    if (values_parse(&reader->arena, span_of(copy, text.len), &values, &count, &err) < 0) {
        /* What is said of the request as a whole is a token or words. */
        if (reader->action > 0)
            reader->error = arena_printf(&reader->arena, "the result is not in the language of OMIS: %s", err.text);
        if (reader->arena.failed)
            reader->error = no_memory;
        return;
    }
    end_texts(values, count);
    *list = value_list(values, count);
    reader->values = as_public(list);
}

static const char *error_text(struct arena *arena, const Omis_object_result *result)
{
    const char *name = omis_status_name(result->status);
    const char *text = result->result && *result->result ? arena_printf(arena, "%s: %s", name, result->result)
                                                         : arena_printf(arena, "%s", name);
    return text ? text : no_memory;
}

static void reader_look(struct omis_reader *reader)
{
    const Omis_object_result *result = reader->current;
    if (reader->missed && reader->reply[0] && reader->reply[0]->obj_list)
        result = reader->reply[0]->status >= OMIS_FIRST_ERROR ? reader->reply[0] : NULL; /* for the same reason */
    if (reader->looked)
        return;
    reader->looked = true;
    reader->values = &no_values;
    reader->error = NULL;
    if (!result)
        return;
    if (result->status >= OMIS_FIRST_ERROR)
        reader->error = error_text(&reader->arena, result);
    else if (result->result && *result->result)
        reader_parse(reader, span_of(result->result,
                                     reader->action ? reply_result_length(result->result) : strlen(result->result)));
}

const struct omis_value *omis_reader_values(struct omis_reader *reader)
{
    if (!reader)
        return &no_values;
    reader_look(reader);
    return reader->values;
}

const char *omis_reader_error(struct omis_reader *reader)
{
    if (!reader)
        return no_memory;
    reader_look(reader);
    return reader->error;
}

const char *omis_reader_first_error(struct omis_reader *reader)
{
    if (!reader)
        return no_memory;
    for (size_t i = 0; reader->reply && reader->reply[i]; i++)
        for (const Omis_object_result *result = reader->reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR)
                return error_text(&reader->arena, result);
    return NULL;
}

/* ---- what is in a value ---- */

static bool value_is(const struct omis_value *value, enum value_kind kind)
{
    return value && value->value.kind == kind;
}

enum omis_kind omis_kind(const struct omis_value *value)
{
    static const enum omis_kind kinds[] = {
        [VALUE_INTEGER] = OMIS_KIND_INTEGER, [VALUE_FLOATING] = OMIS_KIND_FLOATING, [VALUE_STRING] = OMIS_KIND_STRING,
        [VALUE_TOKEN] = OMIS_KIND_TOKEN,     [VALUE_BINARY] = OMIS_KIND_BINARY,     [VALUE_LIST] = OMIS_KIND_LIST,
        [VALUE_PARAM] = OMIS_KIND_NONE,
    };
    return value ? kinds[value->value.kind] : OMIS_KIND_NONE;
}

int64_t omis_integer(const struct omis_value *value)
{
    if (!value_is(value, VALUE_INTEGER))
        return 0;
    bool above = !value->value.integer.negative && value->value.integer.bits > INT64_MAX;
    return above ? INT64_MAX : (int64_t)value->value.integer.bits;
}

uint64_t omis_unsigned(const struct omis_value *value)
{
    return value_is(value, VALUE_INTEGER) && !value->value.integer.negative ? value->value.integer.bits : 0;
}

static bool as_integer(const struct omis_value *value, long double *ret_number)
{
    if (!value_is(value, VALUE_INTEGER))
        return false;
    uint64_t bits = value->value.integer.bits;
    *ret_number = value->value.integer.negative ? (long double)(int64_t)bits : (long double)bits;
    return true;
}

double omis_floating(const struct omis_value *value)
{
    long double number = 0;
    if (value_is(value, VALUE_FLOATING))
        return value->value.floating.number;
    return as_integer(value, &number) ? (double)number : 0;
}

long double omis_long_floating(const struct omis_value *value)
{
    long double number = 0;
    if (value_is(value, VALUE_FLOATING))
        return value->value.floating.wide;
    return as_integer(value, &number) ? number : 0;
}

const char *omis_text(const struct omis_value *value, size_t *ret_length)
{
    bool text = value_is(value, VALUE_STRING) || value_is(value, VALUE_TOKEN) || value_is(value, VALUE_BINARY);
    if (ret_length)
        *ret_length = text ? value->value.text.len : 0;
    return text ? value->value.text.ptr : "";
}

size_t omis_count(const struct omis_value *list)
{
    return value_is(list, VALUE_LIST) ? list->value.list.count : 0;
}

const struct omis_value *omis_item(const struct omis_value *list, size_t index)
{
    return index < omis_count(list) ? as_public(&list->value.list.items[index]) : NULL;
}
