/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/topics.h"

enum { PART = 300 << 10 };
static unsigned whole;

static int on_whole(void *ctx, const char *path, int64_t version, struct span bytes)
{
    (void)ctx, (void)path, (void)version, (void)bytes;
    whole++;
    return 0;
}

/* A part of `count`, with `bytes` of text. */
static int put(struct parts *parts, const char *path, int version, int part, int count, size_t bytes)
{
    static char block[PART];
    struct buf text = BUF_INIT;
    buf_printf(&text, "{\"path\":\"%s\",\"version\":%d,\"part\":%d,\"parts\":%d,\"bytes\":%zu,\"text\":\"", path,
               version, part, count, bytes * (size_t)count);
    memset(block, 'x', sizeof block);
    buf_append(&text, block, bytes);
    buf_puts(&text, "\"}");
    int code = parts_take(parts, span_of(text.data, text.len), on_whole, NULL);
    buf_done(&text);
    return code;
}

static void files_come_in_parts(void **state)
{
    struct parts parts = {0};
    (void)state;
    whole = 0;
    assert_int_equal(put(&parts, "a", 1, 1, 2, 5), 0);
    assert_int_equal(put(&parts, "a", 1, 1, 2, 5), 0);
    assert_int_equal(whole, 0);
    assert_int_equal(put(&parts, "a", 1, 0, 2, 5), 0);
    assert_int_equal(whole, 1);
    assert_int_equal(put(&parts, "a", 1, 0, 2, 5), 0); /* known */
    assert_int_equal(put(&parts, "a", 1, 0, 3, 5), 0);
    assert_int_equal(whole, 1);
    assert_int_equal(put(&parts, "a", 2, 0, 1, 5), 0);
    assert_int_equal(whole, 2);
    assert_int_equal(parts.held_bytes, 0);
    assert_int_equal(put(&parts, "b", 1, 2, 2, 5), -EBADMSG);
    assert_int_equal(put(&parts, "b", 1, 0, 1000, 5), -EFBIG);
    parts_done(&parts);
}

/* Files that never become whole: of one job, and of all jobs that somebody invents. */
static void memory_has_limits(void **state)
{
    enum { JOBS = 8 };
    uint64_t shared = 0;
    struct parts jobs[JOBS] = {0};
    char path[2000];
    (void)state;
    whole = 0;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(put(&jobs[0], path, 1, 0, 1, 1), -EFBIG);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i].shared_bytes = &shared;
        int code = 0;
        for (int file = 0; code == 0 && file < 1000; file++) {
            snprintf(path, sizeof path, "stats/%d", file);
            code = put(&jobs[i], path, 1, 0, 2, PART);
        }
        assert_int_equal(code, -EFBIG);
        assert_true(jobs[i].held_bytes < (33 << 20));
    }
    assert_true(shared < (129 << 20));
    assert_int_equal(put(&jobs[JOBS - 1], "small", 1, 0, 1, 10), 0); /* that need not wait for others */
    assert_int_equal(whole, 1);
    for (size_t i = 0; i < JOBS; i++)
        parts_done(&jobs[i]);
    assert_int_equal(shared, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_in_parts),
        cmocka_unit_test(memory_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
