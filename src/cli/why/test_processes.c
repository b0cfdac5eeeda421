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
#include "job/places/deadlocks.h"
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

/* From one end of a chain of pipes, what all wait for is said first, whether they read or write. */
static void test_chain(void **state)
{
    for (int writes = 0; writes < 2; writes++) {
        int first[2], second[2];
        pid_t pids[3], *list = NULL;
        size_t count = 0;
        assert_int_equal(pipe(first), 0);
        assert_int_equal(pipe(second), 0);
        pids[0] = fork(); /* the root */
        if (pids[0] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(first[writes ? 1 : 0]);
            close(second[0]);
            close(second[1]);
            pause();
        }
        for (int i = 1; i < 3; i++) {
            pids[i] = fork();
            if (pids[i])
                continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int *near = i == 1 ? first : second, *far = i == 1 ? second : NULL;
            char byte[4096] = "";
            if (far)
                close(far[writes ? 1 : 0]);
            if (i == 2) {
                close(first[0]);
                close(first[1]);
            }
            close(near[writes ? 0 : 1]);
            while ((writes ? write(near[1], byte, sizeof byte) : read(near[0], byte, sizeof byte)) > 0)
                ;
            _exit(0);
        }
        for (int i = 0; i < 2; i++) {
            close(first[i]);
            close(second[i]);
        }
        struct buf text = BUF_INIT;
        while (count != 3 || list[1] != pids[1]) { /* each comes to its call in its own time */
            free(list);
            list = malloc(sizeof *list);
            list[0] = pids[2];
            count = 1;
            assert_int_equal(why_processes_follow(&list, &count), 0);
        }
        assert_int_equal(list[2], pids[0]);
        while (!text.len)
            why_processes_awaited(&text, list, count, NULL);
        char expected[64];
        snprintf(expected, sizeof expected, "process %d (", (int)pids[0]);
        if (strncmp(text.data, expected, strlen(expected)) != 0 || !strstr(text.data, "all others wait for it"))
            fail_msg("%s", text.data);
        for (int i = 0; i < 3; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        buf_done(&text);
        free(list);
    }
}

/* The launcher is no rank, but ranks wait for it; and it may be left when they have ended. */
static void test_beside(void **state)
{
    char stopped[128], left[128];
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "mpirun");
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    snprintf(stopped, sizeof stopped, "process %d (mpirun) was stopped by a signal; kill -CONT %d lets it go on\n",
             (int)pid, (int)pid);
    snprintf(left, sizeof left, "all 2 ranks have ended, but process %d (mpirun) has not\n", (int)pid);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct buf text = BUF_INIT;
    why_processes_beside(&text, &pid, 1, 0);
    assert_int_equal(text.len, 0);
    why_processes_beside(&text, &pid, 1, 2);
    assert_string_equal(text.data, left);
    buf_clear(&text);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    why_processes_beside(&text, &pid, 1, 0);
    assert_string_equal(text.data, stopped);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    buf_done(&text);
    close(ready[0]);
    close(ready[1]);
}

/* Of two that read from each other before they write, the number of one is enough. */
static void test_circle(void **state)
{
    int pipes[2][2];
    pid_t pids[2], *list = malloc(sizeof *list);
    size_t count = 1, found = 0;
    struct deadlock *locks = NULL;
    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(pipe(pipes[1]), 0);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pipes[i][1]);
        close(pipes[!i][0]);
        _exit((int)read(pipes[i][0], &byte, 1));
    }
    for (int i = 0; i < 2; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    list[0] = pids[1];
    while (!found) { /* each comes to its call in its own time */
        assert_int_equal(why_processes_follow(&list, &count), 0);
        found = deadlocks_find(&locks, list, count);
    }
    assert_int_equal(found, 1);
    assert_int_equal(count, 2);
    assert_int_equal(locks[0].count, 2);
    deadlocks_free(locks, found);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    free(list);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_busiest), cmocka_unit_test(test_chain),
                                       cmocka_unit_test(test_circle), cmocka_unit_test(test_beside),
                                       cmocka_unit_test(test_script)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
