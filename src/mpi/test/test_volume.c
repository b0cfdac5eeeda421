/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of volume.h against a table made by hand, for four processes (rank 2 is looked at), blocks of 10 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi/shape/volume.h"

struct row {
    uint32_t rule;
    struct volume_in in;
    struct volume out; /* args, sent, got */
};

#define FOUR .size = 4, .rank = 2
#define ROOT FOUR, .place = VOLUME_ROOT
#define ELSEWHERE FOUR, .place = VOLUME_ELSEWHERE
/* three processes in the other group */
#define INTER .size = 3, .rank = 2, .inter = true

static const struct row rows[] = {
    {CALL_VOLUME_BARRIER, {FOUR}, {0, 0, 0}},
    {CALL_VOLUME_BCAST, {ROOT, .block_sent = 10}, {10, 40, 10}},
    {CALL_VOLUME_BCAST, {ELSEWHERE, .block_sent = 10}, {10, 0, 10}},
    {CALL_VOLUME_REDUCE, {ROOT, .block_sent = 10}, {10, 10, 40}},
    {CALL_VOLUME_REDUCE, {ROOT, .block_sent = 10, .in_place = true}, {10, 0, 30}},
    {CALL_VOLUME_REDUCE, {ELSEWHERE, .block_sent = 10}, {10, 10, 0}},
    {CALL_VOLUME_GATHER, {ROOT, .block_sent = 10, .block_got = 10}, {10, 10, 40}},
    {CALL_VOLUME_GATHER, {ROOT, .block_got = 10, .in_place = true}, {10, 0, 30}},
    {CALL_VOLUME_GATHER, {ELSEWHERE, .block_sent = 10}, {10, 10, 0}},
    {CALL_VOLUME_SCATTER, {ROOT, .block_sent = 10, .block_got = 10}, {10, 40, 10}},
    {CALL_VOLUME_SCATTER, {ROOT, .block_sent = 10, .in_place = true}, {10, 30, 0}},
    {CALL_VOLUME_SCATTER, {ELSEWHERE, .block_got = 10}, {10, 0, 10}},
    {CALL_VOLUME_GATHERV, {ROOT, .block_sent = 30, .block_got = 30, .all_got = 100}, {30, 30, 100}},
    {CALL_VOLUME_GATHERV, {ROOT, .block_got = 30, .all_got = 100, .in_place = true}, {30, 0, 70}},
    {CALL_VOLUME_GATHERV, {ELSEWHERE, .block_sent = 30}, {30, 30, 0}},
    {CALL_VOLUME_SCATTERV, {ROOT, .block_sent = 30, .block_got = 30, .all_sent = 100}, {30, 100, 30}},
    {CALL_VOLUME_SCATTERV, {ROOT, .block_sent = 30, .all_sent = 100, .in_place = true}, {30, 70, 0}},
    {CALL_VOLUME_SCATTERV, {ELSEWHERE, .block_got = 30}, {30, 0, 30}},
    {CALL_VOLUME_ALLGATHER, {FOUR, .block_sent = 10, .block_got = 10}, {10, 40, 40}},
    {CALL_VOLUME_ALLGATHER, {FOUR, .block_got = 10, .in_place = true}, {10, 30, 30}},
    {CALL_VOLUME_ALLGATHERV, {FOUR, .block_sent = 30, .block_got = 30, .all_got = 100}, {30, 120, 100}},
    {CALL_VOLUME_ALLGATHERV, {FOUR, .block_got = 30, .all_got = 100, .in_place = true}, {30, 90, 70}},
    {CALL_VOLUME_ALLTOALL, {FOUR, .block_sent = 10, .block_got = 10}, {10, 40, 40}},
    {CALL_VOLUME_ALLTOALL, {FOUR, .block_got = 10, .in_place = true}, {10, 30, 30}},
    {CALL_VOLUME_ALLTOALLV, {FOUR, .all_sent = 90, .all_got = 110, .block_got = 30}, {90, 90, 110}},
    {CALL_VOLUME_ALLTOALLV, {FOUR, .all_got = 110, .block_got = 30, .in_place = true}, {110, 80, 80}},
    {CALL_VOLUME_ALLTOALLW, {FOUR, .all_sent = 90, .all_got = 110, .block_got = 30}, {90, 90, 110}},
    {CALL_VOLUME_ALLTOALLW, {FOUR, .all_got = 110, .block_got = 30, .in_place = true}, {110, 80, 80}},
    {CALL_VOLUME_ALLREDUCE, {FOUR, .block_sent = 10}, {10, 40, 40}},
    {CALL_VOLUME_ALLREDUCE, {FOUR, .block_sent = 10, .in_place = true}, {10, 30, 30}},
    {CALL_VOLUME_REDUCE_SCATTER_BLOCK, {FOUR, .block_got = 10}, {10, 40, 40}},
    {CALL_VOLUME_REDUCE_SCATTER_BLOCK, {FOUR, .block_got = 10, .in_place = true}, {10, 30, 30}},
    {CALL_VOLUME_REDUCE_SCATTER, {FOUR, .block_got = 30, .all_sent = 100}, {100, 100, 120}},
    {CALL_VOLUME_REDUCE_SCATTER, {FOUR, .block_got = 30, .all_sent = 100, .in_place = true}, {100, 70, 90}},
    {CALL_VOLUME_SCAN, {FOUR, .block_sent = 10}, {10, 20, 30}},
    {CALL_VOLUME_SCAN, {FOUR, .block_sent = 10, .in_place = true}, {10, 10, 20}},
    {CALL_VOLUME_EXSCAN, {FOUR, .block_sent = 10}, {10, 10, 20}},
    {CALL_VOLUME_EXSCAN, {FOUR, .block_sent = 10, .in_place = true}, {10, 10, 20}},
    {CALL_VOLUME_NEIGHBOR_ALLGATHER, {FOUR, .block_sent = 10, .block_got = 10, .sinks = 2, .sources = 3}, {10, 20, 30}},
    {CALL_VOLUME_NEIGHBOR_ALLGATHERV, {FOUR, .block_sent = 10, .all_got = 35, .sinks = 2, .sources = 3}, {10, 20, 35}},
    {CALL_VOLUME_NEIGHBOR_ALLTOALL, {FOUR, .block_sent = 10, .block_got = 10, .sinks = 2, .sources = 3}, {10, 20, 30}},
    {CALL_VOLUME_NEIGHBOR_ALLTOALLV, {FOUR, .all_sent = 25, .all_got = 35}, {25, 25, 35}},
    {CALL_VOLUME_NEIGHBOR_ALLTOALLW, {FOUR, .all_sent = 25, .all_got = 35}, {25, 25, 35}},
    /* intercommunicators: the root, its group, the other group */
    {CALL_VOLUME_BCAST, {INTER, .place = VOLUME_ROOT, .block_sent = 10}, {10, 30, 0}},
    {CALL_VOLUME_BCAST, {INTER, .place = VOLUME_OUTSIDE}, {0, 0, 0}},
    {CALL_VOLUME_BCAST, {INTER, .place = VOLUME_ELSEWHERE, .block_sent = 10}, {10, 0, 10}},
    {CALL_VOLUME_REDUCE, {INTER, .place = VOLUME_ROOT, .block_sent = 10}, {10, 0, 30}},
    {CALL_VOLUME_REDUCE, {INTER, .place = VOLUME_ELSEWHERE, .block_sent = 10}, {10, 10, 0}},
    {CALL_VOLUME_GATHER, {INTER, .place = VOLUME_ROOT, .block_got = 10}, {10, 0, 30}},
    {CALL_VOLUME_GATHER, {INTER, .place = VOLUME_ELSEWHERE, .block_sent = 10}, {10, 10, 0}},
    {CALL_VOLUME_GATHERV, {INTER, .place = VOLUME_ROOT, .all_got = 60}, {0, 0, 60}},
    {CALL_VOLUME_SCATTER, {INTER, .place = VOLUME_ROOT, .block_sent = 10}, {10, 30, 0}},
    {CALL_VOLUME_SCATTER, {INTER, .place = VOLUME_ELSEWHERE, .block_got = 10}, {10, 0, 10}},
    {CALL_VOLUME_SCATTERV, {INTER, .place = VOLUME_ROOT, .all_sent = 60}, {0, 60, 0}},
    {CALL_VOLUME_ALLGATHER, {INTER, .block_sent = 10, .block_got = 20}, {10, 30, 60}},
    {CALL_VOLUME_ALLTOALL, {INTER, .block_sent = 10, .block_got = 20}, {10, 30, 60}},
    {CALL_VOLUME_ALLREDUCE, {INTER, .block_sent = 10}, {10, 30, 30}},
};

static void test_table(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct volume volume = volume_of(rows[i].rule, &rows[i].in);
        if (volume.args != rows[i].out.args || volume.sent != rows[i].out.sent || volume.got != rows[i].out.got)
            fail_msg("row %zu: (%llu, %llu, %llu) is not (%llu, %llu, %llu)", i, (unsigned long long)volume.args,
                     (unsigned long long)volume.sent, (unsigned long long)volume.got,
                     (unsigned long long)rows[i].out.args, (unsigned long long)rows[i].out.sent,
                     (unsigned long long)rows[i].out.got);
    }
}

/* What all processes send together is what they receive together. */
static void test_balance(void **state)
{
    static const uint32_t rules[] = {CALL_VOLUME_GATHER,    CALL_VOLUME_SCATTER,  CALL_VOLUME_REDUCE,
                                     CALL_VOLUME_ALLGATHER, CALL_VOLUME_ALLTOALL, CALL_VOLUME_ALLREDUCE,
                                     CALL_VOLUME_SCAN,      CALL_VOLUME_EXSCAN,   CALL_VOLUME_REDUCE_SCATTER_BLOCK};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (uint32_t size = 1; size < 20; size++) {
            uint64_t sent = 0, got = 0;
            for (uint32_t rank = 0; rank < size; rank++) {
                struct volume_in in = {.size = size,
                                       .rank = rank,
                                       .place = rank == 0 ? VOLUME_ROOT : VOLUME_ELSEWHERE,
                                       .block_sent = 8,
                                       .block_got = 8};
                struct volume volume = volume_of(rules[i], &in);
                sent += volume.sent;
                got += volume.got;
            }
            assert_int_equal(sent, got);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_balance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
