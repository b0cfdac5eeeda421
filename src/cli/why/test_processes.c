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

static volatile uint64_t sink;

__attribute__((noinline, noclone)) static void add_up(void)
{
    for (uint64_t i = 0;; i++)
        sink = i;
}

static void test_busiest(void **state)
{
    struct buf text = BUF_INIT, where = BUF_INIT;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        add_up();
    }
    struct err err = {0};
    int code = where_computes(pid, pid, &where, &err);
    why_processes_text(&text, &pid, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_busiest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
