/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on other nodes that do not answer: who reads a list is told, and does not wait for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "cli/jobs/ranks.h"

static void test_refused_by_all(void **state)
{
    static char none[] = "", why[] = "mpi_get_activity takes 0 to 1 argument";
    Omis_object_result whole[] = {{none, OMIS_TYPE_MISMATCH, why}, {0}};
    Omis_service_result services[] = {whole, NULL};
    _cleanup_(buf_done) struct buf missing = BUF_INIT;
    struct rank_list ranks = {0};
    const struct job_nodes nodes = {0};
    struct omis_reader *reader = omis_reader_new(services);
    (void)state;
    ranks_take_elsewhere(&ranks, "/jobs/1", reader, &nodes, &missing);
    assert_non_null(missing.data);
    assert_non_null(strstr(missing.data, "its other nodes do not answer: "));
    assert_non_null(strstr(missing.data, why));
    assert_int_equal(ranks.count, 0);
    omis_reader_free(reader);
    ranks_done(&ranks);
}

static void test_timeout_is_for_all_jobs(void **state)
{
    char job[] = "/tmp/test-ranks-XXXXXX", parts[sizeof job + 8];
    _cleanup_(buf_done) struct buf missing = BUF_INIT;
    struct rank_list ranks = {.asks_until_ns = 1};
    (void)state;
    assert_non_null(mkdtemp(job));
    ranks_ask_elsewhere(&ranks, job, &missing); /* it has no other nodes */
    assert_int_equal(missing.len, 0);
    snprintf(parts, sizeof parts, "%s/parts", job);
    assert_int_equal(mkdir(parts, 0700), 0);
    ranks_ask_elsewhere(&ranks, job, &missing);
    rmdir(parts);
    rmdir(job);
    assert_string_equal(missing.data, "its other nodes were not asked: those of other jobs took too long");
    ranks_done(&ranks);
}

static double recent(uint64_t computed, uint64_t communicated, uint64_t then_computed, uint64_t then_communicated)
{
    const struct rank_now was = {.compute_ns = computed, .communicate_ns = communicated};
    const struct rank_now now = {.compute_ns = then_computed, .communicate_ns = then_communicated};
    return ranks_recent(&now, &was);
}

/* A clock that is set by an hour makes nothing old or new. */
static void test_age(void **state)
{
    enum { HOUR = 3600 };
    struct rank_age age = {0};
    rank_age_look(&age, 100, HOUR + 2, 28, UINT64_C(1000) * NS_PER_SECOND); /* of a job that runs for 28 s */
    assert_true(age.seconds > 27.9 && age.seconds < 28.1);
    rank_age_look(&age, 100, HOUR + 3, 29, UINT64_C(1001) * NS_PER_SECOND);
    assert_true(age.seconds > 28.9 && age.seconds < 29.1);
    rank_age_look(&age, 101, HOUR + 4, 30, UINT64_C(1002) * NS_PER_SECOND); /* it was written since the last look */
    assert_true(age.seconds > 0.9 && age.seconds < 1.1);
    rank_age_look(&age, 101, 0, 40, UINT64_C(1012) * NS_PER_SECOND); /* put back */
    assert_true(age.seconds > 10.9 && age.seconds < 11.1);
    rank_age_look(&age, 102, 0.5, 41, UINT64_C(1013) * NS_PER_SECOND);
    assert_true(age.seconds > 0.4 && age.seconds < 0.6);
}

static void test_recent(void **state)
{
    (void)state;
    assert_true(recent(1000, 1000, 2000, 4000) == 0.75);
    assert_true(recent(1000, 1000, 999, 4000) == 1); /* it waits all the time */
    assert_true(recent(1000, 1000, 4000, 998) == 0);
    assert_true(recent(1000, 1000, 500, 700) < 0); /* counted anew */
    assert_true(recent(1000, 1000, 1000, 1000) < 0);
}

static void test_outside(void **state)
{
    static struct rank_now list[] = {
        {.state = "computing", .call = "", .library = "Open MPI"},
        {.state = "computing", .call = "", .outside = WAITING_PIPE},
        {.state = "computing", .call = "", .wait = {.kind = THREAD_WAITS_OTHERS, .other = 7}},
        {.state = "in_call", .call = "MPI_Barrier"}};
    struct buf text = BUF_INIT;
    ranks_summary(&text, list, sizeof list / sizeof *list, false);
    buf_putc(&text, '\0');
    assert_non_null(strstr(text.data, "1 computing, 1 waiting for a pipe, 1 waiting for a mutex, 1 in MPI_Barrier"));
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_age), cmocka_unit_test(test_recent),
                                       cmocka_unit_test(test_outside), cmocka_unit_test(test_refused_by_all),
                                       cmocka_unit_test(test_timeout_is_for_all_jobs)};
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
