/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobdir/mpi/test_mpi_fixture.h"

/* Host b is 3 ms ahead, and gains 40 us in a second. */
static uint64_t of_b(uint64_t time)
{
    return time + 3 * MS + (time - START) / 25000;
}

static void check_forwards(const struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *got = &rank->got[k];
            if (got->other < MPI_OTHER_FOREIGN) {
                const struct mpi_message_rank *from = mpi_messages_rank(messages, rank->world, got->peer);
                assert_true(from->sent[got->other].begin <= got->end);
            }
            assert_true(got->begin <= got->end);
            if (k)
                assert_true(rank->got[k - 1].end <= got->end);
        }
        for (size_t k = 1; k < rank->sent_count; k++)
            assert_true(rank->sent[k - 1].begin <= rank->sent[k].begin);
    }
}

static void test_two_clocks(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    made_rank_begin(a, fixture->root, "a", 0, "w", START);
    made_rank_begin(b, fixture->root, "b", 1, "w", of_b(START));
    made_call(a, CALL_MPI_Init, START + 10 * US, START + 20 * US);
    made_call(b, CALL_MPI_Init, of_b(START + 10 * US), of_b(START + 20 * US));
    for (unsigned i = 0; i < 400; i++) { /* to and fro, 5 us each and now and then more */
        uint64_t at = START + MS + (uint64_t)i * 5 * MS, there = at + (i % 7 ? 15 * US : 5 * US), back = at + 100 * US;
        made_send(a, CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(b, of_b(at - 50 * US), of_b(there), 0, 1, 8);
        made_send(b, CALL_MPI_Send, of_b(back), of_b(back + US), 0, 1, 8);
        made_receive(a, at + 2 * US, back + (i % 5 ? 25 * US : 5 * US), 1, 1, 8);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    const struct timeline_host *host = &messages->timeline.hosts[1];
    assert_int_equal(messages->matched, 800);
    assert_int_equal(messages->timeline.host_count, 2);
    assert_int_equal(messages->timeline.early, 400);
    assert_int_equal(host->how, TIMELINE_BOTH_WAYS);
    assert_true(host->offset_start_ns < -3 * MS && host->offset_start_ns > -3 * MS - 20 * US);
    assert_true(host->offset_end_ns < -3 * MS - 70 * US && host->offset_end_ns > -3 * MS - 90 * US);
    check_forwards(messages);
    for (size_t k = 0; k < 400; k++) { /* back to within two microseconds of the truth */
        int64_t truth = MS + (int64_t)k * 5 * MS + 100 * US, error = messages->ranks[1].sent[k].begin - truth;
        assert_true(error > -2 * US && error < 2 * US);
    }
}

/* A clock that is set in the middle of the run: no line through start and end helps. */
static void test_too_early(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1], *c = &fixture->ranks[2];
    begin(fixture, 3, two_nodes);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t at = START + MS + i * MS, there = at - (i >= 40 && i < 60 ? 500 * US : 0); /* on b, the wrong clock */
        made_send(a, CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(b, there - 100 * US, there + 10 * US, 0, 1, 8);
        made_send(b, CALL_MPI_Send, there + 20 * US, there + 21 * US, 2, 1, 8); /* on the same host */
        made_receive(c, there - 50 * US, there + 30 * US, 1, 1, 8);
        made_send(b, CALL_MPI_Send, there + 200 * US, there + 210 * US, 0, 1, 8);
        made_receive(a, at + 150 * US, at + 220 * US, 1, 1, 8);
    }
    const struct mpi_messages *messages = load(fixture, 3, 0);
    const struct timeline *timeline = &messages->timeline;
    assert_int_equal(messages->matched, 300);
    assert_int_equal(timeline->early, 20);
    assert_true(timeline->corrected >= 20);
    assert_true(timeline->largest_ns >= 400 * US && timeline->largest_ns <= 500 * US);
    check_forwards(messages);
    /* order inside a rank is kept at every moment, and in the end the clock is its own again */
    int64_t last = INT64_MIN;
    size_t trace = messages->ranks[1].trace;
    for (int64_t at = 0; at < 200 * MS; at += 7 * US) {
        int64_t mapped = timeline_map(timeline, trace, at);
        assert_true(mapped > last);
        assert_true(mapped >= timeline_shift_host(timeline, trace, at));
        last = mapped;
    }
    assert_int_equal(timeline_map(timeline, trace, 190 * MS), timeline_shift_host(timeline, trace, 190 * MS));
    assert_int_equal(timeline_map(timeline, trace, 10 * MS), timeline_shift_host(timeline, trace, 10 * MS));
}

static void test_one_way(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, two_nodes);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t at = START + 10 * MS + i * MS; /* b's clock is 2 ms behind, at least */
        made_send(&fixture->ranks[0], CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(&fixture->ranks[1], at - 2 * MS - 10 * US, at - 2 * MS + (10 + i) * US, 0, 1, 8);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    assert_int_equal(messages->timeline.hosts[1].how, TIMELINE_ONE_WAY);
    assert_true(messages->timeline.hosts[1].offset_start_ns == 2 * MS - 10 * US + TIMELINE_LEAST_NS);
    assert_int_equal(messages->timeline.corrected, 0);
    check_forwards(messages);
}

/* Hosts that only one that is not the first has heard of, or that have only heard of it. */
static void test_one_way_in_a_row(void **state)
{
    static const char *const nodes[4] = {"a", "b", "c", "d"};
    struct fixture *fixture = *state;
    struct made_rank *ranks = fixture->ranks;
    begin(fixture, 4, nodes);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t at = START + 10 * MS + i * MS, b = at - 2 * MS, c = b - MS, d = b + 3 * MS; /* their clocks */
        made_send(&ranks[0], CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(&ranks[1], b - 10 * US, b + 10 * US, 0, 1, 8);
        made_send(&ranks[1], CALL_MPI_Send, b + 20 * US, b + 21 * US, 2, 1, 8);
        made_receive(&ranks[2], c, c + 30 * US, 1, 1, 8);
        made_send(&ranks[3], CALL_MPI_Send, d + 20 * US, d + 21 * US, 1, 1, 8);
        made_receive(&ranks[1], b + 25 * US, b + 30 * US, 3, 1, 8);
    }
    const struct mpi_messages *messages = load(fixture, 4, 0);
    const struct timeline_host *hosts = messages->timeline.hosts;
    double b = 2 * MS - 10 * US + TIMELINE_LEAST_NS;
    assert_int_equal(messages->timeline.host_count, 4);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(hosts[i].how, TIMELINE_ONE_WAY);
    assert_true(hosts[1].offset_start_ns == b);
    assert_true(hosts[2].offset_start_ns == b + MS - 10 * US + TIMELINE_LEAST_NS);
    assert_true(hosts[3].offset_start_ns == b - 3 * MS + 10 * US - TIMELINE_LEAST_NS);
    check_forwards(messages);
}

/* Hosts that only meet in collective operations. */
static void test_clocks_by_collectives(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture, 2, two_nodes);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t at = START + 10 * MS + i * MS;
        made_all(&fixture->ranks[0], CALL_MPI_Allreduce, at, at + 10 * US, MADE_WORLD, MPIA_RANK_NONE, i + 1);
        made_all(&fixture->ranks[1], CALL_MPI_Allreduce, at + 4 * MS, at + 4 * MS + 10 * US, MADE_WORLD, MPIA_RANK_NONE,
                 i + 1);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    const struct timeline_host *host = &messages->timeline.hosts[1];
    assert_int_equal(host->how, TIMELINE_BOTH_WAYS);
    assert_true(host->offset_start_ns == -4 * MS && host->offset_end_ns == -4 * MS);
    assert_int_equal(messages->ranks[1].parts[3].begin, 13 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_way_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks_by_collectives, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
