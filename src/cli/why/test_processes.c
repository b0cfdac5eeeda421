/* SPDX-License-Identifier: Apache-2.0 */
/* What scry why says of processes: of those that compute, where the busiest thread is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/why/why.h"
#include "job/places/where.h"
#include "jobdir/record/model.h"

static volatile uint64_t sink;

__attribute__((noinline, noclone)) static void add_up(void)
{
    for (uint64_t i = 0;; i++)
        sink = i;
}

static void test_busiest(void **state)
{
    struct buf text = BUF_INIT, where = BUF_INIT, first = BUF_INIT;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        add_up();
    }
    struct err err = {0};
    int code = where_computes(pid, pid, &where, &err);
    why_processes_computing(&first, &pid, 1);
    why_processes_text(&text, &pid, 1, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_non_null(first.data);
    assert_non_null(strstr(first.data, ") computes; nothing blocks it\n"));
    buf_done(&first);
    buf_done(&where);
    bool said = strstr(text.data, "): runs on a processor, in add_up (test_processes.c:");
    if (!said && code == 0)
        fail_msg("%s", text.data);
    buf_done(&text);
    if (!said) {
        printf("SKIP: %s\n", err.text);
        skip();
    }
}

/* Of a shell's script, its line, which Python has behind what it waits in. */
static void test_script(void **state)
{
    struct buf text = BUF_INIT;
    struct job_model model;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
    }
    for (int python = 0; python < 2; python++) {
        assert_int_equal(job_model_init(&model, 100), 0);
        json_t *record =
            json_pack("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:n, s:s}", "type", "script_line", "t", 1.0, "pid", (int)pid,
                      "language", python ? "python" : "bash", "file", "/home/u/job.sh", "line", 4, "command",
                      "while [ -e lock ]; do\nsleep 1", "last_line", "how", "outside");
        job_model_apply(&model, record);
        json_decref(record);
        buf_clear(&text);
        while (!text.len) /* it may not be there yet */
            why_processes_awaited(&text, &pid, 1, &model.layers);
        assert_non_null(strstr(text.data, ") waits for a signal"));
        assert_int_equal(strstr(text.data, "\n  at job.sh:4: while [ -e lock ]; do\n") != NULL, !python);
        buf_clear(&text);
        why_processes_text(&text, &pid, 1, &model.layers);
        assert_int_equal(strstr(text.data, ", at job.sh:4: while [ -e lock ]; do\n") != NULL, !python);
        job_model_done(&model);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_busiest), cmocka_unit_test(test_script)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
