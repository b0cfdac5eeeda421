/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that ask again and again: how it is seen, and what is said of those that wait for them. */
#include "jobdir/analysis/test_mpi_why.h"

enum { PASSED_NS = 100000000 };

/* The same as before, a little later, and with so many more calls of one kind by the rank. */
static struct scene later(const struct scene *before, size_t rank, uint32_t call, uint64_t more)
{
    struct scene scene = scene_of(before->set.count);
    for (size_t i = 0; i < before->set.count; i++) {
        struct mpi_stats *stats = &scene.set.ranks[i];
        const struct mpi_stats *old = &before->set.ranks[i];
        stats->taken_wall_ns = old->taken_wall_ns + PASSED_NS;
        stats->rows = arena_zalloc(&scene.arena, 4, sizeof *stats->rows);
        stats->row_count = old->row_count;
        for (size_t k = 0; k < old->row_count; k++)
            stats->rows[k] = old->rows[k];
        memcpy(stats->threads, old->threads, 4 * sizeof *stats->threads);
    }
    struct mpi_stats *stats = &scene.set.ranks[rank];
    stats->rows[stats->row_count++] = (struct mpi_stats_row){.call = call, .count = more};
    stats->threads[0].outermost.count += more;
    return scene;
}

static struct scene probes_again(struct scene *before, uint32_t call, uint64_t times)
{
    *before = scene_of(2);
    receives(before, 1, 0, 7);
    before->set.ranks[0].threads[0].last = *now_of(before, 1);
    before->set.ranks[0].threads[0].last.call = CALL_MPI_Iprobe;
    before->set.ranks[0].threads[0].last.peer = 1;
    before->set.ranks[0].threads[0].blocking.compute_open_ns = LONG;
    return later(before, 0, call, times);
}

static void test_seen(void **state)
{
    static const struct {
        uint32_t call;
        uint64_t times;
        bool polls;
    } cases[] = {
        {CALL_MPI_Iprobe, 1000, true},   {CALL_MPI_Test, 10, true},    {CALL_MPI_Iprobe, 1, false},
        {CALL_MPI_Isend, 1000, false},   {CALL_MPI_Recv, 1000, false}, {CALL_MPI_Wtime, 1000, true},
        {CALL_MPI_Win_sync, 1000, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene before, scene = probes_again(&before, cases[i].call, cases[i].times);
        mpi_polls_find(&scene.set, &before.set);
        assert_int_equal(scene.set.ranks[0].threads[0].polls, cases[i].polls);
        assert_false(scene.set.ranks[1].threads[0].polls);
        if (cases[i].polls) {
            assert_int_equal(scene.set.ranks[0].threads[0].polls_ns, LONG);
            assert_true(scene.set.ranks[0].threads[0].polls_per_second > 9.9 * (double)cases[i].times);
        }
        done(&scene);
        done(&before);
    }
}

/* A request that was begun after the last call that blocks: nothing came of that one for so long. */
static void test_since_it_was_posted(void **state)
{
    struct scene before, scene = probes_again(&before, CALL_MPI_Test, 100);
    struct mpi_stats *stats = &scene.set.ranks[0];
    stats->threads[0].now = stats->threads[0].last; /* it is in one just now */
    stats->threads[0].now.call = CALL_MPI_Test;
    stats->threads[0].now.flags = MPIA_NOW_REQUESTS;
    stats->threads[0].now.waiting = 1;
    stats->threads[0].now.waits[0] = 77;
    stats->requests[0] = (struct mpi_stats_request){.handle = 77, .age_ns = LONG / 2};
    stats->request_count = 1;
    mpi_polls_find(&scene.set, &before.set);
    assert_true(stats->threads[0].polls);
    assert_int_equal(stats->threads[0].polls_ns, LONG / 2);
    assert_int_equal(stats->threads[0].last.call, CALL_MPI_Test);
    done(&scene);
    done(&before);
}

/* Something came; or counting began anew; or it is another process. */
static void test_not_the_same(void **state)
{
    for (int way = 0; way < 4; way++) {
        struct scene before, scene = probes_again(&before, CALL_MPI_Iprobe, 1000);
        struct mpi_stats *stats = &scene.set.ranks[0];
        struct mpi_stats_row span = {.call = CALL_MPI_Irecv, .count = 1};
        if (way == 0) {
            stats->spans = &span;
            stats->span_count = 1;
        } else if (way == 1)
            stats->resets = 1;
        else if (way == 2)
            stats->pid++;
        else
            before.set.count = 0;
        mpi_polls_find(&scene.set, &before.set);
        assert_false(stats->threads[0].polls);
        done(&scene);
        done(&before);
    }
}

static void polls(struct scene *scene, size_t rank, int32_t from, int32_t tag)
{
    struct mpi_stats_thread *thread = &scene->set.ranks[rank].threads[0];
    thread->last = thread->now;
    thread->last.call = CALL_MPI_Iprobe;
    thread->last.peer = from;
    thread->last.tag = tag;
    thread->last.comm = WORLD;
    thread->polls = true;
    thread->polls_ns = LONG;
    thread->now.age_ns = 1000;
}

static void test_weak_circle(void **state)
{
    struct scene scene = scene_of(4);
    polls(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    receives(&scene, 2, 1, 7);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_POLLS_IN_VAIN);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    assert_list(finding->victims, finding->victim_count, "2");
    assert_int_equal(scene.why.stuck, 0); /* not for certain */
    assert_int_equal(scene.why.polling, 1);
    assert_string_equal(finding->text,
                        "ranks 0 and 1 wait for each other, but rank 0 polls, and may do something else meanwhile");
    done(&scene);
}

/* A window in which one waits for a number that another is to store: for whom is not known, though all hold a lock on it. */
static void test_polls_a_window(void **state)
{
    struct scene scene = scene_of(3);
    polls(&scene, 0, MPIA_RANK_NONE, MPIA_TAG_ANY);
    scene.set.ranks[0].threads[0].last.call = CALL_MPI_Win_sync;
    for (size_t i = 0; i < 3; i++)
        scene.set.ranks[i].comms[WORLD].held = true;
    receives(&scene, 1, 0, 7);
    receives(&scene, 2, 1, 7);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "0");
    assert_list(finding->victims, finding->victim_count, "1 2");
    assert_string_equal(finding->text, "2 ranks wait for rank 0, which polls a window with MPI_Win_sync");
    assert_int_equal(scene.why.ranks[0].state, MPI_WHY_POLLS);
    assert_int_equal(scene.why.ranks[0].threads[0].condition_count, 0);
    done(&scene);
}

/* Three, of which two poll; and one that polls for itself. */
static void test_larger_and_smaller_circle(void **state)
{
    struct scene scene = scene_of(4);
    polls(&scene, 0, 1, 7);
    receives(&scene, 1, 2, 7);
    polls(&scene, 2, 0, 7);
    polls(&scene, 3, 3, 7);
    look(&scene);
    assert_int_equal(scene.why.finding_count, 2);
    assert_string_equal(scene.why.findings[0].text,
                        "3 ranks wait for each other, but 2 of them poll, and may do something else meanwhile");
    assert_string_equal(scene.why.findings[1].text, "rank 3 polls for itself, and may do something else meanwhile");
    done(&scene);
}

/* The circle without it is one for certain; who polls for it is told among those who wait. */
static void test_polls_for_a_deadlock(void **state)
{
    struct scene scene = scene_of(3);
    receives(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    polls(&scene, 2, 0, 7);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    assert_list(finding->victims, finding->victim_count, "2");
    assert_int_equal(scene.why.stuck, 2);
    done(&scene);
}

static void test_polls_for_the_ended(void **state)
{
    struct scene scene = scene_of(3);
    polls(&scene, 0, 1, 7);
    ends(&scene, 1, MPIA_ENDED);
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_POLLS_IN_VAIN)->text,
                        "a receive that nothing can match: rank 0 polls with MPI_Iprobe for rank 1, which has ended");
    ends(&scene, 1, MPIA_RUNNING);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEAD_PEER);
    assert_list(finding->victims, finding->victim_count, "0");
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

static void test_polls_for_one_that_computes(void **state)
{
    struct scene scene = scene_of(3);
    polls(&scene, 0, 1, 7);
    receives(&scene, 2, 0, 7);
    look(&scene);
    assert_int_equal(scene.why.finding_count, 2);
    assert_string_equal(scene.why.findings[0].text, "1 rank polls for rank 1, which computes");
    assert_string_equal(scene.why.findings[1].text, "1 rank waits for rank 0, which polls for rank 1");
    done(&scene);
}

/* Another thread of 0 polls, as for the progress of all others: the rank computes, unless it only waits for that one.
 */
static void test_thread_for_progress(void **state)
{
    for (int joins = 0; joins < 2; joins++) {
        struct scene scene = scene_of(2);
        struct mpi_stats_thread *threads = scene.set.ranks[0].threads;
        polls(&scene, 0, 1, 7);
        threads[1] = threads[0];
        threads[1].is_main = false;
        threads[1].tid = 55;
        threads[0] = (struct mpi_stats_thread){.tid = 54, .is_main = true, .now = threads[2].now};
        const struct thread_seen seen[] = {{.tid = 54, .wait = {.kind = THREAD_WAITS_END, .tid = 55}}, {.tid = 55}};
        scene.set.ranks[0].seen = seen;
        scene.set.ranks[0].seen_count = joins ? 2 : 0;
        scene.set.ranks[0].thread_count = 2;
        look(&scene);
        assert_int_equal(scene.why.ranks[0].state, joins ? MPI_WHY_POLLS : MPI_WHY_COMPUTES);
        assert_int_equal(scene.why.polling, joins);
        done(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_since_it_was_posted),
        cmocka_unit_test(test_not_the_same),
        cmocka_unit_test(test_weak_circle),
        cmocka_unit_test(test_polls_a_window),
        cmocka_unit_test(test_larger_and_smaller_circle),
        cmocka_unit_test(test_polls_for_a_deadlock),
        cmocka_unit_test(test_polls_for_the_ended),
        cmocka_unit_test(test_polls_for_one_that_computes),
        cmocka_unit_test(test_thread_for_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
