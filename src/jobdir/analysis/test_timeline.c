/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobdir/mpi/test_mpi_fixture.h"
#include "jobdir/record/parts.h"

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

/* One that is 100 s ahead, and gains 40 us in a second: what it gains is found, too. When clocks were compared is said on the
 * time line of all. */
static uint64_t of_far(uint64_t time)
{
    return time + 100 * UINT64_C(1000) * MS + (time - START) / 25000;
}

static void test_far_clock(void **state)
{
    struct fixture *fixture = *state;
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    made_rank_begin(a, fixture->root, "a", 0, "w", START);
    made_rank_begin(b, fixture->root, "b", 1, "w", of_far(START));
    made_call(a, CALL_MPI_Init, START + 10 * US, START + 20 * US);
    made_call(b, CALL_MPI_Init, of_far(START + 10 * US), of_far(START + 20 * US));
    for (unsigned i = 0; i < 400; i++) {
        uint64_t at = START + MS + (uint64_t)i * 5 * MS;
        made_send(a, CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(b, of_far(at - 50 * US), of_far(at + 5 * US), 0, 1, 8);
        made_send(b, CALL_MPI_Send, of_far(at + 100 * US), of_far(at + 101 * US), 0, 1, 8);
        made_receive(a, at + 2 * US, at + 105 * US, 1, 1, 8);
    }
    const struct mpi_messages *messages = load(fixture, 2, 0);
    const struct timeline_host *host = &messages->timeline.hosts[1];
    assert_int_equal(host->how, TIMELINE_BOTH_WAYS);
    double first = timeline_compared_seconds(host, false), last = timeline_compared_seconds(host, true);
    assert_true(first >= 0 && first < 0.5 && last > 1.5 && last < 2.1);
    for (size_t k = 0; k < 400; k++) {
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

/* Ranks 1 and up are on nodes that are parts of the job, whose clocks are 3 ms ahead. A clock.json says so, or else. */
static void begin_parts(struct fixture *fixture, size_t count, int64_t offset_ns, uint64_t bound_ns)
{
    static const char *const nodes[] = {"a", "b", "c"};
    char root[sizeof fixture->root + 16];
    snprintf(root, sizeof root, "%s/parts", fixture->root);
    mkdir(root, 0700);
    made_rank_begin(&fixture->ranks[0], fixture->root, nodes[0], 0, "w", START);
    made_call(&fixture->ranks[0], CALL_MPI_Init, START + 10 * US, START + 20 * US);
    for (size_t i = 1; i < count; i++) {
        const struct part_clock clock = {offset_ns, bound_ns, START};
        snprintf(root, sizeof root, "%s/parts/%s", fixture->root, nodes[i]);
        mkdir(root, 0700);
        assert_int_equal(job_part_set_clock(root, &clock), 0);
        made_rank_begin(&fixture->ranks[i], root, nodes[i], (int32_t)i, "w", START + 3 * MS);
        made_call(&fixture->ranks[i], CALL_MPI_Init, START + 3 * MS + 10 * US, START + 3 * MS + 20 * US);
    }
}

/* From rank 0 to rank 1 and, if wanted, back. */
static void exchange(struct fixture *fixture, uint64_t takes, bool back)
{
    struct made_rank *a = &fixture->ranks[0], *b = &fixture->ranks[1];
    for (unsigned i = 0; i < 20; i++) {
        uint64_t at = START + 10 * MS + i * 10 * MS, there = at + takes + 3 * MS;
        made_send(a, CALL_MPI_Send, at, at + US, 1, 1, 8);
        made_receive(b, there - takes, there, 0, 1, 8);
        if (back) {
            made_send(b, CALL_MPI_Send, there + US, there + 2 * US, 0, 1, 8);
            made_receive(a, at + 2 * US, at + 2 * takes + US, 1, 1, 8);
        }
    }
}

static const struct timeline_host *load_host(struct fixture *fixture, size_t ranks, size_t host)
{
    const struct mpi_messages *messages = load(fixture, ranks, 0);
    const struct timeline_host *hosts = messages->timeline.hosts;
    assert_int_equal(messages->timeline.host_count, ranks);
    assert_int_equal(hosts[0].how, TIMELINE_REFERENCE);
    assert_true(hosts[0].bound_ns == 0);
    check_forwards(messages);
    return &hosts[host];
}

static void assert_bounded(const struct timeline_host *host, enum timeline_how how, double bound_ns)
{
    assert_int_equal(host->how, how);
    assert_true(host->bound_ns >= 0 && host->bound_ns <= bound_ns);
    assert_true(host->offset_start_ns >= -3 * MS - host->bound_ns);
    assert_true(host->offset_start_ns <= -3 * MS + host->bound_ns);
    assert_true(host->offset_end_ns >= -3 * MS - host->bound_ns);
    assert_true(host->offset_end_ns <= -3 * MS + host->bound_ns);
}

static void put_line(void *ctx, const char *line)
{
    fprintf(ctx, "%s\n", line);
}

static void test_known_clock_and_one_way(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 2, 3 * MS - 40 * US, 50 * US);
    exchange(fixture, 100 * US, false);
    const struct timeline_host *host = load_host(fixture, 2, 1);
    assert_bounded(host, TIMELINE_KNOWN, 75 * US);
    assert_true(host->bound_ns > 65 * US); /* 50 us when they were compared; then clocks drift for 0.2 s */
    assert_true(host->offset_start_ns == -3 * MS + 40 * US);
    char *said = NULL;
    size_t size;
    FILE *file = open_memstream(&said, &size);
    mpi_messages_notes(fixture->messages, put_line, file);
    fclose(file);
    assert_non_null(strstr(said, "clock of b: moved by -2.96 ms, as the monitors found while the job ran; at most 7"));
    free(said);
}

static void test_quick_messages_say_it_better(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 2, 3 * MS - 40 * US, 50 * US);
    exchange(fixture, 10 * US, true);
    assert_bounded(load_host(fixture, 2, 1), TIMELINE_BOTH_WAYS, 10 * US);
}

static void test_slow_messages_do_not(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 2, 3 * MS - 40 * US, 50 * US);
    exchange(fixture, MS, true);
    assert_bounded(load_host(fixture, 2, 1), TIMELINE_KNOWN, 75 * US);
}

/* A clock that was set after the monitors had looked at it. */
static void test_messages_that_deny_it(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 2, 20 * MS, 50 * US);
    exchange(fixture, MS, false);
    assert_int_equal(load_host(fixture, 2, 1)->how, TIMELINE_ONE_WAY);
}

static void test_messages_that_deny_it_both_ways(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 2, 20 * MS, 50 * US);
    exchange(fixture, MS, true);
    assert_bounded(load_host(fixture, 2, 1), TIMELINE_BOTH_WAYS, MS + US);
}

static void test_known_clock_without_messages(void **state)
{
    struct fixture *fixture = *state;
    begin_parts(fixture, 3, 3 * MS + 30 * US, 50 * US);
    exchange(fixture, 10 * US, true);
    assert_bounded(load_host(fixture, 3, 2), TIMELINE_KNOWN, 75 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_far_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_way_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks_by_collectives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_clock_and_one_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quick_messages_say_it_better, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_messages_do_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_that_deny_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_that_deny_it_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_clock_without_messages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
