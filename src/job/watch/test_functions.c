/* SPDX-License-Identifier: Apache-2.0 */
/* What answers of the monitor add up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "job/watch/functions.h"

static struct recorder recorder;
static struct function_watch functions;
static struct buf said; /* the last record */

static void on_recorded(void *ctx, enum record_type type, json_t *record)
{
    assert_int_equal(type, RECORD_functions);
    buf_clear(&said);
    record_text(&said, record);
}

static int start(void **state)
{
    recorder = (struct recorder){.recorded = on_recorded, .writer = {.fd = -1}, .started = true};
    functions = (struct function_watch){.recorder = &recorder};
    return job_model_init(&recorder.model, 0);
}

static int stop(void **state)
{
    functions_done(&functions);
    assert_null(functions.processes);
    assert_int_equal(functions.known, 0);
    job_model_done(&recorder.model);
    buf_done(&said);
    return 0;
}

/* The answer of up to two processes; NULL: it is not there. "" has no record. */
static void check(double seconds, const char *first, const char *second, const char *expected)
{
    char one[1024], two[1024], token_one[] = "p_1_1", token_two[] = "p_1_2", none[] = "";
    snprintf(one, sizeof one, "[%s]", first ? first : "");
    snprintf(two, sizeof two, "[%s]", second ? second : "");
    Omis_object_result whole[] = {{none, OMIS_OK, none}, {0}}, both[3] = {{0}};
    size_t count = 0;
    if (first)
        both[count++] = (Omis_object_result){token_one, OMIS_OK, one};
    if (second)
        both[count++] = (Omis_object_result){token_two, OMIS_OK, two};
    Omis_service_result reply[] = {whole, both, NULL};
    buf_clear(&said);
    functions_take(&functions, reply, (uint64_t)(seconds * 1e9));
    assert_string_equal(said.data ? said.data : "", expected);
}

#define ROW(name, calls, self) "\"" name "\",\"a.c\",1," calls ",0," self ",1,2"

static void adds_up(void **state)
{
    check(1, ROW("f", "10", "500"), NULL, "10 calls: f 10 times, 500 ns");
    check(2, ROW("f", "10", "500"), NULL, "");
    check(3, ROW("f", "12", "600"), ROW("f", "1", "50"), "3 calls: f 3 times, 150 ns");
    check(4, ROW("f", "12", "600"), ROW("f", "1", "50") "," ROW("g", "4", "-1"), "4 calls: g 4 times, 0 ns");
    check(5, ROW("f", "12", "700"), NULL, ""); /* only goes on: told seldom, and not forgotten */
    check(20, ROW("f", "12", "800"), NULL, "0 calls: f 0 times, 200 ns");
    check(21, ROW("f", "3", "10"), NULL, ""); /* another program of the same process */
    check(22, ROW("f", "4", "20"), NULL, "1 call: f 1 time, 10 ns");
}

/* A monitor that was started again counts from elsewhere; a refused request says nothing of any process. */
static void starts_again(void **state)
{
    check(1, ROW("f", "10", "500"), NULL, "10 calls: f 10 times, 500 ns");
    functions_lost(&functions);
    check(2, ROW("f", "90", "900"), NULL, "");
    check(3, ROW("f", "91", "950"), NULL, "1 call: f 1 time, 50 ns");
    char none[] = "", why[] = "busy";
    Omis_object_result refused[] = {{none, OMIS_INTERNAL_ERROR, why}, {0}};
    Omis_service_result reply[] = {refused, NULL};
    functions_take(&functions, reply, UINT64_C(4000000000));
    check(5, ROW("f", "92", "960"), NULL, "1 call: f 1 time, 10 ns");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(adds_up), TEST(starts_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
