/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the communicators of programs that met are one: what is certain, and what is not said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobdir/analysis/messages_internal.h"

enum { MOST = 8, PORT = 101, SOCKET = 201, SOCKET_HERE = 203 };

/* One process a program, with one communicator each but where a test says otherwise. */
struct scene {
    struct shared list[MOST];
    struct mpi_stats_comm comms[MOST];
    struct mpi_message_rank ranks[MOST];
    struct mpi_stats stats[MOST];
    struct timeline_trace traces[MOST];
    struct mpi_messages messages;
    struct join join;
};

static struct scene scene;

static int setup(void **state)
{
    scene = (struct scene){0};
    for (uint32_t i = 0; i < MOST; i++) {
        scene.stats[i].comms = &scene.comms[i];
        scene.stats[i].comm_count = 1;
        scene.ranks[i] = (struct mpi_message_rank){.trace = i, .world = i, .stats = &scene.stats[i]};
    }
    scene.messages.ranks = scene.ranks;
    scene.messages.rank_count = MOST;
    scene.messages.timeline.traces = scene.traces;
    scene.join = (struct join){.messages = &scene.messages, .list = scene.list};
    return 0;
}

/* Of `size` ranks, with `remote` others, by a call of program `world` at that time. */
static struct shared *made(uint32_t world, uint32_t call, uint64_t meeting, uint32_t size, uint32_t remote,
                           int64_t from, int64_t to)
{
    size_t at = scene.join.count++;
    scene.comms[at] = (struct mpi_stats_comm){
        .kind = MPIA_COMM_INTER, .number = 2 + (uint32_t)at, .call = call, .size = size, .remote_size = remote};
    scene.list[at] = (struct shared){
        .world = world, .comm = &scene.comms[at], .meeting = meeting, .root = world, .from = from, .to = to};
    return &scene.list[at];
}

static struct shared *accepted(uint32_t remote, int64_t from, int64_t to)
{
    return made(0, CALL_MPI_Comm_accept, PORT, 2, remote, from, to);
}

static struct shared *connected(uint32_t world, uint32_t size, int64_t from, int64_t to)
{
    return made(world, CALL_MPI_Comm_connect, PORT, size, 2, from, to);
}

static void meet(void)
{
    mpi_messages_meet(&scene.join);
}

static void are_one(const struct shared *a, const struct shared *b)
{
    assert_non_null(a->same);
    assert_ptr_equal(a->same, b->same);
}

static void test_port(void **state)
{
    struct shared *first = accepted(1, 10, 20), *one = connected(1, 1, 15, 21), *other = connected(2, 1, 15, 21);
    other->meeting = PORT + 100;
    meet();
    are_one(first, one);
    assert_null(other->same);
}

/* Both wait at the port; the one who leaves before the next is accepted was the first. */
static void test_who_waits(void **state)
{
    struct shared *first = accepted(1, 10, 20), *second = accepted(1, 30, 40);
    struct shared *late = connected(1, 1, 5, 41), *early = connected(2, 1, 6, 21);
    meet();
    are_one(first, early);
    are_one(second, late);
    assert_ptr_not_equal(first->same, second->same);
}

static void test_sizes(void **state)
{
    struct shared *first = accepted(1, 10, 20), *second = accepted(3, 10, 20);
    struct shared *three = connected(1, 3, 5, 41), *one = connected(2, 1, 6, 41);
    meet();
    are_one(first, one);
    are_one(second, three);
}

/* Whoever could be either is neither. */
static void test_either(void **state)
{
    struct shared *first = accepted(1, 10, 20), *second = accepted(1, 30, 40);
    struct shared *a = connected(1, 1, 5, 41), *b = connected(2, 1, 6, 42);
    meet();
    assert_true(!first->same && !second->same && !a->same && !b->same);
}

/* That cannot be, so there is no saying. */
static void test_both(void **state)
{
    struct shared *first = accepted(1, 10, 20), *a = connected(1, 1, 5, 21), *b = connected(2, 1, 6, 22);
    meet();
    assert_true(!first->same && !a->same && !b->same);
}

static void test_missed(void **state)
{
    struct shared *first = accepted(1, 10, 20), *a = connected(1, 1, 30, 40);
    meet();
    assert_true(!first->same && !a->same);
}

/* Times of two hosts say nothing, nor do those that are not known. */
static void test_clocks(void **state)
{
    struct shared *first = accepted(1, 10, 20), *second = accepted(1, INT64_MAX, INT64_MIN);
    struct shared *a = connected(1, 1, 30, 40);
    scene.traces[1].host = 1;
    meet();
    assert_true(!first->same && !second->same && !a->same);
    second->meeting = PORT + 100;
    meet();
    are_one(first, a);
}

/* The one that is meant may be among those that have no entry. */
static void test_crowded(void **state)
{
    struct shared *first = accepted(1, 10, 20), *a = connected(1, 1, 15, 25);
    scene.comms[0].number = MPIA_COMMS - 1;
    meet();
    assert_true(!first->same && !a->same);
}

/* Twice over one socket, and over another one. */
static void test_socket(void **state)
{
    struct shared *a1 = made(0, CALL_MPI_Comm_join, SOCKET, 1, 1, 0, 0);
    struct shared *a2 = made(0, CALL_MPI_Comm_join, SOCKET, 1, 1, 0, 0);
    struct shared *b1 = made(1, CALL_MPI_Comm_join, SOCKET, 1, 1, 0, 0);
    struct shared *c1 = made(2, CALL_MPI_Comm_join, SOCKET + 100, 1, 1, 0, 0);
    meet();
    assert_true(!a1->same && !a2->same && !b1->same && !c1->same); /* one of three is missing: of which, who knows */
    struct shared *b2 = made(1, CALL_MPI_Comm_join, SOCKET, 1, 1, 0, 0);
    meet();
    are_one(a1, b1);
    are_one(a2, b2);
    assert_ptr_not_equal(a1->same, a2->same);
    assert_null(c1->same);
}

/* Each host has its own loopback. */
static void test_socket_here(void **state)
{
    struct shared *a = made(0, CALL_MPI_Comm_join, SOCKET_HERE, 1, 1, 0, 0);
    struct shared *b = made(1, CALL_MPI_Comm_join, SOCKET_HERE, 1, 1, 0, 0);
    scene.traces[1].host = 1;
    assert_true(SOCKET_HERE & MPIA_MEETING_HERE);
    meet();
    assert_true(!a->same && !b->same);
    scene.traces[1].host = 0;
    meet();
    are_one(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_port, setup),   cmocka_unit_test_setup(test_who_waits, setup),
        cmocka_unit_test_setup(test_sizes, setup),  cmocka_unit_test_setup(test_either, setup),
        cmocka_unit_test_setup(test_both, setup),   cmocka_unit_test_setup(test_missed, setup),
        cmocka_unit_test_setup(test_clocks, setup), cmocka_unit_test_setup(test_crowded, setup),
        cmocka_unit_test_setup(test_socket, setup), cmocka_unit_test_setup(test_socket_here, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
