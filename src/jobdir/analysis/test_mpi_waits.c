/* SPDX-License-Identifier: Apache-2.0 */
/* Who waited for whom, and what is said not to be judged. Every rank's records are made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/test_mpi_fixture.h"

static const struct mpi_wait *wait_in(const struct mpi_messages *messages, uint32_t call)
{
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next)
        if (messages->place_list[wait->key.place]->key.call == call)
            return wait;
    return NULL;
}

static void check_wait(const struct mpi_messages *messages, uint32_t call, enum mpi_wait_kind kind, uint32_t cause,
                       uint32_t rank, int64_t ns)
{
    const struct mpi_wait *wait = wait_in(messages, call);
    if (!wait)
        fail_msg("nobody waited in %s", call_infos[call].name);
    assert_int_equal(wait->key.kind, kind);
    assert_int_equal(messages->place_list[wait->key.cause]->key.call, cause);
    assert_int_equal(wait->total_ns, ns);
    assert_true(wait->by_rank[rank] == (double)ns);
}

/* A call of a rank in which this happens. */
static void happens(struct made_rank *rank, uint32_t call, uint64_t begin, uint64_t end, enum message_kind kind,
                    uint32_t of, int32_t peer, uint64_t order)
{
    made_enter(&rank->made, START + begin, made_function(call));
    made_message(rank, START + end - 1, kind, of, MADE_WORLD, peer, 5, 64, order);
    made_exit(&rank->made, START + end);
}

/* ---- probes ---- */

static void test_probe(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    happens(a, CALL_MPI_Send, 50 * US, 51 * US, MESSAGE_SENT, CALL_MPI_Send, 1, 1);
    happens(a, CALL_MPI_Send, 150 * US, 151 * US, MESSAGE_SENT, CALL_MPI_Send, 1, 2);
    happens(a, CALL_MPI_Send, 350 * US, 351 * US, MESSAGE_SENT, CALL_MPI_Send, 1, 3);
    happens(b, CALL_MPI_Recv, 60 * US, 61 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 1);
    happens(b, CALL_MPI_Probe, 100 * US, 155 * US, MESSAGE_PROBED, CALL_MPI_Probe, 0, 2);
    happens(b, CALL_MPI_Recv, 160 * US, 161 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 2);
    happens(b, CALL_MPI_Mprobe, 200 * US, 355 * US, MESSAGE_PROBED, CALL_MPI_Mprobe, 0, 3);
    happens(b, CALL_MPI_Mrecv, 360 * US, 361 * US, MESSAGE_RECEIVED, CALL_MPI_Mrecv, 0, 3);
    happens(b, CALL_MPI_Probe, 400 * US, 401 * US, MESSAGE_PROBED, CALL_MPI_Probe, 0, 4); /* never received */
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 3);
    check_wait(messages, CALL_MPI_Probe, MPI_WAIT_LATE_SENDER, CALL_MPI_Send, 0, 50 * US);
    check_wait(messages, CALL_MPI_Mprobe, MPI_WAIT_LATE_SENDER, CALL_MPI_Send, 0, 150 * US);
    assert_int_equal(HASH_COUNT(messages->waits), 2);
    assert_int_equal(messages->unjudged[CALL_MPI_Probe].count, 1);
    assert_int_equal(messages->unjudged[CALL_MPI_Probe].ns, 1 * US);
}

/* Where a receive may be missing, the next one need not be the one that got it. */
static void test_probe_lost(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 3; i++)
        happens(a, CALL_MPI_Send, (50 + 100 * i) * US, (51 + 100 * i) * US, MESSAGE_SENT, CALL_MPI_Send, 1, i + 1);
    happens(b, CALL_MPI_Probe, 10 * US + 30 * US, 55 * US, MESSAGE_PROBED, CALL_MPI_Probe, 0, 1);
    made_lose(b, 1, START + 60 * US);
    happens(b, CALL_MPI_Recv, 160 * US, 161 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 2);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_null(wait_in(messages, CALL_MPI_Probe));
    assert_int_equal(messages->unjudged[CALL_MPI_Probe].count, 1);
}

/* ---- what one call begins and another one completes ---- */

static void test_send_completed(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    /* its receive was posted 80 us after the wait for it began */
    happens(a, CALL_MPI_Isend, 100 * US, 101 * US, MESSAGE_SENT, CALL_MPI_Isend, 1, 1);
    happens(a, CALL_MPI_Wait, 120 * US, 210 * US, MESSAGE_SENT_DONE, CALL_MPI_Isend, 1, 1);
    happens(b, CALL_MPI_Irecv, 200 * US, 201 * US, MESSAGE_POSTED, CALL_MPI_Irecv, 0, 1);
    happens(b, CALL_MPI_Wait, 202 * US, 212 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, 0, 1);
    /* a blocking send, and a receive that does not block */
    happens(a, CALL_MPI_Send, 300 * US, 360 * US, MESSAGE_SENT, CALL_MPI_Send, 1, 2);
    happens(b, CALL_MPI_Irecv, 350 * US, 351 * US, MESSAGE_POSTED, CALL_MPI_Irecv, 0, 2);
    happens(b, CALL_MPI_Wait, 400 * US, 401 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, 0, 2);
    /* one that was over before its receive was posted */
    happens(a, CALL_MPI_Isend, 450 * US, 451 * US, MESSAGE_SENT, CALL_MPI_Isend, 1, 3);
    happens(a, CALL_MPI_Test, 460 * US, 480 * US, MESSAGE_SENT_DONE, CALL_MPI_Isend, 1, 3);
    happens(b, CALL_MPI_Recv, 490 * US, 491 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 3);
    made_call(a, CALL_MPI_Wait, START + 500 * US, START + 507 * US); /* for a send, too short to be told */
    made_call(a, CALL_MPI_Test, START + 510 * US, START + 512 * US);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    check_wait(messages, CALL_MPI_Wait, MPI_WAIT_LATE_RECEIVER, CALL_MPI_Irecv, 1, 80 * US);
    check_wait(messages, CALL_MPI_Send, MPI_WAIT_LATE_RECEIVER, CALL_MPI_Irecv, 1, 50 * US);
    assert_int_equal(HASH_COUNT(messages->waits), 2);
    assert_int_equal(messages->unjudged[CALL_MPI_Wait].ns, 7 * US);
    assert_int_equal(messages->unjudged[CALL_MPI_Test].ns, 2 * US);
    assert_int_equal(messages->judged_ns, (90 + 10 + 60 + 1 + 20 + 1) * US);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    mpi_messages_text(&text, messages);
    assert_non_null(strstr(text.data, "  not judged: 7.00 us of 189 us in blocking calls: MPI_Wait 7.00 us (1)\n"));
    assert_non_null(strstr(text.data, "  not judged: 2.00 us in calls that looked in vain: MPI_Test 2.00 us (1)\n"));
}

/* Beside a receive, a send may have been complete long before: only a synchronous one cannot. */
static void test_beside_receives(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = 1000 * US * i;
        uint32_t call = i ? CALL_MPI_Issend : CALL_MPI_Isend;
        happens(a, call, at + 100 * US, at + 101 * US, MESSAGE_SENT, call, 1, 2 * i + 1);
        happens(a, CALL_MPI_Irecv, at + 102 * US, at + 103 * US, MESSAGE_POSTED, CALL_MPI_Irecv, 1, 2 * i + 2);
        made_enter(&a->made, START + at + 110 * US, made_function(CALL_MPI_Waitall));
        made_message(a, START + at + 240 * US, MESSAGE_SENT_DONE, call, MADE_WORLD, 1, 5, 64, 2 * i + 1);
        made_message(a, START + at + 241 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 1, 5, 64, 2 * i + 2);
        made_exit(&a->made, START + at + 242 * US);
        happens(b, CALL_MPI_Send, at + 150 * US, at + 151 * US, MESSAGE_SENT, CALL_MPI_Send, 0, 2 * i + 1);
        happens(b, CALL_MPI_Recv, at + 230 * US, at + 240 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 2 * i + 2);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    const struct mpi_wait *wait = messages->waits;
    assert_int_equal(HASH_COUNT(messages->waits), 2);
    assert_int_equal(wait->key.kind, MPI_WAIT_LATE_RECEIVER);
    assert_int_equal(wait->total_ns, 120 * US);
    wait = wait->hh.next;
    assert_int_equal(wait->key.kind, MPI_WAIT_LATE_SENDER);
    assert_int_equal(wait->total_ns, 40 * US);
    assert_int_equal(mpi_messages_waited_ns(messages), 160 * US);
}

/* MPI_Waitsome goes on with the first that comes. */
static void test_some(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 3, one_node);
    happens(&fixture->ranks[0], CALL_MPI_Send, 150 * US, 151 * US, MESSAGE_SENT, CALL_MPI_Send, 2, 1);
    happens(&fixture->ranks[1], CALL_MPI_Send, 158 * US, 159 * US, MESSAGE_SENT, CALL_MPI_Send, 2, 1);
    made_enter(&fixture->ranks[2].made, START + 100 * US, made_function(CALL_MPI_Waitsome));
    for (int32_t i = 0; i < 2; i++)
        made_message(&fixture->ranks[2], START + 160 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, i, 5, 64,
                     (uint64_t)i + 1);
    made_exit(&fixture->ranks[2].made, START + 162 * US);
    check_wait(load(fixture, 3, 0), CALL_MPI_Waitsome, MPI_WAIT_LATE_SENDER, CALL_MPI_Send, 0, 50 * US);
}

/* ---- collective operations ---- */

static void completed(struct made_rank *rank, uint64_t begin, uint64_t wait, uint64_t end, uint64_t number)
{
    made_all(rank, CALL_MPI_Ibarrier, START + begin, START + begin + 1000, MADE_WORLD, MPIA_RANK_NONE, number);
    made_enter(&rank->made, START + wait, made_function(CALL_MPI_Wait));
    made_message(rank, START + end - 1, MESSAGE_COLLECTIVE_DONE, CALL_MPI_Ibarrier, MADE_WORLD, MPIA_RANK_NONE,
                 MPIA_TAG_NONE, 0, number);
    made_exit(&rank->made, START + end);
}

static void test_collective_completed(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 3, one_node);
    completed(&fixture->ranks[0], 100 * US, 150 * US, 305 * US, 1);
    completed(&fixture->ranks[1], 110 * US, 280 * US, 306 * US, 1);
    completed(&fixture->ranks[2], 300 * US, 302 * US, 307 * US, 1);
    const struct mpi_messages *messages = load(fixture, 3, 0);
    const struct mpi_wait *wait = wait_in(messages, CALL_MPI_Wait);
    assert_int_equal(HASH_COUNT(messages->waits), 1);
    assert_int_equal(wait->key.kind, MPI_WAIT_COLLECTIVE);
    assert_int_equal(messages->place_list[wait->key.cause]->key.call, CALL_MPI_Ibarrier);
    assert_int_equal(wait->count, 2);
    assert_int_equal(wait->total_ns, (150 + 20) * US);
    assert_true(wait->by_rank[2] == 170 * US);
    assert_int_equal(messages->unjudged[CALL_MPI_Wait].count, 0);
    assert_int_equal(messages->ranks[0].parts[0].end, 305 * US);
}

static void all(struct fixture *fixture, uint32_t call, const uint64_t (*times)[2], uint64_t number)
{
    for (unsigned i = 0; i < 3; i++)
        made_all(&fixture->ranks[i], call, START + times[i][0] * US, START + times[i][1] * US, MADE_WORLD,
                 call == CALL_MPI_Reduce ? 1 : MPIA_RANK_NONE, number);
}

/* Operations of which libraries may make barriers: as the times say. */
static void test_as_times_say(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t together[][2] = {{100, 310}, {300, 305}, {120, 320}};
    static const uint64_t apart[][2] = {{400, 410}, {500, 510}, {405, 520}};
    static const uint64_t fence[][2] = {{600, 660}, {601, 655}, {650, 652}};
    static const uint64_t opened[][2] = {{700, 790}, {780, 795}, {700, 791}};
    static const uint64_t wrote[][2] = {{800, 906}, {900, 905}, {880, 910}};
    static const uint64_t wrote_alone[][2] = {{1000, 1100}, {1050, 1150}, {1000, 1200}}; /* each its own part */
    static const uint64_t nothing[][2] = {{1300, 1301}, {1400, 1401}, {1500, 1501}};     /* reduced */
    static const uint64_t reduced[][2] = {{1600, 1601}, {1602, 1690}, {1680, 1681}};
    begin(fixture, 3, one_node);
    all(fixture, CALL_MPI_Comm_dup, together, 1);
    all(fixture, CALL_MPI_Comm_dup, apart, 2); /* 0 was out of it before 1 came: nobody needs to have waited */
    all(fixture, CALL_MPI_Win_fence, fence, 3);
    all(fixture, CALL_MPI_File_open, opened, 4);
    all(fixture, CALL_MPI_File_write_all, wrote, 5);
    all(fixture, CALL_MPI_File_write_all, wrote_alone, 6);
    all(fixture, CALL_MPI_Allreduce, nothing, 7);
    all(fixture, CALL_MPI_Reduce, reduced, 8);
    made_call(&fixture->ranks[0], CALL_MPI_Win_lock, START + 2000 * US, START + 2100 * US);
    const struct mpi_messages *messages = load(fixture, 3, 0);
    check_wait(messages, CALL_MPI_Comm_dup, MPI_WAIT_COLLECTIVE, CALL_MPI_Comm_dup, 1, (200 + 180) * US);
    check_wait(messages, CALL_MPI_Win_fence, MPI_WAIT_COLLECTIVE, CALL_MPI_Win_fence, 2, (50 + 49) * US);
    check_wait(messages, CALL_MPI_File_open, MPI_WAIT_COLLECTIVE, CALL_MPI_File_open, 1, 160 * US);
    check_wait(messages, CALL_MPI_File_write_all, MPI_WAIT_COLLECTIVE, CALL_MPI_File_write_all, 1, (100 + 20) * US);
    check_wait(messages, CALL_MPI_Reduce, MPI_WAIT_MEMBERS, CALL_MPI_Reduce, 2, 78 * US);
    assert_int_equal(HASH_COUNT(messages->waits), 5);
    assert_int_equal(messages->unjudged[CALL_MPI_Comm_dup].ns, (10 + 10 + 115) * US);
    assert_int_equal(messages->unjudged[CALL_MPI_File_write_all].ns, (100 + 100 + 200) * US);
    assert_int_equal(messages->unjudged[CALL_MPI_Allreduce].count, 3);
    assert_int_equal(messages->unjudged[CALL_MPI_Reduce].count, 2); /* those that are not the root */
    assert_int_equal(messages->unjudged[CALL_MPI_Win_lock].ns, 100 * US);
    json_t *report = json_object();
    mpi_messages_json(report, messages);
    json_t *trace = json_object_get(report, "mpi_trace"), *list = json_object_get(trace, "waits_not_judged");
    assert_int_equal(json_array_size(list), 5);
    assert_int_equal(json_integer_value(json_object_get(trace, "waits_judged_ns")), messages->judged_ns);
    json_decref(report);
}

/* On hosts with clocks of their own a little may be wrong; not more. */
static void test_hosts(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t near[][2] = {{1000, 4970}, {5000, 5010}, {1000, 5020}},
                          far[][2] = {{6000, 6500}, {9000, 9010}, {6000, 9020}};
    begin(fixture, 3, two_nodes);
    all(fixture, CALL_MPI_Comm_dup, near, 1);
    all(fixture, CALL_MPI_Comm_dup, far, 2);
    const struct mpi_messages *messages = load(fixture, 3, 0);
    check_wait(messages, CALL_MPI_Comm_dup, MPI_WAIT_COLLECTIVE, CALL_MPI_Comm_dup, 1, (3970 + 4000) * US);
    assert_int_equal(messages->unjudged[CALL_MPI_Comm_dup].count, 3);
}

/* Nobody waited: that is said, as is what is not known. */
static void test_nobody(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, one_node);
    happens(&fixture->ranks[0], CALL_MPI_Send, 100 * US, 101 * US, MESSAGE_SENT, CALL_MPI_Send, 1, 1);
    happens(&fixture->ranks[1], CALL_MPI_Recv, 120 * US, 121 * US, MESSAGE_RECEIVED, CALL_MPI_Recv, 0, 1);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    assert_null(messages->waits);
    mpi_messages_text(&text, messages);
    assert_non_null(strstr(text.data, "No rank waited for another one, in the calls that can be judged\n"));
    assert_null(strstr(text.data, "not judged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_probe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_probe_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_send_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beside_receives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_some, setup, teardown),
        cmocka_unit_test_setup_teardown(test_collective_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_as_times_say, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hosts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
