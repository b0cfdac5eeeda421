/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/topics.h"

static const char *made(const char *owner, const char *job, const char *name, const char *rest)
{
    static struct buf text;
    buf_clear(&text);
    topic_put(&text, owner, job, name, rest);
    return text.data;
}

static void levels_are_encoded(void **state)
{
    assert_string_equal(made("ann", "20260101-a1", "node", NULL), "scry/v1/ann/20260101-a1/node");
    assert_string_equal(made("a.b c", "_/#", "state", NULL), "scry/v1/a_2eb_20c/_5f_2f_23/state");
    assert_string_equal(made("\xc3\xa4", "j", "reply", "s+"), "scry/v1/_c3_a4/j/reply/s_2b");
    assert_string_equal(made(NULL, NULL, "#", NULL), "scry/v1/+/+/#");
    assert_string_equal(made("ann", "j", "again", "+"), "scry/v1/ann/j/again/+");
}

static void what_is_made_is_read(void **state)
{
    char all[256];
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = 0;
    struct topic topic;
    assert_true(topic_parse(made(all, "j/k", "stored", all), &topic));
    assert_string_equal(topic.owner, all);
    assert_string_equal(topic.job, "j/k");
    assert_int_equal(topic.kind, TOPIC_STORED);
    assert_string_equal(topic.rest, all);

    struct buf text = BUF_INIT;
    topic_put_again(&text, "ann", "j", "r1", "end");
    assert_true(topic_parse(text.data, &topic));
    assert_int_equal(topic.kind, TOPIC_AGAIN);
    assert_string_equal(topic.rest, "r1");
    assert_string_equal(topic.name, "end");
    buf_clear(&text);
    topic_put_revoked(&text, "ann");
    assert_true(topic_parse(text.data, &topic));
    assert_int_equal(topic.kind, TOPIC_REVOKED);
    assert_string_equal(topic.job, "");
    buf_done(&text);
}

static void kinds_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        enum topic_kind kind;
        const char *name;
    } cases[] = {
        {"scry/v1/a/j/node", TOPIC_STREAM, "node"},
        {"scry/v1/a/j/later-stream", TOPIC_STREAM, "later-stream"},
        {"scry/v1/a/j/state", TOPIC_STATE, ""},
        {"scry/v1/a/j/beat", TOPIC_BEAT, ""},
        {"scry/v1/a/j/request", TOPIC_REQUEST, ""},
        {"scry/v1/a/j/state/more", TOPIC_UNKNOWN, ""},
        {"scry/v1/a/keys/revoked", TOPIC_REVOKED, ""},
        {"scry/v1/a/keys/other", TOPIC_UNKNOWN, ""},
        {"scry/v1/a/j/again/r/x/more", TOPIC_UNKNOWN, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topic topic;
        assert_true(topic_parse(cases[i].text, &topic));
        assert_int_equal(topic.kind, cases[i].kind);
        assert_string_equal(topic.name, cases[i].name);
    }
}

static void others_topics_are_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "scry",
        "scry/v1/",
        "scry/v2/a/j/node",
        "scry/v1/a",
        "scry/v1/a/j",
        "scry/v1/a/j/",
        "scry/v1//j/node",
        "scry/v1/a//node",
        "scry/v1/a/j/node ",
        "scry/v1/a/j.k/node",
        "scry/v1/a/_00/node",
        "scry/v1/a/_4/node",
        "scry/v1/a/_/node",
        "scry/v1/a/_2E/node", /* lower case only */
        "scry/v1/a/_61/node", /* is written as it is */
        "scry/v1/a/j/again/r",
        "scry/v1/a/j/stored",
        "scry/v1/a/j/stored/",
        "scry/v1/a/j/\xc3\xa4",
        "x/scry/v1/a/j/node",
    };
    struct topic topic;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_false(topic_parse(cases[i], &topic));
    char level[TOPIC_LEVEL_SIZE + 1];
    memset(level, 'x', sizeof level);
    level[TOPIC_LEVEL_SIZE] = 0;
    assert_false(topic_parse(made("a", level, "node", NULL), &topic));
    level[TOPIC_LEVEL_SIZE - 1] = 0;
    assert_true(topic_parse(made("a", level, "node", NULL), &topic));
}

/* The end of another question, which somebody has kept, ends none. */
static void ends_are_of_a_question(void **state)
{
    static const struct {
        const char *text;
        bool is_end, is_signed_end;
    } cases[] = {
        {"{\"reader\":\"r1\",\"from\":3,\"to\":9}", true, true},
        {"{\"from\":3,\"to\":9}", true, false}, /* of an older publisher */
        {"{\"reader\":\"r2\",\"from\":3,\"to\":9}", false, false},
        {"{\"reader\":1,\"from\":3,\"to\":9}", false, false},
        {"{\"reader\":\"r1\",\"from\":2,\"to\":9}", false, false},
        {"{\"reader\":\"r1\",\"to\":9}", false, false},
        {"[]", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *json = json_loads(cases[i].text, 0, NULL);
        assert_non_null(json);
        assert_int_equal(topic_is_end_of(json, "r1", 3, false), cases[i].is_end);
        assert_int_equal(topic_is_end_of(json, "r1", 3, true), cases[i].is_signed_end);
        json_decref(json);
    }
    assert_false(topic_is_end_of(NULL, "r1", 3, false));
}

static void questions_have_names_of_their_own(void **state)
{
    char names[2][48];
    for (size_t i = 0; i < 2; i++)
        topic_name_question("me1", names[i], sizeof names[i]);
    assert_int_equal(strlen(names[0]), 20);
    assert_memory_equal(names[0], "me1x", 4);
    assert_string_not_equal(names[0], names[1]);
}

enum { PART = 300 << 10 };
static unsigned whole;

static int on_whole(void *ctx, const char *path, int64_t version, struct span bytes)
{
    (void)ctx, (void)path, (void)version, (void)bytes;
    whole++;
    return 0;
}

/* A part of `count`, with `bytes` of text. */
static int put(struct parts *parts, const char *path, int version, int part, int count, size_t bytes)
{
    static char block[PART];
    struct buf text = BUF_INIT;
    buf_printf(&text, "{\"path\":\"%s\",\"version\":%d,\"part\":%d,\"parts\":%d,\"bytes\":%zu,\"text\":\"", path,
               version, part, count, bytes * (size_t)count);
    memset(block, 'x', sizeof block);
    buf_append(&text, block, bytes);
    buf_puts(&text, "\"}");
    int code = parts_take(parts, span_of(text.data, text.len), on_whole, NULL);
    buf_done(&text);
    return code;
}

static void files_come_in_parts(void **state)
{
    struct parts parts = {0};
    (void)state;
    whole = 0;
    assert_int_equal(put(&parts, "a", 1, 1, 2, 5), 0);
    assert_int_equal(put(&parts, "a", 1, 1, 2, 5), 0);
    assert_int_equal(whole, 0);
    assert_int_equal(put(&parts, "a", 1, 0, 2, 5), 0);
    assert_int_equal(whole, 1);
    assert_int_equal(put(&parts, "a", 1, 0, 2, 5), 0); /* known */
    assert_int_equal(put(&parts, "a", 1, 0, 3, 5), 0);
    assert_int_equal(whole, 1);
    assert_int_equal(put(&parts, "a", 2, 0, 1, 5), 0);
    assert_int_equal(whole, 2);
    assert_int_equal(parts.held_bytes, 0);
    assert_int_equal(put(&parts, "b", 1, 2, 2, 5), -EBADMSG);
    assert_int_equal(put(&parts, "b", 1, 0, 1000, 5), -EFBIG);
    parts_done(&parts);
}

/* Files that never become whole: of one job, and of all jobs that somebody invents. */
static void memory_has_limits(void **state)
{
    enum { JOBS = 8 };
    uint64_t shared = 0;
    struct parts jobs[JOBS] = {0};
    char path[2000];
    (void)state;
    whole = 0;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(put(&jobs[0], path, 1, 0, 1, 1), -EFBIG);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i].shared_bytes = &shared;
        int code = 0;
        for (int file = 0; code == 0 && file < 1000; file++) {
            snprintf(path, sizeof path, "stats/%d", file);
            code = put(&jobs[i], path, 1, 0, 2, PART);
        }
        assert_int_equal(code, -EFBIG);
        assert_true(jobs[i].held_bytes < (33 << 20));
    }
    assert_true(shared < (129 << 20));
    assert_int_equal(put(&jobs[JOBS - 1], "small", 1, 0, 1, 10), 0); /* that need not wait for others */
    assert_int_equal(whole, 1);
    for (size_t i = 0; i < JOBS; i++)
        parts_done(&jobs[i]);
    assert_int_equal(shared, 0);
}

static void batches_are_lines(void **state)
{
    struct span lines = span_str("\none\n\ntwo\nthree"), line;
    for (const char *const *expected = (const char *[]){"one", "two", "three", NULL}; *expected; expected++) {
        assert_true(lines_next(&lines, &line));
        assert_true(span_is(line, *expected));
    }
    assert_false(lines_next(&lines, &line));
    lines = span_str("\n\n");
    assert_false(lines_next(&lines, &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_encoded),
        cmocka_unit_test(what_is_made_is_read),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(others_topics_are_refused),
        cmocka_unit_test(questions_have_names_of_their_own),
        cmocka_unit_test(ends_are_of_a_question),
        cmocka_unit_test(batches_are_lines),
        cmocka_unit_test(files_come_in_parts),
        cmocka_unit_test(memory_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
