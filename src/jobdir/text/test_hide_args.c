/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/buf.h"
#include "jobdir/text/hide_args.h"
#include "jobdir/text/text.h"

enum { WORDS = 12 };

/* Words are separated by |. */
static void check(const char *regex, const char *words, const char *want)
{
    char *copy = strdup(words), *rest = copy, *command[WORDS + 1];
    size_t count = 0;
    assert_non_null(copy);
    while (count < WORDS && (command[count] = strsep(&rest, "|")))
        count++;
    command[count] = NULL;
    struct hide_args *hide = hide_args_new(regex);
    json_t *json = hide_args_json(command, hide);
    hide_args_free(hide);
    struct buf got = BUF_INIT;
    size_t index;
    json_t *word;
    json_array_foreach(json, index, word)
    {
        buf_puts(&got, index ? "|" : "");
        buf_puts(&got, json_string_value(word));
    }
    assert_non_null(got.data);
    if (strcmp(got.data, want) != 0)
        fail_msg("'%s' became '%s', not '%s'", words, got.data, want);
    json_decref(json);
    buf_done(&got);
    free(copy);
}

static void test_usual_secrets(void **state)
{
    static const char *const pairs[][2] = {
        {"a|--password=X|b", "a|--password=***|b"},
        {"a|--password|X|b", "a|--password|***|b"},
        {"a|-password|-X|b", "a|-password|***|b"},
        {"a|--password", "a|--password"},
        {"a|--password=|b", "a|--password=|***"}, /* not sure whose b is */
        {"a|--DB_Passwd=X Y", "a|--DB_Passwd=***"},
        {"a|--db-pass|X", "a|--db-pass|***"},
        {"env|TOKEN=X|b", "env|TOKEN=***|b"},
        {"env|AWS_SECRET_ACCESS_KEY=X|dbPassword=Y", "env|AWS_SECRET_ACCESS_KEY=***|dbPassword=***"},
        {"a|--api-key=X|--apikey|Y|--api_key|Z", "a|--api-key=***|--apikey|***|--api_key|***"},
        {"a|--access-token|X|--credentials=Y", "a|--access-token|***|--credentials=***"},
        {"curl|-H|Authorization: Bearer X|b", "curl|-H|Authorization: Bearer ***|b"},
        {"curl|-H|authorization:X|-HX-Api-Key: Y", "curl|-H|authorization:***|-HX-Api-Key: ***"},
        {"curl|https://user:X@host/path|b", "curl|https://user:***|b"},
        {"a|postgres://u:X/Y@Z@host/db|redis://:X@h", "a|postgres://u:***|redis://:***"},
        {"a|{\"user\": \"u\", \"password\": \"X\"}", "a|{\"user\": \"u\", \"password\": ***"},
        {"sh|-c|db --pass 'X Y' && z", "sh|-c|db --pass ***"},
        {"sh|-c|one\ntoken=X\nY", "sh|-c|one\ntoken=***"},
        {"a|\xff--password=\xfeX", "a|\\xff--password=***"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check(NULL, pairs[i][0], pairs[i][1]);
}

static void test_others_are_shown(void **state)
{
    static const char *const same[] = {
        "passwd|alice",
        "/opt/token=1/run|b",
        "mpirun|-np|4|-x|PATH|./solve|--tokens=512|--max-tokens|5",
        "a|http://host:8080/path|tcp://host:5555",
        "a|git@host:path|--token-file|f|--secrets|g",
        "grep|password|file|bypass=1|compass=north",
        "mkdir|-p|x|-p8080",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check(NULL, same[i], same[i]);
}

static void test_one_s_own(void **state)
{
    check("^-p(.+)", "mysql|-pX|-p|db|--password=Y", "mysql|-p***|-p|db|--password=***");
    check("^--pin=?(.*)", "a|--pin=1|--pin|2|3", "a|--pin=***|--pin|***|3");
    check("(--pin|--puk)=.*", "a|--pin=1", "a|***"); /* the last group is where it begins */
    check("--pin|--puk=(.*)", "a|x --pin=1", "a|x ***");
    check("x", "x|-x1", "x|-***");
    check("off", "a|--password=X|--pin|2", "a|--password=X|--pin|2");
    check("", "a|--password=X", "a|--password=X");
}

/* The longest word that the kernel passes on. */
static void test_long_words(void **state)
{
    enum { SIZE = 128 << 10 };
    char *word = malloc(SIZE), name[] = "a", *command[] = {name, word, NULL};
    assert_non_null(word);
    memset(word, 'x', SIZE - 1);
    word[SIZE - 1] = 0;
    memcpy(word + SIZE - 20, "token=X", 7);
    struct hide_args *hide = hide_args_new(NULL);
    json_t *json = hide_args_json(command, hide);
    const char *got = json_string_value(json_array_get(json, 1));
    assert_non_null(got);
    assert_int_equal(strlen(got), TEXT_LIMIT + 3);
    memcpy(word, "token=X", 7);
    json_decref(json);
    json = hide_args_json(command, hide);
    assert_string_equal(json_string_value(json_array_get(json, 1)), "token=***");
    json_decref(json);
    hide_args_free(hide);
    free(word);
}

static void check_text(const char *regex, const char *text, const char *want)
{
    char bytes[128];
    size_t len = strlen(text);
    memcpy(bytes, text, len + 1);
    bytes[len] = '!';
    struct hide_args *hide = hide_args_new(regex);
    hide_text(hide, bytes, len);
    hide_args_free(hide);
    assert_int_equal(bytes[len], '!');
    bytes[len] = '\0';
    assert_string_equal(bytes, want);
}

/* A line of very many addresses is looked at once. */
static void test_many_addresses(void **state)
{
    enum { BYTES = 4 << 20 };
    static const char address[] = "://:", end[] = "://u:X@h";
    char *bytes = malloc(BYTES + sizeof end + 1); /* one more, as hide_text says */
    struct hide_args *hide = hide_args_new(NULL);
    assert_non_null(bytes);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = address[i % (sizeof address - 1)];
    memcpy(bytes + BYTES, " ", 1);
    memcpy(bytes + BYTES + 1, end, sizeof end - 1);
    hide_text(hide, bytes, BYTES + sizeof end);
    assert_memory_equal(bytes + BYTES - 3, "//: ://u:***", 12);
    hide_args_free(hide);
    free(bytes);
}

static void test_text(void **state)
{
    check_text(NULL, "step 1\npassword: X Y\nstep 2\n", "step 1\npassword: ***\nstep 2\n");
    check_text(NULL, "\r 5 %\r token=XX\rhttps://u:X@h/a", "\r 5 %\r token=**\rhttps://u:*****");
    check_text(NULL, "500 tokens a second", "500 tokens a second");
    check_text("id ([0-9]+)", "user id 12\nsecret=X", "user id **\nsecret=*");
    check_text("off", "secret=X", "secret=X");
    check_text(NULL, "http://h:80/\nhttp://u:XX", "http://h:80/\nhttp://u:**"); /* the @ may come */
    check_text(NULL, "http://h:80/ x://u:@h ://h:1,://h:2 y", "http://h:80/ x://u:@h ://h:1,://h:2 y");
    check_text("off", "http://u:XX", "http://u:XX");
    check_text("(", "none\nof it", "****\n*****"); /* what cannot be looked for: nothing is known to be none */
    hide_text(NULL, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),          cmocka_unit_test(test_many_addresses),
        cmocka_unit_test(test_usual_secrets), cmocka_unit_test(test_others_are_shown),
        cmocka_unit_test(test_one_s_own),     cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests_name("hide_args", tests, NULL, NULL);
}
