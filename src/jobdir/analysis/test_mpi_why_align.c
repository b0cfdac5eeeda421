/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several nodes, each with the record of its own monitor. */
#include "jobdir/analysis/test_mpi_why.h"

#include "jobdir/analysis/why.h"

#define SECOND UINT64_C(1000000000)
#define NOW (UINT64_C(1700000000) * SECOND)

/* Ranks 0 and 1 on one node, the others on another, whose clock is ahead. */
static struct scene two_nodes(size_t count, int64_t ahead_ns)
{
    struct scene scene = scene_of(count);
    for (size_t i = 0; i < count; i++) {
        scene.set.ranks[i].dir = i < 2 ? "/job" : "/job/parts/b";
        scene.set.ranks[i].node = i < 2 ? "a" : "b";
        scene.set.ranks[i].taken_wall_ns = NOW + (i < 2 ? 0 : (uint64_t)ahead_ns);
    }
    return scene;
}

static void check(struct scene *scene, const struct mpi_why_part *parts, size_t count, const char *expected,
                  size_t stuck)
{
    struct buf note = BUF_INIT;
    struct mpi_why_options options = {.apart_ns = mpi_why_align(&scene->set, parts, count, NOW - SECOND, true, &note)};
    assert_int_equal(mpi_why_find(&scene->why, &scene->set, &options, &scene->arena), 0);
    assert_string_equal(note.data ? note.data : "", expected);
    assert_int_equal(scene->why.stuck, stuck);
    buf_done(&note);
}

static void test_deadlock_over_nodes(void **state)
{
    struct scene scene = two_nodes(4, 3600 * (int64_t)SECOND);
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0},
                                         {"/job/parts/b", "b", 3600 * (int64_t)SECOND, SECOND / 100}};
    for (size_t i = 0; i < 4; i++)
        receives(&scene, i, (int)(i + 1) % 4, 7);
    check(&scene, parts, 2, "", 4);
    assert_list(scene.why.findings[0].ranks, scene.why.findings[0].rank_count, "0 1 2 3");
    assert_int_equal(scene.why.findings[0].kind, MPI_WHY_DEADLOCK);
    done(&scene);
}

/* Without the offset the looks would lie an hour apart: nothing follows. */
static void test_clocks_matter(void **state)
{
    struct scene scene = two_nodes(4, 3600 * (int64_t)SECOND);
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0}, {"/job/parts/b", "b", 0, 0}};
    for (size_t i = 0; i < 4; i++)
        receives(&scene, i, (int)(i + 1) % 4, 7);
    check(&scene, parts, 2, "", 0);
    done(&scene);
    /* nor if the offset may be off by more than the calls have lasted */
    scene = two_nodes(4, 0);
    const struct mpi_why_part vague[] = {{"/job", "a", 0, SECOND}, {"/job/parts/b", "b", 0, 2 * SECOND}};
    for (size_t i = 0; i < 4; i++)
        receives(&scene, i, (int)(i + 1) % 4, 7);
    check(&scene, vague, 2, "", 0);
    done(&scene);
}

/* A node's record is older than the calls are: they have not waited at one moment. Older calls have. */
static void test_late(void **state)
{
    struct scene scene = two_nodes(4, -40 * (int64_t)SECOND);
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0}, {"/job/parts/b", "b", 0, 0}};
    for (size_t i = 0; i < 4; i++)
        receives(&scene, i, (int)(i + 1) % 4, 7);
    check(&scene, parts, 2, "node b: what 2 ranks are in is 40.0 s old", 0);
    done(&scene);
    scene = two_nodes(4, -40 * (int64_t)SECOND);
    for (size_t i = 0; i < 4; i++) {
        receives(&scene, i, (int)(i + 1) % 4, 7);
        now_of(&scene, i)->age_ns = 100 * SECOND;
    }
    check(&scene, parts, 2, "node b: what 2 ranks are in is 40.0 s old", 4);
    done(&scene);
}

/* Of a node nothing has come: its ranks may do anything. */
static void test_missing(void **state)
{
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0}, {"/job/parts/b", "b", 0, 0}};
    const char *note = "node b has told of no rank; nothing is known of rank 2, 3 (of 4)";
    struct scene scene = two_nodes(4, 0);
    scene.set.count = 2;
    receives(&scene, 0, 2, 7);
    receives(&scene, 1, 0, 7);
    check(&scene, parts, 2, note, 0);
    done(&scene);
    scene = two_nodes(4, 0);
    scene.set.count = 2;
    for (size_t i = 0; i < 2; i++)
        gathers(&scene, i, CALL_MPI_Barrier, 5, MPIA_RANK_NONE);
    check(&scene, parts, 2, note, 0);
    done(&scene);
    /* what those that are known do to each other is certain all the same */
    scene = two_nodes(4, 0);
    scene.set.count = 2;
    receives(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    check(&scene, parts, 2, note, 2);
    done(&scene);
    scene = two_nodes(20, 0);
    scene.set.count = 2;
    check(&scene, parts, 2,
          "node b has told of no rank; nothing is known of rank 2, 3, 4, 5, 6, 7, 8, 9 and 10 more (of 20)", 0);
    done(&scene);
}

/* The one that all wait for is on the other node. */
static void test_straggler_over_nodes(void **state)
{
    struct scene scene = two_nodes(4, 0);
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0}, {"/job/parts/b", "b", 0, 0}};
    for (size_t i = 0; i < 4; i++)
        if (i != 3)
            gathers(&scene, i, CALL_MPI_Allreduce, 1, MPIA_RANK_NONE);
    check(&scene, parts, 2, "", 0);
    assert_int_equal(scene.why.findings[0].kind, MPI_WHY_STRAGGLER);
    assert_list(scene.why.findings[0].ranks, scene.why.findings[0].rank_count, "3");
    done(&scene);
}

/* A node does not answer: those that wait for its ranks are told once, and not what these did when they were heard of last. */
static void test_unheard(void **state)
{
    const struct mpi_why_part parts[] = {{"/job", "a", 0, 0}, {"/job/parts/b", "b", 0, 0}};
    struct scene scene = two_nodes(4, -40 * (int64_t)SECOND);
    struct buf text = BUF_INIT;
    gathers(&scene, 0, CALL_MPI_Allreduce, 1, MPIA_RANK_NONE);
    receives(&scene, 1, 3, 7);
    receives(&scene, 3, 1, 7);
    check(&scene, parts, 2, "node b: what 2 ranks are in is 40.0 s old", 0);
    assert_int_equal(scene.why.finding_count, 1);
    const struct mpi_why_finding *finding = &scene.why.findings[0];
    assert_int_equal(finding->kind, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "2 3");
    assert_list(finding->victims, finding->victim_count, "0 1");
    assert_string_equal(
        finding->text,
        "2 ranks wait for 2 ranks on node b, which does not answer: for 40.0 s nothing is known of them");
    assert_int_equal(scene.why.unheard, 2);
    assert_int_equal(scene.why.computing, 0);
    assert_int_equal(scene.why.still_ns, 0);
    mpi_why_text(&text, &scene.why);
    assert_non_null(strstr(text.data, "4 ranks: 2 wait, 0 compute, 2 are on nodes that do not answer\n"));
    assert_non_null(strstr(text.data, "  rank 2 (b, process 102): computes (when it was heard of last)"));
    buf_done(&text);
    done(&scene);
    scene = two_nodes(4, -40 * (int64_t)SECOND);
    receives(&scene, 0, 2, 7);
    check(&scene, parts, 2, "node b: what 2 ranks are in is 40.0 s old", 0);
    assert_string_equal(scene.why.findings[0].text,
                        "1 rank waits for rank 2 on node b, which does not answer: for 40.0 s nothing is known of it");
    done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_deadlock_over_nodes),
                                       cmocka_unit_test(test_clocks_matter),
                                       cmocka_unit_test(test_late),
                                       cmocka_unit_test(test_missing),
                                       cmocka_unit_test(test_straggler_over_nodes),
                                       cmocka_unit_test(test_unheard)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
