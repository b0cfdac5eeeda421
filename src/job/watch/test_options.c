/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/watch/options.h"

enum { WORDS = 12 };

static struct options given; /* by the last that was parsed */

/* Parses a command line given as words separated by single blanks. */
static int parse(struct run_options *options, const char *line, struct err *err)
{
    static char copy[512], *argv[WORDS + 1];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *rest = copy;
    for (char *word; argc < WORDS && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    argv[argc] = NULL;
    *err = (struct err){0};
    *options = (struct run_options){.name = ""};
    options_done(&given);
    int code = options_parse(&given, COMMAND_RUN, argc, argv, err);
    return code < 0 || given.help ? code : run_options_take(options, &given, err);
}

static void check_bad(const char *line, const char *expected)
{
    struct run_options options;
    struct err err;
    assert_true(parse(&options, line, &err) < 0);
    if (!strstr(err.text, expected))
        fail_msg("'%s' says '%s', not '%s'", line, err.text, expected);
    run_options_done(&options);
}

static void test_command_line(void **state)
{
    struct run_options options;
    struct err err;
    assert_int_equal(parse(&options, "run -q -o d --name=n --sample 0.5 --max-size 1.5G -- make -j2", &err), 0);
    assert_true(options.quiet);
    assert_string_equal(options.dir, "d");
    assert_string_equal(options.name, "n");
    assert_true(options.sample_seconds == 0.5);
    assert_true(options.max_bytes == UINT64_C(3) << 29);
    assert_false(options.crash_stack);
    assert_int_equal(options.script, RUN_SCRIPT_OUTSIDE);
    assert_string_equal(options.command[0], "make");
    assert_string_equal(options.command[1], "-j2"); /* the command's own options are left alone */
    assert_null(options.command[2]);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run -qod make -q", &err), 0);
    assert_string_equal(options.dir, "d");
    assert_string_equal(options.command[0], "make");
    assert_string_equal(options.command[1], "-q");
    run_options_done(&options);
    assert_int_equal(parse(&options, "run true", &err), 0);
    assert_true(options.sample_seconds == 1);
    assert_true(options.max_bytes == UINT64_C(2) << 30);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --help", &err), 0);
    assert_true(given.help);
    run_options_done(&options);
}

static void test_errors(void **state)
{
    check_bad("run", "no command");
    check_bad("run --name=@last true", "--name: '@last' cannot be a name");
    check_bad("run --name= true", "--name: it is empty");
    check_bad("run -q --", "no command");
    check_bad("run --nonsense x", "unknown option --nonsense");
    check_bad("run -x true", "unknown option -x");
    check_bad("run --hide-args ( true",
              "--hide-args: expected a POSIX extended regular expression or off (Unmatched (");
    check_bad("run --sample 0 true", "expected seconds");
    check_bad("run --sample nan true", "expected seconds");
    check_bad("run --sample 1x true", "expected seconds");
    check_bad("run --sample 1sx true", "expected seconds");
    check_bad("run --hide-args ()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()() true",
              "more than 31 groups");
    check_bad("run --tarce=fn:x true", "unknown option --tarce (did you mean --trace?)");
    check_bad("run --max-size 5Q true", "expected a size");
    check_bad("run --name", "needs a value");
    check_bad("run --mpi maybe true", "--mpi: expected auto, off, stats, trace or messages");
    check_bad("run --script all true", "--script: expected off, outside, calls or lines");
    check_bad("run --broker=x true", "no URL of a broker");
    check_bad("run --broker=mqtt://h/me/job true", "leave out the job, 'job'");
    check_bad("run --depth 17 true", "--depth: expected a number of pointer levels");
    check_bad("run --depth -1 true", "--depth: expected");
    check_bad("run --min-time 5 true", "--min-time: expected a time such as 500us");
    check_bad("run --max-depth many true", "--max-depth: expected a number");
    check_bad("run --buffer 4K true", "--buffer: expected a size from 1M");
    check_bad("run --overflow burst true", "--overflow: expected drop, wait or flight");
    check_bad("run --read-by luck true", "--read-by: expected direct, syscall or victim");
    check_bad("run --args=perhaps true", "--args: expected yes or no");
    check_bad("run --rule nonsense true", "--rule: expected 'EVENT : ACTIONS'");
    check_bad("run --rule :print([]) true", "it needs an event before the colon");
    check_bad("run --trace", "--trace needs a value: --trace SEL");
    check_bad("run --on true", "unknown option --on"); /* of scry set only */
    check_bad("run --quiet=perhaps true", "yes or no");
    check_bad("run --config /nonexistent/x true", "/nonexistent/x");
}

static const char *setting(const struct run_options *options, const char *key)
{
    for (size_t i = 0; i < options->setting_count; i++)
        if (strcmp(options->settings[i].key, key) == 0)
            return options->settings[i].value;
    return NULL;
}

static void test_tracing(void **state)
{
    struct run_options options;
    struct err err;
    assert_int_equal(parse(&options, "run true", &err), 0);
    assert_int_equal(options.setting_count, 0);
    assert_false(options.trace_wanted);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace fn:a* --trace !fn:ab --args --depth=3 --min-time 500us true", &err),
                     0);
    assert_string_equal(setting(&options, "trace"), "fn:a* !fn:ab"); /* they add up */
    assert_string_equal(setting(&options, "args"), "yes");
    assert_string_equal(setting(&options, "depth"), "3");
    assert_string_equal(setting(&options, "min-time"), "500us");
    assert_null(setting(&options, "locals"));
    assert_true(options.trace_wanted);
    assert_false(options.trace_off);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace off --buffer 1M --overflow flight --rate 0 true", &err), 0);
    assert_true(options.trace_off);
    assert_string_equal(setting(&options, "overflow"), "flight");
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace= true", &err), -EINVAL); /* a shell's variable that is not set */
    assert_non_null(strstr(err.text, "--trace: it selects nothing"));
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace=, true", &err), -EINVAL);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --rule a([]):b() --rule c([]):d([$proc]) true", &err), 0);
    assert_int_equal(options.rule_count, 2);
    assert_string_equal(options.rules[1], "c([]):d([$proc])");
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace off --rule ct_function_called([],\"f\"):d() true", &err), 0);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace off --mpi off --rule a([]):b() true", &err), 0);
    run_options_done(&options);
    assert_int_equal(parse(&options, "run --trace off --mpi off --rule ct_function_called([],\"f\"):d() true", &err),
                     -EINVAL); /* nothing would ever call it */
    assert_non_null(strstr(err.text, "nothing is loaded"));
    run_options_done(&options);
}

/* The command line is stronger than the environment, also where values add up. */
static void test_tracing_from_the_environment(void **state)
{
    struct run_options options;
    struct err err;
    setenv("SCRY_TRACE", "fn:from_environment", 1);
    setenv("SCRY_LOCALS", "1", 1);
    setenv("SCRY_MIN_TIME", "2ms", 1);
    assert_int_equal(parse(&options, "run --trace fn:a --min-time 1s true", &err), 0);
    assert_string_equal(setting(&options, "trace"), "fn:a");
    assert_string_equal(setting(&options, "min-time"), "1s");
    assert_string_equal(setting(&options, "locals"), "1");
    run_options_done(&options);
    assert_int_equal(parse(&options, "run true", &err), 0);
    assert_string_equal(setting(&options, "trace"), "fn:from_environment");
    run_options_done(&options);
    setenv("SCRY_MIN_TIME", "2", 1);
    check_bad("run true", "SCRY_MIN_TIME: expected a time");
    unsetenv("SCRY_TRACE");
    unsetenv("SCRY_LOCALS");
    unsetenv("SCRY_MIN_TIME");
    setenv("SCRY_LOG", "error", 1); /* is about scry itself */
    assert_int_equal(parse(&options, "run true", &err), 0);
    run_options_done(&options);
    unsetenv("SCRY_LOG");
}

static void test_changes(void **state)
{
    struct run_options options;
    struct err err = {0};
    assert_int_equal(parse(&options, "run --trace fn:a --trace fn:b true", &err), 0);
    assert_int_equal(run_setting_change(&options, "trace", "fn:c", &err), 0);
    assert_string_equal(setting(&options, "trace"), "fn:c"); /* replaces */
    assert_int_equal(run_setting_change(&options, "sample", "0.25", &err), 0);
    assert_true(options.sample_seconds == 0.25);
    assert_int_equal(run_setting_change(&options, "max-size", "1M", &err), 0);
    assert_int_equal(options.max_bytes, 1 << 20);
    assert_int_equal(run_setting_change(&options, "on", "no", &err), 0);
    assert_string_equal(setting(&options, "on"), "no");
    assert_int_equal(run_setting_change(&options, "name", "x", &err), -ENOENT);
    assert_int_equal(run_setting_check("depth", "x", &err), -EINVAL);
    assert_int_equal(run_setting_check("depth", "", &err), -EINVAL);
    assert_int_equal(run_setting_check("depth", "2", &err), 0);
    run_options_done(&options);
}

static void write_config(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_precedence(void **state)
{
    char path[] = "/tmp/scry-options-XXXXXX", line[128];
    struct run_options options;
    struct err err;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_config(path, "# of the file\n\n sample 7\n--name=file\nmax-size = 3M\nq\n");
    setenv("SCRY_SAMPLE", "5", 1);
    setenv("SCRY_NAME", "environment", 1);
    snprintf(line, sizeof line, "run --config %s --name line true", path);
    assert_int_equal(parse(&options, line, &err), 0);
    assert_string_equal(options.name, "line");
    assert_true(options.sample_seconds == 5);
    assert_int_equal(options.max_bytes, 3 << 20);
    assert_true(options.quiet);
    run_options_done(&options);
    setenv("SCRY_SAMPLE", "often", 1);
    check_bad("run true", "SCRY_SAMPLE: expected seconds");
    unsetenv("SCRY_SAMPLE");
    unsetenv("SCRY_NAME");
    write_config(path, "name x\nfoo bar\n");
    snprintf(line, sizeof line, "run --config %s true", path);
    check_bad(line, "line 2: foo: no option");
    write_config(path, "sample\n");
    check_bad(line, "line 1: sample needs a value");
    unlink(path);
}

/* The key leaves the environment, also what /proc shows of it; the command line has precedence. */
static void test_key(void **state)
{
    static char variable[] = "SCRY_KEY=-----BEGIN PRIVATE", again[] = "SCRY_KEY=-----BEGIN PRIVATE";
    struct run_options options;
    struct err err;
    putenv(variable);
    assert_int_equal(parse(&options, "run true", &err), 0);
    assert_string_equal(options.key, "-----BEGIN PRIVATE");
    assert_null(getenv("SCRY_KEY"));
    assert_string_equal(variable, "SCRY_KEY=");
    run_options_done(&options);
    putenv(again);
    assert_int_equal(parse(&options, "run --key k.pem true", &err), 0);
    assert_true(options.key[0] == '/' && strstr(options.key, "/k.pem"));
    assert_null(getenv("SCRY_KEY"));
    run_options_done(&options);
    assert_int_equal(parse(&options, "run true", &err), 0);
    assert_null(options.key);
    run_options_done(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_tracing),
        cmocka_unit_test(test_tracing_from_the_environment),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_precedence),
    };
    return cmocka_run_group_tests_name("job_options", tests, NULL, NULL);
}
