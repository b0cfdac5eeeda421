/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table is whole, and every command reads its options by it. Values of scry run:
 * job/watch/test_options.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "options/options.h"

enum { WORDS = 12, LINE = 80 };

static struct options options; /* those of the last line */
static struct err err;

/* Parses a command line given as words separated by single blanks. */
static int parse(const char *line)
{
    static char copy[512], *argv[WORDS + 1];
    int argc = 0;
    size_t command = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *rest = copy;
    for (char *word; argc < WORDS && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    argv[argc] = NULL;
    while (strcmp(command_rows[command].name, argv[0]) != 0)
        command++;
    options_done(&options);
    err = (struct err){0};
    return options_parse(&options, (enum command)command, argc, argv, &err);
}

static void check_bad(const char *line, const char *expected)
{
    assert_int_equal(parse(line), -EINVAL);
    assert_string_equal(err.text, expected);
}

static void test_rows(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        struct option_value value;
        assert_true(row->commands || row->flags & OPTION_MONITOR);
        assert_true((row->type == OPTION_SWITCH) == !row->argument);
        assert_true((row->type != OPTION_CHOICE && row->type != OPTION_CHOICES) || row->words);
        if (row->otherwise)
            assert_int_equal(option_parse(row, row->otherwise, row->name, &value, &err), 0);
        for (const struct option_row *other = option_rows; other < row; other++)
            if (other->commands & row->commands) {
                assert_string_not_equal(other->name, row->name);
                assert_true(!row->letter || other->letter != row->letter);
            }
    }
}

static void test_help(void **state)
{
    for (unsigned command = 0; command < COMMANDS; command++) {
        _cleanup_(buf_done) struct buf help = BUF_INIT;
        options_help(&help, (enum command)command);
        buf_putc(&help, 0);
        for (const char *line = help.data; *line; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > LINE)
                fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
    }
}

static void test_words(void **state)
{
    assert_int_equal(parse("diff a --json -- -b"), 0); /* anywhere, up to -- */
    assert_true(options_on(&options, "json"));
    assert_int_equal(options.word_count, 2);
    assert_string_equal(options.words[1], "-b");
    assert_null(options.words[2]);
    assert_int_equal(parse("exec -- ls --json"), 0); /* what follows a program is its own */
    assert_int_equal(options.word_count, 2);
    assert_int_equal(parse("monitor --idle 3"), 0);
    assert_string_equal(options.argv[1], "--idle"); /* for the program that it becomes */
    check_bad("top", "name a job (@last is the latest)");
    check_bad("watch a b", "unexpected argument b: one job at a time");
    check_bad("ps x y", "unexpected argument y: one broker at a time");
    check_bad("omis x", "unexpected argument x: give requests with -c");
}

static void test_typed(void **state)
{
    assert_string_equal(command_typed(COMMAND_SNAPSHOT, "stack"), "stack");
    assert_string_equal(command_typed(COMMAND_SNAPSHOT, "snapshot"), "snapshot");
    assert_string_equal(command_typed(COMMAND_REPORT, "--help"), "report");
    assert_string_equal(command_typed(COMMAND_REPORT, NULL), "report");
}

static void test_values(void **state)
{
    size_t at = 0;
    assert_int_equal(parse("why @last"), 0);
    assert_int_equal(options_number(&options, "settled"), 200); /* the default */
    assert_false(options_given(&options, "settled"));
    assert_int_equal(parse("why -a --settled=5 --settled 6 @last"), 0);
    assert_int_equal(options_number(&options, "settled"), 6); /* the last one */
    assert_int_equal(parse("run --profile off true"), 0);
    assert_int_equal(options_number(&options, "profile"), 0);
    assert_int_equal(parse("run --profile auto true"), 0);
    assert_int_equal(options_number(&options, "profile"), 49);
    assert_int_equal(parse("replay --from 0.5 --to 2ms @last"), 0);
    assert_int_equal(options_number(&options, "from"), 500000000);
    assert_int_equal(options_number(&options, "to"), 2000000);
    assert_int_equal(parse("omis -ca -c b --flags debug,OMIS_BUFFER_REQUEST --timeout 2.5s"), 0);
    assert_string_equal(options_next(&options, "command", &at), "a");
    assert_string_equal(options_next(&options, "command", &at), "b");
    assert_null(options_next(&options, "command", &at));
    assert_int_equal(options_number(&options, "flags"), 1 << 5 | 1 << 2);
    assert_true(options_seconds(&options, "timeout") == 2.5);
    assert_int_equal(parse("monitor --reference"), 0); /* the value may be left out */
    assert_string_equal(options_text(&options, "reference"), "");
    assert_int_equal(parse("rm -nf x --quiet=no"), 0);
    assert_true(options_on(&options, "dry-run") && options_on(&options, "force") && !options_on(&options, "quiet"));
}

static void test_errors(void **state)
{
    check_bad("report --jsno a", "unknown option --jsno (did you mean --json?)");
    check_bad("report -x a", "unknown option -x");
    check_bad("report --rank", "--rank needs a value: --rank N");
    check_bad("run --trace -- true", "--trace needs a value: --trace SEL");
    check_bad("run --statics --depth 3 true", "--statics needs a value: --statics FILES");
    check_bad("run -o --depth=3 true", "-o needs a value: -o DIR");
    check_bad("run -o -- true", "-o needs a value: -o DIR");
    check_bad("report --rank -1 a", "--rank: expected the number of a rank, not '-1'");
    check_bad("report --process 0 a", "--process: expected the number of a process, not '0'");
    check_bad("export -f paper a",
              "-f: expected chrome, folded, folded-cpu, folded-waiting, folded-samples, pprof, speedscope, csv, "
              "messages or spacetime, not 'paper'");
    check_bad("run --profile on true", "--profile: expected samples a second, from 1 to 1000, or off, not 'on'");
    check_bad("why --settled off a", "--settled: expected milliseconds, not 'off'");
    check_bad("replay --min-time soon a", "--min-time: expected a time such as 0.5 (seconds), 20ms or 5us, not 'soon'");
    check_bad("rm --older-than 5", "--older-than: expected an age such as 30m, 12h, 30d or 8w, not '5'");
    check_bad("omis --timeout 0", "--timeout: expected seconds (2.5), more than 0, not '0'");
    check_bad("monitor --reference=x", "--reference: expected mpi-calls or notes, not 'x'");
}

static void test_environment(void **state)
{
    setenv("SCRY_IDLE", "7", 1);
    setenv("SCRY_QUIET", "1", 1); /* of scry run only */
    assert_int_equal(parse("monitor"), 0);
    assert_true(options_seconds(&options, "idle") == 7);
    assert_int_equal(parse("monitor --idle 8"), 0);
    assert_true(options_seconds(&options, "idle") == 8);
    assert_int_equal(parse("rm x"), 0);
    assert_false(options_on(&options, "quiet"));
    setenv("SCRY_IDLE", "x", 1);
    check_bad("monitor", "SCRY_IDLE: expected a number of seconds, not 'x'");
    unsetenv("SCRY_IDLE");
    unsetenv("SCRY_QUIET");
    options_done(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_help),   cmocka_unit_test(test_words),
        cmocka_unit_test(test_typed),       cmocka_unit_test(test_values), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
