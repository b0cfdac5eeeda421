/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <math.h>

#include <cmocka.h>

#include "store/store.h"

static char place[] = "/tmp/scry-store-XXXXXX";

static struct store *open_store(void)
{
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_open(&store, place, DB_WRITE, &err), 0);
    return store;
}

static int put(struct store *store, struct stored_job *job, const char *line)
{
    return store_put_record(store, job, "job", span_str(line));
}

static int64_t count(struct store *store, const char *sql)
{
    int64_t number = -1;
    assert_int_equal(db_query_integer(store_db(store), sql, NULL, 0, &number, NULL), 0);
    return number;
}

static void test_ranges(void **state)
{
    struct ranges ranges = {.changed = INT64_MAX};
    static const int64_t numbers[] = {5, 7, 6, 0, 2, 1, 9};
    int64_t behind, added;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_int_equal(ranges_add(&ranges, numbers[i], "2026-01-01"), 0);
        assert_int_equal(ranges_add(&ranges, numbers[i], "2026-01-02"), -EEXIST);
    }
    assert_int_equal(ranges.count, 3);
    assert_int_equal(ranges_missing(&ranges, 0, 20, &behind), 3);
    assert_int_equal(behind, 5);
    assert_int_equal(ranges_missing(&ranges, 5, 20, &behind), 8);
    assert_int_equal(behind, 9);
    assert_int_equal(ranges_missing(&ranges, 0, 3, &behind), 3);
    assert_int_equal(ranges_add(&ranges, 3, "2026-01-02"), 0); /* another day is another row */
    assert_int_equal(ranges.count, 4);
    assert_int_equal(ranges_fill(&ranges, 0, 12, &added), 0);
    assert_int_equal(added, 4);
    assert_int_equal(ranges_missing(&ranges, 0, 20, &behind), 12);
    for (int64_t i = 0; i < RANGES_MOST; i++)
        ranges_add(&ranges, 100 + 2 * i, "2026-01-01");
    assert_int_equal(ranges_add(&ranges, 99999999, "2026-01-01"), -E2BIG);
    ranges_done(&ranges);
}

static void test_once(void **state)
{
    struct store *store = open_store();
    struct stored_job *job = store_job(store, "ann", "one");
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(put(store, job, "{\"seq\":1,\"t\":0.5,\"type\":\"warning\",\"kind\":\"k\",\"text\":\"w\"}"),
                         0);
        assert_int_equal(put(store, job, "{\"seq\":0,\"t\":0,\"type\":\"spool\"}"), 0);
        if (turn == 1) { /* also for somebody who knows nothing of it */
            store_close(store);
            store = open_store();
            job = store_job(store, "ann", "one");
            continue;
        }
        assert_int_equal(store_flush(store, NULL), 0);
    }
    assert_int_equal(job->row.records, 2);
    assert_int_equal(job->row.warnings, 1);
    assert_int_equal(job->row.last_seq, 1);
    assert_int_equal(count(store, "SELECT sum(records) FROM minutes"), 2);
    store_close(store);
}

/* Two writers of one job: each sees what the other has written. */
static void test_two_writers(void **state)
{
    struct store *stores[2] = {open_store(), open_store()};
    for (int i = 0; i < 10; i++) {
        struct stored_job *job = store_job(stores[i % 2], "ann", "two");
        char line[100];
        for (int seq = 0; seq <= i; seq++) {
            snprintf(line, sizeof line, "{\"seq\":%d,\"t\":%d,\"type\":\"untraced\",\"text\":\"x\"}", seq, seq);
            assert_int_equal(put(stores[i % 2], job, line), 0);
        }
        assert_int_equal(store_flush(stores[i % 2], NULL), 0);
        assert_int_equal(job->row.records, i + 1);
    }
    assert_int_equal(
        count(stores[0], "SELECT count(*) FROM ranges JOIN jobs ON jobs.job = ranges.job WHERE id = 'two'"), 1);
    store_close(stores[0]);
    store_close(stores[1]);
}

static void test_foreign(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{",
                                      "{}",
                                      "{\"seq\":1,\"t\":0}",
                                      "{\"seq\":-1,\"t\":0,\"type\":\"x\"}",
                                      "{\"seq\":1.5,\"t\":0,\"type\":\"x\"}",
                                      "{\"seq\":1,\"t\":-1,\"type\":\"x\"}",
                                      "{\"seq\":9007199254740992,\"t\":0,\"type\":\"x\"}",
                                      "{\"seq\":1,\"t\":1e12,\"type\":\"x\"}",
                                      "{\"seq\":1,\"t\":0,\"type\":7}"};
    const char *evil = "'); DROP TABLE jobs; --";
    struct store *store = open_store();
    struct stored_job *job = store_job(store, evil, "\xff\x01/..");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(put(store, job, bad[i]), -EBADMSG);
    assert_int_equal(
        put(store, job, "{\"seq\":0,\"t\":0,\"type\":\"'); DROP TABLE jobs; --\",\"job\":\"other\",\"stream\":\"no\"}"),
        0);
    assert_int_equal(
        put(store, job,
            "{\"seq\":1,\"t\":0,\"type\":\"end\",\"wall_seconds\":1e308,\"exit_code\":-5,\"cpu_seconds\":1e308}"),
        0);
    assert_int_equal(put(store, job, "{\"seq\":2,\"t\":0,\"type\":\"node\",\"cpus\":-7,\"memory_bytes\":\"x\"}"), 0);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.refused, sizeof bad / sizeof *bad);
    assert_int_equal(job->row.records, 3);
    assert_true(isnan(job->row.wall_seconds));
    struct store_found found;
    assert_int_equal(store_find(store, evil, "ann", &found, NULL), -ENOENT);
    assert_int_equal(store_find(store, "' OR 1=1 --", "ann", &found, NULL), -ENOENT);
    assert_int_equal(store_find(store, "one", "bob", &found, NULL), 0);
    assert_string_equal(found.owner, "ann");
    store_close(store);
}

/* One beat says it lives; one that was kept by the broker does not. */
/* A control group may be older than the job: what it has counted before is none of the job's. */
static void test_control_group(void **state)
{
    struct store *store = open_store();
    struct stored_job *job = store_job(store, "ann", "group");
    assert_int_equal(put(store, job,
                         "{\"seq\":0,\"t\":1,\"type\":\"health\",\"cgroup\":{\"version\":2,\"oom_kills\":7,"
                         "\"memory_peak_bytes\":500,\"job_oom_kills\":0}}"),
                     0);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.oom_kills, 0);
    assert_int_equal(job->row.memory_peak_bytes, ROW_NULL);
    assert_int_equal(put(store, job,
                         "{\"seq\":1,\"t\":2,\"type\":\"health\",\"cgroup\":{\"version\":2,\"oom_kills\":9,"
                         "\"memory_peak_bytes\":600,\"job_oom_kills\":2,\"job_memory_peak_bytes\":600}}"),
                     0);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.oom_kills, 2);
    assert_int_equal(job->row.memory_peak_bytes, 600);
    store_close(store);
}

static void test_heard(void **state)
{
    struct store *store = open_store();
    struct stored_job *job = store_job(store, "ann", "heard");
    json_t *beat =
        json_pack("{s:b, s:f, s:i, s:i}", "connected", 1, "time", 5000.0, "lease_seconds", 15, "last_seq", 7);
    store_put_beat(store, job, beat, -1000);
    store_put_beat(store, job, beat, 2000);
    store_put_beat(store, job, beat, -3000);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_float_equal(job->row.heard, 2000, 0);
    assert_float_equal(job->row.clock, 3000, 0);
    assert_int_equal(job->row.known_seq, 7);
    store_put_complete(store, job);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.complete, 0); /* 0 to 7 are missing */
    store_put_lost(store, job, 0, 8);
    store_put_complete(store, job);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.complete, 1);
    assert_int_equal(job->row.lost, 8);
    json_decref(beat);
    store_close(store);
}

/* The signed last state of a job says how many records there are, whatever others have said; also with all ranges full. */
static void test_signed_end(void **state)
{
    for (int many = 0; many < 2; many++) {
        struct store *store = open_store();
        struct stored_job *job = store_job(store, "ann", many ? "holes" : "far");
        char line[100];
        int64_t behind;
        for (int i = 0; i < (many ? RANGES_MOST + 10 : 1); i++) {
            snprintf(line, sizeof line, "{\"seq\":%d,\"t\":0,\"type\":\"x\"}", many ? 100 + 2 * i : 2000000);
            assert_int_equal(put(store, job, line), 0);
        }
        store_put_signed(store, job, SIGNED_NOT);
        json_t *said = json_pack("{s:s, s:i, s:b}", "state", "finished", "last_seq", 149, "complete", 1);
        store_put_state(store, job, said, 1000);
        assert_int_equal(store_flush(store, NULL), 0);
        assert_int_equal(job->row.is_signed, ROW_UNSIGNED);
        assert_true(job->row.known_seq > 2000);
        store_put_signed(store, job, SIGNED_JOB);
        store_put_signed_state(store, job, said, 1000);
        for (int i = 0; i < 150; i++) {
            snprintf(line, sizeof line, "{\"seq\":%d,\"t\":0,\"type\":\"x\"}", i);
            assert_int_equal(put(store, job, line), 0);
        }
        store_put_complete(store, job);
        assert_int_equal(store_flush(store, NULL), 0);
        assert_int_equal(job->row.known_seq, 149);
        assert_int_equal(job->row.last_seq, 149);
        assert_int_equal(job->row.complete, 1);
        assert_int_equal(job->row.is_signed, ROW_SIGNED_PARTLY);
        assert_int_equal(ranges_missing(&job->ranges, 0, 150, &behind), 150);
        assert_int_equal(job->ranges.list[job->ranges.count - 1].behind, 150);
        json_decref(said);
        store_close(store);
    }
    struct store *store = open_store();
    struct stored_job *job = store_job(store, "ann", "signed");
    store_put_signed(store, job, SIGNED_JOB);
    assert_int_equal(put(store, job, "{\"seq\":0,\"t\":0,\"type\":\"x\"}"), 0);
    store_put_signed(store, job, SIGNED_JOB);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.is_signed, ROW_SIGNED);
    store_put_signed(store, job, SIGNED_UNKNOWN); /* the recorder was started again, without its key */
    assert_int_equal(put(store, job, "{\"seq\":1,\"t\":0,\"type\":\"x\"}"), 0);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.is_signed, ROW_SIGNED_PARTLY);
    store_put_signed(store, job, SIGNED_JOB);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.is_signed, ROW_SIGNED_PARTLY);
    job = store_job(store, "ann", "unknown");
    assert_int_equal(put(store, job, "{\"seq\":0,\"t\":0,\"type\":\"x\"}"), 0);
    store_put_signed(store, job, SIGNED_UNKNOWN);
    assert_int_equal(store_flush(store, NULL), 0);
    assert_int_equal(job->row.is_signed, ROW_NULL);
    store_close(store);
}

static int tidy(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", place);
    return system(command);
}

static int make(void **state)
{
    return mkdtemp(place) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),     cmocka_unit_test(test_once),          cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_foreign),    cmocka_unit_test(test_control_group), cmocka_unit_test(test_heard),
        cmocka_unit_test(test_signed_end),
    };
    return cmocka_run_group_tests_name("store", tests, make, tidy);
}
