/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin in a Slurm of 23.11 or later, which can put words before a command. test/system/test_slurm.py has a real one,
 * of whatever release is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "batch/handed.h"

extern spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char *argv[]);

static char task[] = "/bin/true", program[] = "/bin/echo", *command[] = {program, NULL};
static struct {
    uint32_t step;
    spank_err_t refuses;   /* what spank_prepend_task_argv returns */
    const char *container; /* in the job's environment */
    bool in_job;           /* SCRY_PART is there, too */
    struct spank_option option;
    char handed[HANDED_SIZE], before[64];
} slurm;

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    va_list args;
    va_start(args, item);
    if (item == S_JOB_ARGV) {
        *va_arg(args, int *) = 1;
        *va_arg(args, char ***) = command;
    } else if (item == S_STEP_ALLOC_MEM) {
        *va_arg(args, uint64_t *) = 50;
    } else {
        *va_arg(args, uint32_t *) = item == S_JOB_STEPID             ? slurm.step
                                    : item == S_JOB_LOCAL_TASK_COUNT ? 4
                                    : item == S_JOB_ID               ? 12
                                                                     : 1;
    }
    va_end(args);
    return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size)
{
    if (strcmp(name, "SCRY_PART") == 0 && slurm.in_job)
        return ESPANK_NOSPACE;
    if (strcmp(name, "SLURM_CONTAINER") != 0 || !slurm.container)
        return ESPANK_ENV_NOEXIST;
    snprintf(value, (size_t)size, "%s", slurm.container);
    return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
    assert_string_equal(name, HANDED_NAME);
    snprintf(slurm.handed, sizeof slurm.handed, "%s", value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    if (strcmp(name, HANDED_NAME) == 0)
        slurm.handed[0] = '\0';
    return ESPANK_SUCCESS;
}

spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char *argv[])
{
    assert_int_equal(argc, 1);
    snprintf(slurm.before, sizeof slurm.before, "%s", argv[0]);
    return slurm.refuses;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    slurm.option = *option;
    return ESPANK_SUCCESS;
}

spank_context_t spank_context(void)
{
    return S_CTX_REMOTE;
}

void slurm_error(const char *format, ...)
{
}

static int set_up(void **state)
{
    static char scry[] = "scry=/bin/true", task_is[] = "task=/bin/true", site[] = "--quiet",
                *words[] = {scry, task_is, site};
    static int loaded;
    memset(&slurm, 0, sizeof slurm);
    if (!loaded++)
        return slurm_spank_init(NULL, 3, words);
    return 0;
}

static void test_prepended(void **state)
{
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(slurm.before, ""); /* without --scry nothing happens */
    assert_int_equal(slurm.option.cb(0, "name=x", 1), 0);
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(slurm.before, task);
    assert_string_equal(slurm.handed, "exec\nslurm-12-0-1-1\n50\n/bin/true\nquiet name=x\n");
    assert_string_equal(command[0], "/bin/echo");
    slurm.in_job = true;
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(slurm.handed, "part-exec\nslurm-12-0-1-1\n50\n/bin/true\nquiet name=x\n");
}

static void test_stepping_aside(void **state)
{
    slurm.refuses = ESPANK_ERROR;
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(slurm.handed, "");
    set_up(NULL);
    slurm.container = "";
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    set_up(NULL);
    slurm.step = SLURM_INTERACTIVE_STEP;
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    set_up(NULL);
    slurm.step = SLURM_EXTERN_CONT;
    assert_int_equal(slurm_spank_task_init(NULL, 0, NULL), 0);
    assert_string_equal(slurm.before, "");
}

static void test_words(void **state)
{
    static const struct {
        const char *text, *want;
        int code;
    } cases[] = {{"", "", 0},
                 {"  a=1   --b -c ", "--a=1|--b|--c|", 0},
                 {"name='two words' rule=\": print(['x'])\"", "--name=two words|--rule=: print(['x'])|", 0},
                 {"a'b'c\"d\"", "--abcd|", 0},
                 {"''", "--|", 0},
                 {"a 'b", "--a|", -22},
                 {"1 2 3 4 5 6", "--1|--2|--3|--4|--5|", -7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], got[128] = "", *words[8];
        size_t count = 0;
        snprintf(text, sizeof text, "%s", cases[i].text);
        assert_int_equal(words_split(text, words, &count, 5), cases[i].code);
        for (size_t n = 0; n < count; free(words[n++]))
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s|", words[n]);
        assert_string_equal(got, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_prepended, set_up),
                                       cmocka_unit_test_setup(test_stepping_aside, set_up),
                                       cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
