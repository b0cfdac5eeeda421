/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a spool that grows, what is known to have arrived, questions and files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobdir/record/mirror.h"
#include "publish/feed.h"
#include "publish/publisher.h"
#include "shm/waits.h"

static const uint64_t MS = 1000000;

/* A job directory of its own for each test. */
struct place {
    char dir[64], spool[96];
    struct follow follow;
};

static void put(const struct place *place, const char *text)
{
    int fd = open(place->spool, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->dir, sizeof place->dir, "/tmp/scry-publish-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->spool, sizeof place->spool, "%s/spool", place->dir);
    assert_int_equal(mkdir(place->spool, 0700), 0);
    snprintf(place->spool, sizeof place->spool, "%s/spool/records.jsonl", place->dir);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char command[128];
    follow_done(&place->follow);
    snprintf(command, sizeof command, "rm -r %s", place->dir);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

static void put_head(struct place *place)
{
    put(place, "{\"seq\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":1,\"job\":\"j\",\"node\":"
               "\"n\\\"1\",\"t\":0}\n");
}

static void put_record(struct place *place, unsigned seq, const char *type)
{
    char line[128];
    snprintf(line, sizeof line, "{\"seq\":%u,\"t\":1,\"type\":\"%s\"}\n", seq, type);
    put(place, line);
}

static void expect(struct place *place, uint64_t now_ns, bool idle, const char *name, uint64_t first, uint64_t last)
{
    const struct batch *batch = follow_next(&place->follow, now_ns, idle);
    assert_non_null(batch);
    assert_string_equal(batch->name, name);
    assert_int_equal(batch->first_seq, first);
    assert_int_equal(batch->last_seq, last);
    assert_ptr_equal(batch, follow_next(&place->follow, now_ns, idle)); /* until it is sent */
    follow_sent(&place->follow);
}

static void test_batches_by_stream(void **state)
{
    struct place *place = *state;
    struct err err;
    assert_int_equal(follow_open(&place->follow, place->dir, &err), -ENOENT);
    put_head(place);
    assert_int_equal(follow_open(&place->follow, place->dir, &err), 0);
    expect(place, MS, true, "job", 0, 0);
    put_record(place, 1, "process");
    put_record(place, 2, "warning");
    put_record(place, 3, "process_end");
    put(place, "{\"seq\":4,\"t\":1,\"type\":\"pro"); /* not whole yet */
    assert_null(follow_next(&place->follow, 2 * MS, false));
    assert_int_equal(follow_due_ns(&place->follow), (2 + FOLLOW_BATCH_MS) * MS);
    expect(place, (2 + FOLLOW_BATCH_MS) * MS, false, "process", 1, 3);
    expect(place, (2 + FOLLOW_BATCH_MS) * MS, false, "warning", 2, 2);
    assert_null(follow_next(&place->follow, 1000 * MS, true));
    put(place, "cess\"}\n");
    expect(place, 1000 * MS, true, "process", 4, 4);
    assert_int_equal(place->follow.next_seq, 5);
}

static void test_lines_are_complete(void **state)
{
    struct place *place = *state;
    put_head(place);
    put_record(place, 1, "process");
    put(place, "{\"seq\":2,\"t\":1,\"type\":\"process\",\"node\":\"other\"}\n");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, true, "job", 0, 0);
    const struct batch *batch = follow_next(&place->follow, 0, true);
    assert_non_null(batch);
    assert_string_equal(
        batch->lines.data,
        "{\"job\":\"j\",\"node\":\"n\\\"1\",\"stream\":\"process\",\"seq\":1,\"t\":1,\"type\":\"process\"}\n"
        "{\"job\":\"j\",\"stream\":\"process\",\"seq\":2,\"t\":1,\"type\":\"process\",\"node\":\"other\"}\n");
}

/* Figures go with another quality of service, and stay in the order of their stream. */
static void test_figures_apart(void **state)
{
    struct place *place = *state;
    put_head(place);
    put_record(place, 1, "sample");
    put_record(place, 2, "node");
    put_record(place, 3, "health");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    const struct batch *batch = follow_next(&place->follow, 0, true);
    assert_true(batch && batch->figures && batch->first_seq == 1);
    follow_sent(&place->follow);
    batch = follow_next(&place->follow, 0, true);
    assert_true(batch && !batch->figures && batch->first_seq == 2);
    follow_sent(&place->follow);
}

/* Names of streams come from a file: none may be another topic. */
static void test_streams_of_later_versions(void **state)
{
    struct place *place = *state;
    put_head(place);
    put(place, "{\"seq\":1,\"t\":1,\"type\":\"new\",\"stream\":\"gpu\"}\n"
               "{\"seq\":2,\"t\":1,\"type\":\"new\",\"stream\":\"state\"}\n"
               "{\"seq\":3,\"t\":1,\"type\":\"new\",\"stream\":\"a/b\"}\n"
               "{\"seq\":4,\"t\":1,\"type\":\"new\"}\nno record\n{\"seq\":-5,\"t\":1,\"type\":\"new\"}\n");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, true, "job", 0, 4);
    expect(place, 0, true, "gpu", 1, 1);
    assert_null(follow_next(&place->follow, 0, true));
}

static void test_sizes(void **state)
{
    struct place *place = *state;
    enum { LONG = 600 << 10 };
    char *text = malloc(LONG);
    put_head(place);
    memset(text, 'x', LONG - 1);
    text[40000] = 0;
    for (unsigned i = 1; i < 4; i++) {
        put(place, i == 1   ? "{\"seq\":1,\"t\":1,\"type\":\"log\",\"text\":\""
                   : i == 2 ? "{\"seq\":2,\"t\":1,\"type\":\"log\",\"text\":\""
                            : "{\"seq\":3,\"t\":1,\"type\":\"log\",\"text\":\"");
        if (i == 3) {
            text[40000] = 'x';
            text[LONG - 1] = 0;
        }
        put(place, text);
        put(place, "\"}\n");
    }
    free(text);
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, false, "log", 1, 1); /* full: the next does not fit */
    const struct batch *batch;
    expect(place, 1000 * MS, false, "job", 0, 0);
    batch = follow_next(&place->follow, 2000 * MS, true);
    assert_true(batch && batch->first_seq == 2 && batch->last_seq == 3);
    assert_non_null(strstr(batch->lines.data, "\"omitted\":6144"));
    assert_true(batch->lines.len < FOLLOW_BATCH_BYTES);
}

/* After an outage it goes on behind what the broker is known to have. */
static void test_rewind(void **state)
{
    struct place *place = *state;
    put_head(place);
    for (unsigned seq = 1; seq < 6; seq++)
        put_record(place, seq, seq % 2 ? "process" : "warning");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, true, "job", 0, 0);
    const struct batch *batch = follow_next(&place->follow, 0, true);
    uint64_t offset = batch->offset;
    assert_string_equal(batch->name, "process");
    follow_sent(&place->follow);
    follow_confirm(&place->follow, STREAM_PROCESS, 4);
    assert_true(follow_unsent(&place->follow, UINT64_MAX) > offset); /* the warnings */
    follow_rewind(&place->follow, offset);
    expect(place, 0, true, "warning", 2, 4);
    expect(place, 0, true, "process", 5, 5);
    assert_null(follow_next(&place->follow, 0, true));
}

static void test_cut_file(void **state)
{
    struct place *place = *state;
    put_head(place);
    put_record(place, 1, "process");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, true, "job", 0, 0);
    expect(place, 0, true, "process", 1, 1);
    assert_int_equal(truncate(place->spool, 10), 0);
    assert_null(follow_next(&place->follow, 0, true));
    put_record(place, 2, "process");
    assert_null(follow_next(&place->follow, 0, true)); /* and it does not hang */
}

static void test_sent(void **state)
{
    struct sent sent = {0};
    struct sent_one one;
    (void)state;
    sent_add(&sent, (struct sent_one){.id = 1, .qos0 = true});
    sent_add(&sent, (struct sent_one){.id = 2});
    sent_add(&sent, (struct sent_one){.id = 3, .qos0 = true});
    sent_add(&sent, (struct sent_one){.id = 4});
    sent_over(&sent, 1);
    sent_over(&sent, 3);
    assert_false(sent_take(&sent, &one)); /* the system has them; nobody knows about the broker */
    assert_int_equal(sent.under_way, 2);
    sent_over(&sent, 2);
    assert_true(sent_take(&sent, &one) && one.id == 1);
    assert_true(sent_take(&sent, &one) && one.id == 2);
    assert_false(sent_take(&sent, &one));
    assert_true(sent_take_figures(&sent, &one) && one.id == 3);
    assert_false(sent_take_figures(&sent, &one));
    sent_over(&sent, 99);
    sent_over(&sent, 4);
    assert_true(sent_take(&sent, &one) && one.id == 4);
    assert_int_equal(sent.count + sent.under_way, 0);
    for (int id = 0; id < SENT_MOST / 4; id++) {
        assert_true(sent_has_room(&sent) && !sent_wants_sign(&sent));
        sent_add(&sent, (struct sent_one){.id = id, .qos0 = true});
        sent_over(&sent, id);
    }
    assert_true(sent_wants_sign(&sent));
    for (int id = 1000; sent_has_room(&sent); id++)
        sent_add(&sent, (struct sent_one){.id = id});
    assert_int_equal(sent.under_way, SENT_UNDER_WAY);
}

static void test_questions(void **state)
{
    struct ask ask;
    (void)state;
    assert_true(ask_parse(span_str("{\"reader\":\"a1\",\"from\":3,\"to\":-1,\"files\":true}"), &ask));
    assert_true(ask.from == 3 && ask.to == UINT64_MAX && ask.files);
    assert_true(ask_parse(span_str("{\"reader\":\"a1\",\"from\":3,\"to\":5,\"later\":0}"), &ask));
    assert_true(ask.to == 5 && !ask.files);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"reader\":\"\",\"from\":0}",
        "{\"reader\":\"a/b\",\"from\":0}",
        "{\"reader\":\"a\",\"from\":-1}",
        "{\"reader\":\"a\",\"from\":1.5}",
        "{\"reader\":\"a\",\"from\":0,\"to\":\"x\"}",
        "{\"reader\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"from\":0}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ask_parse(span_str(bad[i]), &ask));
}

static void test_answers(void **state)
{
    struct place *place = *state;
    struct files files;
    struct asks asks;
    struct ask ask = {.reader = "r", .from = 2, .to = 4},
               all = {.reader = "s", .from = 4, .to = UINT64_MAX, .files = true};
    uint64_t due;
    put_head(place);
    for (unsigned seq = 1; seq < 6; seq++)
        put_record(place, seq, "process");
    assert_int_equal(follow_open(&place->follow, place->dir, NULL), 0);
    expect(place, 0, true, "job", 0, 0);
    files_init(&files, place->dir, NULL, NULL);
    char path[128];
    snprintf(path, sizeof path, "%s/report.txt", place->dir);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    files_look(&files, 0, true);
    asks_init(&asks, place->dir);
    assert_false(asks_next(&asks, &place->follow, &files, 0, &due));
    asks_add(&asks, &ask);
    asks_add(&asks, &all);
    assert_true(asks_next(&asks, &place->follow, &files, 0, &due));
    assert_string_equal(asks.name, "records");
    assert_non_null(strstr(asks.message.data, "\"seq\":2,"));
    assert_non_null(strstr(asks.message.data, "\"seq\":3,"));
    assert_null(strstr(asks.message.data, "\"seq\":4,"));
    asks_sent(&asks);
    assert_true(asks_next(&asks, &place->follow, &files, 0, &due));
    assert_string_equal(asks.name, "end");
    assert_string_equal(asks.message.data, "{\"reader\":\"r\",\"from\":2,\"to\":4,\"last_seq\":5}");
    asks_sent(&asks);
    static const char *const names[] = {"records", "file", "end"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(asks_next(&asks, &place->follow, &files, 0, &due));
        assert_string_equal(asks.list[0].reader, "s");
        assert_string_equal(asks.name, names[i]);
        asks_sent(&asks);
    }
    assert_false(asks_next(&asks, &place->follow, &files, 0, &due));
    for (unsigned i = 0; i < 2 * ASKS_MOST; i++)
        asks_add(&asks, &ask);
    assert_int_equal(asks.dropped, ASKS_MOST);
    asks.credit = -1;
    assert_false(asks_next(&asks, &place->follow, &files, 0, &due)); /* later */
    assert_true(due > 0);
    assert_true(asks_next(&asks, &place->follow, &files, due, &due));
    asks_clear(&asks);
    files_done(&files);
}

static void write_file(const struct place *place, const char *name, const char *bytes, size_t len)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", place->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

static void test_files(void **state)
{
    struct place *place = *state;
    struct files files;
    struct file_load load;
    struct buf text = BUF_INIT;
    char path[256];
    snprintf(path, sizeof path, "%s/stats", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/stats/link", place->dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/stats/pipe", place->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/trace", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    write_file(place, "trace/events", "x", 1);
    write_file(place, "other.txt", "x", 1);
    write_file(place, "stats/a.json", "{\"a\": \"\303\244\"}", 11);
    write_file(place, "report.txt", "\377\0b", 3);
    files_init(&files, place->dir, NULL, NULL);
    files_look(&files, MS, false);
    assert_int_equal(files.count, 2);
    assert_int_equal(files_wanted(&files), 0);
    assert_true(files_load(&files, 0, &load));
    file_load_message(&load, &text);
    assert_non_null(strstr(text.data, "\"path\":\"report.txt\",\"bytes\":3,\"part\":0,\"parts\":1,"));
    assert_non_null(strstr(text.data, ",\"base64\":\"/wBi\"}"));
    file_load_done(&load);
    buf_clear(&text);
    assert_true(files_load(&files, 1, &load));
    file_load_message(&load, &text);
    assert_non_null(strstr(text.data, ",\"text\":\"{\\\"a\\\": \\\"\303\244\\\"}\"}"));
    file_load_done(&load);

    uint64_t version = files.list[1].version;
    files.list[0].wanted = files.list[1].wanted = false;
    files.list[1].sent_ns = MS;
    write_file(place, "stats/a.json", "{}", 2);
    files_look(&files, 2 * MS, false); /* it was sent a moment ago */
    assert_int_equal(files_wanted(&files), 2);
    files_look(&files, 2 * MS, true);
    assert_int_equal(files_wanted(&files), 1);
    assert_true(files.list[1].version > version);

    char *large = calloc(1, 2 * FILES_PART_BYTES);
    write_file(place, "report.txt", large, 2 * FILES_PART_BYTES - 1);
    free(large);
    assert_true(files_load(&files, 0, &load));
    assert_int_equal(load.parts, 2);
    buf_clear(&text);
    load.part = 1;
    file_load_message(&load, &text);
    assert_true(text.len < 512 << 10);
    assert_non_null(strstr(text.data, "\"base64\":")); /* as text it would be six times as long */
    file_load_done(&load);
    buf_done(&text);
    files_done(&files);
}

/* Of a part what a mirror needs, and of its spool what is new. */
static void test_parts(void **state)
{
    static const char *const made[] = {"parts", "parts/n2", "parts/n2/spool", "parts/n2/stats", "parts/n2/trace"};
    static const char *const names[] = {"job.json", "spool/records.jsonl", "stats/a.json", "trace/x",
                                        "other",    "remote.json"};
    static const char *const expected[] = {"parts/n2/job.json", "parts/n2/remote.json", "parts/n2/stats/a.json",
                                           "parts/n2/spool/records.jsonl+0", "parts/n2/spool/records.jsonl+32768"};
    enum { COUNT = sizeof expected / sizeof *expected, SPOOL = 40000 };
    struct place *place = *state;
    struct files files;
    struct file_load load;
    char path[256], *spool = calloc(1, SPOOL + 1);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        snprintf(path, sizeof path, "%s/%s", place->dir, made[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "parts/n2/%s", names[i]);
        write_file(place, path, spool, i == 1 ? SPOOL : 2);
    }
    files_init(&files, place->dir, NULL, NULL);
    files_look(&files, MS, true);
    assert_int_equal(files.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(files.list[i].path, expected[i]);
        files.list[i].wanted = false;
    }
    assert_true(files.parts_come); /* remote.json does not say that all is there */
    assert_true(files_load(&files, 3, &load));
    assert_int_equal(load.len, MIRROR_PIECE);
    file_load_done(&load);
    write_file(place, "parts/n2/spool/records.jsonl", spool, SPOOL + 1);
    free(spool);
    files_look(&files, 2 * MS, true);
    assert_int_equal(files_wanted(&files), 4);
    assert_true(files_load(&files, 4, &load));
    assert_int_equal(load.len, SPOOL + 1 - MIRROR_PIECE);
    file_load_done(&load);
    files_done(&files);
}

/* Somebody, or something, has put very many files there: each look ends soon, and scry's own come first. */
static void test_very_many_files(void **state)
{
    enum { MANY = FILES_LOOKED_MOST + 4000 };
    struct place *place = *state;
    struct files files;
    char path[128];
    snprintf(path, sizeof path, "%s/stats", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put_head(place);
    write_file(place, "report.txt", "x", 1);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "%s/stats/%u.json", place->dir, i);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    files_init(&files, place->dir, NULL, NULL);
    for (int again = 0; again < 2; again++) {
        files_look(&files, 0, true);
        assert_int_equal(files.count, FILES_MOST);
        assert_string_equal(files.list[0].path, "report.txt");
        assert_in_range(files.looked, FILES_LOOKED_MOST, FILES_LOOKED_MOST + 1);
        assert_in_range(files.left_out, FILES_LOOKED_MOST - FILES_MOST - 8, FILES_LOOKED_MOST - FILES_MOST + 8);
    }
    files_done(&files);
}

static void put_printed(const struct place *place, const char *name, size_t bytes)
{
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = i % 1000 == 0 ? '\n' : (char)('a' + i / PRINTED_PIECE % 26);
    write_file(place, name, text, bytes);
    free(text);
}

static unsigned count_wanted(struct files *files, const char *path, uint64_t *ret_bytes)
{
    unsigned count = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < files->count; i++)
        if (files->list[i].wanted && strncmp(files->list[i].path, path, strlen(path)) == 0) {
            files->list[i].wanted = false;
            *ret_bytes += files->list[i].bytes;
            count++;
        }
    return count;
}

/* What the job printed, kept in its directory and in a file: the beginning and the end, and a limit while it runs. */
static void test_printed(void **state)
{
    enum { PIECE = PRINTED_PIECE, WHOLE = 3 * PRINTED_PIECES * PIECE };
    struct place *place = *state;
    struct job_info info = {0};
    struct files files;
    struct file_load load;
    struct stat st;
    uint64_t bytes;
    char path[256];
    snprintf(path, sizeof path, "%s/output", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put_printed(place, "output/stderr.0000000000000000", 10);
    files_init(&files, place->dir, NULL, NULL);
    files_look(&files, MS, true);
    assert_int_equal(files.count, 0); /* only if it is asked for */
    files_done(&files);

    put_printed(place, "out.txt", WHOLE + 5); /* of another job before are 5 bytes */
    snprintf(path, sizeof path, "%s/out.txt", place->dir);
    assert_int_equal(stat(path, &st), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    json_t *output = job_output_json(fd);
    json_object_set_new(output, "stream", json_string("stdout"));
    json_object_set_new(output, "from", json_integer(5));
    close(fd);
    info.outputs = json_pack("[o]", output);
    files_init(&files, place->dir, &info, NULL);
    files_look(&files, MS / 2, false);
    assert_int_equal(count_wanted(&files, "output/", &bytes), 2);
    assert_int_equal(bytes, 10); /* of the file, what is there at the next look, too */
    files_look(&files, MS, false);
    assert_int_equal(count_wanted(&files, "output/stdout.", &bytes) + count_wanted(&files, "output/stderr.", &bytes),
                     PRINTED_PIECES); /* the end, and the limit is reached */
    files_look(&files, 2000 * MS, false);
    assert_int_equal(count_wanted(&files, "output/", &bytes), 3);
    files_look(&files, 2001 * MS, true);
    assert_true(count_wanted(&files, "output/stdout.", &bytes) > 0);
    assert_int_equal(files.count, 2 * PRINTED_PIECES + 1);

    put_printed(place, "out.txt", WHOLE + PIECE + 5);
    files_look(&files, 2002 * MS, true);
    assert_int_equal(files_wanted(&files), files.count);
    /* one more: it takes the place of the oldest of the end */
    files_look(&files, 2002 * MS, true);
    assert_int_equal(files.count, 2 * PRINTED_PIECES + 1);
    size_t at = files_wanted(&files);
    snprintf(path, sizeof path, "output/stdout.%016x", WHOLE);
    assert_string_equal(files.list[at].path, path);
    assert_true(files_load(&files, at, &load));
    assert_int_equal(load.len, PIECE);
    assert_int_equal(load.bytes[PIECE - 6], 'a' + 96 % 26);
    assert_int_equal(load.bytes[PIECE - 1], 'a' + 97 % 26);
    file_load_done(&load);
    assert_int_equal(count_wanted(&files, "output/", &bytes), 1);
    files_look(&files, 2003 * MS, true);
    assert_int_equal(files_wanted(&files), files.count);
    files_done(&files);
    json_decref(info.outputs);
}

/* Secrets are not published, wherever a piece ends. */
static void test_printed_secrets(void **state)
{
    static const char *const tells[] = {"\n--password=", "\nhttps://u:"}, secret[] = "XYZXYZXYZ@h\n";
    enum { PIECE = PRINTED_PIECE, SECRET = sizeof secret - 2, CUTS = 32 };
    struct place *place = *state;
    struct job_info info = {0};
    struct files files;
    uint64_t bytes;
    char path[256];
    snprintf(path, sizeof path, "%s/output", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t cut = 0; cut < 2 * (size_t)CUTS; cut++) {
        const char *tell = tells[cut / CUTS];
        put_printed(place, "output/stderr.0000000000000000", 2 * PIECE);
        snprintf(path, sizeof path, "%s/output/stderr.0000000000000000", place->dir);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        size_t at = PIECE - cut % CUTS, len = strlen(tell), found = 0;
        assert_int_equal(pwrite(fd, tell, len, (off_t)at), len);
        assert_int_equal(pwrite(fd, secret, sizeof secret - 1, (off_t)(at + len)), sizeof secret - 1);
        close(fd);
        files_init(&files, place->dir, &info, NULL);
        files_look(&files, MS, true);
        assert_int_equal(count_wanted(&files, "output/stderr", &bytes), 2);
        for (size_t i = 0; i < files.count; i++) {
            struct file_load load;
            assert_true(files_load(&files, i, &load));
            assert_int_equal(load.len, PIECE);
            for (size_t k = 0; k < load.len; k++)
                found += load.bytes[k] == '*';
            assert_null(memmem(load.bytes, load.len, "X", 1));
            file_load_done(&load);
        }
        assert_int_equal(found, SECRET);
        files_done(&files);
    }
}

/* Nor of a line whose beginning is far away, or that is not at its end. */
static void test_printed_long_lines(void **state)
{
    enum { PIECE = PRINTED_PIECE, LAST = 100 };
    struct place *place = *state;
    struct job_info info = {0};
    struct files files;
    char path[256], *text = malloc(2 * PIECE + LAST);
    uint64_t bytes;
    assert_non_null(text);
    snprintf(path, sizeof path, "%s/output", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    memset(text, 'X', 2 * PIECE + LAST);
    memcpy(text, "token=", 6);
    memcpy(text + 2 * PIECE + 10, "\nstep\nhttps://u:", 16);
    for (int off = 0; off < 2; off++) {
        write_file(place, "output/stderr.0000000000000000", text, 2 * PIECE + LAST);
        files_init(&files, place->dir, &info, off ? "off" : NULL);
        files_look(&files, MS, true);
        assert_int_equal(count_wanted(&files, "output/stderr", &bytes), 3);
        for (size_t i = 0; i < files.count; i++) {
            struct file_load load;
            assert_true(files_load(&files, i, &load));
            assert_int_equal(!memchr(load.bytes, 'X', load.len), !off);
            assert_int_equal(!memmem(load.bytes, load.len, "\nstep\nhttps://u:", 16), load.len != LAST);
            file_load_done(&load);
        }
        files_done(&files);
    }
    free(text);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_batches_by_stream),
        CASE(test_lines_are_complete),
        CASE(test_figures_apart),
        CASE(test_streams_of_later_versions),
        CASE(test_sizes),
        CASE(test_rewind),
        CASE(test_cut_file),
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_questions),
        CASE(test_answers),
        CASE(test_files),
        CASE(test_very_many_files),
        CASE(test_parts),
        CASE(test_printed),
        CASE(test_printed_secrets),
        CASE(test_printed_long_lines),
    };
    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
