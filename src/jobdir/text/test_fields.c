/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of fields makes of a row: JSON, schema, table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jobdir/text/fields.h"

struct row {
    char name[16];
    const char *note;
    uint64_t count, cpu_ns, bytes;
    int32_t rank;
    double total_ns;
    bool ended;
    struct inner {
        uint32_t line;
    } inside, *pointed;
};

static bool is_wide(const void *all)
{
    return all != NULL;
}

static void put_how(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_puts(out, ((const struct row *)row)->ended ? "ended" : "runs");
}

static json_t *list_json(const void *row, const void *all)
{
    return json_pack("[s]", "one");
}

static const struct field inner_fields[] = {{"line", FIELD_COUNT, FIELD_AT(struct inner, line)}, {0}};

static const struct field fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct row, name), .column = FIELD_COLUMN(1, 2, -8, "Processes")},
    {"note", FIELD_TEXT, FIELD_AT(struct row, note), FIELD_ZERO_IS_NULL, .about = "null: none"},
    {"count", FIELD_COUNT, FIELD_AT(struct row, count), .column = FIELD_COLUMN(3, 1, 5, "count")},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct row, cpu_ns), .column = FIELD_COLUMN(2, 1, 8, "cpu")},
    {"bytes", FIELD_BYTES, FIELD_AT(struct row, bytes),
     .column = FIELD_COLUMN(4, 1, 7, "peak", .none = "-", .zero = true, .when = is_wide)},
    {"rank", FIELD_INTEGER, FIELD_AT(struct row, rank), FIELD_NEGATIVE_IS_NULL},
    {"total_ns", FIELD_NS, FIELD_AT(struct row, total_ns)},
    {"ended", FIELD_BOOL, FIELD_AT(struct row, ended)},
    {"how", FIELD_CHOICE, FIELD_AT(struct row, name), FIELD_OR_NULL, .choices = "a|b"},
    {"list", FIELD_LIST, .json = list_json, .of = fields_texts},
    {"inside", FIELD_OBJECT, FIELD_AT(struct row, inside), .of = inner_fields},
    {"", FIELD_PART, FIELD_AT(struct row, pointed), FIELD_POINTER, .of = inner_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "how", .text = put_how)},
    {0}};

static struct inner pointed = {7};
static const struct row full = {"sh", "why", 3, 1500000000, 2048, -1, 12.7, true, {5}, &pointed},
                        empty = {.pointed = &pointed};

static void check_json(const struct row *row, const char *expected)
{
    json_t *json = fields_json(fields, row, NULL);
    char *text = json_dumps(json, JSON_REAL_PRECISION(4));
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

static void test_json(void **state)
{
    check_json(&full, "{\"name\": \"sh\", \"note\": \"why\", \"count\": 3, \"cpu_seconds\": 1.5, \"bytes\": 2048, "
                      "\"rank\": null, \"total_ns\": 12, \"ended\": true, \"how\": \"sh\", \"list\": [\"one\"], "
                      "\"inside\": {\"line\": 5}, \"line\": 7}");
    check_json(&empty, "{\"name\": \"\", \"note\": null, \"count\": 0, \"cpu_seconds\": 0.0, \"bytes\": 0, "
                       "\"rank\": 0, \"total_ns\": 0, \"ended\": false, \"how\": \"\", \"list\": [\"one\"], "
                       "\"inside\": {\"line\": 0}, \"line\": 7}");
}

static void test_schema(void **state)
{
    const struct field part_fields[] = {{"", FIELD_PART, .of = inner_fields}, {0}};
    const struct field some[] = {
        {"note", FIELD_TEXT, FIELD_AT(struct row, note), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL, .about = "null: none"},
        {"how", FIELD_CHOICE, FIELD_AT(struct row, name), FIELD_OR_NULL, .choices = "a|b"},
        {"list", FIELD_LIST, .json = list_json, .of = fields_texts},
        {"rows", FIELD_LIST, .json = list_json, .of = part_fields},
        {0}};
    json_t *json = fields_schema(some);
    char *text = json_dumps(json, 0);
    assert_string_equal(
        text, "{\"type\": \"object\", \"properties\": {\"note\": {\"type\": [\"string\", \"null\"], \"description\": "
              "\"null: none\"}, \"how\": {\"enum\": [\"a\", \"b\", null]}, \"list\": {\"type\": \"array\", \"items\": "
              "{\"type\": \"string\"}}, \"rows\": {\"type\": \"array\", \"items\": {\"type\": \"object\", "
              "\"properties\": {\"line\": {\"type\": \"integer\", \"minimum\": 0}}, \"required\": [\"line\"], "
              "\"additionalProperties\": false}}}, \"required\": [\"how\", \"list\", \"rows\"], "
              "\"additionalProperties\": false}");
    free(text);
    json_decref(json);
}

/* Columns stand in the order of their places; the first heading begins with the line. */
static void test_table(void **state)
{
    struct buf out = BUF_INIT;
    fields_title(&out, fields, NULL);
    fields_row(&out, fields, &full, NULL);
    assert_string_equal(out.data, "Processes       cpu count  how\n"
                                  "  sh         1.50 s     3  ended\n");
    buf_clear(&out);
    fields_title(&out, fields, &full);
    fields_row(&out, fields, &full, &full);
    fields_row(&out, fields, &empty, &full);
    assert_string_equal(out.data, "Processes       cpu count    peak  how\n"
                                  "  sh         1.50 s     3  2.0 KB  ended\n"
                                  "             0.00 s     0       -  runs\n");
    buf_done(&out);
}

static json_t *doubled_json(const void *row, const void *all)
{
    const struct row *of = row;
    return of->ended ? json_integer(2 * (json_int_t)of->count) : json_null();
}

/* What is longer than its column takes of the room behind it; columns of a part, of an object, of what JSON computes.
 */
static void test_rows(void **state)
{
    const struct field line_fields[] = {
        {"line", FIELD_COUNT, FIELD_AT(struct inner, line), .column = FIELD_COLUMN(3, 1, 5)}, {0}};
    const struct field some[] = {
        {"name", FIELD_TEXT, FIELD_AT(struct row, name), .column = FIELD_COLUMN(1, 2, -4, "Names", .whole = true)},
        {"", FIELD_PART, FIELD_AT(struct row, pointed), FIELD_POINTER, .of = line_fields},
        {"inside", FIELD_OBJECT, FIELD_AT(struct row, inside), .of = inner_fields},
        {"twice", FIELD_COUNT, .json = doubled_json, .column = FIELD_COLUMN(2, 1, 5, "twice", .none = "?")},
        {"total_ns", FIELD_NS, FIELD_AT(struct row, total_ns), FIELD_NEGATIVE_IS_NULL,
         .column = FIELD_COLUMN(4, 1, 6, "total", .none = "-")},
        {0}};
    static const struct row rows[] = {{.name = "longer", .count = 4, .total_ns = 8, .ended = true, .pointed = &pointed},
                                      {.name = "longest name", .count = 4, .total_ns = -1},
                                      {.name = "third"},
                                      {.name = "fourth"}};
    const struct field_table table = {some, .most = 3, .more = " (--json lists them)"};
    struct buf out = BUF_INIT;
    fields_table(&out, &table, rows, 0, sizeof *rows, NULL);
    assert_int_equal(out.len, 0);
    fields_table(&out, &table, rows, 4, sizeof *rows, NULL);
    assert_string_equal(out.data, "\nNames  twice        total\n"
                                  "  longer   8     7   8 ns\n"
                                  "  longest name ?        -\n"
                                  "  third    ?         0 ns\n"
                                  "  ... and 1 more (--json lists them)\n");
    const struct row *const list[] = {&rows[2]};
    buf_clear(&out);
    fields_table(&out, &(struct field_table){some, .title = "Other"}, list, 1, 0, NULL);
    assert_string_equal(out.data, "\nOther  twice        total\n"
                                  "  third    ?         0 ns\n");
    buf_done(&out);
}

static const char *name_of(uint32_t number)
{
    return number ? "odd" : NULL;
}

static int widest(const void *all)
{
    return *(const int *)all;
}

static void put_behind(struct buf *out, const void *at, const void *row, const void *all)
{
    if (*(const uint32_t *)at)
        buf_puts(out, " (odd)");
}

struct group {
    const struct inner *list;
    size_t count;
};

/* A list that the row points to, a number's name, a column as wide as it must be, and one right behind the others. */
static void test_lists(void **state)
{
    const struct field named_fields[] = {
        {"name", FIELD_TEXT, FIELD_NAMED(struct inner, line, name_of), FIELD_OR_NULL,
         .column = FIELD_COLUMN(1, 2, .heading = "Name", .fit = widest, .none = "?")},
        {.type = FIELD_COUNT,
         FIELD_AT(struct inner, line),
         .column = FIELD_COLUMN(2, 1, 4, "line", .none = "", .zero = true)},
        {.type = FIELD_SHOWN, FIELD_AT(struct inner, line), .column = FIELD_COLUMN(3, 0, 0, .text = put_behind)},
        {0}};
    const struct field group_fields[] = {
        {"list", FIELD_LIST, FIELD_ROWS(struct group, list, count), .of = named_fields}, {0}};
    static const struct inner list[] = {{1}, {0}};
    const int width = 6;
    json_t *json = fields_json(group_fields, &(struct group){list, 2}, NULL);
    char *text = json_dumps(json, 0);
    assert_string_equal(text, "{\"list\": [{\"name\": \"odd\"}, {\"name\": null}]}");
    free(text);
    json_decref(json);
    struct buf out = BUF_INIT;
    fields_table(&out, &(struct field_table){named_fields}, list, 2, sizeof *list, &width);
    assert_string_equal(out.data, "\nName     line\n"
                                  "  odd       1 (odd)\n"
                                  "  ?\n");
    buf_done(&out);
}

/* A part that the row does not have: its members are null, and may be. */
static void test_missing_part(void **state)
{
    const struct field outer[] = {
        {"name", FIELD_TEXT, FIELD_AT(struct row, name)},
        {"", FIELD_PART, FIELD_AT(struct row, pointed), FIELD_POINTER | FIELD_OR_NULL, .of = inner_fields},
        {0}};
    struct row row = {.name = "x"};
    json_t *json = fields_json(outer, &row, NULL), *schema = fields_schema(outer);
    assert_true(json_is_null(json_object_get(json, "line")));
    const json_t *type = json_object_get(json_object_get(json_object_get(schema, "properties"), "line"), "type");
    assert_string_equal(json_string_value(json_array_get(type, 1)), "null");
    json_decref(schema);
    json_decref(json);
}

static void test_members(void **state)
{
    json_t *json = json_pack("{s:s, s:i, s:i, s:f}", "text", "a", "count", 7, "below", -7, "number", 1.5);
    (void)state;
    assert_string_equal(member_text(json, "text"), "a");
    assert_string_equal(member_text(json, "count"), "");
    assert_string_equal(member_text(NULL, "text"), "");
    assert_int_equal(member_count(json, "count"), 7);
    assert_int_equal(member_count(json, "below"), 0);
    assert_int_equal(member_count(json, "missing"), 0);
    assert_true(member_number(json, "number") == 1.5 && member_number(json, "count") == 7 &&
                member_number(json, "text") == 0);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json),   cmocka_unit_test(test_schema),
                                       cmocka_unit_test(test_table),  cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_lists),  cmocka_unit_test(test_missing_part),
                                       cmocka_unit_test(test_members)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
