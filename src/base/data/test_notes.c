/* SPDX-License-Identifier: Apache-2.0 */
/* Notes: their texts, and that the table agrees with itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/data/notes.h"

static void check_text(struct note note, const char *expected)
{
    struct buf text = BUF_INIT;
    note_text(&text, &note);
    assert_string_equal(text.data ? text.data : "", expected);
    buf_done(&text);
}

static void test_texts(void **state)
{
    (void)state;
    check_text(NOTE(refused, .processes = 1, .reason = "no room"), "1 process was not traced: no room");
    check_text(NOTE(refused, .processes = 65536, .at_least = true, .reason = "no {room}"),
               "at least 65536 processes were not traced: no {room}");
    check_text(NOTE(traces_incomplete, .processes = 2, .seconds = 9.6),
               "the traces of 2 processes were not complete 10 s after the end: see `scry report` later");
    check_text(NOTE(no_monitor, .functions = true), "no monitor: only the command as a whole is known, not its "
                                                    "processes and functions: ");
    check_text(NOTE(rules_interrupted), "not in force from the start: the monitor was lost at that moment");
    check_text((struct note){0}, "");
}

static bool has_field(enum note_kind kind, const char *name, size_t len)
{
    for (const struct note_field *field = note_fields(kind); field->name; field++)
        if (strlen(field->name) == len && memcmp(field->name, name, len) == 0)
            return true;
    return false;
}

/* Each place of a text is a field. */
static void test_table(void **state)
{
    (void)state;
#define CHECK(name, group, text, fields) \
    for (const char *at = text; (at = strchr(at, '{')); at++) \
        if (!has_field(NOTE_##name, at + 1, strcspn(at + 1, ".?}"))) \
            fail_msg("%s: there is no field %s", #name, at); \
    assert_int_equal(note_find(#name), NOTE_##name); \
    assert_string_equal(note_name(NOTE_##name), #name); \
    assert_string_equal(note_group(NOTE_##name), group);
    NOTES(CHECK, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF)
    assert_int_equal(note_find("none of this version"), NOTE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
