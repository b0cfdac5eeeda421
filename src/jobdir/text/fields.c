/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/fields.h"

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static json_t *field_json(enum note_field_type type, union note_word word)
{
    switch (type) {
    case NOTE_FLAG:
        return json_boolean(word.integer);
    case NOTE_INTEGER:
        return json_integer((json_int_t)word.integer);
    case NOTE_FLOATING:
        return json_real(word.floating);
    default:
        return text_json(word.string ? word.string : "");
    }
}

enum note_kind note_json_kind(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "note"));
    return name ? note_find(name) : NOTE_NONE;
}

const struct field notes_fields[] = {
    {"kind", FIELD_TEXT}, {"note", FIELD_TEXT}, {"fields", FIELD_OBJECT}, {"text", FIELD_TEXT}, {0}};

json_t *note_json(const struct note *note)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct note_field *fields = note_fields(note->kind);
    json_t *values = json_object();
    for (size_t i = 0; fields[i].name[0]; i++)
        json_object_set_new(values, fields[i].name, field_json(fields[i].type, note->words[i]));
    note_text(&text, note);
    return json_pack("{s:s, s:s, s:o, s:o}", "kind", note_group(note->kind), "note", note_name(note->kind), "fields",
                     values, "text", text_json(text.data ? text.data : ""));
}

/* Files may say what no number of ours can hold. */
static json_int_t whole_number(double number)
{
    return number >= 0x1p63 ? INT64_MAX : number > -0x1p63 ? (json_int_t)number : INT64_MIN;
}

static void store_number(const struct field *field, const json_t *json, void *at)
{
    bool unknown = (!json || json_is_null(json)) && field->flags & FIELD_NEGATIVE_IS_NULL;
    double number = unknown ? -1 : json_is_boolean(json) ? json_is_true(json) : json_number_value(json);
    json_int_t integer = json_is_integer(json) ? json_integer_value(json) : whole_number(number);
    if (field->type == FIELD_SECONDS && field->held != HELD_DOUBLE)
        integer = whole_number(number * 1e9);
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
            store_number(field, json, at);
    }
}

void fields_read(const struct field *fields, const json_t *object, void *ret_row, size_t size)
{
    memset(ret_row, 0, size);
    read_into(fields, object, ret_row);
}

const struct field fields_texts[] = {{"", FIELD_TEXT}, {0}}, fields_integers[] = {{"", FIELD_INTEGER}, {0}},
                   fields_numbers[] = {{"", FIELD_NUMBER, .flags = FIELD_OR_NULL}, {0}};

/* ---- values ---- */

union value {
    int64_t integer;
    uint64_t count;
    double number;
};

static bool is_real(const struct field *field)
{
    return field->type == FIELD_NUMBER || field->type == FIELD_SECONDS;
}

static uint64_t count_of(const struct field *field, const void *at)
{
    switch (field->held) {
    case HELD_BOOL:
        return *(const bool *)at;
    case HELD_I32:
        return (uint64_t)(int64_t) * (const int32_t *)at;
    case HELD_U32:
        return *(const uint32_t *)at;
    case HELD_DOUBLE:
        return (uint64_t)(int64_t) * (const double *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static bool is_signed(const struct field *field)
{
    return field->held == HELD_I32 || field->held == HELD_I64;
}

static double number_of(const struct field *field, const void *at)
{
    if (field->held == HELD_DOUBLE)
        return *(const double *)at;
    uint64_t count = count_of(field, at);
    double number = is_signed(field) ? (double)(int64_t)count : (double)count;
    return field->type == FIELD_SECONDS ? number / 1e9 : number;
}

static const char *text_of(const struct field *field, const void *at)
{
    if (field->held == HELD_NAMED)
        return field->named(*(const uint32_t *)at);
    return field->held == HELD_TEXT ? *(const char *const *)at : at;
}

static const void *row_of(const struct field *field, const void *row)
{
    const void *at = (const char *)row + field->at;
    return field->flags & FIELD_POINTER ? *(const void *const *)at : at;
}

/* ---- JSON ---- */

static json_t *number_json(const struct field *field, const void *at)
{
    double number = number_of(field, at);
    if ((field->flags & FIELD_ZERO_IS_NULL && number == 0) || (field->flags & FIELD_NEGATIVE_IS_NULL && number < 0))
        return json_null();
    if (is_real(field))
        return json_real(number);
    if (field->type == FIELD_BOOL)
        return json_boolean(count_of(field, at) != 0);
    uint64_t count = count_of(field, at);
    bool beyond = field->held == HELD_U64 && field->type != FIELD_INTEGER && count > INT64_MAX;
    return json_integer(beyond ? INT64_MAX : (json_int_t)count);
}

static bool is_computed(const struct field *field)
{
    return field->held != HELD_ROWS && field->held != HELD_NAMED && field->json;
}

static json_t *value_json(const struct field *field, const void *row, const void *all)
{
    const void *at = (const char *)row + field->at;
    if (is_computed(field))
        return field->json(row, all);
    if (field->type == FIELD_OBJECT && field->held != HELD_JSON)
        return row_of(field, row) ? fields_json(field->of, row_of(field, row), all) : json_null();
    if (field->held == HELD_ROWS)
        return fields_list(field->of, *(const void *const *)at, *(const size_t *)((const char *)row + field->count_at),
                           field->row_size, all);
    if (field->held == HELD_JSON) {
        json_t *json = *(json_t *const *)at;
        return json ? json_incref(json) : field->flags & FIELD_NULLS ? json_null() : json_array();
    }
    if (field->type != FIELD_TEXT && field->type != FIELD_CHOICE)
        return number_json(field, at);
    const char *text = text_of(field, at);
    if (field->flags & FIELD_ZERO_IS_NULL && text && !*text)
        return json_null();
    return text_json(text || field->flags & FIELD_NULLS ? text : "");
}

static bool is_left_out(const struct field *field, const void *row)
{
    const void *at = (const char *)row + field->at;
    if (!(field->flags & FIELD_LEFT_OUT))
        return false;
    if (field->held == HELD_BOOL)
        return !*(const bool *)at;
    return !*(const void *const *)at;
}

/* Of a part that the row does not have. */
static void add_nulls(json_t *object, const struct field *fields)
{
    for (const struct field *field = fields; field->type != FIELD_END; field++)
        if (field->type == FIELD_PART)
            add_nulls(object, field->of);
        else if (field->name)
            json_object_set_new(object, field->name, json_null());
}

void fields_add(json_t *object, const struct field *fields, const void *row, const void *all)
{
    for (const struct field *field = fields; field->type != FIELD_END; field++)
        if (field->type == FIELD_PART && field->flags & FIELD_POINTER && !row_of(field, row))
            add_nulls(object, field->of);
        else if (field->type == FIELD_PART)
            fields_add(object, field->of, row_of(field, row), all);
        else if (field->name && !is_left_out(field, row))
            json_object_set_new(object, field->name, value_json(field, row, all));
}

json_t *fields_json(const struct field *fields, const void *row, const void *all)
{
    json_t *object = json_object();
    fields_add(object, fields, row, all);
    return object;
}

json_t *fields_list(const struct field *fields, const void *rows, size_t count, size_t size, const void *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, fields_json(fields, (const char *)rows + i * size, all));
    return list;
}

/* ---- schemas ---- */

const char *field_type_name(enum field_type type)
{
    static const char *const names[] = {
        [FIELD_TEXT] = "string",    [FIELD_CHOICE] = "string", [FIELD_BOOL] = "boolean", [FIELD_INTEGER] = "integer",
        [FIELD_COUNT] = "integer",  [FIELD_BYTES] = "integer", [FIELD_NS] = "integer",   [FIELD_NUMBER] = "number",
        [FIELD_SECONDS] = "number", [FIELD_OBJECT] = "object", [FIELD_LIST] = "array"};
    return names[type];
}

static json_t *choices_schema(const char *choices, bool or_null)
{
    json_t *list = json_array();
    for (const char *at = choices; at;) {
        const char *end = strchr(at, '|');
        json_array_append_new(list, end ? json_stringn(at, (size_t)(end - at)) : json_string(at));
        at = end ? end + 1 : NULL;
    }
    if (or_null)
        json_array_append_new(list, json_null());
    return list;
}

static void add_properties(json_t *properties, json_t *required, const struct field *fields, unsigned or_null);

static void add_members(json_t *schema, const struct field *fields, bool open)
{
    json_t *properties = json_object(), *required = json_array();
    add_properties(properties, required, fields, 0);
    json_object_set_new(schema, "properties", properties);
    json_object_set_new(schema, "required", required);
    json_object_set_new(schema, "additionalProperties", json_boolean(open));
}

static json_t *field_schema(const struct field *field)
{
    json_t *schema = json_object();
    bool or_null = field->flags & FIELD_NULLS;
    if (field->type == FIELD_CHOICE)
        json_object_set_new(schema, "enum", choices_schema(field->choices, or_null));
    else if (field->flags & FIELD_OR_WORD)
        json_object_set_new(schema, "type", json_pack("[s, s, s]", field_type_name(field->type), "string", "null"));
    else
        json_object_set_new(schema, "type",
                            or_null ? json_pack("[s, s]", field_type_name(field->type), "null")
                                    : json_string(field_type_name(field->type)));
    if (field->type == FIELD_COUNT || field->type == FIELD_BYTES || field->type == FIELD_NS ||
        field->flags & FIELD_FROM_ZERO)
        json_object_set_new(schema, "minimum", json_integer(0));
    if (field->type == FIELD_OBJECT && field->of)
        add_members(schema, field->of, field->flags & FIELD_OPEN);
    if (field->type == FIELD_LIST && field->of) {
        const struct field object = {"", FIELD_OBJECT, .of = field->of, .flags = field->flags & FIELD_OPEN};
        bool single = field->of->type != FIELD_PART && !*field->of->name;
        json_object_set_new(schema, "items", field_schema(single ? field->of : &object));
    }
    if (field->about)
        json_object_set_new(schema, "description", json_string(field->about));
    return schema;
}

/* or_null: FIELD_OR_NULL, if they are of a part that a row may lack. */
static void add_properties(json_t *properties, json_t *required, const struct field *fields, unsigned or_null)
{
    for (const struct field *field = fields; field->type != FIELD_END; field++) {
        if (field->type == FIELD_PART)
            add_properties(properties, required, field->of, or_null | (field->flags & FIELD_OR_NULL));
        if (field->type == FIELD_PART || !field->name)
            continue;
        struct field own = *field;
        own.flags |= or_null;
        json_object_set_new(properties, field->name, field_schema(&own));
        if (!(field->flags & FIELD_OPTIONAL))
            json_array_append_new(required, json_string(field->name));
    }
}

json_t *fields_schema(const struct field *fields)
{
    return field_schema(&(struct field){"", FIELD_OBJECT, .of = fields});
}

/* ---- tables ---- */

enum { COLUMNS_MOST = 32 };

struct cell {
    const struct field *field;
    const void *row; /* NULL: it has none, or this is the title */
    struct field_column column;
};

/* The columns of the fields, of their parts and of objects that have a place, in the order of their places. */
static size_t find_cells(struct cell cells[COLUMNS_MOST], size_t count, const struct field *fields, const void *row,
                         const void *all)
{
    for (const struct field *field = fields; field->type != FIELD_END; field++) {
        if (field->of && (field->type == FIELD_PART || (field->type == FIELD_OBJECT && field->column))) {
            count = find_cells(cells, count, field->of, row ? row_of(field, row) : NULL, all);
            continue;
        }
        if (!field->column || (field->column->when && !field->column->when(all)) || count == COLUMNS_MOST)
            continue;
        size_t at = count++;
        for (; at && cells[at - 1].column.place > field->column->place; at--)
            cells[at] = cells[at - 1];
        cells[at] = (struct cell){field, row, *field->column};
        if (field->column->fit)
            cells[at].column.width = -field->column->fit(all);
    }
    return count;
}

static void put_number(struct buf *out, const struct field *field, double number, uint64_t count)
{
    bool none = number == 0 ? field->column->zero || field->flags & FIELD_ZERO_IS_NULL
                            : number < 0 && field->flags & FIELD_NEGATIVE_IS_NULL;
    if (field->column->none && none)
        buf_puts(out, field->column->none);
    else if (field->type == FIELD_BYTES)
        text_size(out, count);
    else if (field->type == FIELD_NS)
        text_ns(out, number);
    else if (field->type == FIELD_SECONDS)
        text_seconds(out, number);
    else if (field->type == FIELD_NUMBER)
        buf_printf(out, "%.0f", number);
    else
        buf_printf(out, is_signed(field) || field->type == FIELD_INTEGER ? "%lld" : "%llu", (long long)count);
}

static void put_text(struct buf *out, const struct field *field, const char *text)
{
    if (text && *text)
        text_show(out, text);
    else if (field->column->none)
        buf_puts(out, field->column->none);
}

/* As the JSON has it: what is computed for that is shown, too. */
static void put_json(struct buf *out, const struct field *field, json_t *value_take)
{
    if (json_is_number(value_take))
        put_number(out, field, json_number_value(value_take), (uint64_t)json_integer_value(value_take));
    else
        put_text(out, field, json_string_value(value_take));
    json_decref(value_take);
}

static void put_cell(struct buf *out, const struct cell *cell, const void *all)
{
    const struct field *field = cell->field;
    if (!cell->row || (field->held == HELD_NOTHING && !field->column->text && !is_computed(field))) {
        put_text(out, field, NULL);
        return;
    }
    const void *at = (const char *)cell->row + field->at;
    if (field->column->text)
        field->column->text(out, at, cell->row, all);
    else if (is_computed(field))
        put_json(out, field, field->json(cell->row, all));
    else if (field->type == FIELD_TEXT || field->type == FIELD_CHOICE)
        put_text(out, field, text_of(field, at));
    else
        put_number(out, field, number_of(field, at), count_of(field, at));
}

static size_t columns_of(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* In a line that is too long by so many columns already. Returns by how many it is then: what is longer than its column
 * takes of the room before the next one. */
static size_t put_column(struct buf *out, const struct field_column *column, const char *text, bool whole, bool first,
                         size_t over)
{
    size_t columns = columns_of(text), gap = (size_t)column->gap, least = first ? 0 : 1;
    size_t width = (size_t)(column->width < 0 ? -column->width : column->width), room = gap + width;
    if (column->width > 0) {
        size_t pad = room > columns + over ? room - columns - over : 0;
        pad = pad > least ? pad : least;
        buf_printf(out, "%*s%s", (int)pad, "", text);
        return pad + columns + over - room;
    }
    size_t pad = gap > over + least ? gap - over : gap ? least : 0;
    over = pad + over - gap;
    buf_printf(out, "%*s", (int)pad, "");
    if (!whole && width) {
        text_column(out, text, width);
        return over;
    }
    size_t behind = width > columns + over ? width - columns - over : 0;
    buf_printf(out, "%s%*s", text, (int)behind, "");
    return columns + behind + over - width;
}

static void trim(struct buf *out, size_t start)
{
    while (out->len > start && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
}

/* The first heading is the table's: it begins with the line. */
static void put_title(struct buf *out, const struct field *fields, const char *title, const void *all)
{
    struct cell cells[COLUMNS_MOST];
    size_t start = out->len, over = 0, count = find_cells(cells, 0, fields, NULL, all);
    for (size_t i = 0; i < count; i++) {
        struct field_column column = cells[i].column;
        const char *heading = !i && title ? title : column.heading ? column.heading : "";
        if (!i)
            column = (struct field_column){.width = -column.gap - (column.width < 0 ? -column.width : column.width)};
        over = put_column(out, &column, heading, true, !i, over);
    }
    trim(out, start);
    buf_putc(out, '\n');
}

void fields_title(struct buf *out, const struct field *fields, const void *all)
{
    put_title(out, fields, NULL, all);
}

void fields_row(struct buf *out, const struct field *fields, const void *row, const void *all)
{
    struct buf text = BUF_INIT;
    struct cell cells[COLUMNS_MOST];
    size_t start = out->len, over = 0, count = find_cells(cells, 0, fields, row, all);
    for (size_t i = 0; i < count; i++) {
        const struct field_column *column = &cells[i].column;
        buf_clear(&text);
        put_cell(&text, &cells[i], all);
        if (!column->gap && !column->width)
            trim(out, start);
        over = put_column(out, column, text.data ? text.data : "", column->whole, !i, over);
        out->failed |= text.failed;
    }
    buf_done(&text);
    trim(out, start);
    buf_putc(out, '\n');
}

void fields_table(struct buf *out, const struct field_table *table, const void *rows, size_t count, size_t size,
                  const void *all)
{
    size_t most = table->most ? table->most : count;
    if (!count)
        return;
    buf_putc(out, '\n');
    put_title(out, table->fields, table->title, all);
    for (size_t i = 0; i < count && i < most; i++)
        fields_row(out, table->fields,
                   size ? (const void *)((const char *)rows + i * size) : ((const void *const *)rows)[i], all);
    if (count > most)
        buf_printf(out, "  ... and %zu more%s\n", count - most, table->more ? table->more : "");
}

/* What stands between { and }. */
struct place {
    const char *name, *form; /* form: what stands behind the name, "" or from . : ? on */
    size_t name_len, form_len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct place place_at(const char *text, size_t len)
{
    size_t end = 0;
    while (end < len && text[end] != ':' && text[end] != '?' && !(text[end] == '.' && is_digit(text[end + 1])))
        end++;
    return (struct place){text, text + end, end, len - end};
}

/* The field by its name, also in parts; NULL: there is none. */
static const struct field *find_field(const struct field *fields, const char *name, size_t len)
{
    for (const struct field *field = fields; field && field->type != FIELD_END; field++) {
        const struct field *part = field->type == FIELD_PART ? find_field(field->of, name, len) : NULL;
        if (part)
            return part;
        if (field->type != FIELD_PART && strlen(field->name) == len && memcmp(field->name, name, len) == 0)
            return field;
    }
    return NULL;
}

/* The member of an object, or that of a member: name.other. */
static const json_t *find_member(const struct field *fields, const json_t *object, const struct place *place,
                                 const struct field **ret_field)
{
    const char *at = place->name, *end = at + place->name_len;
    for (;;) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        size_t len = (size_t)((dot ? dot : end) - at);
        const struct field *field = find_field(fields, at, len);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        object = json_object_get(object, name);
        *ret_field = field;
        if (!dot)
            return object;
        fields = field ? field->of : NULL;
        at = dot + 1;
    }
}

/* It says something: neither null nor 0, empty or false. */
static bool is_something(const json_t *json)
{
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_STRING:
        return json_string_length(json) > 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(json) != 0;
    case JSON_ARRAY:
        return json_array_size(json) > 0;
    case JSON_OBJECT:
        return json_object_size(json) > 0;
    default:
        return json_is_true(json);
    }
}

static void put_value(struct buf *out, const struct field *field, const json_t *json);

static void put_words(struct buf *out, const json_t *list)
{
    size_t i;
    json_t *word;
    json_array_foreach(list, i, word)
    {
        buf_puts(out, i ? " " : "");
        text_word(out, json_is_string(word) ? json_string_value(word) : "?");
    }
}

static void put_members(struct buf *out, const struct field *fields, const json_t *object)
{
    const char *name, *gap = "";
    json_t *member;
    json_object_foreach((json_t *)object, name, member)
    {
        buf_printf(out, "%s%s=", gap, name);
        put_value(out, find_field(fields, name, strlen(name)), member);
        gap = ", ";
    }
}

static void put_object(struct buf *out, const struct field *field, const json_t *object)
{
    if (field && field->say)
        fields_say(out, field->of, field->say, object);
    else
        put_members(out, field ? field->of : NULL, object);
}

static void put_elements(struct buf *out, const struct field *field, const json_t *list)
{
    size_t i;
    json_t *element;
    bool single = field && field->of && field->of->type != FIELD_PART && !*field->of->name;
    json_array_foreach(list, i, element)
    {
        const char *between = field && field->between ? field->between : json_is_object(element) ? "; " : " ";
        buf_puts(out, i == 0 ? "" : between);
        if (json_is_object(element))
            put_object(out, field, element);
        else
            put_value(out, single ? field->of : NULL, element);
    }
}

static void put_value(struct buf *out, const struct field *field, const json_t *json)
{
    enum field_type type = field ? field->type : FIELD_TEXT;
    if (json_is_object(json))
        put_object(out, field, json);
    else if (json_is_array(json))
        put_elements(out, field, json);
    else if (json_is_string(json))
        buf_puts(out, json_string_value(json));
    else if (json_is_boolean(json))
        buf_puts(out, json_is_true(json) ? "yes" : "no");
    else if (!json_is_number(json))
        buf_putc(out, '?');
    else if (type == FIELD_BYTES)
        text_size(out, (uint64_t)json_number_value(json));
    else if (type == FIELD_NS)
        text_ns(out, json_number_value(json));
    else if (type == FIELD_SECONDS)
        text_seconds(out, json_number_value(json));
    else if (json_is_integer(json))
        buf_printf(out, "%lld", (long long)json_integer_value(json));
    else
        buf_printf(out, "%.6g", json_real_value(json));
}

static void put_signal(struct buf *out, int signo)
{
    char room[32];
    buf_puts(out, text_signal(signo, room, sizeof room));
}

static void put_formed(struct buf *out, const struct place *place, const struct field *field, const json_t *json)
{
    const char *form = place->form, *end = form + place->form_len;
    const char *bar = place->form_len ? memchr(form, '|', place->form_len) : NULL;
    int number = (int)json_integer_value(json);
    if (*form == '?' && bar && place->form_len) {
        bool one = json_is_true(json) || (json_is_number(json) && json_number_value(json) == 1);
        buf_append(out, one ? form + 1 : bar + 1, (size_t)(one ? bar - form - 1 : end - bar - 1));
    } else if (place->form_len == 2 && *form == '.') {
        buf_printf(out, "%.*f", form[1] - '0', json_number_value(json));
    } else if (place->form_len == 8 && memcmp(form, ":percent", 8) == 0) {
        buf_printf(out, "%.0f %%", json_number_value(json) * 100);
    } else if (place->form_len == 6 && memcmp(form, ":words", 6) == 0) {
        put_words(out, json);
    } else if (place->form_len == 5 && memcmp(form, ":line", 5) == 0) {
        const char *text = json_string_value(json);
        buf_append(out, text ? text : "", text ? strcspn(text, "\n") : 0);
    } else if (place->form_len == 7 && memcmp(form, ":signal", 7) == 0) {
        put_signal(out, number);
    } else if (place->form_len == 5 && memcmp(form, ":wait", 5) == 0) {
        if (WIFSIGNALED(number))
            put_signal(out, WTERMSIG(number));
        else
            buf_printf(out, "exit status %d", WEXITSTATUS(number));
    } else {
        put_value(out, field, json);
    }
}

/* Appends the form's `len` bytes, in which there are no brackets any more. false: some member says nothing. */
static bool put_places(struct buf *out, const struct field *fields, const char *form, size_t len, const json_t *object)
{
    bool all = true;
    for (const char *at = form, *end = form + len; at < end;) {
        const char *open = memchr(at, '{', (size_t)(end - at));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close) {
            buf_append(out, at, (size_t)(end - at));
            break;
        }
        buf_append(out, at, (size_t)(open - at));
        struct place place = place_at(open + 1, (size_t)(close - open - 1));
        const struct field *field;
        const json_t *json = find_member(fields, object, &place, &field);
        all &= is_something(json);
        put_formed(out, &place, field, json);
        at = close + 1;
    }
    return all;
}

void fields_say(struct buf *out, const struct field *fields, const char *form, const json_t *object)
{
    if (!form)
        put_members(out, fields, object);
    while (form && *form) {
        size_t plain = strcspn(form, "["), inner = form[plain] ? strcspn(form + plain + 1, "]") : 0;
        put_places(out, fields, form, plain, object);
        size_t before = out->len;
        if (inner && !put_places(out, fields, form + plain + 1, inner, object) && out->len > before)
            out->data[out->len = before] = '\0';
        form += plain;
        form += *form ? inner + 1 : 0;
        form += *form != 0;
    }
}
