/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_encoded),
        cmocka_unit_test(what_is_made_is_read),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(others_topics_are_refused),
        cmocka_unit_test(questions_have_names_of_their_own),
        cmocka_unit_test(ends_are_of_a_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
