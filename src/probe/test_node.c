/* SPDX-License-Identifier: Apache-2.0 */
/* The members of node_get_info against other sources of the same facts. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/node.h"

enum { MEMBERS = 64, PAGE = 4096 };

struct answer {
    char *text;
    size_t count;
    char *member[MEMBERS];
};

/* Splits at the commas outside of strings and lists. */
static struct answer ask(struct node_probe *probe, uint64_t flags)
{
    struct buf out = BUF_INIT;
    struct err err = {0};
    assert_int_equal(node_probe_print(probe, flags, &out, &err), 0);
    struct answer answer = {.text = out.data ? out.data : strdup("")};
    int depth = 0;
    bool quoted = false;
    if (out.len)
        answer.member[answer.count++] = answer.text;
    for (char *c = answer.text; *c; c++) {
        if (*c == '"')
            quoted = !quoted;
        else if (*c == '\\')
            c++;
        else if (!quoted && *c == '[')
            depth++;
        else if (!quoted && *c == ']')
            depth--;
        else if (!quoted && !depth && *c == ',') {
            *c = 0;
            assert_true(answer.count < MEMBERS);
            answer.member[answer.count++] = c + 1;
        }
    }
    assert_int_equal(depth, 0);
    assert_false(quoted);
    return answer;
}

static long long whole(const struct answer *answer, size_t i)
{
    char *end;
    assert_true(i < answer->count);
    long long number = strtoll(answer->member[i], &end, 10);
    assert_true(end != answer->member[i] && !*end);
    return number;
}

static double real(const struct answer *answer, size_t i)
{
    char *end;
    assert_true(i < answer->count);
    assert_non_null(strpbrk(answer->member[i], ".e"));
    double number = strtod(answer->member[i], &end);
    assert_true(!*end);
    return number;
}

static void assert_text(const struct answer *answer, size_t i, const char *text)
{
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%s\"", text);
    assert_string_equal(answer->member[i], quoted);
}

static void test_groups(void **state)
{
    static const size_t counts[] = {1, 5, 6, 3, 5, 2, 1, 3, 8, 3, 6, 6, 7, 4};
    struct node_probe *probe = *state;
    size_t all = 0;
    for (int bit = 0; bit < 14; bit++) {
        struct answer answer = ask(probe, UINT64_C(1) << bit);
        if (answer.count != counts[bit])
            fail_msg("bit %d has %zu members: %s", bit, answer.count, answer.text);
        all += counts[bit];
        free(answer.text);
    }
    struct answer answer = ask(probe, 0x3fff);
    assert_int_equal(answer.count, all);
    free(answer.text);
    answer = ask(probe, 0);
    assert_int_equal(answer.count, 0);
    free(answer.text);
    struct buf out = BUF_INIT;
    struct err err = {0};
    assert_int_equal(node_probe_print(probe, 1 << 15, &out, &err), -EINVAL);
    assert_non_null(strstr(err.text, "0x8000"));
    buf_done(&out);
}

/* A new probe knows nothing that takes long, and does not find it out. */
static void test_at_hand(void **state)
{
    struct node_probe *probe;
    (void)state;
    assert_int_equal(node_probe_new(&probe), 0);
    assert_int_equal(node_probe_wait_ns(probe, 0x1f00 | NODE_AT_HAND), 0);
    struct answer answer = ask(probe, 1 << 2 | 1 << 3 | 1 << 8 | NODE_AT_HAND);
    assert_int_equal(answer.count, 6 + 3 + 8);
    assert_true(whole(&answer, 1) > 0); /* processors */
    assert_true(real(&answer, 4) == -1 && real(&answer, 5) == -1 && real(&answer, 8) == -1);
    assert_int_equal(whole(&answer, 9 + 3), -1);
    free(answer.text);
    answer = ask(probe, 1 << 8);
    long long sleeping = whole(&answer, 3);
    assert_true(sleeping > 0);
    free(answer.text);
    answer = ask(probe, 1 << 8 | NODE_AT_HAND);
    assert_int_equal(whole(&answer, 3), sleeping);
    free(answer.text);
    node_probe_free(probe);
}

static void test_system(void **state)
{
    struct node_probe *probe = *state;
    struct utsname name;
    uname(&name);
    struct answer answer = ask(probe, 3);
    assert_text(&answer, 0, name.nodename);
    assert_text(&answer, 1, "Linux");
    assert_text(&answer, 2, name.version);
    assert_text(&answer, 3, name.release);
    assert_text(&answer, 4, name.nodename);
    long long up = (long long)(clock_ns(CLOCK_BOOTTIME) / NS_PER_SECOND);
    assert_true(llabs(time(NULL) - up - whole(&answer, 5)) <= 2);
    free(answer.text);
}

static void test_hardware(void **state)
{
    struct node_probe *probe = *state;
    struct utsname name;
    uname(&name);
    struct answer answer = ask(probe, 1 << 2 | 1 << 3);
    assert_text(&answer, 0, name.machine);
    assert_true(whole(&answer, 1) >= sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(whole(&answer, 2) >= 100);
    assert_true(whole(&answer, 3) == -1 || whole(&answer, 3) > 100);
    for (size_t i = 4; i <= 5; i++)
        assert_true(real(&answer, i) > 1 && real(&answer, i) < 1e6);
    assert_int_equal(whole(&answer, 6), sysconf(_SC_PHYS_PAGES));
    assert_int_equal(whole(&answer, 7), sysconf(_SC_PAGESIZE));
    assert_true(real(&answer, 8) > 10 && real(&answer, 8) < 1e7);
    /* measured once */
    struct answer again = ask(probe, 1 << 2 | 1 << 3);
    for (size_t i = 4; i <= 8; i++)
        assert_string_equal(answer.member[i], again.member[i]);
    free(answer.text);
    free(again.text);
}

static void test_disks(void **state)
{
    struct node_probe *probe = *state;
    struct statvfs tmp;
    assert_int_equal(statvfs("/tmp", &tmp), 0);
    struct answer answer = ask(probe, 1 << 4 | 1 << 9);
    assert_true(whole(&answer, 0) >= 0);
    assert_true((whole(&answer, 0) == 0) == (whole(&answer, 1) == 0));
    assert_int_equal(whole(&answer, 2), tmp.f_blocks * tmp.f_frsize / (unsigned long)sysconf(_SC_PAGESIZE));
    assert_true(whole(&answer, 3) >= 0);
    assert_true(real(&answer, 4) == -1);
    /* memory: free and used are all; free swap is a part of the swap */
    assert_true(whole(&answer, 5) > 0 && whole(&answer, 6) > 0);
    assert_true(llabs(whole(&answer, 5) + whole(&answer, 6) - sysconf(_SC_PHYS_PAGES)) <= 1);
    assert_true(whole(&answer, 7) >= 0 && whole(&answer, 7) <= whole(&answer, 3));
    free(answer.text);
}

static void test_links(void **state)
{
    struct answer answer = ask(*state, 1 << 5);
    long long links = whole(&answer, 0), commas = 0;
    assert_int_equal(answer.member[1][0], '[');
    for (const char *c = answer.member[1]; *c; c++)
        commas += *c == ',';
    assert_int_equal(commas, links ? links * 4 - 1 : 0);
    assert_null(strstr(answer.member[1], "\"127.0.0.1\""));
    free(answer.text);
}

static void test_load(void **state)
{
    struct answer answer = ask(*state, 1 << 8);
    assert_true(whole(&answer, 0) >= 0);
    assert_true(whole(&answer, 3) >= 1); /* whoever started us waits */
    FILE *file = fopen("/proc/loadavg", "r");
    double load[3];
    assert_int_equal(fscanf(file, "%lf %lf %lf", &load[0], &load[1], &load[2]), 3);
    fclose(file);
    for (size_t i = 0; i < 3; i++)
        assert_true(real(&answer, 5 + i) >= load[i] - 1 && real(&answer, 5 + i) <= load[i] + 1);
    free(answer.text);
}

/* For a good second: sleeps of a millisecond, each with a packet to ourselves. */
static void test_rates(void **state)
{
    struct node_probe *probe;
    uint64_t start = clock_now_ns(); /* of the interval, or before */
    assert_int_equal(node_probe_new(&probe), 0);
    struct answer answer = ask(probe, 1 << 7);
    if (clock_now_ns() - start < NS_PER_SECOND / 10)
        assert_int_equal(whole(&answer, 0), -1); /* no interval yet */
    free(answer.text);
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof own;
    assert_int_equal(bind(udp, (struct sockaddr *)&own, len), 0);
    assert_int_equal(getsockname(udp, (struct sockaddr *)&own, &len), 0);
    long rounds = 0, sent = 0;
    uint64_t end = clock_now_ns() + NS_PER_SECOND + NS_PER_SECOND / 20;
    for (char byte; clock_now_ns() < end; rounds++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        sent += sendto(udp, "x", 1, 0, (struct sockaddr *)&own, len) == 1;
        while (recv(udp, &byte, 1, 0) == 1)
            ;
    }
    answer = ask(probe, 1 << 7 | 1 << 10 | 1 << 11 | 1 << 12);
    double seconds = (double)(clock_now_ns() - start) / 1e9;
    close(udp);
    assert_true(whole(&answer, 0) >= (long long)(0.9 * (double)rounds / seconds));
    assert_int_equal(whole(&answer, 1), -1);
    for (size_t i = 3; i < 6; i++)
        assert_int_equal(whole(&answer, i), 0);
    assert_true(llabs(whole(&answer, 6) - whole(&answer, 7) - whole(&answer, 8)) <= 1);
    assert_true(whole(&answer, 9) >= 0 && whole(&answer, 10) >= 0);
    assert_true(whole(&answer, 15) >= (long long)(0.9 * (double)sent / seconds));
    assert_true(llabs(whole(&answer, 16) - whole(&answer, 17) - whole(&answer, 18)) <= 1);
    free(answer.text);
    node_probe_free(probe);
}

static int make(void **state)
{
    struct node_probe *probe;
    int r = node_probe_new(&probe);
    *state = probe;
    return r;
}

static int unmake(void **state)
{
    node_probe_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),  cmocka_unit_test(test_system), cmocka_unit_test(test_hardware),
        cmocka_unit_test(test_at_hand), cmocka_unit_test(test_disks),  cmocka_unit_test(test_links),
        cmocka_unit_test(test_load),    cmocka_unit_test(test_rates),
    };
    return cmocka_run_group_tests_name("node", tests, make, unmake);
}
