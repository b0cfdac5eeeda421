/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay keeps of a job's output: read while it grows and is thrown away, with holes, and made up by somebody else. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobdir/record/output.h"
#include "jobdir/record/test_jobdir.h"

static char job[256];

static void path_of(char path[320], const char *name)
{
    snprintf(path, 320, "%s/output/%s", job, name);
}

static void append(const char *name, const char *text)
{
    char path[320];
    path_of(path, name);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void append_at(const char *stream, uint64_t offset, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%016" PRIx64, stream, offset);
    append(name, text);
}

static void make_output(void **state)
{
    char path[320];
    make_job(*state, job, sizeof job);
    path_of(path, "");
    assert_int_equal(mkdir(path, 0700), 0);
}

static void assert_read(struct output_reader *reader, uint64_t gap, const char *text)
{
    char bytes[64];
    uint64_t missing;
    assert_int_equal(output_read(reader, bytes, sizeof bytes, &missing), strlen(text));
    assert_int_equal(missing, gap);
    assert_memory_equal(bytes, text, strlen(text));
}

static void test_segments(void **state)
{
    struct output_reader reader;
    make_output(state);
    assert_int_equal(output_open(&reader, job, OUTPUT_STDERR), -ENOENT);
    append_at("stdout", 3, "def");
    append_at("stdout", 0, "abc");
    append_at("stderr", 0, "E");
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    assert_read(&reader, 0, "abc");
    assert_read(&reader, 0, "def");
    assert_read(&reader, 0, "");
    append_at("stdout", 3, "g"); /* it grows, and then there is another one */
    append_at("stdout", 7, "hi");
    assert_read(&reader, 0, "g");
    assert_read(&reader, 0, "hi");
    assert_read(&reader, 0, "");
    append_at("stdout", 19, "j");
    assert_read(&reader, 10, "j");
    assert_int_equal(reader.offset, 20);
    append_at("stdout", 30, ""); /* just made */
    assert_read(&reader, 10, "");
    append_at("stdout", 30, "k");
    assert_read(&reader, 0, "k");
    output_close(&reader);
}

/* It is removed before it is read, and while it is. */
/* In a mirror a piece that grows is replaced, and the middle goes. */
static void test_mirrored(void **state)
{
    enum { PIECE = 1 << 19 };
    struct output_reader reader;
    struct output_segments segments;
    uint64_t end;
    char from[320], to[320], name[64];
    make_output(state);
    assert_int_equal(output_end(job, OUTPUT_STDERR, &end), -ENOENT);
    append_at("stderr", 0, "ab");
    assert_int_equal(output_open(&reader, job, OUTPUT_STDERR), 0);
    assert_read(&reader, 0, "ab");
    append("new", "abcd");
    path_of(from, "new");
    path_of(to, "stderr.0000000000000000");
    assert_int_equal(rename(from, to), 0);
    assert_read(&reader, 0, "cd");
    assert_read(&reader, 0, "");
    assert_int_equal(output_end(job, OUTPUT_STDERR, &end), 0);
    assert_int_equal(end, 4);
    for (uint64_t at = PIECE; at <= (uint64_t)40 * PIECE; at += PIECE) {
        append_at("stderr", at, "x");
        snprintf(name, sizeof name, OUTPUT_SEGMENT, "stderr", at);
        output_trim(job, name);
    }
    output_trim(job, "other.0000000000000000");
    assert_int_equal(output_segments(reader.dir, "stderr", (uint64_t)7 * PIECE, &segments), 0);
    assert_int_equal(segments.before, PIECE);
    assert_int_equal(segments.after, (uint64_t)8 * PIECE);
    assert_int_equal(segments.count, 2 + 33);
    output_close(&reader);
}

static void test_ring(void **state)
{
    struct output_reader reader;
    char path[320];
    make_output(state);
    append_at("output", 4, "abcd");
    append_at("output", 8, "ef");
    assert_int_equal(output_open(&reader, job, OUTPUT_BOTH), 0);
    assert_read(&reader, 4, "abcd");
    path_of(path, "output.0000000000000004");
    assert_int_equal(unlink(path), 0);
    assert_read(&reader, 0, "ef");
    path_of(path, "output.0000000000000008");
    assert_int_equal(unlink(path), 0);
    assert_read(&reader, 0, "");
    append_at("output", 16, "gh");
    assert_read(&reader, 6, "gh");
    output_close(&reader);
}

static void test_times(void **state)
{
    struct output_reader reader;
    make_output(state);
    append_at("stdout", 0, "0123456789abcdefghij");
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    assert_true(output_seconds(&reader, 0) < 0); /* there are none */
    output_close(&reader);
    append("stdout.times", "0 100.500\n4 101.000\n");
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    assert_true(output_seconds(&reader, 0) == 100.5);
    assert_true(output_seconds(&reader, 3) == 100.5);
    assert_true(output_seconds(&reader, 4) == 101);
    assert_true(output_seconds(&reader, 15) == 101);
    append("stdout.times", "10 1"); /* the rest comes later */
    assert_true(output_seconds(&reader, 16) == 101);
    append("stdout.times", "02.250\n");
    assert_true(output_seconds(&reader, 17) == 102.25);
    output_close(&reader);
}

static void test_bad_times(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "x 1\n",
                                      "0 x\n",
                                      "0 1e9\n",
                                      "0\n",
                                      "0 \n",
                                      "-1 5\n",
                                      "0 nan\n",
                                      "0 -1\n",
                                      "0 1.2.3\n",
                                      "0x0 1\n",
                                      "00000000000000000 1\n",
                                      "A 1\n",
                                      "0 1 \n"};
    struct output_reader reader;
    char name[OUTPUT_TIMES_BYTES * 2 + 16];
    char dir[320];
    make_output(state);
    path_of(dir, "");
    append_at("stdout", 0, "abc");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(dir, "stdout.times", bad[i], strlen(bad[i]));
        assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
        assert_true(output_seconds(&reader, 0) < 0);
        output_close(&reader);
    }
    memset(name, '7', sizeof name);
    snprintf(name + sizeof name - 16, 16, " 5\n0 6.0\n1 3.0\n");
    write_file(dir, "stdout.times", name, strlen(name)); /* a line that is longer than any */
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    assert_true(output_seconds(&reader, 0) == 6);
    assert_true(output_seconds(&reader, 2) == 3);
    output_close(&reader);
}

static void test_foreign(void **state)
{
    struct output_reader reader;
    char path[320], wanted[400];
    make_output(state);
    append("stdout.00000000000000aG", "x");
    append("stdout.00000000000000AB", "x");
    append("stdout.0", "x");
    append("stdoutx.0000000000000000", "x");
    append("other", "secret");
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), -ENOENT);
    path_of(path, "stdout.0000000000000000");
    path_of(wanted, "other");
    assert_int_equal(symlink(wanted, path), 0);
    path_of(path, "stdout.0000000000000002");
    assert_int_equal(mkfifo(path, 0600), 0);
    path_of(path, "stdout.0000000000000003");
    assert_int_equal(mkdir(path, 0700), 0);
    append_at("stdout", 5, "abcdef");
    append_at("stdout", 7, "CD"); /* both have these bytes */
    append_at("stdout", UINT64_MAX - 1, "yz!");
    path_of(path, "stdout.times");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    assert_true(output_seconds(&reader, 0) < 0);
    uint64_t gaps = 0, gap;
    char bytes[64];
    size_t len = 0;
    for (int i = 0; i < 8; i++) {
        ssize_t got = output_read(&reader, bytes + len, 16, &gap);
        assert_true(got >= 0);
        len += (size_t)got;
        gaps += gap;
    }
    bytes[len] = 0;
    assert_string_equal(bytes, "abcdefy");
    assert_int_equal(gaps, UINT64_MAX - 1 - 6);
    output_close(&reader);
    path_of(path, "");
    path[strlen(path) - 1] = 0;
    snprintf(wanted, sizeof wanted, "%s.gone", path);
    assert_int_equal(rename(path, wanted), 0);
    assert_int_equal(symlink(wanted, path), 0);
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), -ENOENT);
}

/* Nobody makes others read holes of any size. */
static void test_holes(void **state)
{
    static char bytes[1 << 20];
    struct output_reader reader;
    char path[320];
    uint64_t gap, all = 0;
    make_output(state);
    append_at("stdout", 0, "");
    append("stdout.times", "");
    path_of(path, "stdout.0000000000000000");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    path_of(path, "stdout.times");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_int_equal(output_open(&reader, job, OUTPUT_STDOUT), 0);
    for (ssize_t got; (got = output_read(&reader, bytes, sizeof bytes, &gap)) > 0;)
        all += (uint64_t)got;
    assert_int_equal(all, OUTPUT_SEGMENT_MOST);
    assert_true(output_seconds(&reader, 0) < 0);
    output_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(test_segments),  IN_PLACE(test_ring),    IN_PLACE(test_times), IN_PLACE(test_mirrored),
        IN_PLACE(test_bad_times), IN_PLACE(test_foreign), IN_PLACE(test_holes),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
