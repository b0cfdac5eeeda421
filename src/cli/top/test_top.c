/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/top/top.h"

static bool type(struct top_choice *choice, const char *keys)
{
    return top_keys_take(choice, keys, strlen(keys));
}

static void test_keys(void **state)
{
    struct top_choice choice = {.page = 10};
    char line[256];
    assert_true(type(&choice, "m"));
    assert_int_equal(choice.order, TOP_BY_MEMORY);
    assert_true(type(&choice, "fr"));
    assert_true(choice.only_ranks && !choice.only_functions);
    assert_true(type(&choice, "jj\033[B\033[6~k"));
    assert_int_equal(choice.scroll, 12);
    assert_true(type(&choice, "\033[5~\033[5~\033[A"));
    assert_int_equal(choice.scroll, 0);
    assert_true(type(&choice, "/solQ\177v"));
    assert_true(choice.typing && !choice.tree);
    assert_string_equal(choice.filter, "solv");
    top_keys_line(&choice, line, sizeof line);
    assert_non_null(strstr(line, "only names that contain: solv_"));
    assert_true(type(&choice, "\rv?"));
    assert_true(!choice.typing && choice.tree && choice.help);
    assert_true(top_choice_has(&choice, "Solver") && !top_choice_has(&choice, "sole"));
    assert_true(type(&choice, "\033"));
    assert_true(!choice.help && choice.tree && top_choice_has(&choice, "sole"));
    assert_true(type(&choice, "\033[17~")); /* a key that is not ours: none of its bytes is a letter */
    assert_false(choice.typing);
    assert_false(type(&choice, "q"));
    for (size_t i = 0; top_keys_help[i]; i++)
        assert_true(strlen(top_keys_help[i]) <= 80);
}

static void add(struct job_model *model, pid_t pid, pid_t ppid, const char *name, uint64_t rss, double share)
{
    char text[256];
    struct job_process *process;
    snprintf(text, sizeof text,
             "{\"seq\":%d,\"t\":0.1,\"type\":\"process\",\"pid\":%d,\"ppid\":%d,\"start\":0,\"name\":\"%s\"}", pid, pid,
             ppid, name);
    json_t *record = json_loads(text, 0, NULL);
    assert_non_null(record);
    job_model_apply(model, record);
    json_decref(record);
    HASH_FIND_INT(model->alive, &pid, process);
    assert_non_null(process);
    process->rss = rss;
    process->cpu_share = share;
}

/* "NAME" or ".NAME" for each, by depth. */
static const char *shown(const struct job_model *model, const char *keys)
{
    static char text[256];
    struct top_choice choice = {0};
    struct top_processes processes;
    type(&choice, keys);
    top_processes_choose(&processes, &(struct job_report){.model = *model}, &choice);
    text[0] = 0;
    for (size_t i = 0; i < processes.count; i++) {
        for (unsigned k = 0; k < processes.depths[i]; k++)
            strcat(text, ".");
        strcat(text, processes.list[i]->name);
        strcat(text, " ");
    }
    top_processes_done(&processes);
    return text;
}

static void test_processes(void **state)
{
    struct job_model model = {0};
    assert_int_equal(job_model_init(&model, 0), 0);
    add(&model, 1, 0, "sh", 10, 0.0);
    add(&model, 2, 1, "make", 30, 0.1);
    add(&model, 3, 2, "cc", 20, 0.9);
    add(&model, 4, 1, "tee", 40, 0.5);
    add(&model, 5, 2, "as", 5, 0.95);
    assert_string_equal(shown(&model, "c"), "as cc tee make sh ");
    assert_string_equal(shown(&model, "m"), "tee make cc sh as ");
    assert_string_equal(shown(&model, "p"), "sh make cc tee as ");
    assert_string_equal(shown(&model, "n"), "as cc make sh tee ");
    assert_string_equal(shown(&model, "v"), "sh .tee .make ..as ..cc ");
    assert_string_equal(shown(&model, "vp"), "sh .make ..cc ..as .tee ");
    assert_string_equal(shown(&model, "/s\r"), "as sh ");
    assert_string_equal(shown(&model, "v/C\r"), "cc ");
    job_model_done(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys), cmocka_unit_test(test_processes)};
    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
