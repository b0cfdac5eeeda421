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
    check_text(NOTE(disk_low, .path = "/run", .uses = "work", .free_mb = 0.0123, .total_mb = 0.98),
               "only 0.01 MB of 0.98 MB are free in /run (work)");
    check_text(NOTE(no_monitor, .functions = true), "no monitor: only the command as a whole is known, not its "
                                                    "processes and functions: ");
    check_text(NOTE(rules_interrupted), "not in force from the start: the monitor was lost at that moment");
    check_text((struct note){0}, "");
}

static bool has_field(enum note_kind kind, const char *name, size_t len)
{
    for (const struct note_field *field = note_fields(kind); field->name[0]; field++)
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

/* What comes back is what was put. */
static void check_line(struct note note, const char *expected)
{
    struct kept_note read;
    struct buf line = BUF_INIT;
    note_put_line(&line, &note);
    assert_string_equal(line.data, expected);
    note_read_line(&read, line.data);
    assert_true(note_equal(&read.note, &note));
    buf_done(&line);
}

static void test_lines(void **state)
{
    (void)state;
    check_line(NOTE(late, .processes = 1),
               "late\t1\t1 process was not traced: the monitor did not answer in time on this busy node, or it was "
               "stopped");
    check_line(NOTE(unwatched_to_end, .from_seconds = 0.1, .reason = "a\tb\\"),
               "unwatched_to_end\t0.10000000000000001\ta\\\tb\\\\\tnot watched from 0.1 s to the end: a\\\tb\\\\");
    check_line(NOTE(no_hooks_called),
               "no_hooks_called\tno function was recorded: correct the selection, or compile the "
               "program with -g -finstrument-functions (see scry-run(1))");
    check_line(NOTE(said), "said\t\t");
}

static void check_read(const char *line, struct note expected)
{
    struct kept_note read;
    note_read_line(&read, line);
    assert_string_equal(note_name(read.note.kind), note_name(expected.kind));
    assert_true(note_equal(&read.note, &expected));
}

/* Of other versions, and damaged ones. */
static void test_other_lines(void **state)
{
    (void)state;
    check_read("late\t7\tof a later field\t7 processes", NOTE(late, .processes = 7));
    check_read("not of this version\t7\tits text", NOTE(said, .text = "its text"));
    check_read("refused\t7\tits text", NOTE(said, .text = "its text"));
    check_read("late\tmany\tits text", NOTE(said, .text = "its text"));
    check_read("late\t7", NOTE(said, .text = "7"));
    check_read("late", NOTE(said, .text = "late"));
    check_read("a plain text", NOTE(said, .text = "a plain text"));
    check_read("ends so\\", NOTE(said, .text = "ends so\\"));
    check_read("", NOTE(said));
}

static void test_kept(void **state)
{
    (void)state;
    char text[sizeof((struct kept_note *)0)->texts + 10];
    struct kept_note kept;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    note_keep(&kept, &NOTE(condition_unseen, .elsewhere = true, .function = "f", .reason = text));
    assert_string_equal(kept.note.condition_unseen.function, "f");
    assert_int_equal(strlen(kept.note.condition_unseen.reason), sizeof kept.texts - 3);
    assert_true(kept.note.condition_unseen.elsewhere);
    note_keep(&kept, &NOTE(condition_unseen, .function = text, .reason = "r"));
    assert_int_equal(strlen(kept.note.condition_unseen.function), sizeof kept.texts - 1);
    assert_string_equal(kept.note.condition_unseen.reason, "");
    note_keep(&kept, &(struct note){0});
    assert_int_equal(kept.note.kind, NOTE_NONE);
    assert_false(note_equal(&NOTE(late, .processes = 1), &NOTE(late, .processes = 2)));
    assert_false(note_equal(&NOTE(said, .text = "a"), &NOTE(said)));
    assert_true(note_equal(&NOTE(said, .text = ""), &NOTE(said)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_lines), cmocka_unit_test(test_other_lines),
                                       cmocka_unit_test(test_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
