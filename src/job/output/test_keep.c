/* SPDX-License-Identifier: Apache-2.0 */
/* The first and the last of a stream are kept, in files that another one goes on with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "job/output/keep.h"
#include "shm/waits.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/scry-keep-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/output/%s", dir, name);
    return path;
}

static uint64_t size_of(const char *name)
{
    struct stat status;
    return stat(path_of(name), &status) == 0 ? (uint64_t)status.st_size : UINT64_MAX;
}

static unsigned files(void)
{
    unsigned count = 0;
    DIR *folder = opendir(path_of(""));
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void test_ring(void **state)
{
    enum { PIECE = 48 << 10 };
    static char bytes[PIECE];
    struct keep keep;
    uint64_t total = 0;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i += 8)
        memcpy(bytes + i, "1234567\n", 8);
    assert_int_equal(keep_open(&keep, dir, "stdout", 8 << 20), 0);
    assert_int_equal(size_of("stdout.0000000000000000"), 0); /* who reads it finds it */
    for (; total < 30 << 20; total += PIECE) {
        assert_int_equal(keep_put(&keep, bytes, PIECE, 0), 0);
        if (total / PIECE % 50)
            continue;
        keep_done(&keep); /* another keeper */
        assert_int_equal(keep_open(&keep, dir, "stdout", 8 << 20), 0);
        assert_int_equal(keep.at, total + PIECE);
    }
    keep_done(&keep);
    assert_int_equal(size_of("stdout.0000000000000000"), KEEP_FIRST);
    assert_int_equal(size_of("stdout.0000000001900000"), 4 << 20);
    assert_int_equal(size_of("stdout.0000000001d00000"), total - 0x1d00000);
    assert_int_equal(files(), 4); /* with the times */
}

static void test_times(void **state)
{
    struct keep keep;
    uint64_t now = 1700000000 * (uint64_t)NS_PER_SECOND, last = 0;
    (void)state;
    assert_int_equal(keep_open(&keep, dir, "stderr", KEEP_SEGMENT), 0);
    for (unsigned i = 0; i < 70000; i++, now += KEEP_TIMES_MS / 2 * WAITS_NS_PER_MS)
        assert_int_equal(keep_put(&keep, "0123456789abcdef", 16, now), 0);
    keep_done(&keep);
    assert_true(size_of("stderr.times") <= KEEP_TIMES_MOST);
    FILE *file = fopen(path_of("stderr.times"), "r");
    uint64_t at;
    double seconds;
    unsigned lines = 0;
    while (fscanf(file, "%" SCNx64 " %lf\n", &at, &seconds) == 2) {
        assert_true(!lines || at >= last + 2 * 16);
        assert_true(seconds >= 1700000000 + (double)(at / 16) * KEEP_TIMES_MS / 2000 - 0.001);
        assert_true(seconds <= 1700000000 + (double)(at / 16) * KEEP_TIMES_MS / 2000 + 0.001);
        last = at;
        lines++;
    }
    assert_true(feof(file) && lines > 10000);
    fclose(file);
}

/* Somebody has put a link where the next segment will be. */
static void test_link(void **state)
{
    struct keep keep;
    static char bytes[KEEP_FIRST];
    (void)state;
    assert_int_equal(keep_open(&keep, dir, "stdout", KEEP_SEGMENT), 0);
    assert_int_equal(symlink("/dev/null", path_of("stdout.0000000000100000")), 0);
    assert_int_equal(keep_put(&keep, bytes, sizeof bytes, 0), 0);
    assert_true(keep_put(&keep, bytes, 1, 0) < 0);
    keep_done(&keep);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_ring, setup, teardown),
    cmocka_unit_test_setup_teardown(test_times, setup, teardown),
    cmocka_unit_test_setup_teardown(test_link, setup, teardown),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
