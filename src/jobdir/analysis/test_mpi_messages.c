/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/export/export.h"
#include "jobdir/export/replay.h"
#include "jobdir/mpi/test_mpi_fixture.h"

static const struct mpi_wait *wait_of(const struct mpi_messages *messages, enum mpi_wait_kind kind)
{
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next)
        if (wait->key.kind == kind)
            return wait;
    return NULL;
}

/* ---- matching ---- */

static void test_matched(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    made_send(a, CALL_MPI_Send, START + 100 * US, START + 102 * US, 1, 7, 800);
    made_send(a, CALL_MPI_Send, START + 200 * US, START + 202 * US, 1, 7, 900);
    made_send(a, CALL_MPI_Send, START + 204 * US, START + 206 * US, 1, 8, 10);
    made_receive(b, START + 90 * US, START + 105 * US, 0, 7, 800);
    made_receive(b, START + 210 * US, START + 211 * US, 0, 8, 10); /* other tag: no order between them */
    made_receive(b, START + 310 * US, START + 312 * US, 0, 7, 900);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->rank_count, 2);
    assert_int_equal(messages->matched, 3);
    assert_int_equal(messages->matched_bytes, 1710);
    assert_int_equal(messages->unreceived + messages->unsent + messages->sent_unsure + messages->foreign, 0);
    assert_int_equal(messages->ranks[0].sent[0].other, 0);
    assert_int_equal(messages->ranks[0].sent[1].other, 2);
    assert_int_equal(messages->ranks[0].sent[2].other, 1);
    assert_int_equal(messages->ranks[1].got[2].other, 1);
    assert_int_equal(messages->ranks[0].sent[0].begin, 100 * US);
    assert_int_equal(messages->ranks[1].got[0].end, 105 * US);
    assert_string_equal(messages->comm_list[0]->name, "MPI_COMM_WORLD");
    /* a receive that waits 10 us for a send that began later */
    const struct mpi_wait *wait = wait_of(messages, MPI_WAIT_LATE_SENDER);
    assert_non_null(wait);
    assert_int_equal(wait->total_ns, 10 * US);
    assert_int_equal(messages->slowest[0].ns, 112 * US);
}

static void test_non_overtaking(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    made_send(a, CALL_MPI_Isend, START + 100 * US, START + 101 * US, 1, 3, 1);
    made_send(a, CALL_MPI_Isend, START + 110 * US, START + 111 * US, 1, 3, 2);
    /* both posted, the second is waited for first: it still is the second message */
    made_call(b, CALL_MPI_Irecv, START + 50 * US, START + 51 * US);
    made_call(b, CALL_MPI_Irecv, START + 60 * US, START + 61 * US);
    made_enter(&b->made, START + 120 * US, made_function(CALL_MPI_Wait));
    made_message(b, START + 121 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 0, 3, 2, 2);
    made_exit(&b->made, START + 122 * US);
    made_enter(&b->made, START + 130 * US, made_function(CALL_MPI_Wait));
    made_message(b, START + 131 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 0, 3, 1, 1);
    made_exit(&b->made, START + 132 * US);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 2);
    assert_int_equal(messages->ranks[1].got[0].other, 1);
    assert_int_equal(messages->ranks[1].got[1].other, 0);
    assert_int_equal(messages->ranks[1].got[0].bytes, messages->ranks[0].sent[1].bytes);
}

static void test_wildcard(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 3, one_node);
    made_send(&fixture->ranks[0], CALL_MPI_Send, START + 100 * US, START + 101 * US, 2, 1, 10);
    made_send(&fixture->ranks[1], CALL_MPI_Send, START + 100 * US, START + 101 * US, 2, 1, 20);
    made_send(&fixture->ranks[0], CALL_MPI_Send, START + 120 * US, START + 121 * US, 2, 1, 11);
    /* from anybody: the status says from whom */
    made_receive(&fixture->ranks[2], START + 90 * US, START + 110 * US, 1, 1, 20);
    made_receive(&fixture->ranks[2], START + 111 * US, START + 112 * US, 0, 1, 10);
    made_receive(&fixture->ranks[2], START + 113 * US, START + 130 * US, 0, 1, 11);
    const struct mpi_messages *messages = load(fixture, 3, 0);
    assert_int_equal(messages->matched, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct mpi_end *got = &messages->ranks[2].got[i];
        assert_int_equal(messages->ranks[got->peer].sent[got->other].bytes, got->bytes);
    }
}

static void test_self_and_unreceived(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0];
    begin(fixture, 2, one_node);
    made_send(a, CALL_MPI_Isend, START + 100 * US, START + 101 * US, 0, 1, 4); /* to itself */
    made_receive(a, START + 110 * US, START + 111 * US, 0, 1, 4);
    for (unsigned i = 0; i < 3; i++)
        made_send(a, CALL_MPI_Isend, START + (120 + i) * US, START + (120 + i) * US + 1, 1, 5, 4);
    made_receive(&fixture->ranks[1], START + 110 * US, START + 130 * US, 0, 5, 4);
    made_send(a, CALL_MPI_Isend, START + 150 * US, START + 151 * US, 77, 5, 4); /* no trace of rank 77 */
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 2);
    assert_int_equal(messages->unreceived, 2);
    assert_int_equal(messages->foreign, 1);
    assert_int_equal(messages->left_count, 1);
    assert_int_equal(messages->left[0].sent, 2);
    assert_int_equal(messages->left[0].to, 1);
    assert_int_equal(messages->left[0].tag, 5);
    assert_true(messages->ranks[0].sent[2].other == MPI_OTHER_NONE);
}

/* Which message a receive got that was given up cannot be seen: from there on it is not known which are the others'. */
static void test_freed(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 3; i++)
        made_send(a, CALL_MPI_Send, START + (100 + 10 * i) * US, START + (101 + 10 * i) * US, 1, 5, 4);
    made_receive(b, START + 102 * US, START + 103 * US, 0, 5, 4);
    made_message(b, START + 104 * US, MESSAGE_FREED, CALL_MPI_Irecv, MADE_WORLD, 0, 5, 4, ++b->order);
    made_receive(b, START + 125 * US, START + 126 * US, 0, 5, 4); /* of the third, not of the second */
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 1);
    assert_int_equal(messages->unreceived + messages->unsent, 0);
    assert_int_equal(messages->sent_unsure, 2);
    assert_int_equal(messages->got_unsure, 1);
}

static void find_switched_off(void *ctx, const char *line)
{
    *(bool *)ctx |= strstr(line, "recording of 1 rank was switched off before the last calls of MPI") != NULL;
}

/* A rank whose recording was switched off before its last calls, whether it came to MPI_Finalize or was killed: what it
 * was sent, it may have received since, and what others received of it, it may have sent since. */
static void test_switched_off(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    struct mpi_stats stats[2] = {0};
    struct mpi_stats_set set = {.ranks = stats, .count = 2};
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 3; i++)
        made_send(a, CALL_MPI_Send, START + (100 + 10 * i) * US, START + (101 + 10 * i) * US, 1, 5, 4);
    made_receive(b, START + 102 * US, START + 103 * US, 0, 5, 4);
    made_receive(a, START + 150 * US, START + 160 * US, 1, 6, 4); /* of what rank 1 sent then */
    made_call(a, CALL_MPI_Finalize, START + 200 * US, START + 210 * US);
    for (size_t i = 0; i < 2; i++)
        stats[i] = (struct mpi_stats){.name = "",
                                      .node = "a",
                                      .exe = "",
                                      .namespace = "w",
                                      .pid = atoi(strrchr(fixture->ranks[i].dir, '/') + 1),
                                      .rank = (int32_t)i,
                                      .world_size = 2,
                                      .state = MPIA_RUNNING,
                                      .unrecorded = i == 1};
    const struct mpi_messages *messages = load_with(fixture, 2, 0, &set);
    assert_int_equal(messages->matched, 1);
    assert_int_equal(messages->unreceived + messages->unsent, 0);
    assert_int_equal(messages->sent_unsure, 2);
    assert_int_equal(messages->got_unsure, 1);
    assert_true(messages->ranks[0].sent[2].other == MPI_OTHER_AMBIGUOUS);
    bool said = false;
    mpi_messages_notes(messages, find_switched_off, &said);
    assert_true(said);
}

/* Never a guess: what was lost could be any of them. */
static void test_lost_by_receiver(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 10; i++)
        made_send(a, CALL_MPI_Send, START + (100 + 10 * i) * US, START + (101 + 10 * i) * US, 1, 1, i);
    for (unsigned i = 0; i < 4; i++)
        made_receive(b, START + (102 + 10 * i) * US, START + (103 + 10 * i) * US, 0, 1, i);
    b->order++; /* one more receive was recorded, but is lost */
    made_lose(b, 3, START + 150 * US);
    for (unsigned i = 5; i < 10; i++)
        made_receive(b, START + (202 + 10 * i) * US, START + (203 + 10 * i) * US, 0, 1, i);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 4);
    assert_int_equal(messages->sent_unsure, 6);
    assert_int_equal(messages->got_unsure, 5);
    assert_int_equal(messages->unreceived, 0);
    assert_int_equal(messages->ranks[1].lost, 3);
    assert_true(messages->ranks[1].got[4].other == MPI_OTHER_AMBIGUOUS);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    mpi_messages_text(&text, messages);
    assert_non_null(strstr(text.data, "6 sends and 5 receives are ambiguous"));
}

static void test_lost_by_sender(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 3, one_node);
    made_send(a, CALL_MPI_Send, START + 100 * US, START + 101 * US, 1, 1, 0);
    a->order++;
    made_lose(a, 1, START + 150 * US);
    made_send(a, CALL_MPI_Send, START + 200 * US, START + 201 * US, 1, 1, 0);
    made_receive(b, START + 102 * US, START + 103 * US, 0, 1, 0);
    made_receive(b, START + 202 * US, START + 203 * US, 0, 1, 0);
    /* channels that the rank has no part in are as certain as before */
    made_send(&fixture->ranks[2], CALL_MPI_Send, START + 300 * US, START + 301 * US, 1, 1, 0);
    made_receive(b, START + 300 * US, START + 303 * US, 2, 1, 0);
    const struct mpi_messages *messages = load(fixture, 3, 0);
    assert_int_equal(messages->matched, 2);
    assert_int_equal(messages->sent_unsure, 1);
    assert_int_equal(messages->got_unsure, 1);
}

static void test_begun_late(void **state)
{
    struct fixture *fixture = *state;
    for (int32_t i = 0; i < 2; i++)
        made_rank_begin(&fixture->ranks[i], fixture->root, "a", i, "w", START);
    made_send(&fixture->ranks[0], CALL_MPI_Send, START + 100 * US, START + 101 * US, 1, 1, 0);
    made_receive(&fixture->ranks[1], START + 102 * US, START + 103 * US, 0, 1, 0);
    made_all(&fixture->ranks[0], CALL_MPI_Barrier, START + 200 * US, START + 300 * US, MADE_WORLD, MPIA_RANK_NONE, 17);
    made_all(&fixture->ranks[1], CALL_MPI_Barrier, START + 290 * US, START + 300 * US, MADE_WORLD, MPIA_RANK_NONE, 17);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 0);
    assert_int_equal(messages->sent_unsure, 1);
    assert_int_equal(messages->got_unsure, 1);
    assert_int_equal(messages->collectives, 1); /* these have numbers */
}

static void test_limit(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 10; i++)
        made_send(&fixture->ranks[0], CALL_MPI_Send, START + (100 + 10 * i) * US, START + (101 + 10 * i) * US, 1, 1, i);
    for (unsigned i = 0; i < 10; i++)
        made_receive(&fixture->ranks[1], START + (102 + 10 * i) * US, START + (103 + 10 * i) * US, 0, 1, i);
    const struct mpi_messages *messages = load(fixture, 2, 13);
    assert_int_equal(messages->unkept, 7);
    assert_int_equal(messages->matched, 3);
    assert_int_equal(messages->sent_unsure, 7);
}

static void test_two_programs(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, one_node);
    for (int32_t i = 0; i < 2; i++) { /* the same ranks once more, later, and not distinguished by name */
        made_rank_begin(&fixture->ranks[2 + i], fixture->root, "a", i, "w", START + 50 * MS);
        made_call(&fixture->ranks[2 + i], CALL_MPI_Init, START + 51 * MS, START + 52 * MS);
    }
    for (unsigned i = 0; i < 4; i += 2) {
        made_send(&fixture->ranks[i], CALL_MPI_Send, START + 60 * MS, START + 61 * MS, 1, 1, i);
        made_receive(&fixture->ranks[i + 1], START + 60 * MS, START + 62 * MS, 0, 1, i);
    }
    const struct mpi_messages *messages = load(fixture, 4, 0);
    assert_int_equal(messages->worlds, 2);
    assert_int_equal(messages->matched, 2);
    for (size_t i = 1; i < 4; i += 2)
        assert_int_equal(messages->ranks[i].got[0].bytes, messages->ranks[i - 1].sent[0].bytes);
}

/* ---- waiting ---- */

static void test_waits(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *ranks = fixture->ranks;
    begin(fixture, 3, one_node);
    /* a rendezvous: the receive comes 40 us later */
    made_send(&ranks[0], CALL_MPI_Send, START + 100 * US, START + 150 * US, 1, 1, 1 << 20);
    made_receive(&ranks[1], START + 140 * US, START + 151 * US, 0, 1, 1 << 20);
    /* one wait for two messages: for the later one */
    made_call(&ranks[2], CALL_MPI_Irecv, START + 190 * US, START + 191 * US);
    made_call(&ranks[2], CALL_MPI_Irecv, START + 192 * US, START + 193 * US);
    made_send(&ranks[0], CALL_MPI_Send, START + 210 * US, START + 211 * US, 2, 1, 4);
    made_send(&ranks[1], CALL_MPI_Send, START + 230 * US, START + 231 * US, 2, 1, 4);
    made_enter(&ranks[2].made, START + 200 * US, made_function(CALL_MPI_Waitall));
    made_message(&ranks[2], START + 234 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 0, 1, 4, 1);
    made_message(&ranks[2], START + 234 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 1, 1, 4, 2);
    made_exit(&ranks[2].made, START + 235 * US);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t late = i == 1 ? 80 * US : 10 * US * i;
        made_all(&ranks[i], CALL_MPI_Barrier, START + 300 * US + late, START + 385 * US, MADE_WORLD, MPIA_RANK_NONE, 1);
        made_all(&ranks[i], CALL_MPI_Bcast, START + 400 * US + (i == 0) * 30 * US, START + 440 * US, MADE_WORLD, 0, 2);
        made_enter(&ranks[i].made, START + 500 * US, made_function(CALL_MPI_Ibarrier));
        made_message(&ranks[i], START + 501 * US, MESSAGE_COLLECTIVE, CALL_MPI_Ibarrier, MADE_WORLD, MPIA_RANK_NONE, -1,
                     0, 3);
        made_exit(&ranks[i].made, START + 502 * US);
        made_enter(&ranks[i].made, START + 600 * US, made_function(CALL_MPI_Wait));
        made_message(&ranks[i], START + 601 * US, MESSAGE_COLLECTIVE_DONE, CALL_MPI_Ibarrier, MADE_WORLD,
                     MPIA_RANK_NONE, -1, 0, 3);
        made_exit(&ranks[i].made, START + 602 * US);
    }
    const struct mpi_messages *messages = load(fixture, 3, 0);
    const struct mpi_wait *wait = wait_of(messages, MPI_WAIT_LATE_RECEIVER);
    assert_int_equal(wait->total_ns, 40 * US);
    assert_true(wait->by_rank[1] == 40 * US);
    wait = wait_of(messages, MPI_WAIT_LATE_SENDER);
    assert_int_equal(wait->count, 1);
    assert_int_equal(wait->total_ns, 30 * US);
    assert_true(wait->by_rank[1] == 30 * US);
    wait = wait_of(messages, MPI_WAIT_COLLECTIVE);
    assert_int_equal(wait->total_ns, 80 * US + 60 * US);
    assert_int_equal(messages->place_list[wait->key.place]->key.call, CALL_MPI_Barrier);
    wait = wait_of(messages, MPI_WAIT_ROOT);
    assert_int_equal(wait->total_ns, 2 * 30 * US);
    assert_int_equal(messages->collectives, 3);
    assert_int_equal(messages->ranks[0].parts[2].begin, 500 * US);
    assert_int_equal(messages->ranks[0].parts[2].end, 602 * US);
    json_t *report = json_object();
    mpi_messages_json(report, messages);
    json_t *waits = json_object_get(json_object_get(report, "mpi_trace"), "waits");
    assert_int_equal(json_array_size(waits), 4);
    assert_string_equal(json_string_value(json_object_get(json_array_get(waits, 0), "kind")), "collective");
    json_decref(report);
}

static int count_ranks(void *ctx, const struct mpi_operation *operation)
{
    ((size_t *)ctx)[operation->count]++;
    return 0;
}

static void test_operations(void **state)
{
    struct fixture *fixture = *state;
    size_t by_count[5] = {0};
    begin(fixture, 3, one_node);
    for (unsigned i = 0; i < 3; i++) {
        made_all(&fixture->ranks[i], CALL_MPI_Barrier, START + 100 * US, START + 200 * US, MADE_WORLD, MPIA_RANK_NONE,
                 1);
        made_all(&fixture->ranks[i], CALL_MPI_Barrier, START + 300 * US, START + 301 * US, 2, MPIA_RANK_NONE, 1);
        if (i < 2) /* a communicator of two */
            made_all(&fixture->ranks[i], CALL_MPI_Barrier, START + 400 * US, START + 401 * US, 0xabcdef, MPIA_RANK_NONE,
                     1);
    }
    const struct mpi_messages *messages = load(fixture, 3, 0);
    assert_int_equal(mpi_messages_each_operation(messages, count_ranks, by_count), 0);
    assert_int_equal(by_count[3], 1);
    assert_int_equal(by_count[2], 1);
    assert_int_equal(by_count[1], 0);
}

/* ---- exports and replay ---- */

static char *exported(struct fixture *fixture, const char *name, int64_t from_ns, int64_t to_ns)
{
    char *text = NULL;
    size_t size;
    const struct export_format *format = export_format_find(name);
    struct exporter exporter = {.out = open_memstream(&text, &size),
                                .start_ns = START,
                                .messages = fixture->messages,
                                .from_ns = from_ns,
                                .to_ns = to_ns,
                                .title = "a <title> & more",
                                .command = "mpirun solver"};
    assert_int_equal(format->begin(&exporter), 0);
    for (size_t i = 0; format->messages != EXPORT_MESSAGES_ONLY && i < fixture->trace_count; i++) {
        struct trace_cursor *cursor;
        struct calls *calls;
        struct trace_event event;
        struct call_visitor visitor = format->visitor;
        visitor.ctx = &exporter;
        exporter.trace = fixture->traces[i];
        exporter.number = i;
        assert_int_equal(trace_cursor_new(&cursor, fixture->traces[i], false, NULL), 0);
        assert_int_equal(calls_new(&calls, fixture->traces[i], &(struct call_filter){0}, &visitor), 0);
        assert_int_equal(format->trace_begin ? format->trace_begin(&exporter) : 0, 0);
        while (trace_next(cursor, &event) == 1)
            assert_int_equal(calls_event(calls, &event), 0);
        assert_int_equal(format->trace_end ? format->trace_end(&exporter) : 0, 0);
        calls_free(calls);
        trace_cursor_free(cursor);
    }
    assert_int_equal(format->end ? format->end(&exporter) : 0, 0);
    export_flush(&exporter, true);
    if (format->done)
        format->done(&exporter);
    assert_false(exporter.failed);
    fclose(exporter.out);
    buf_done(&exporter.text);
    return text;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    while ((text = strstr(text, word))) {
        count++;
        text += strlen(word);
    }
    return count;
}

static void make_exchange(struct fixture *fixture, unsigned times)
{
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < times; i++) {
        uint64_t at = START + 100 * US + (uint64_t)i * 10 * US;
        made_send(&fixture->ranks[0], CALL_MPI_Send, at, at + US, 1, 7, 800);
        made_receive(&fixture->ranks[1], at, at + 2 * US, 0, 7, 800);
        made_all(&fixture->ranks[0], CALL_MPI_Barrier, at + 4 * US, at + 8 * US, MADE_WORLD, MPIA_RANK_NONE, i + 1);
        made_all(&fixture->ranks[1], CALL_MPI_Barrier, at + 5 * US, at + 8 * US, MADE_WORLD, MPIA_RANK_NONE, i + 1);
    }
    load(fixture, 2, 0);
}

static void test_arrows(void **state)
{
    struct fixture *fixture = *state;
    make_exchange(fixture, 20);
    _cleanup_(freep) char *text = exported(fixture, "chrome", INT64_MIN, INT64_MAX);
    json_t *json = json_loads(text, 0, NULL), *event, *starts[20] = {0};
    size_t index, ends = 0;
    assert_non_null(json);
    json_array_foreach(json_object_get(json, "traceEvents"), index, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        size_t id = (size_t)json_integer_value(json_object_get(event, "id"));
        if (strcmp(phase, "s") == 0) {
            assert_true(id < 20 && !starts[id]);
            starts[id] = event;
        } else if (strcmp(phase, "f") == 0) {
            assert_true(id < 20 && starts[id]); /* rank 0 comes first */
            assert_true(json_number_value(json_object_get(event, "ts")) >
                        json_number_value(json_object_get(starts[id], "ts")));
            ends++;
        }
    }
    assert_int_equal(ends, 20);
    assert_non_null(strstr(text, "\"rank 1 (a), solver"));
    assert_int_equal(count_of(text, "process_sort_index"), 2);
    json_decref(json);
}

/* Of calls that were left out (--rate) there are the messages: an arrow has both ends, or none, and something to be
 * bound to. */
static void test_arrows_of_calls_left_out(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 4; i++) { /* the calls of neither, of the one, the other, and both are recorded */
        uint64_t at = START + 100 * US + (uint64_t)i * 10 * US;
        if (i & 1)
            made_send(&fixture->ranks[0], CALL_MPI_Send, at, at + US, 1, 7, 800);
        else
            made_message(&fixture->ranks[0], at, MESSAGE_SENT, CALL_MPI_Send, MADE_WORLD, 1, 7, 800,
                         ++fixture->ranks[0].order);
        if (i & 2)
            made_receive(&fixture->ranks[1], at, at + 2 * US, 0, 7, 800);
        else
            made_message(&fixture->ranks[1], at + 2 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, MADE_WORLD, 0, 7, 800,
                         ++fixture->ranks[1].order);
    }
    load(fixture, 2, 0);
    _cleanup_(freep) char *text = exported(fixture, "chrome", INT64_MIN, INT64_MAX);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(count_of(text, "\"ph\":\"s\""), 4);
    assert_int_equal(count_of(text, "\"ph\":\"f\""), 4);
    assert_int_equal(count_of(text, "\"dur\":0.001,\"name\":\"MPI_Send\",\"args\":{\"recorded\":false}"), 2);
    assert_int_equal(count_of(text, "\"dur\":0.001,\"name\":\"MPI_Recv\",\"args\":{\"recorded\":false}"), 2);
    json_decref(json);
}

static void test_messages_csv(void **state)
{
    struct fixture *fixture = *state;
    make_exchange(fixture, 3);
    _cleanup_(freep) char *text = exported(fixture, "messages", INT64_MIN, INT64_MAX);
    assert_int_equal(count_of(text, "\r\n"), 4);
    assert_non_null(strstr(text, "\r\n1,0,1,MPI_COMM_WORLD,7,800,0.000100000,0.000102000,2000,matched,MPI_Send,,"
                                 "MPI_Recv,,1\r\n"));
    _cleanup_(freep) char *part = exported(fixture, "messages", 105 * US, 115 * US);
    assert_int_equal(count_of(part, "\r\n"), 2);
}

static void test_spacetime(void **state)
{
    struct fixture *fixture = *state;
    make_exchange(fixture, 20);
    _cleanup_(freep) char *text = exported(fixture, "spacetime", INT64_MIN, INT64_MAX);
    assert_int_equal(count_of(text, "<g class=\"rank\""), 2);
    assert_int_equal(count_of(text, "<title>rank 0 → rank 1, tag 7"), 20);
    assert_int_equal(count_of(text, "<title>MPI_Barrier, number"), 20);
    assert_int_equal(count_of(text, "<title>MPI_Barrier, "), 20 + 40);
    assert_int_equal(count_of(text, "<title>MPI_Recv, "), 20);
    assert_non_null(strstr(text, "a &lt;title&gt; &amp; more"));
    assert_non_null(strstr(text, "20 messages; 20 collective operations."));
    assert_null(strstr(text, "<script"));
}

static void test_spacetime_thinned(void **state)
{
    struct fixture *fixture = *state;
    make_exchange(fixture, 6000);
    _cleanup_(freep) char *text = exported(fixture, "spacetime", INT64_MIN, INT64_MAX);
    size_t lines = count_of(text, "<title>rank 0 → rank 1, tag 7");
    assert_true(lines >= 300 && lines <= 310);
    assert_non_null(strstr(text, "6000 messages, of which one in 20 is drawn"));
    assert_non_null(strstr(text, "2 lanes have more than 4400 calls"));
    assert_true(strlen(text) < 400000);
    /* a part of it is shown whole */
    _cleanup_(freep) char *part = exported(fixture, "spacetime", 10 * MS, 11 * MS);
    assert_null(strstr(part, "is drawn"));
    assert_int_equal(count_of(part, "<title>MPI_Send, "), 101);
}

static void test_replay(void **state)
{
    struct fixture *fixture = *state;
    char *text = NULL;
    size_t size;
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    make_exchange(fixture, 1);
    for (unsigned json = 0; json < 2; json++) {
        FILE *out = open_memstream(&text, &size);
        const struct replay_options options = {.start_ns = START, .json = json};
        assert_int_equal(replay_new(&replay, fixture->traces[0], &options, out), 0);
        assert_int_equal(trace_cursor_new(&cursor, fixture->traces[0], false, NULL), 0);
        while (trace_next(cursor, &event) == 1)
            assert_int_equal(replay_event(replay, &event), 0);
        assert_int_equal(replay_idle(replay), 0);
        trace_cursor_free(cursor);
        replay_free(replay);
        fclose(out);
        if (json)
            assert_non_null(strstr(text, "\"event\":\"message\",\"kind\":\"sent\",\"call\":\"MPI_Send\",\"comm\":"
                                         "\"0000000000000001\",\"peer\":1,\"tag\":7,\"bytes\":800,\"order\":1}\n"));
        else
            assert_non_null(strstr(text, "MPI_Send()  -> rank 1 tag 7 800 bytes  1.00 us\n"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matched, setup, teardown),
        cmocka_unit_test_setup_teardown(test_non_overtaking, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wildcard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_self_and_unreceived, setup, teardown),
        cmocka_unit_test_setup_teardown(test_switched_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_freed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_by_receiver, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_by_sender, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arrows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arrows_of_calls_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_csv, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spacetime, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spacetime_thinned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
