/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of this very process, read and written as the helper does it for others. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "symbols/helper/jobs.h"

enum colour { RED, GREEN, BLUE };

struct part {
    int number;
    char text[8];
};

struct state {
    int counter;
    double ratio;
    struct part part;
    struct state *self;
    unsigned flags : 3;
    int low : 5;
    enum colour colour;
    const char *name;
    int grid[2][3];
};

struct state global;
static int hidden = 11;
int *pointer = &hidden;

static void reset(void)
{
    global = (struct state){7, 2.5, {3, "hello"}, &global, 5, -3, GREEN, "a state", {{1, 2, 3}, {4, 5, 6}}};
    hidden = 11;
}

static int first_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    *(uint64_t *)ctx = info->dlpi_addr;
    return 1;
}

static char answer[8192];

/* The answer to a question; `frame` is a line of the request, or "". */
static const char *ask(const char *frame, const char *name, const char *value)
{
    static char request[8192];
    uint64_t bias = 0;
    dl_iterate_phdr(first_module, &bias);
    int n =
        snprintf(request, sizeof request, "pid\t%d\ndepth\t1\nmodule\t/proc/self/exe\t0x%llx\tprogram\n%sname\t%s\n",
                 (int)getpid(), (unsigned long long)bias, frame, name);
    if (value)
        n += snprintf(request + n, sizeof request - (size_t)n, "write\t%s\n", value);
    n += snprintf(request + n, sizeof request - (size_t)n, "end\n");
    FILE *in = fmemopen(request, (size_t)n, "r"), *out = fmemopen(answer, sizeof answer, "w");
    assert_non_null(in);
    assert_non_null(out);
    memset(answer, 0, sizeof answer);
    variable_main(in, out);
    fclose(in);
    fclose(out);
    return answer;
}

/* The last field of the answer. */
static const char *shown(const char *name)
{
    const char *text = ask("", name, NULL);
    assert_memory_equal(text, "value\t", 6);
    char *end = strchr(text, '\n');
    assert_non_null(end);
    *end = 0;
    return strrchr(text, '\t') + 1;
}

static void reads(void **state)
{
    char expected[256];
    reset();
    assert_string_equal(shown("global.counter"), "7");
    assert_string_equal(shown("global.ratio"), "2.5");
    assert_string_equal(shown("global.part"), "{number = 3, text = \"hello\"}");
    assert_string_equal(shown("global.self->part.text"), "\"hello\"");
    assert_string_equal(shown("(*global.self).low"), "-3");
    assert_string_equal(shown("global.flags"), "5");
    assert_string_equal(shown("global.colour"), "GREEN");
    assert_string_equal(shown("global.name"), "\"a state\"");
    assert_string_equal(shown("global.name[2]"), "'s'");
    assert_string_equal(shown("global.grid"), "{{1, 2, 3}, {4, 5, 6}}");
    assert_string_equal(shown("global.grid[1][2]"), "6");
    assert_string_equal(shown("hidden"), "11");
    assert_string_equal(shown("test_variable.c:hidden"), "11");
    assert_string_equal(shown("*pointer"), "11");
    snprintf(expected, sizeof expected, "0x%llx -> 11", (unsigned long long)(uintptr_t)&hidden);
    assert_string_equal(shown("pointer"), expected);
    snprintf(expected, sizeof expected, "value\tint\t0x%llx\t4\t11\n", (unsigned long long)(uintptr_t)&hidden);
    assert_string_equal(ask("", "hidden", NULL), expected);
}

#define WRITES(name, value, old, new, type) \
    assert_string_equal(ask("", name, value), "written\t" type "\t" old "\t" new "\n")

static void writes(void **state)
{
    reset();
    WRITES("global.counter", "-99", "7", "-99", "int");
    assert_int_equal(global.counter, -99);
    WRITES("global.self->ratio", "0.125", "2.5", "0.125", "double");
    assert_true(global.ratio == 0.125);
    WRITES("global.part.text", "\"a\\\\tb\"", "\"hello\"", "\"a\\\\tb\"", "char [8]");
    assert_string_equal(global.part.text, "a\tb");
    WRITES("global.low", "-16", "-3", "-16", "int");
    assert_int_equal(global.low, -16);
    assert_int_equal(global.flags, 5);
    WRITES("global.colour", "BLUE", "GREEN", "BLUE", "enum colour");
    assert_int_equal(global.colour, BLUE);
    WRITES("global.grid[0][1]", "0x10", "2", "16", "int");
    assert_int_equal(global.grid[0][1], 16);
}

static void refuses(void **state)
{
    static const char *const questions[][3] = {
        {"nothing", NULL, "no such variable"},
        {"global.nothing", NULL, "no such member"},
        {"global.grid[1]", NULL, "each dimension"},
        {"global..counter", NULL, "not understood"},
        {"*hidden", NULL, "no pointer"},
        {"hidden +", NULL, "not understood"},
        {"global.low", "16", "does not fit"},
        {"global.counter", "99999999999", "does not fit"},
        {"global.part.text", "12345678", "not fit"},
        {"global.name", "x", "no value of this type"},
        {"global", "1", "name a member"},
        {"&global.flags", NULL, "no address"},
    };
    reset();
    struct state before = global;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        const char *text = ask("", questions[i][0], questions[i][1]);
        if (strncmp(text, "failed\t", 7) != 0 || !strstr(text, questions[i][2]))
            fail_msg("%s: %s", questions[i][0], text);
    }
    assert_memory_equal(&before, &global, sizeof global);
    global.self = NULL;
    assert_non_null(strstr(ask("", "global.self->counter", NULL), "<invalid>"));
    assert_memory_equal(ask("", "global.self->counter", "1"), "failed", 6);
}

#ifndef __SANITIZE_ADDRESS__
static void sees_locals(void **state)
{
    static const int regs[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    volatile int local = 31;
    static int kept = 5;
    ucontext_t context;
    char frame[1024];
    getcontext(&context);
    int n = snprintf(frame, sizeof frame, "frame\t0x%llx\t0x0", (unsigned long long)context.uc_mcontext.gregs[REG_RIP]);
    for (int i = 0; i < 17; i++)
        n += snprintf(frame + n, sizeof frame - (size_t)n, "\t%d=0x%llx", i,
                      (unsigned long long)context.uc_mcontext.gregs[regs[i]]);
    snprintf(frame + n, sizeof frame - (size_t)n, "\n");
    char expected[64];
    snprintf(expected, sizeof expected, "\t0x%llx\t4\t31\n", (unsigned long long)(uintptr_t)&local);
    assert_non_null(strstr(ask(frame, "local", NULL), expected));
    assert_string_equal(ask(frame, "local", "32"), "written\tvolatile int\t31\t32\n");
    assert_int_equal(local, 32);
    assert_non_null(strstr(ask(frame, "kept", NULL), "\t5\n"));
    assert_non_null(strstr(ask("", "sees_locals:kept", NULL), "\t5\n"));
    const char *all = ask(frame, "*", NULL);
    assert_non_null(strstr(all, "value\t0\tlocal\tvolatile int\t32\n"));
    assert_non_null(strstr(all, "value\t0\tkept\tint\t5\n"));
    assert_non_null(strstr(all, "\ndone\n"));
    assert_memory_equal(ask("", "local", NULL), "failed", 6);
    kept++;
}
#endif

static void understands_only_requests(void **state)
{
    static const char *const requests[] = {"",
                                           "end\n",
                                           "pid\t1\nend\n",
                                           "pid\tx\nend\n",
                                           "name\tx\ny\nend\n",
                                           "frame\t1\nend\n",
                                           "module\tx\nend\n",
                                           "pid\t1\nname\tx\n"};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char request[64];
        snprintf(request, sizeof request, "%s\n", requests[i]);
        FILE *in = fmemopen(request, strlen(request), "r"), *out = fmemopen(answer, sizeof answer, "w");
        memset(answer, 0, sizeof answer);
        assert_true(variable_main(in, out) < 0);
        fclose(in);
        fclose(out);
        assert_memory_equal(answer, "failed\t", 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(writes),
        cmocka_unit_test(refuses),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(sees_locals),
#endif
        cmocka_unit_test(understands_only_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
