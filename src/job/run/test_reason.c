/* SPDX-License-Identifier: Apache-2.0 */
/* Why the kernel sent a signal. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/run/reason.h"

static void test_faults(void **state)
{
    static const struct {
        int signo;
        uint64_t address, sp;
        const char *reason;
    } cases[] = {
        {SIGSEGV, 0, 0x7ffe00001000, "a NULL pointer"},
        {SIGSEGV, 8, 0, "a NULL pointer"},
        {SIGSEGV, 0x10000, 0x7ffe00001000, NULL},
        {SIGSEGV, 0x7ffd8202dfb0, 0x7ffd8202dfb0, "stack overflow"},
        {SIGSEGV, 0x7ffd8202cff8, 0x7ffd8202d000, "stack overflow"}, /* a call at the page's start */
        {SIGSEGV, 0x7ffd8202dff0, 0x7ffd8202d010, "stack overflow"},
        {SIGSEGV, 0x7ffd8202e000, 0x7ffd8202df00, NULL}, /* beyond the stack's top, perhaps */
        {SIGSEGV, 0x7ffd82020000, 0x7ffd8202df00, NULL},
        {SIGSEGV, 0x7ffd8202dfb0, 0, NULL},
        {SIGFPE, 0, 0x7ffe00001000, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason = reason_of_fault(cases[i].signo, cases[i].address, cases[i].sp);
        assert_string_equal(reason ? reason : "", cases[i].reason ? cases[i].reason : "");
    }
}

static void test_codes(void **state)
{
    static const struct {
        int signo, code;
        const char *reason;
    } cases[] = {
        {SIGFPE, FPE_INTDIV, "an integer was divided by zero"},
        {SIGFPE, FPE_FLTDIV, "a number was divided by zero"},
        {SIGFPE, FPE_FLTOVF, "a number became too large"},
        {SIGFPE, FPE_FLTINV, "an invalid operation, as with a number that is none (NaN)"},
        {SIGFPE, 0, NULL},
        {SIGFPE, 1000, NULL},
        {SIGSEGV, SEGV_MAPERR, NULL},
        {SIGBUS, BUS_ADRERR, "a mapped file that ends before that address, or whose disk is full"},
        {SIGBUS, 0, "probably a mapped file that was cut short, or whose disk is full"},
        {SIGBUS, 1000, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason = reason_of_code(cases[i].signo, cases[i].code);
        assert_string_equal(reason ? reason : "", cases[i].reason ? cases[i].reason : "");
    }
}

static void test_limits(void **state)
{
    static const struct {
        struct reason_limits limits;
        int signo;
        const char *text;
    } cases[] = {
        {{true, 1, 1, 1000000000}, SIGKILL, "its limit of processor time (ulimit -t 1)"},
        {{true, 3, 10, 2010000000}, SIGXCPU, "its limit of processor time (ulimit -t 2)"},
        {{true, 1, 1, 900000000}, SIGKILL, "probably its limit of processor time (ulimit -t 1)"},
        {{true, 1, 1, 600000000}, SIGKILL, "probably its limit of processor time (ulimit -t 1)"},
        {{true, 1, 1, 400000000}, SIGKILL, ""},
        {{true, 100, 100, 86000000000}, SIGKILL, "probably its limit of processor time (ulimit -t 100)"},
        {{true, 100, 100, 84000000000}, SIGKILL, ""},
        {{true, UINT64_MAX, UINT64_MAX, 900000000}, SIGKILL, ""},
        {{true, UINT64_MAX, UINT64_MAX, 900000000}, SIGXCPU, ""}, /* sent by somebody */
        {{true, 1, 1, 1000000000}, SIGTERM, ""},
        {{false, 0, 0, 1000000000}, SIGKILL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf text = BUF_INIT;
        assert_int_equal(reason_of_limits(&text, &cases[i].limits, cases[i].signo), *cases[i].text != 0);
        assert_string_equal(text.data ? text.data : "", cases[i].text);
        buf_done(&text);
    }
}

static void test_sender(void **state)
{
    struct signalfd_siginfo info = {.ssi_signo = SIGTERM, .ssi_code = SI_KERNEL};
    char sender[128], own[32];
    reason_sender(&info, true, sender, sizeof sender);
    assert_string_equal(sender, "the terminal or the kernel");
    reason_sender(&info, false, sender, sizeof sender);
    assert_string_equal(sender, "the kernel");
    info.ssi_signo = SIGINT;
    reason_sender(&info, true, sender, sizeof sender);
    assert_string_equal(sender, "the terminal");
    info.ssi_code = SI_USER; /* its sender has no number in this namespace */
    reason_sender(&info, true, sender, sizeof sender);
    assert_non_null(strstr(sender, "another pid namespace"));
    assert_null(strstr(sender, "pid 0"));
    info.ssi_pid = (uint32_t)getpid();
    snprintf(own, sizeof own, "(pid %d)", getpid());
    reason_sender(&info, true, sender, sizeof sender);
    assert_non_null(strstr(sender, own));
}

/* A file that is there, of what a shell or Python says. */
static void test_interpreter(void **state)
{
    static const char script[] = "#!/nosuch/python9\n", good[] = "#!/bin/sh\n";
    static const struct {
        const char *said, *reason;
    } rows[] = {
        {"job.sh: 1: ./bad: not found", "./bad: its interpreter /nosuch/python9 is not there"},
        {"job.sh: line 1: ./bad: cannot execute: required file not found",
         "./bad: its interpreter /nosuch/python9 is not there"},
        {"FileNotFoundError: [Errno 2] No such file or directory: './bad'",
         "./bad: its interpreter /nosuch/python9 is not there"},
        {"job.sh: 1: ./good: not found", ""},
        {"job.sh: 1: ./none: not found", ""},
        {"job.sh: 1: bad: not found", ""},
    };
    char dir[] = "/tmp/scry-reason-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i ? "good" : "bad");
        FILE *file = fopen(path, "w");
        fputs(i ? good : script, file);
        fclose(file);
        chmod(path, 0755);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        struct buf text = BUF_INIT;
        assert_int_equal(job_model_init(&model, 100), 0);
        json_t *record = json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", 1.0, "file", "stderr",
                                   "pattern", "error", "level", "error", "text", rows[i].said);
        job_model_apply(&model, record);
        json_decref(record);
        assert_int_equal(reason_of_interpreter(&text, &model, dir), *rows[i].reason != 0);
        assert_string_equal(text.data ? text.data : "", rows[i].reason);
        buf_done(&text);
        job_model_done(&model);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i ? "good" : "bad");
        unlink(path);
    }
    rmdir(dir);
}

static void test_said(void **state)
{
    static const struct {
        const char *said;
        bool known;
        uint64_t address;
    } rows[] = {
        {"[node7:00987] Failing at address: 0x18", true, 0x18},
        {"[node7:00987] Failing at address: (nil)", true, 0},
        {"[node7:987:0:987] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x7f10)",
         true, 0x7f10},
        {"[node7:987  :0:987] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
         true, 0},
        {"[node7:00988] Failing at address: 0x18", false, 0},
        {"[node7:9870] Failing at address: 0x18", false, 0},
        {"[node7:00987] Signal: Segmentation fault (11)", false, 0},
        {"[node7:00987] at address: home", false, 0},
        {"Failing at address: 0x18", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        uint64_t address = 0;
        assert_int_equal(job_model_init(&model, 100), 0);
        json_t *record = json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", 1.0, "file", "stderr",
                                   "pattern", "segfault", "level", "error", "text", rows[i].said);
        job_model_apply(&model, record);
        json_decref(record);
        assert_int_equal(reason_find_said(&model, 987, &address), rows[i].known);
        if (rows[i].known)
            assert_int_equal(address, rows[i].address);
        job_model_done(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_said),  cmocka_unit_test(test_interpreter), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_codes), cmocka_unit_test(test_limits),      cmocka_unit_test(test_sender),
    };
    return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}
