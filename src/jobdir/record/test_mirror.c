/* SPDX-License-Identifier: Apache-2.0 */
/* The spool of a mirror, whatever order its records come in, and what others would like to put into it. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <time.h>
#include <utime.h>

#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/model.h"
#include "jobdir/record/spool.h"
#include "jobdir/record/test_jobdir.h"

enum { PATH_SIZE = 400 };

static int set_up_cache(void **state)
{
    char cache[128];
    set_up(state);
    snprintf(cache, sizeof cache, "%s/cache", ((struct place *)*state)->root);
    return setenv("SCRY_CACHE_DIR", cache, 1);
}

#define IN_CACHE(test) cmocka_unit_test_setup_teardown(test, set_up_cache, tear_down)

static struct mirror *mirror_of(const char *path)
{
    struct mirror *mirror = NULL;
    struct err err = {0};
    assert_int_equal(mirror_open(&mirror, path, &err), 0);
    return mirror;
}

static void path_of(const char *job, char *ret_path)
{
    assert_int_equal(mirror_path("mqtt://h:1883", "user", job, ret_path, PATH_SIZE, NULL), 0);
}

static int put(struct mirror *mirror, const char *line)
{
    return mirror_record(mirror, span_str(line));
}

static int put_number(struct mirror *mirror, unsigned number)
{
    char line[256];
    if (number)
        snprintf(line, sizeof line,
                 "{\"seq\":%u,\"type\":\"x\",\"t\":%u,\"job\":\"J\",\"node\":\"N\",\"stream\":\"job\"}", number,
                 number);
    else
        snprintf(line, sizeof line,
                 "{\"seq\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"version\":1,\"job\":\"J\","
                 "\"node\":\"N\",\"t\":0,\"stream\":\"job\"}");
    return put(mirror, line);
}

/* The numbers in the spool, and g before that of a gap: "0 1 2 g5 6". */
static char *numbers(const char *path)
{
    struct spool_reader reader;
    struct buf text = BUF_INIT;
    assert_int_equal(spool_reader_open(&reader, path, NULL), 0);
    for (json_t *record; (record = spool_reader_next(&reader));) {
        bool gap = strcmp(json_string_value(json_object_get(record, "type")), "gap") == 0;
        buf_printf(&text, "%s%s%d", text.len ? " " : "", gap ? "g" : "",
                   (int)json_integer_value(json_object_get(record, "seq")));
        json_decref(record);
    }
    assert_int_equal(reader.unread, 0);
    assert_int_equal(spool_reader_rest(&reader), 0);
    spool_reader_close(&reader);
    return buf_take(&text);
}

static void expect_numbers(const char *path, const char *wanted)
{
    char *text = numbers(path);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_any_order(void **state)
{
    enum { COUNT = 2000 };
    char path[PATH_SIZE];
    unsigned order[2 * COUNT], random = 1;
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    for (unsigned i = 0; i < 2 * COUNT; i++) { /* each one twice, shuffled */
        random = random * 1103515245 + 12345;
        unsigned other = (random >> 8) % (i + 1);
        order[i] = order[other];
        order[other] = i / 2;
    }
    unsigned taken = 0;
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        int code = put_number(mirror, order[i]);
        assert_true(code == 0 || code == -EEXIST);
        taken += code == 0;
        if (i == COUNT) { /* another process goes on; what was held back comes again below */
            mirror_close(mirror);
            mirror = mirror_of(path);
        }
    }
    for (unsigned i = 0; i < COUNT; i++)
        put_number(mirror, i);
    assert_true(taken >= COUNT);
    assert_int_equal(mirror_next(mirror), COUNT);
    assert_int_equal(mirror_end(mirror), COUNT);
    mirror_close(mirror);
    struct job_model model;
    job_model_init(&model, 10);
    json_t *problems = json_array();
    assert_int_equal(job_model_read(&model, path, problems, NULL), 0);
    assert_int_equal(model.records, COUNT);
    assert_int_equal(json_array_size(problems), 0);
    json_decref(problems);
    job_model_done(&model);
}

static void test_gaps(void **state)
{
    char path[PATH_SIZE];
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    assert_int_equal(mirror_held(mirror), UINT64_MAX);
    assert_int_equal(put_number(mirror, 3), 0);
    assert_int_equal(put_number(mirror, 7), 0);
    assert_int_equal(put_number(mirror, 7), -EEXIST);
    assert_int_equal(mirror_held(mirror), 3);
    assert_int_equal(mirror_lacks_to(mirror), 7);
    assert_int_equal(mirror_next(mirror), 0);
    assert_int_equal(mirror_end(mirror), 8);
    assert_int_equal(mirror_skip(mirror, 6, "lost"), 0); /* the first is made up */
    assert_int_equal(mirror_next(mirror), 6);
    assert_int_equal(put_number(mirror, 5), -EEXIST);
    assert_int_equal(put_number(mirror, 6), 0); /* and 7 */
    assert_int_equal(mirror_skip(mirror, 7, "lost"), 0);
    assert_int_equal(mirror_next(mirror), 8);
    assert_int_equal(mirror_skip(mirror, 10, "lost"), 0);
    assert_int_equal(mirror_flush(mirror), 0);
    expect_numbers(path, "0 g2 3 g5 6 7"); /* how long the last one is, is not known yet */
    assert_int_equal(mirror_skip(mirror, 12, "lost"), 0);
    assert_int_equal(put_number(mirror, 12), 0);
    assert_int_equal(mirror_skip(mirror, 20, "lost"), 0);
    mirror_close(mirror);
    expect_numbers(path, "0 g2 3 g5 6 7 g11 12 g19");
    mirror = mirror_of(path);
    assert_int_equal(mirror_next(mirror), 20);
    assert_int_equal(put_number(mirror, 20), 0);
    mirror_close(mirror);
    expect_numbers(path, "0 g2 3 g5 6 7 g11 12 g19 20");
}

/* However short the file is that a killed writer left, the next one goes on after its last whole record. */
static void test_cut(void **state)
{
    char path[PATH_SIZE];
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    for (unsigned i = 0; i < 6; i++)
        put_number(mirror, i);
    mirror_close(mirror);
    size_t len;
    char *text = read_name(path, "spool/records.jsonl", &len);
    for (size_t cut = 0; cut <= len; cut++) {
        unsigned lines = 0;
        for (size_t i = 0; i < cut; i++)
            lines += text[i] == '\n';
        write_file(path, "spool/records.jsonl", text, cut);
        mirror = mirror_of(path);
        assert_int_equal(mirror_next(mirror), lines);
        for (unsigned i = lines; i < 6; i++)
            assert_int_equal(put_number(mirror, i), 0);
        mirror_close(mirror);
        expect_numbers(path, "0 1 2 3 4 5");
    }
    free(text);
}

static void test_two_writers(void **state)
{
    char path[PATH_SIZE];
    struct mirror *other;
    struct err err = {0};
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    assert_int_equal(mirror_open(&other, path, &err), -EWOULDBLOCK);
    assert_int_equal(mirror_remove(path, &err), -EWOULDBLOCK);
    mirror_close(mirror);
    mirror = mirror_of(path);
    mirror_close(mirror);
    assert_int_equal(mirror_remove(path, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_refused(void **state)
{
    static const char *const lines[] = {"",
                                        "x",
                                        "[]",
                                        "{}",
                                        "{\"seq\":1}",
                                        "{\"seq\":1,\"type\":\"x\"}",
                                        "{\"seq\":-1,\"type\":\"x\",\"t\":1}",
                                        "{\"seq\":1.5,\"type\":\"x\",\"t\":1}",
                                        "{\"seq\":9223372036854775807,\"type\":\"x\",\"t\":1}",
                                        "{\"seq\":9223372036854775808,\"type\":\"x\",\"t\":1}",
                                        "{\"seq\":1,\"type\":7,\"t\":1}",
                                        "{\"seq\":1,\"type\":\"x\",\"t\":\"1\"}",
                                        "{\"seq\":1,\"type\":\"x\",\"t\":1,\"job\":\"other\"}",
                                        "{\"seq\":1,\n\"type\":\"x\",\"t\":1}",
                                        "{\"seq\":1,\"type\":\"x\",\"t\":1} {}"};
    char path[PATH_SIZE];
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    assert_int_equal(put(mirror, "{\"seq\":0,\"type\":\"x\",\"t\":1}"), -EBADMSG); /* the first one says what it is */
    assert_int_equal(put_number(mirror, 0), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(put(mirror, lines[i]), -EBADMSG);
    size_t len = 100 << 20;
    char *large = malloc(len);
    memset(large, ' ', len);
    memcpy(large, "{\"seq\":1,\"type\":\"x\",\"t\":1}", 26);
    assert_int_equal(mirror_record(mirror, span_of(large, len)), -EBADMSG);
    free(large);
    /* far ahead: it does not fill the memory, and does not keep others away */
    for (unsigned i = 1000; i < 110000; i++)
        assert_int_equal(put_number(mirror, i), 0);
    assert_int_equal(mirror_end(mirror), 110000);
    for (unsigned i = 1; i < 1000; i++)
        assert_int_equal(put_number(mirror, i), 0);
    assert_int_equal(mirror_next(mirror), 101000);
    assert_int_equal(put(mirror, "{\"seq\":101000,\"type\":\"python_calls\",\"t\":7,\"omitted\":1234567}"), 0);
    mirror_close(mirror);
    char *text = numbers(path);
    assert_non_null(strstr(text, " g101000"));
    free(text);
}

/* The spool of a part comes in pieces, in any order, and the last one grows. */
static void test_pieces(void **state)
{
    char path[PATH_SIZE], bytes[MIRROR_PIECE + 1];
    size_t len;
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(mirror_file(mirror, "parts/n2/spool/records.jsonl+32768", span_str("bc")), 0);
    assert_int_equal(mirror_file(mirror, "parts/n2/spool/records.jsonl+0", span_of(bytes, MIRROR_PIECE)), 0);
    assert_int_equal(mirror_file(mirror, "parts/n2/spool/records.jsonl+32768", span_str("bcd")), 0);
    assert_int_equal(mirror_file(mirror, "parts/n2/spool/records.jsonl+0", span_of(bytes, sizeof bytes)), -EINVAL);
    assert_int_equal(mirror_file(mirror, "parts/n2/job.json", span_str("{}")), 0);
    assert_int_equal(mirror_file(mirror, "parts/n2/stats/n2/1-0.json", span_str("{}")), 0);
    char *text = read_name(path, "parts/n2/spool/records.jsonl", &len);
    assert_int_equal(len, MIRROR_PIECE + 3);
    assert_memory_equal(text, bytes, MIRROR_PIECE);
    assert_memory_equal(text + MIRROR_PIECE, "bcd", 3);
    free(text);
    mirror_close(mirror);
}

static void test_files(void **state)
{
    static const char *const refused[] = {
        "",         "/",           "/etc/x",      "..",     "../x",     "stats/../../x",
        "stats/..", "./x",         "stats//x",    "stats/", "spool",    "spool/x",
        "trace/x",  "remote.json", "mirror.lock", ".x",     "stats/.x", "a/b/c/d/e/f/g/h/i"};
    static const char *const not_of_a_part[] = {"parts",
                                                "parts/n2",
                                                "parts/n2/x",
                                                "parts/n2/trace/x",
                                                "parts/../stats/x",
                                                "parts/n2/spool/records.jsonl",
                                                "parts/n2/spool/records.jsonl+",
                                                "parts/n2/spool/records.jsonl+1",
                                                "parts/n2/spool/records.jsonl+-32768",
                                                "parts/n2/spool/records.jsonl+268435456",
                                                "parts/n2/spool/records.jsonl+9999999999999",
                                                "parts/n2/spool/x+0",
                                                "parts/n2/parts/n3/job.json"};
    char path[PATH_SIZE];
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    for (size_t i = 0; i < sizeof not_of_a_part / sizeof *not_of_a_part; i++)
        assert_int_equal(mirror_file(mirror, not_of_a_part[i], span_str("x")), -EINVAL);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(mirror_file(mirror, refused[i], span_str("x")), -EINVAL);
    char name[PATH_MAX];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    assert_int_equal(mirror_file(mirror, name, span_str("x")), -EINVAL);
    name[NAME_MAX] = 0;
    assert_int_equal(mirror_file(mirror, name, span_str("x")), -EINVAL);
    assert_int_equal(mirror_file(mirror, "stats/n\xff\n/1-2.json", span_str("old")), 0);
    assert_int_equal(mirror_file(mirror, "stats/n\xff\n/1-2.json", span_str("new")), 0);
    assert_int_equal(mirror_file(mirror, "job.json", span_str("{}")), 0);
    size_t len;
    char *text = read_name(path, "stats/n\xff\n/1-2.json", &len);
    assert_string_equal(text, "new");
    free(text);
    assert_null(mirror_read_remote(path));
    json_t *remote = json_pack("{s:s, s:f}", "via", "record", "heard", 1.5);
    assert_int_equal(mirror_remote(mirror, remote), 0);
    json_t *again = mirror_read_remote(path);
    assert_true(json_equal(remote, again));
    json_decref(remote);
    json_decref(again);
    mirror_close(mirror);
    assert_int_equal(mirror_remove(path, NULL), 0); /* with all that the publisher has sent */
    assert_int_equal(access(path, F_OK), -1);
}

static enum job_state state_of(const char *path, const char *said, double heard, bool connected, bool watched)
{
    struct mirror *mirror = mirror_of(path);
    json_t *remote = json_pack("{s:s, s:f, s:i, s:b, s:b, s:i}", "state", said, "heard", (double)time(NULL) + heard,
                               "lease_seconds", 15, "connected", connected, "watched", watched, "clock", 7200);
    assert_int_equal(mirror_remote(mirror, remote), 0);
    mirror_close(mirror);
    json_decref(remote);
    return job_state(path, &(struct job_info){.host = "elsewhere", .boot_id = ""});
}

static void test_state(void **state)
{
    char path[PATH_SIZE];
    path_of("J", path);
    assert_int_equal(state_of(path, "running", -3, true, true), JOB_RUNNING);
    assert_int_equal(state_of(path, "running", -60, true, true), JOB_UNREACHABLE);
    assert_int_equal(state_of(path, "running", -3, false, true), JOB_UNREACHABLE);
    assert_int_equal(state_of(path, "running", -3, true, false), JOB_UNWATCHED);
    assert_int_equal(state_of(path, "lost", -3, true, true), JOB_LOST);
    double ahead = (double)job_now_ns(path) / 1e9 - (double)time(NULL);
    assert_true(ahead > 7190 && ahead < 7210);
    write_file(path, "remote.json", "{", 1); /* damaged */
    assert_int_equal(job_state(path, &(struct job_info){.host = "elsewhere", .boot_id = ""}), JOB_UNREACHABLE);
}

/* What a publisher adds to the job's spool is not in the mirror's. */
static void test_same_text(void **state)
{
    static const char *const lines[][2] = {
        {"{\"stream\":\"job\",",
         "\"seq\":0,\"type\":\"spool\",\"format\":\"scry-spool\",\"job\":\"J\\\"\\u00e4\",\"node\":\"N\",\"t\":0.0}"},
        {"{\"job\":\"J\\\"\u00e4\",\"node\":\"N\",\"stream\":\"node\",", "\"seq\":1,\"type\":\"sample\",\"t\":1.50}"},
        {"{", "\"job\":\"J\\\"\u00e4\",\"node\":\"M\",\"stream\":\"node\",\"seq\":2,\"type\":\"sample\",\"t\":1}"},
        {"{", "\"seq\":3,\"type\":\"of a later version\",\"t\":1,\"stream\":\"x\"}"}};
    char path[PATH_SIZE], line[512];
    struct buf wanted = BUF_INIT;
    size_t len;
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, "%s%s", lines[i][0], lines[i][1]);
        assert_int_equal(put(mirror, line), 0);
        buf_printf(&wanted, "{%s\n", lines[i][1]);
    }
    mirror_close(mirror);
    char *text = read_name(path, "spool/records.jsonl", &len);
    assert_string_equal(text, wanted.data);
    free(text);
    buf_done(&wanted);
}

static void test_full_disk(void **state)
{
    char path[PATH_SIZE];
    path_of("J", path);
    struct mirror *mirror = mirror_of(path);
    struct rlimit before, small = {20000, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    unsigned number = 0;
    int code = 0;
    while (number < 1000000 && (code = put_number(mirror, number)) == 0)
        number++;
    assert_int_equal(code, -EFBIG);
    number = (unsigned)mirror_next(mirror); /* the rest is taken up to a limit, then refused */
    while (number < 1000000 && mirror_next(mirror) == number)
        put_number(mirror, number++);
    assert_true(number < 1000000);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(mirror_flush(mirror), 0);
    unsigned next = (unsigned)mirror_next(mirror);
    assert_int_equal(put_number(mirror, next), 0);
    mirror_close(mirror);
    mirror = mirror_of(path);
    assert_int_equal(mirror_next(mirror), next + 1);
    mirror_close(mirror);
}

static void test_paths(void **state)
{
    char path[PATH_SIZE], other[PATH_SIZE], job[300];
    assert_int_equal(mirror_path("unix:/a b/../c", "..", "", path, sizeof path, NULL), 0);
    assert_non_null(strstr(path, "/mirrors/unix%3A%2Fa%20b%2F..%2Fc/%2E./%"));
    memset(job, '/', sizeof job);
    job[sizeof job - 1] = 0;
    assert_int_equal(mirror_path("v", "o", job, path, sizeof path, NULL), 0);
    job[sizeof job - 2] = 'x';
    assert_int_equal(mirror_path("v", "o", job, other, sizeof other, NULL), 0);
    assert_string_not_equal(path, other);
    assert_int_equal(mirror_path("v", "o", "j", path, 10, NULL), -ENAMETOOLONG);
}

static void test_unused(void **state)
{
    char old[PATH_SIZE], used[PATH_SIZE], fresh[PATH_SIZE], file[PATH_SIZE + 32];
    path_of("old", old);
    path_of("used", used);
    path_of("fresh", fresh);
    mirror_close(mirror_of(old));
    struct mirror *mirror = mirror_of(used);
    const struct utimbuf then = {time(NULL) - 40 * 24 * 3600, time(NULL) - 40 * 24 * 3600};
    snprintf(file, sizeof file, "%s/mirror.lock", old);
    assert_int_equal(utime(file, &then), 0);
    snprintf(file, sizeof file, "%s/mirror.lock", used);
    assert_int_equal(utime(file, &then), 0);
    mirror_close(mirror_of(old)); /* used now */
    assert_int_equal(utime(file, &then), 0);
    snprintf(file, sizeof file, "%s/mirror.lock", old);
    assert_int_equal(utime(file, &then), 0);
    snprintf(file, sizeof file, "%s/scry/mirrors/.looked", getenv("SCRY_CACHE_DIR"));
    mirror_close(mirror_of(fresh));
    assert_int_equal(access(old, F_OK), 0); /* somebody has looked just before */
    assert_int_equal(utime(file, &then), 0);
    path_of("another", fresh);
    mirror_close(mirror_of(fresh));
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(used, F_OK), 0); /* somebody writes it */
    assert_int_equal(access(fresh, F_OK), 0);
    mirror_close(mirror);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CACHE(test_any_order), IN_CACHE(test_gaps),      IN_CACHE(test_cut),       IN_CACHE(test_two_writers),
        IN_CACHE(test_refused),   IN_CACHE(test_pieces),    IN_CACHE(test_full_disk), IN_CACHE(test_paths),
        IN_CACHE(test_files),     IN_CACHE(test_full_disk), IN_CACHE(test_paths),     IN_CACHE(test_unused),
        IN_CACHE(test_state),     IN_CACHE(test_same_text),
    };
    return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
