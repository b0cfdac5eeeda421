/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way to the disk: none is lost or changes its place, however much waits. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/record/writer.h"
#include "jobdir/record/spool.h"

enum { RECORDS = 20000 };

static char dir[64], path[128];

static int start(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/scry-writer-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/spool", dir);
    return mkdir(path, 0700);
}

static int stop(void **state)
{
    snprintf(path, sizeof path, "%s/spool/records.jsonl", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/spool", dir);
    rmdir(path);
    return rmdir(dir);
}

/* Half of them as lines that were read elsewhere. The process that writes is stopped: they wait in the socket, and in
 * memory, the last message of which was sent in part. */
static void keeps_the_order(void **state)
{
    struct writer writer;
    struct spool_reader reader;
    struct err err;
    assert_int_equal(writer_start(&writer, dir, "test", UINT64_C(1) << 30), 0);
    assert_true(writer_wait(&writer));
    assert_int_equal(kill(writer.pid, SIGSTOP), 0);
    for (int i = 0; i < RECORDS; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"type\":\"x\",\"i\":%d}", i);
        if (i % 2)
            writer_put_line(&writer, span_str(line), i / 4.0);
        else
            writer_put_take(&writer, json_pack("{s:s, s:i, s:f}", "type", "x", "i", i, "t", i / 4.0));
        if (i % 7 == 0)
            writer_push(&writer);
    }
    assert_true(writer_wait(&writer)); /* continues it, too */
    assert_int_equal(writer_lost(&writer), 0);
    assert_int_equal(spool_reader_open(&reader, dir, &err), 0);
    json_decref(spool_reader_next(&reader));
    for (int i = 0; i < RECORDS; i++) {
        json_t *record = spool_reader_next(&reader);
        assert_int_equal(json_integer_value(json_object_get(record, "seq")), i + 1);
        assert_int_equal(json_integer_value(json_object_get(record, "i")), i);
        assert_true(json_number_value(json_object_get(record, "t")) == i / 4.0);
        json_decref(record);
    }
    assert_null(spool_reader_next(&reader));
    assert_int_equal(reader.unread, 0);
    spool_reader_close(&reader);
    writer_end(&writer);
    writer_reap(&writer);
}

/* What is no object with members is no record. */
static void counts_what_is_none(void **state)
{
    struct writer writer;
    assert_int_equal(writer_start(&writer, dir, "test", UINT64_C(1) << 30), 0);
    writer_put_line(&writer, span_str(""), 0);
    writer_put_take(&writer, NULL);
    assert_int_equal(writer_lost(&writer), 2);
    writer_end(&writer);
    writer_reap(&writer);
    writer_put_take(&writer, json_pack("{s:i}", "i", 1));
    assert_int_equal(writer_lost(&writer), 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

/* The monitor may tell of the command's end before scry run has waited for it. */
static void status_before_it_is_waited_for(void **state)
{
    struct recorder recorder = {.command = 0};
    for (int signo = 0; signo <= SIGKILL; signo += SIGKILL) {
        siginfo_t gone;
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            raise(signo);
            _exit(3);
        }
        assert_int_equal(waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOWAIT), 0);
        int told = recorder_status(&recorder, pid);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(told, status);
        assert_int_equal(recorder_status(&recorder, pid), JOB_STATUS_UNKNOWN);
        recorder.command = pid;
        recorder.command_status = status;
        assert_int_equal(recorder_status(&recorder, pid), status);
    }
    assert_int_equal(recorder_status(&recorder, getpid()), JOB_STATUS_UNKNOWN);
}

/* And before the kernel lets anybody wait for it: it tells of an end when the last thread has begun to leave. */
static void status_while_it_is_ending(void **state)
{
    struct recorder recorder = {.command = 0};
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(fds[1]);
        _exit(read(fds[0], &byte, 1) == 0 ? 3 : 4);
    }
    close(fds[0]);
    close(fds[1]);
    int told = recorder_status(&recorder, pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(told, status);
}

/* ---- when a job is sampled, with a clock of the test's own ---- */

enum { START_NS = 123456789, NS_PER_MS = 1000000 };

static uint64_t next_ms(double now_ms, double period)
{
    uint64_t next = sampling_next_ns(START_NS, START_NS + (uint64_t)(now_ms * NS_PER_MS), period) - START_NS;
    return (next + NS_PER_MS / 2) / NS_PER_MS;
}

static void test_close_together_at_first(void **state)
{
    assert_int_equal(next_ms(0, 1), 20);
    assert_int_equal(next_ms(20, 1), 40);
    assert_int_equal(next_ms(40.5, 1), 81);
    assert_int_equal(next_ms(640, 1), 1280);
    assert_int_equal(next_ms(0, 0.01), 10); /* a period that is shorter still */
}

static void test_at_multiples_of_the_period(void **state)
{
    assert_int_equal(next_ms(1280, 1), 2000);
    assert_int_equal(next_ms(2000.1, 1), 3000);
    assert_int_equal(next_ms(600000, 0.5), 600500);
}

static void test_missed_ones_are_not_made_up_for(void **state)
{
    assert_int_equal(next_ms(2000, 1), 3000);
    assert_int_equal(next_ms(7800, 1), 8000); /* five were missed: stopped, or without a processor */
}

/* Time goes on, however the figures are rounded. */
static void test_always_later(void **state)
{
    static const double periods[] = {0.001, 0.01, 0.1, 1.0 / 3, 1, 60};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        uint64_t now = START_NS;
        for (unsigned n = 0; n < 2000; n++) {
            uint64_t next = sampling_next_ns(START_NS, now, periods[i]);
            assert_true(next > now);
            assert_true(next - now <= (uint64_t)(periods[i] * NS_PER_SECOND) + 1);
            now = next;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keeps_the_order),
        cmocka_unit_test(status_before_it_is_waited_for),
        cmocka_unit_test(status_while_it_is_ending),
        TEST(counts_what_is_none),
        cmocka_unit_test(test_close_together_at_first),
        cmocka_unit_test(test_at_multiples_of_the_period),
        cmocka_unit_test(test_missed_ones_are_not_made_up_for),
        cmocka_unit_test(test_always_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
