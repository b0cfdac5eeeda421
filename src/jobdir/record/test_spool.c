/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way through the spool: read while it grows, cut off, damaged, limited. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "jobdir/report/report.h"
#include "jobdir/record/spool.h"
#include "jobdir/record/test_jobdir.h"

static size_t count_records(const char *path, uint64_t *ret_unread)
{
    struct spool_reader reader;
    struct err err = {0};
    size_t count = 0;
    assert_int_equal(spool_reader_open(&reader, path, &err), 0);
    for (json_t *record; (record = spool_reader_next(&reader)); count++)
        json_decref(record);
    *ret_unread = reader.unread;
    spool_reader_close(&reader);
    return count;
}

static void put(struct spool *spool, int number)
{
    spool_put_take(spool, json_pack("{s:s, s:f, s:i}", "type", "x", "t", (double)number, "number", number));
}

static void open_spool(struct spool *spool, const char *path, uint64_t max_bytes)
{
    struct buf first = BUF_INIT;
    spool_first(&first, "id");
    spool_open(spool, path, &first, max_bytes);
    buf_done(&first);
}

static void test_spool(void **state)
{
    char path[256];
    struct spool spool;
    struct spool_reader reader;
    struct err err = {0};
    make_job(*state, path, sizeof path);
    open_spool(&spool, path, 1 << 20);
    assert_false(spool.stopped);
    assert_int_equal(spool_reader_open(&reader, path, &err), 0);
    json_t *record = spool_reader_next(&reader);
    assert_string_equal(json_string_value(json_object_get(record, "format")), "scry-spool");
    json_decref(record);
    assert_null(spool_reader_next(&reader));
    for (int i = 1; i <= 100; i++) { /* read while it grows */
        put(&spool, i);
        assert_null(spool_reader_next(&reader));
        spool_flush(&spool);
        record = spool_reader_next(&reader);
        assert_int_equal(json_integer_value(json_object_get(record, "number")), i);
        assert_int_equal(json_integer_value(json_object_get(record, "seq")), i);
        json_decref(record);
    }
    spool_close(&spool);
    spool_reader_close(&reader);
    char reserve[300];
    snprintf(reserve, sizeof reserve, "%s/spool/reserve", path);
    assert_int_equal(access(reserve, F_OK), -1);
}

/* However short the file is, whole records are read and the rest is named. */
static void test_spool_cut(void **state)
{
    char path[256];
    struct spool spool;
    make_job(*state, path, sizeof path);
    open_spool(&spool, path, 1 << 20);
    for (int i = 1; i <= 10; i++)
        put(&spool, i);
    spool_close(&spool);
    size_t len;
    char *text = read_name(path, "spool/records.jsonl", &len);
    for (size_t cut = 0; cut <= len; cut++) {
        uint64_t unread;
        size_t lines = 0;
        for (size_t i = 0; i < cut; i++)
            lines += text[i] == '\n';
        write_file(path, "spool/records.jsonl", text, cut);
        assert_int_equal(count_records(path, &unread), lines);
        assert_int_equal(unread, 0);
        struct job_model model;
        struct err err = {0};
        json_t *problems = json_array();
        assert_int_equal(job_model_init(&model, 10), 0);
        assert_int_equal(job_model_read(&model, path, problems, &err), 0);
        bool whole = cut == 0 || text[cut - 1] == '\n';
        assert_int_equal(json_array_size(problems), (lines == 0) + !whole);
        json_decref(problems);
        job_model_done(&model);
    }
    free(text);
}

static void test_spool_damaged(void **state)
{
    char path[256];
    uint64_t unread;
    make_job(*state, path, sizeof path);
    static const char damaged[] = "{\"seq\":0,\"t\":0.0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":1}\n"
                                  "\0\0\0\377\n{}\n[1]\n{\"t\":1,\"type\":\"x\",\"seq\":4}\n";
    write_file(path, "spool/records.jsonl", damaged, sizeof damaged - 1);
    assert_int_equal(count_records(path, &unread), 2);
    assert_int_equal(unread, 3);
    struct job_model model;
    struct err err = {0};
    json_t *problems = json_array();
    assert_int_equal(job_model_init(&model, 10), 0);
    assert_int_equal(job_model_read(&model, path, problems, &err), 0);
    assert_int_equal(model.missing_records, 3);
    assert_int_equal(json_array_size(problems), 2);
    job_model_done(&model);
    static const char newer[] = "{\"seq\":0,\"t\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":77}\n";
    write_file(path, "spool/records.jsonl", newer, sizeof newer - 1);
    assert_int_equal(job_model_init(&model, 10), 0);
    assert_int_equal(job_model_read(&model, path, problems, &err), -EPROTO);
    assert_non_null(strstr(err.text, "77"));
    job_model_done(&model);
    json_decref(problems);
}

/* A line without an end takes neither the memory nor the time of who reads, and what comes behind it is read. */
static void test_spool_endless(void **state)
{
    enum { BYTES = 8 << 20, MOST = 100000, ROUNDS_MOST = BYTES / MOST + 2 };
    static const char head[] = "{\"seq\":0,\"t\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":1}\n",
                      record[] = "\n{\"t\":1,\"type\":\"x\",\"seq\":4}\n";
    char path[256];
    struct buf bytes = BUF_INIT;
    struct spool_reader reader;
    make_job(*state, path, sizeof path);
    for (int round = 0; round < 4; round++) {
        bool with_head = round & 1, in_pieces = round & 2;
        size_t most = 0;
        json_t *found = NULL;
        buf_clear(&bytes);
        buf_puts(&bytes, with_head ? head : "");
        char *room = buf_reserve(&bytes, BYTES);
        assert_non_null(room);
        memset(room, 'x', BYTES);
        bytes.len += BYTES;
        buf_puts(&bytes, record);
        write_file(path, "spool/records.jsonl", bytes.data, bytes.len);
        assert_int_equal(spool_reader_open(&reader, path, NULL), 0);
        reader.line_most = MOST;
        reader.in_pieces = in_pieces;
        if (with_head)
            json_decref(spool_reader_next(&reader));
        for (int i = 0; i < (in_pieces ? ROUNDS_MOST : 1) && !found; i++) {
            found = spool_reader_next(&reader);
            most = spool_reader_rest(&reader) > most ? spool_reader_rest(&reader) : most;
        }
        assert_non_null(found);
        assert_int_equal(json_integer_value(json_object_get(found, "seq")), 4);
        assert_int_equal(reader.unread, 1);
        assert_int_equal(reader.offset, bytes.len);
        assert_true(most <= MOST + (64 << 10));
        json_decref(found);
        spool_reader_close(&reader);
    }
    buf_done(&bytes);
}

/* One that is only a hole is none to be read for seconds. */
static void test_spool_hole(void **state)
{
    static const off_t hole = (off_t)64 << 30;
    static const char head[] = "{\"seq\":0,\"t\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":1}\n",
                      record[] = "\n{\"t\":1,\"type\":\"x\",\"seq\":4}\n";
    char path[256], file[512];
    struct spool_reader reader;
    make_job(*state, path, sizeof path);
    write_file(path, "spool/records.jsonl", head, sizeof head - 1);
    snprintf(file, sizeof file, "%s/spool/records.jsonl", path);
    for (int with_record = 1; with_record >= 0; with_record--) {
        assert_int_equal(truncate(file, hole), 0);
        int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_int_equal(write(fd, record, with_record ? sizeof record - 1 : 0), with_record ? sizeof record - 1 : 0);
        close(fd);
        assert_int_equal(spool_reader_open(&reader, path, NULL), 0);
        reader.line_most = 100000;
        json_decref(spool_reader_next(&reader));
        json_t *found = spool_reader_next(&reader);
        assert_int_equal(json_integer_value(json_object_get(found, "seq")), with_record ? 4 : 0);
        assert_int_equal(reader.unread, 1);
        json_decref(found);
        spool_reader_close(&reader);
    }
}

static void test_spool_limit(void **state)
{
    char path[256];
    struct spool spool;
    uint64_t unread;
    make_job(*state, path, sizeof path);
    open_spool(&spool, path, 400);
    for (int i = 0; i < 20; i++) {
        put(&spool, i);
        spool_flush(&spool);
    }
    assert_true(spool.stopped);
    assert_non_null(strstr(spool.reason, "--max-size"));
    assert_true(spool.written > 1);
    assert_int_equal(spool.written + spool.lost, 21);
    assert_int_equal(count_records(path, &unread), spool.written);
    spool_close(&spool);
}

/* A write that fails in the middle leaves whole records only. */
static void test_spool_write_error(void **state)
{
    char path[256];
    struct spool spool;
    uint64_t unread;
    struct rlimit old, small;
    make_job(*state, path, sizeof path);
    open_spool(&spool, path, 1 << 20);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 300;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 20; i++) {
        put(&spool, i);
        spool_flush(&spool);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    assert_true(spool.stopped);
    assert_non_null(strstr(spool.reason, strerror(EFBIG)));
    assert_int_equal(spool.written + spool.lost, 21);
    assert_int_equal(count_records(path, &unread), spool.written);
    assert_int_equal(unread, 0);
    spool_close(&spool);
    open_spool(&spool, "/nonexistent/scry", 1 << 20);
    put(&spool, 1);
    assert_true(spool.stopped);
    assert_int_equal(spool.lost, 1);
    spool_close(&spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(test_spool),       IN_PLACE(test_spool_cut),     IN_PLACE(test_spool_damaged),
        IN_PLACE(test_spool_limit), IN_PLACE(test_spool_endless), IN_PLACE(test_spool_write_error),
        IN_PLACE(test_spool_limit), IN_PLACE(test_spool_hole),    IN_PLACE(test_spool_write_error),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
