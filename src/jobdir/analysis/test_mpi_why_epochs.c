/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in epochs of MPI_Win_start and MPI_Win_post: who waits for whom. */
#include "jobdir/analysis/test_mpi_why.h"

enum { WINDOW = 1 };

static struct scene windows(size_t count)
{
    struct scene scene = scene_of(count);
    for (size_t i = 0; i < count; i++) {
        struct mpi_stats *stats = &scene.set.ranks[i];
        stats->comm_count = 2;
        stats->comms[WINDOW] = (struct mpi_stats_comm){.kind = MPIA_COMM_WINDOW,
                                                       .number = 7,
                                                       .ordinal = 1,
                                                       .size = (uint32_t)count,
                                                       .rank = (uint32_t)i,
                                                       .name = "window"};
    }
    return scene;
}

static void row(struct scene *scene, size_t rank, uint32_t call, int32_t peer, uint64_t begun, uint64_t completed)
{
    struct mpi_stats *stats = &scene->set.ranks[rank];
    stats->peers[stats->peer_count++] = (struct mpi_stats_peer){
        .comm = WINDOW, .peer = peer, .call = call, .sent_count = begun, .got_count = completed};
}

static void is_in(struct scene *scene, size_t rank, uint32_t call)
{
    now_of(scene, rank)->call = call;
    now_of(scene, rank)->comm = WINDOW;
    now_of(scene, rank)->flags = MPIA_NOW_WINDOW;
}

static const struct mpi_why_condition *only_condition(const struct scene *scene, size_t rank)
{
    assert_int_equal(scene->why.ranks[rank].threads[0].condition_count, 1);
    return &scene->why.ranks[rank].threads[0].conditions[0];
}

/* The third epoch with 1 and 2: 1 has posted for it, 2 only for the two before. */
static void test_post(void **state)
{
    static const uint32_t calls[] = {CALL_MPI_Win_start, CALL_MPI_Win_complete};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene = windows(3);
        row(&scene, 0, CALL_MPI_Win_start, 1, 3, 2);
        row(&scene, 0, CALL_MPI_Win_start, 2, 3, 2);
        row(&scene, 1, CALL_MPI_Win_post, 0, 3, 0);
        row(&scene, 2, CALL_MPI_Win_post, 0, 2, 0);
        is_in(&scene, 0, calls[i]);
        look(&scene);
        const struct mpi_why_condition *condition = only_condition(&scene, 0);
        assert_int_equal(condition->reason, MPI_WHY_FOR_POST);
        assert_list(condition->for_ranks, condition->for_count, "2");
        assert_list(only(&scene, MPI_WHY_STRAGGLER)->ranks, 1, "2");
        done(&scene);
    }
}

/* All have posted: then it waits for their libraries, which answer inside of MPI. */
static void test_posted(void **state)
{
    struct scene scene = windows(3);
    row(&scene, 0, CALL_MPI_Win_start, 1, 3, 2);
    row(&scene, 0, CALL_MPI_Win_start, 2, 3, 2);
    row(&scene, 1, CALL_MPI_Win_post, 0, 3, 0);
    row(&scene, 2, CALL_MPI_Win_post, 0, 3, 0);
    is_in(&scene, 0, CALL_MPI_Win_complete);
    is_in(&scene, 2, CALL_MPI_Win_wait);
    look(&scene);
    assert_int_equal(only_condition(&scene, 0)->reason, MPI_WHY_FOR_TARGET);
    assert_list(only_condition(&scene, 0)->for_ranks, only_condition(&scene, 0)->for_count, "1");
    assert_int_equal(only_condition(&scene, 2)->reason, MPI_WHY_FOR_COMPLETE);
    assert_list(only_condition(&scene, 2)->for_ranks, only_condition(&scene, 2)->for_count, "0");
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* Each begins its access before it posts for the other. */
static void test_both_start(void **state)
{
    struct scene scene = windows(2);
    for (size_t i = 0; i < 2; i++) {
        row(&scene, i, CALL_MPI_Win_start, 1 - (int32_t)i, 1, 0);
        is_in(&scene, i, CALL_MPI_Win_start);
    }
    look(&scene);
    assert_list(only(&scene, MPI_WHY_DEADLOCK)->ranks, 2, "0 1");
    assert_int_equal(scene.why.stuck, 2);
    /* where something was not counted it is not known */
    scene.set.ranks[1].resets = 1;
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* One of the origins has ended without its part. */
static void test_ended(void **state)
{
    struct scene scene = windows(3);
    row(&scene, 0, CALL_MPI_Win_post, 1, 1, 0);
    row(&scene, 0, CALL_MPI_Win_post, 2, 1, 0);
    row(&scene, 1, CALL_MPI_Win_start, 0, 1, 1);
    is_in(&scene, 0, CALL_MPI_Win_wait);
    ends(&scene, 2, MPIA_ENDED);
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_UNMATCHED)->text,
                        "rank 0 waits in MPI_Win_wait for ranks that have ended");
    done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_posted),
        cmocka_unit_test(test_both_start),
        cmocka_unit_test(test_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
