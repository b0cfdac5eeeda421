/* SPDX-License-Identifier: Apache-2.0 */
/* Where programs compute: a process that does so, in its own code or in a library that it has called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/places/where.h"

#define KEPT __attribute__((noinline, noclone))

static volatile double sink;

KEPT static void add_up(void)
{
    for (uint64_t i = 0;; i++)
        sink = (double)i;
}

/* With a large order jn(3) is in a long loop of its own. */
KEPT static void call_libm(void)
{
    for (double x = 1;; x += 1e-9)
        sink = jn(100000, x);
}

KEPT static int compare_slowly(const void *a, const void *b)
{
    for (unsigned i = 0; i < 10000; i++)
        sink = i;
    return *(const int *)a - *(const int *)b;
}

KEPT static void call_back(void)
{
    for (;;) {
        int numbers[] = {3, 1, 2, 5, 4};
        qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, compare_slowly);
    }
}

/* The user's own line stands first. */
static void test_computes(void **unused)
{
    static const struct {
        void (*fn)(void);
        const char *first;
        bool library; /* in which it is then */
    } rows[] = {
        {add_up, "add_up (test_where.c:", false},
        {call_libm, "call_libm (test_where.c:", true},
        {call_back, "compare_slowly (test_where.c:", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = BUF_INIT;
        struct err err = {0};
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rows[i].fn();
        }
        int code = where_computes(pid, pid, &text, &err);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (code == -EACCES || code == -EPERM) {
            buf_done(&text);
            printf("SKIP: perf may not be used: %s\n", err.text);
            skip();
        }
        assert_int_equal(code, 0);
        buf_putc(&text, '\0');
        bool library = strstr(text.data, "), in ") != NULL;
        if (strncmp(text.data, rows[i].first, strlen(rows[i].first)) != 0 || library != rows[i].library)
            fail_msg("\"%s\" does not begin with \"%s\"%s", text.data, rows[i].first,
                     rows[i].library ? ", in a library" : "");
        buf_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_computes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
