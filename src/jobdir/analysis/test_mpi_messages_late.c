/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of MPI that do not begin with MPI_Init, or end inside of a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/test_mpi_fixture.h"

/* Of both ranks at `time`, with what each had sent to the other one before. */
static void begin_late(struct fixture *fixture, uint64_t time, uint64_t sent, uint64_t got, bool exact)
{
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    for (int32_t i = 0; i < 2; i++)
        made_rank_begin(&fixture->ranks[i], fixture->root, "a", i, "w", START);
    for (int32_t i = 0; i < 2; i++) {
        made_enter(&fixture->ranks[i].made, time, made_function(CALL_MPI_Barrier));
        made_message(&fixture->ranks[i], time, MESSAGE_BEGIN, 0, 0, MPIA_RANK_NONE, MPIA_TAG_NONE, exact, 0);
    }
    made_message(a, time, MESSAGE_SENT_BEFORE, 0, MADE_WORLD, 1, MPIA_TAG_NONE, 0, sent);
    made_message(b, time, MESSAGE_RECEIVED_BEFORE, 0, MADE_WORLD, 0, MPIA_TAG_NONE, 0, got);
    for (int32_t i = 0; i < 2; i++)
        made_exit(&fixture->ranks[i].made, time + 1 * US);
}

static void test_begun_while_nothing_was_under_way(void **state)
{
    struct fixture *fixture = *state;
    begin_late(fixture, START + 90 * US, 7, 7, true);
    made_send(&fixture->ranks[0], CALL_MPI_Send, START + 100 * US, START + 101 * US, 1, 1, 0);
    made_receive(&fixture->ranks[1], START + 102 * US, START + 103 * US, 0, 1, 0);
    made_send(&fixture->ranks[0], CALL_MPI_Isend, START + 110 * US, START + 111 * US, 1, 1, 0);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 1);
    assert_int_equal(messages->unreceived, 1);
    assert_int_equal(messages->sent_unsure + messages->got_unsure, 0);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    mpi_messages_text(&text, messages);
    assert_non_null(strstr(text.data, "the trace of 2 ranks begins after MPI_Init"));
}

/* Two are under way when it begins, of tags that nobody knows. */
static void test_begun_while_some_were_under_way(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin_late(fixture, START + 90 * US, 7, 5, true);
    made_send(a, CALL_MPI_Isend, START + 100 * US, START + 101 * US, 1, 1, 0);
    /* posted before there were numbers */
    made_enter(&b->made, START + 104 * US, made_function(CALL_MPI_Waitall));
    made_message(b, START + 105 * US, MESSAGE_RECEIVED, CALL_MPI_Irecv, MADE_WORLD, 0, 1, 0, UINT64_C(1) << 63 | 4711);
    made_exit(&b->made, START + 106 * US);
    made_receive(b, START + 110 * US, START + 113 * US, 0, 2, 0);
    made_receive(b, START + 120 * US, START + 123 * US, 0, 1, 0); /* nothing is under way now */
    made_send(a, CALL_MPI_Isend, START + 130 * US, START + 131 * US, 1, 2, 20);
    made_send(a, CALL_MPI_Isend, START + 132 * US, START + 133 * US, 1, 1, 10);
    made_receive(b, START + 140 * US, START + 141 * US, 0, 1, 10);
    made_receive(b, START + 142 * US, START + 143 * US, 0, 2, 20);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 2);
    assert_int_equal(messages->sent_unsure, 1);
    assert_int_equal(messages->got_unsure, 3);
    assert_int_equal(messages->unreceived + messages->unsent, 0);
    for (size_t i = 3; i < 5; i++) {
        const struct mpi_end *got = &messages->ranks[1].got[i];
        assert_int_equal(messages->ranks[0].sent[got->other].bytes, got->bytes);
    }
}

static void check_nothing_known(struct fixture *fixture)
{
    made_send(&fixture->ranks[0], CALL_MPI_Send, START + 100 * US, START + 101 * US, 1, 1, 0);
    made_receive(&fixture->ranks[1], START + 102 * US, START + 103 * US, 0, 1, 0);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 0);
    assert_int_equal(messages->sent_unsure, 1);
    assert_int_equal(messages->got_unsure, 1);
}

static void test_begun_uncounted(void **state)
{
    struct fixture *fixture = *state;
    begin_late(fixture, START + 90 * US, 0, 0, false);
    check_nothing_known(fixture);
}

static void test_begun_with_wrong_counts(void **state)
{
    struct fixture *fixture = *state;
    begin_late(fixture, START + 90 * US, 5, 7, true);
    check_nothing_known(fixture);
}

static void test_begun_never_quiet(void **state)
{
    struct fixture *fixture = *state;
    begin_late(fixture, START + 90 * US, 6, 5, true);
    check_nothing_known(fixture);
}

/* What was recorded before calls went by is matched from the start. */
static void test_interrupted(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    begin(fixture, 2, one_node);
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            for (int32_t k = 0; k < 2; k++) {
                made_enter(&fixture->ranks[k].made, START + 190 * US, made_function(CALL_MPI_Barrier));
                made_message(&fixture->ranks[k], START + 190 * US, MESSAGE_BEGIN, 0, 0, MPIA_RANK_NONE, MPIA_TAG_NONE,
                             1, 1);
                made_message(&fixture->ranks[k], START + 190 * US, k ? MESSAGE_RECEIVED_BEFORE : MESSAGE_SENT_BEFORE, 0,
                             MADE_WORLD, !k, MPIA_TAG_NONE, 0, 3);
                made_exit(&fixture->ranks[k].made, START + 191 * US);
            }
        made_send(a, CALL_MPI_Send, START + (i + 1) * 100 * US, START + (i + 1) * 100 * US + 1, 1, 1, i);
        made_receive(b, START + (i + 1) * 110 * US, START + (i + 1) * 110 * US + 1 * US, 0, 1, i);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(messages->ranks[1].got[i].other, i);
}

/* A send that blocks is recorded before it does, and taken back if it fails. */
static void test_unsent(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0];
    begin(fixture, 2, one_node);
    made_enter(&a->made, START + 100 * US, made_function(CALL_MPI_Send));
    made_message(a, START + 101 * US, MESSAGE_SENT, CALL_MPI_Send, MADE_WORLD, 1, 1, 1, ++a->order);
    made_message(a, START + 102 * US, MESSAGE_UNSENT, CALL_MPI_Send, 0, MPIA_RANK_NONE, MPIA_TAG_NONE, 0, a->order);
    made_exit(&a->made, START + 103 * US);
    made_send(a, CALL_MPI_Send, START + 110 * US, START + 111 * US, 1, 1, 2);
    made_receive(&fixture->ranks[1], START + 120 * US, START + 121 * US, 0, 1, 2);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->matched, 1);
    assert_int_equal(messages->unreceived + messages->foreign, 0);
    assert_true(messages->ranks[0].sent[0].other == MPI_OTHER_FAILED);
    assert_int_equal(messages->ranks[1].got[0].other, 1);
}

static void test_killed_in_a_call(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, one_node);
    made_enter(&fixture->ranks[0].made, START + 100 * US, made_function(CALL_MPI_Send));
    made_message(&fixture->ranks[0], START + 101 * US, MESSAGE_SENT, CALL_MPI_Send, MADE_WORLD, 1, 1, 1, 1);
    made_call(&fixture->ranks[1], CALL_MPI_Barrier, START + 100 * US, START + 101 * US);
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->unreceived, 1);
    assert_true(messages->ranks[0].in_call && !messages->ranks[1].in_call);
    assert_int_equal(messages->ranks[0].in_since, 100 * US);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    mpi_messages_text(&text, messages);
    assert_non_null(strstr(text.data, "Ranks whose trace ends inside of a call of MPI"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_begun_while_nothing_was_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_while_some_were_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_uncounted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_with_wrong_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_never_quiet, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unsent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_in_a_call, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
