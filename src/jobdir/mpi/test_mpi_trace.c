/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of ranks beside their statistics: who is which, and where calls of MPI come from, as replay and exports say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/data/cleanup.h"
#include "jobdir/export/export.h"
#include "jobdir/export/replay.h"
#include "jobdir/mpi/test_mpi_fixture.h"

enum { SITE = 0x1435, SITE_TWICE = 0x1500, SITE_UNKNOWN = 0x1600 };

/* Of one rank: two files have a call at SITE_TWICE. */
static struct mpi_stats_site sites[] = {{.call = CALL_MPI_Send,
                                         .module = "/bin/solver",
                                         .offset = SITE,
                                         .function = "blocking",
                                         .file = "/src/p2p.c",
                                         .line = 7},
                                        {.call = CALL_MPI_Recv,
                                         .module = "/bin/solver",
                                         .offset = SITE,
                                         .function = "wrong",
                                         .file = "/src/p2p.c",
                                         .line = 8},
                                        {.call = CALL_MPI_Send,
                                         .module = "/bin/solver",
                                         .offset = SITE_TWICE,
                                         .function = "one",
                                         .file = "/src/a.c",
                                         .line = 1},
                                        {.call = CALL_MPI_Send,
                                         .module = "/lib/libb.so",
                                         .offset = SITE_TWICE,
                                         .function = "other",
                                         .file = "/src/b.c",
                                         .line = 2}};
static struct mpi_stats_comm comms[] = {
    {.kind = MPIA_COMM_INTRA, .parent = UINT32_MAX, .name = "MPI_COMM_WORLD", .identity = 1},
    {.kind = MPIA_COMM_INTRA, .number = 2, .name = "halves", .identity = 77}};

static void send_from(struct made_rank *rank, uint64_t begin, int32_t to, uint64_t site, uint64_t comm)
{
    const uint16_t size = sizeof to + sizeof site;
    made_record(&rank->made, RECORD_ENTRY_VALUES, begin);
    buf_put_u32(&rank->made.records, made_function(CALL_MPI_Send));
    buf_put_u32(&rank->made.records, 1);
    buf_append(&rank->made.records, &size, sizeof size);
    buf_append(&rank->made.records, &to, sizeof to);
    buf_append(&rank->made.records, &site, sizeof site);
    made_message(rank, begin + 1, MESSAGE_SENT, CALL_MPI_Send, comm, to, 3, 80, ++rank->order);
    made_exit(&rank->made, begin + 2 * US);
}

/* The traces of these ranks, in this order; each sends from three places. */
static void make(struct fixture *fixture, const int32_t *ranks, size_t count)
{
    struct err err = {0};
    char **paths;
    for (size_t i = 0; i < count; i++) {
        struct made_rank *rank = &fixture->ranks[i];
        made_rank_begin(rank, fixture->root, "a", ranks[i], i == 3 ? "v" : "w", START + i * US);
        made_text(rank->dir, ".layouts", "1\targs(dest:i4,site:p)\n");
        send_from(rank, START + 10 * US, 1, SITE, MADE_WORLD);
        send_from(rank, START + 20 * US, 1, SITE_TWICE, 77);
        send_from(rank, START + 30 * US, 1, SITE_UNKNOWN, 78);
        made_rank_end(rank);
    }
    assert_int_equal(trace_list(fixture->root, &paths, &fixture->trace_count, &err), 0);
    for (size_t i = 0; i < fixture->trace_count; i++) {
        assert_int_equal(trace_open(&fixture->traces[i], paths[i], unexpected, NULL, &err), 0);
        free(paths[i]);
    }
    free(paths);
}

static char *shown(const struct trace *trace, bool json)
{
    const struct mpi_stats stats = {.rank = 5, .sites = sites, .site_count = 4, .comms = comms, .comm_count = 2};
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    struct err err = {0};
    struct mpi_trace *mpi;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(mpi_trace_new(&mpi, trace, &stats), 0);
    const struct replay_options options = {.json = json, .start_ns = START, .mpi = mpi};
    assert_int_equal(trace_cursor_new(&cursor, (struct trace *)(uintptr_t)trace, false, &err), 0);
    assert_int_equal(replay_new(&replay, trace, &options, out), 0);
    while (trace_next(cursor, &event) == 1)
        assert_int_equal(replay_event(replay, &event), 0);
    assert_int_equal(replay_idle(replay), 0);
    replay_free(replay);
    trace_cursor_free(cursor);
    mpi_trace_free(mpi);
    fclose(out);
    return text;
}

/* In the order of ranks, whichever began first; those of another program stay together. */
static void test_order(void **state)
{
    struct fixture *fixture = *state;
    make(fixture, (const int32_t[]){2, 0, 1, 0}, 4);
    struct trace *second = fixture->traces[1], *other = fixture->traces[3];
    assert_int_equal(mpi_trace_order(fixture->traces, 4, NULL), 0);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(mpi_trace_rank(fixture->traces[i], NULL), i);
    assert_ptr_equal(fixture->traces[0], second);
    assert_ptr_equal(fixture->traces[3], other);
    assert_string_equal(mpi_trace_world(other, NULL), "v");
}

/* The line of the source stands in place of the address; where that could be two lines, or is not known, it stays. */
static void test_replay(void **state)
{
    struct fixture *fixture = *state;
    make(fixture, (const int32_t[]){2}, 1);
    _cleanup_(freep) char *text = shown(fixture->traces[0], false);
    assert_string_equal(text, "   0.000010  MPI_Send(dest = 1)  -> rank 1 tag 3 80 bytes  2.00 us  blocking (p2p.c:7)\n"
                              "   0.000020  MPI_Send(dest = 1, site = 0x1500)  -> rank 1 tag 3 80 bytes  2.00 us\n"
                              "   0.000030  MPI_Send(dest = 1, site = 0x1600)  -> rank 1 tag 3 80 bytes  2.00 us\n");
}

static const char *text_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void test_replay_json(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *file, *caller, *comm;
        int line;
    } expected[] = {{"/src/p2p.c", "blocking", "MPI_COMM_WORLD", 7}, {"", "", "halves", 0}, {"", "", "", 0}};
    make(fixture, (const int32_t[]){2}, 1);
    _cleanup_(freep) char *text = shown(fixture->traces[0], true);
    unsigned calls = 0, messages = 0;
    for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest));) {
        json_t *object = json_loads(line, 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(object, "rank")), 2);
        if (strcmp(text_in(object, "event"), "message") == 0) {
            assert_string_equal(text_in(object, "comm_name"), expected[messages++].comm);
        } else {
            assert_string_equal(text_in(object, "file"), expected[calls].file);
            assert_string_equal(text_in(object, "caller"), expected[calls].caller);
            assert_int_equal(json_integer_value(json_object_get(object, "line")), expected[calls++].line);
        }
        json_decref(object);
    }
    assert_int_equal(calls, 3);
    assert_int_equal(messages, 3);
}

static char *exported(const struct trace *trace, const char *name)
{
    const struct export_format *format = export_format_find(name);
    const struct mpi_stats stats = {.rank = 5, .sites = sites, .site_count = 4};
    struct exporter exporter = {.start_ns = START, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .trace = trace};
    const struct call_filter filter = {0};
    struct call_visitor visitor = format->visitor;
    struct calls *calls;
    struct trace_cursor *cursor;
    struct trace_event event;
    struct err err = {0};
    char *text = NULL;
    size_t size;
    visitor.ctx = &exporter;
    exporter.out = open_memstream(&text, &size);
    assert_int_equal(mpi_trace_new(&exporter.mpi, trace, &stats), 0);
    assert_int_equal(format->begin(&exporter), 0);
    assert_int_equal(trace_cursor_new(&cursor, (struct trace *)(uintptr_t)trace, false, &err), 0);
    assert_int_equal(calls_new(&calls, trace, &filter, &visitor), 0);
    if (format->trace_begin)
        assert_int_equal(format->trace_begin(&exporter), 0);
    while (trace_next(cursor, &event) == 1)
        assert_int_equal(calls_event(calls, &event), 0);
    if (format->trace_end)
        assert_int_equal(format->trace_end(&exporter), 0);
    if (format->end)
        assert_int_equal(format->end(&exporter), 0);
    calls_free(calls);
    trace_cursor_free(cursor);
    export_flush(&exporter, true);
    if (format->done)
        format->done(&exporter);
    buf_done(&exporter.text);
    mpi_trace_free(exporter.mpi);
    fclose(exporter.out);
    return text;
}

static void test_exports(void **state)
{
    struct fixture *fixture = *state;
    make(fixture, (const int32_t[]){2}, 1);
    _cleanup_(freep) char *csv = exported(fixture->traces[0], "csv");
    assert_non_null(strstr(csv, ",args,locals,result,rank,caller,signature,from_function,from_file,from_line,statics,"
                                "cpu_ns,waiting_ns,preempted_ns\r\n"));
    assert_non_null(
        strstr(csv, ",0,MPI_Send,/src/p2p.c,7,0.000010000,2000,returned,dest = 1,,,2,blocking,,,,,,,,\r\n"));
    assert_non_null(
        strstr(csv, ",0,MPI_Send,,0,0.000020000,2000,returned,\"dest = 1, site = 0x1500\",,,2,,,,,,,,,\r\n"));
    _cleanup_(freep) char *chrome = exported(fixture->traces[0], "chrome");
    assert_non_null(strstr(chrome, "\"caller\":\"blocking\",\"source\":\"/src/p2p.c:7\"}}"));
    assert_null(strstr(chrome, "\"one\""));
}

static void test_values(void **state)
{
    static const struct {
        const char *text, *shown;
    } each[] = {{"dest = 1, site = 0x1435", "dest = 1"},
                {"site = 0xffffffffffffffff", ""},
                {"dest = 1", "dest = 1"},
                {"", ""},
                {"site = 0x1, name = \"site = 0x2, dest = -2\"", "name = \"site = 0x2, dest = -2\""},
                {"n = 2, site = 0x1, name = \"x\"", "n = 2, name = \"x\""},
                {"website = 0x12", "website = 0x12"},
                {"dest = -2, sendtag = 3, source = -1, recvtag = -1, comm = 0", /* a tag to send by is never any */
                 "dest = MPI_PROC_NULL, sendtag = 3, source = MPI_ANY_SOURCE, recvtag = MPI_ANY_TAG, comm = 0"},
                {"root = -4, color = -1, key = -2", "root = MPI_ROOT, color = -1, key = -2"},
                {"dest = -12, tag = -1...", "dest = -12, tag = -1..."},
                {"= , = ,", "= , = ,"}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        buf_puts(&text, "f(");
        buf_puts(&text, each[i].text);
        mpi_trace_show_values(&text, 2, true);
        assert_string_equal(text.data + 2, each[i].shown);
    }
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    mpi_trace_show_values(&text, 0, true);
    assert_int_equal(text.len, 0);
    buf_puts(&text, "source = -1, site = 0x14");
    mpi_trace_show_values(&text, 0, false); /* its line is not known */
    assert_string_equal(text.data, "source = MPI_ANY_SOURCE, site = 0x14");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replay_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exports, setup, teardown),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
