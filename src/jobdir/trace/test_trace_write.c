/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a small trace of two threads and has babeltrace2 read it: names, times, discarded events, reused files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/trace/write.h"

enum { GHZ = 1000000000 };

static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/scry-trace-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static struct trace_writer *new_writer(void)
{
    struct trace_writer *writer = NULL;
    struct err err = {0};
    const struct trace_identity identity = {.node = "n1",
                                            .exe = "/bin/a \"program\"",
                                            .host = "host",
                                            .boot_id = "b",
                                            .pid = 42,
                                            .ppid = 1,
                                            .start_ns = 5,
                                            .ticks_per_second = GHZ,
                                            .tick_zero_ns = UINT64_C(1700000000) * GHZ + 250000000};
    assert_int_equal(trace_writer_new(&writer, dir, &identity, false, &err), 0);
    return writer;
}

struct packet {
    struct packet_head head;
    struct buf records;
    uint64_t last;
};

static void record(struct packet *packet, uint32_t id, uint64_t time, const void *payload, size_t size)
{
    if (!packet->head.time_begin)
        packet->last = packet->head.time_begin = time;
    if ((time - packet->last) >> RECORD_TIME_BITS) {
        buf_put_u32(&packet->records, (uint32_t)(time << 5) | RECORD_EXTENDED);
        buf_put_u32(&packet->records, id);
        buf_put_u64(&packet->records, time);
    } else {
        buf_put_u32(&packet->records, (uint32_t)(time << 5) | id);
    }
    buf_append(&packet->records, payload, size);
    packet->head.time_end = packet->last = time;
}

static void put(struct trace_writer *writer, uint32_t stream, struct packet *packet, uint64_t discarded)
{
    assert_int_equal(
        trace_writer_packet(writer, stream, &packet->head, packet->records.data, packet->records.len, discarded), 0);
    buf_done(&packet->records);
}

static char *babeltrace(const char *path, const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "babeltrace2 %s '%s' 2>&1", options, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    struct buf text = BUF_INIT;
    char block[4096];
    for (size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;)
        buf_append(&text, block, got);
    int status = pclose(pipe);
    if (status)
        print_message("%s\n", text.data ? text.data : "");
    assert_int_equal(status, 0);
    buf_putc(&text, '\n');
    return buf_take(&text);
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

static int fail_with; /* what the disk does */

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    if (fail_with) {
        errno = fail_with;
        return -1;
    }
    return syscall(SYS_pwritev, fd, parts, count, offset, 0);
}

/* On a full disk it goes on when it is told that there is room again; whatever else failed is for good. */
static void test_full_disk(void **state)
{
    static const int failures[] = {ENOSPC, EDQUOT, EIO};
    (void)state;
    for (unsigned i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct trace_writer *writer = new_writer();
        struct packet_head head = {.time_begin = 1000, .time_end = 1000, .tid = 42, .thread_serial = 1};
        uint32_t stream;
        char path[256];
        bool goes_on = failures[i] != EIO;
        assert_int_equal(trace_writer_stream_new(writer, 1000, &stream), 0);
        assert_int_equal(trace_writer_packet(writer, stream, &head, NULL, 0, 0), 0);
        fail_with = failures[i];
        assert_int_equal(trace_writer_packet(writer, stream, &head, NULL, 0, 0), -failures[i]);
        fail_with = 0;
        assert_int_equal(trace_writer_packet(writer, stream, &head, NULL, 0, 0), -EPIPE);
        assert_int_equal(trace_writer_again(writer), goes_on);
        assert_int_equal(trace_writer_failed(writer), !goes_on);
        assert_int_equal(trace_writer_missing(writer, stream, &head, 3, 5), goes_on ? 0 : -EPIPE);
        snprintf(path, sizeof path, "%s", trace_writer_path(writer));
        trace_writer_free(writer);
        _cleanup_(freep) char *text = babeltrace(path, "--clock-seconds");
        assert_int_equal(occurrences(text, "discarded 5 events"), goes_on);
    }
}

static void test_babeltrace(void **state)
{
    struct trace_writer *writer = new_writer();
    uint32_t one, two, three, again, function = 7, other = 8, unknown = 9, lost = 3;
    assert_string_equal(strrchr(trace_writer_path(writer), '/'), "/42-0");
    assert_int_equal(trace_writer_function(writer, 7, 0x1000, "wrong", "", 0, 0, "a"), 0);
    assert_int_equal(trace_writer_function(writer, 7, 0x1000, "ns::solve<int, \"x\\y\">", "/src/a.c", 12, 64, "a"), 0);
    assert_int_equal(trace_writer_function(writer, 8, 0x2000, "main", "", 0, 0, "a"), 0);
    assert_int_equal(trace_writer_stream_new(writer, 1000, &one), 0);
    assert_int_equal(trace_writer_stream_new(writer, 1500, &two), 0);
    assert_int_not_equal(one, two);
    struct packet a = {.head = {.tid = 42, .thread_serial = 1}};
    record(&a, RECORD_ENTRY, 1000, &other, 4);
    record(&a, RECORD_ENTRY, 2000, &function, 4);
    record(&a, RECORD_EXIT, UINT64_C(3000000000), NULL, 0);
    record(&a, RECORD_ENTRY, UINT64_C(3000000100), &unknown, 4);
    put(writer, one, &a, 0);
    struct packet b = {.head = {.tid = 43, .thread_serial = 2}};
    record(&b, RECORD_ENTRY, 1500, &function, 4);
    record(&b, RECORD_LOST, 1600, &lost, 4);
    struct {
        uint16_t size;
        char text[5];
    } __attribute__((packed)) mark = {5, "hello"};
    record(&b, RECORD_MARK, 1700, &mark, sizeof mark);
    put(writer, two, &b, 5);
    trace_writer_stream_end(writer, two);
    /* a file is reused only by what comes later than its content */
    assert_int_equal(trace_writer_stream_new(writer, 1600, &three), 0);
    assert_int_equal(three, 2);
    assert_int_equal(trace_writer_stream_new(writer, 1800, &again), 0);
    assert_int_equal(again, two);
    struct packet c = {.head = {.tid = 44, .thread_serial = 3}};
    struct {
        uint32_t function;
        uint64_t entry;
    } __attribute__((packed)) exit_of = {8, 900};
    record(&c, RECORD_EXIT_OF, 1800, &exit_of, sizeof exit_of);
    put(writer, again, &c, 2);
    trace_writer_set(writer, "state", "%s", "exited");
    for (unsigned i = 0; i < 2; i++)
        trace_writer_problem(writer, &NOTE(symbols_lacking, .module = "one\ttwo", .reason = "why"));
    trace_writer_problem(writer, &NOTE(area_damaged));
    trace_writer_problem_over(writer, &NOTE(area_damaged));
    char path[256], *text, *process;
    snprintf(path, sizeof path, "%s", trace_writer_path(writer));
    trace_writer_free(writer);

    text = babeltrace(path, "--clock-seconds");
    assert_int_equal(occurrences(text, " entry: "), 4);
    assert_non_null(strstr(text, "ns::solve<int, \\\"x\\\\y\\\">"));
    assert_null(strstr(text, "wrong"));
    assert_non_null(strstr(text, "1700000000.250001000"));
    assert_non_null(strstr(text, "1700000003.250000000"));
    assert_non_null(strstr(text, "text = \"hello\""));
    assert_int_equal(occurrences(text, "discarded 5 events"), 1);
    assert_int_equal(occurrences(text, "discarded 2 events"), 1);
    free(text);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/.process");
    assert_int_equal(file_read(path, &process, NULL), 0);
    assert_int_equal(occurrences(process, "problem\t"), 1);
    assert_non_null(strstr(process, "problem\tsymbols_lacking\\tone\\\\\\ttwo\\twhy\\tone"));
    assert_int_equal(occurrences(process, "state\t"), 1);
    assert_non_null(strstr(process, "state\texited\n"));
    assert_non_null(strstr(process, "clock_offset_ns\t1700000000250000000\n"));
    free(process);
}

/* More than babeltrace2 can take in a reasonable time: the rest is there as numbers and bytes. */
static void test_many_names(void **state)
{
    enum { FUNCTIONS = 4001, LAYOUTS = 1001 };
    struct trace_writer *writer = new_writer();
    uint32_t stream, first = 0, last = FUNCTIONS - 1;
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%u", i);
        assert_int_equal(trace_writer_function(writer, i, 0x1000 + i, name, "", 0, 0, "a"), 0);
    }
    for (uint32_t i = LAYOUTS; i > 0; i--) { /* as calls come, not by number */
        assert_int_equal(trace_writer_layout_note(writer, i, "args(x:i4\"int\")"), 0);
        assert_int_equal(trace_writer_layout_use(writer, i, "args(x:i4\"int\")"), 1);
    }
    assert_int_equal(trace_writer_stream_new(writer, 1000, &stream), 0);
    struct packet packet = {.head = {.tid = 42, .thread_serial = 1}};
    record(&packet, RECORD_ENTRY, 1000, &first, 4);
    record(&packet, RECORD_ENTRY, 1100, &last, 4);
    struct {
        uint32_t function, layout;
        uint16_t size;
        int32_t value;
    } __attribute__((packed)) values = {0, 1, 4, 77};
    record(&packet, RECORD_ENTRY_VALUES, 1200, &values, sizeof values);
    values.layout = LAYOUTS;
    record(&packet, RECORD_ENTRY_VALUES, 1300, &values, sizeof values);
    put(writer, stream, &packet, 0);
    char path[256];
    snprintf(path, sizeof path, "%s", trace_writer_path(writer));
    trace_writer_free(writer);

    char *text = babeltrace(path, "");
    assert_int_equal(occurrences(text, "\"f0\" : container = 0"), 3);
    assert_int_equal(occurrences(text, "container = 4000"), 1);
    assert_int_equal(occurrences(text, "f4000"), 0);
    assert_int_equal(occurrences(text, "x = 77"), 1);
    assert_int_equal(occurrences(text, "[0] = 77, [1] = 0, [2] = 0, [3] = 0"), 1);
    free(text);
}

/* What all values have in common is not said again for each of them: that made metadata of tens of megabytes. */
static void test_types_once(void **state)
{
    struct trace_writer *writer = new_writer();
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(trace_writer_layout_use(writer, i, "args(s:s,n:i4,e:S)"), 1);
    assert_int_equal(trace_writer_sync(writer, true), 0);
    char path[300], text[1 << 14];
    snprintf(path, sizeof path, "%s/metadata", trace_writer_path(writer));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_int_equal(occurrences(text, "content = 0"), 1);
    assert_int_equal(occurrences(text, "encoding = UTF8"), 1);
    assert_int_equal(occurrences(text, "size = 64; align = 8; signed = false; base = 16"), 1);
    trace_writer_free(writer);
}

/* The directory is gone: told once, then nothing is written. */
static void test_failing(void **state)
{
    struct trace_writer *writer = new_writer();
    uint32_t stream;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s/trace'", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(trace_writer_stream_new(writer, 1, &stream), 0);
    struct packet_head head = {.time_begin = 1, .time_end = 2};
    assert_int_equal(trace_writer_packet(writer, stream, &head, "", 0, 0), -ENOENT);
    assert_true(trace_writer_failed(writer));
    assert_int_equal(trace_writer_packet(writer, stream, &head, "", 0, 0), -EPIPE);
    assert_int_equal(trace_writer_bytes(writer), 0);
    trace_writer_free(writer);
}

static void test_incarnations(void **state)
{
    struct trace_writer *first = new_writer(), *second = new_writer();
    assert_string_equal(strrchr(trace_writer_path(first), '/'), "/42-0");
    assert_string_equal(strrchr(trace_writer_path(second), '/'), "/42-1");
    trace_writer_free(first);
    trace_writer_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_babeltrace, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_many_names, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_types_once, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_full_disk, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_failing, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_incarnations, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
