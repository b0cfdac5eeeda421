/* SPDX-License-Identifier: Apache-2.0 */
/* Situations of ranks, made by hand: what is said of them. */
#include "base/system/clock.h"
#include "jobdir/analysis/test_mpi_why.h"
#include "jobdir/analysis/why.h"

static void test_two_receive(void **state)
{
    struct scene scene = scene_of(4);
    receives(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    receives(&scene, 2, 1, 7);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    assert_list(finding->victims, finding->victim_count, "2");
    assert_int_equal(scene.why.stuck, 3);
    assert_int_equal(scene.why.computing, 1);
    assert_string_equal(finding->text, "deadlock: ranks 0 and 1 wait for each other");
    struct buf text = BUF_INIT;
    mpi_why_text(&text, &scene.why); /* the answer is first, then the numbers, then the others */
    assert_memory_equal(text.data, finding->text, strlen(finding->text));
    const char *head = strstr(text.data, "\n\n4 ranks: 3 stuck, 1 computes"),
               *ranks = strstr(text.data, "\n\nOther ranks\n");
    assert_true(head && ranks && head < ranks);
    assert_null(strstr(ranks, "rank 0 (")); /* each rank once */
    assert_non_null(strstr(ranks, "  rank 2 ("));
    buf_clear(&text);
    scene.why.ranks[3].where = "waits until somebody opens p for writing";
    scene.why.ranks[3].blocked = true;
    mpi_why_text(&text, &scene.why);
    assert_non_null(strstr(text.data, "\n\n4 ranks: 3 stuck, 1 is blocked outside of MPI;"));
    buf_clear(&text);
    for (size_t i = 0; i < 2; i++)
        now_of(&scene, i)->site =
            (struct mpi_stats_site){.function = "exchange", .file = "/src/recv.c", .line = 2, .module = "recv"};
    mpi_why_reason(&text, &scene.why);
    assert_string_equal(text.data, "deadlock: ranks 0 and 1 wait for each other, in MPI_Recv at exchange (recv.c:2)");
    buf_clear(&text);
    now_of(&scene, 1)->site.line = 7;
    mpi_why_reason(&text, &scene.why);
    assert_string_equal(text.data, "deadlock: ranks 0 and 1 wait for each other: rank 0 in MPI_Recv at exchange "
                                   "(recv.c:2), rank 1 in MPI_Recv at exchange (recv.c:7)");
    buf_done(&text);
    done(&scene);
}

/* Sends in a circle, each to the next; the one who computes is not in it. */
static void test_circle(void **state)
{
    struct scene scene = scene_of(5);
    for (int i = 0; i < 4; i++)
        sends(&scene, (size_t)i, (i + 1) % 4, 0);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_list(finding->ranks, finding->rank_count, "0 1 2 3");
    done(&scene);
}

static void test_calls_that_just_began(void **state)
{
    struct scene scene = scene_of(2);
    receives(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    now_of(&scene, 1)->age_ns = 1000;
    look(&scene);
    only(&scene, MPI_WHY_STRAGGLER);
    assert_int_equal(scene.why.ranks[1].state, MPI_WHY_MOVES);
    assert_int_equal(scene.why.still_ns, 0);
    now_of(&scene, 1)->age_ns = LONG;
    scene.set.ranks[0].taken_wall_ns = 1000; /* not of one moment: looked at three seconds apart */
    scene.set.ranks[1].taken_wall_ns = 1000 + 3 * UINT64_C(1000000000);
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

static void test_straggler(void **state)
{
    struct scene scene = scene_of(8);
    for (size_t i = 0; i < 8; i++)
        if (i != 3)
            gathers(&scene, i, CALL_MPI_Barrier, 5, MPIA_RANK_NONE);
    scene.set.ranks[3].comms[WORLD].collectives = 4;
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "3");
    assert_list(finding->victims, finding->victim_count, "0 1 2 4 5 6 7");
    assert_int_equal(scene.why.stuck, 0);
    assert_int_equal(scene.why.ranks[7].root, 3);
    assert_int_equal(scene.why.still_ns, LONG);
    done(&scene);
}

/* A chain: 0 waits for 1, 1 for 2, 2 computes; and two that are late for one collective. */
static void test_chain(void **state)
{
    struct scene scene = scene_of(3);
    receives(&scene, 0, 1, 0);
    sends(&scene, 1, 2, 0);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "2");
    assert_list(finding->victims, finding->victim_count, "0 1");
    done(&scene);
    scene = scene_of(6);
    for (size_t i = 0; i < 4; i++)
        gathers(&scene, i, CALL_MPI_Allreduce, 1, MPIA_RANK_NONE);
    look(&scene);
    finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "4 5");
    assert_int_equal(finding->victim_count, 4);
    done(&scene);
}

static void test_mismatch(void **state)
{
    struct scene scene = scene_of(4);
    for (size_t i = 0; i < 4; i++)
        gathers(&scene, i, i == 2 ? CALL_MPI_Reduce : CALL_MPI_Bcast, 9, 0);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_MISMATCH);
    assert_int_equal(finding->rank_count, 4);
    assert_non_null(
        strstr(finding->text, "collective 9 on MPI_COMM_WORLD: rank 0 is in MPI_Bcast, rank 2 in MPI_Reduce"));
    assert_int_equal(scene.why.stuck, 4);
    done(&scene);
    scene = scene_of(3); /* other roots */
    for (size_t i = 0; i < 3; i++)
        gathers(&scene, i, CALL_MPI_Bcast, 2, i == 1);
    look(&scene);
    finding = only(&scene, MPI_WHY_MISMATCH);
    assert_non_null(strstr(finding->text, "MPI_Bcast: its root is rank 0 for rank 0, rank 1 for rank 1"));
    done(&scene);
}

/* The others have gone on, each with what it got from the root that it named. */
static void test_left_behind(void **state)
{
    struct scene scene = scene_of(4);
    for (size_t i = 0; i < 4; i++)
        gathers(&scene, i, i == 2 ? CALL_MPI_Bcast : CALL_MPI_Allreduce, i == 2 ? 9 : 10, i == 2 ? 1 : MPIA_RANK_NONE);
    for (size_t i = 0; i < 4; i++) {
        scene.set.ranks[i].peers[0] =
            (struct mpi_stats_peer){.comm = WORLD, .call = CALL_MPI_Bcast, .got_count = i == 2 ? 0 : 1};
        scene.set.ranks[i].peer_count = 1;
    }
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0); /* it may be on its way */
    now_of(&scene, 2)->age_ns = 6 * UINT64_C(1000000000);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_MISMATCH);
    assert_list(finding->ranks, finding->rank_count, "2");
    assert_list(finding->victims, finding->victim_count, "0 1 3");
    assert_non_null(strstr(finding->text,
                           "collective 9 on MPI_COMM_WORLD: rank 2 waits in MPI_Bcast with rank 1 as its "
                           "root, and all others have left it"));
    scene.set.ranks[2].threads[0].attends = MPI_STARVED;
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0); /* it has not looked */
    scene.set.ranks[2].threads[0].attends = MPI_ATTENDS;
    scene.set.ranks[3].requests[0] = (struct mpi_stats_request){.call = CALL_MPI_Ibcast, .comm = WORLD, .ordinal = 9};
    scene.set.ranks[3].request_count = 1;
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0); /* rank 3 has not left it */
    done(&scene);
}

/* One has gone on after another call in its place: then nothing is said of roots. */
static void test_left_for_another(void **state)
{
    struct scene scene = scene_of(3);
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < 3; i++) {
        gathers(&scene, i, CALL_MPI_Allreduce, 8, MPIA_RANK_NONE);
        now_of(&scene, i)->age_ns = 6 * UINT64_C(1000000000);
        now_of(&scene, i)->site =
            (struct mpi_stats_site){.function = "main", .file = "/src/conv.c", .line = 7, .module = "conv"};
        scene.set.ranks[i].peers[0] =
            (struct mpi_stats_peer){.comm = WORLD, .call = CALL_MPI_Allreduce, .sent_count = 7};
        scene.set.ranks[i].peer_count = 1;
    }
    now_of(&scene, 2)->call = CALL_MPI_Finalize;
    now_of(&scene, 2)->ordinal = 0;
    now_of(&scene, 2)->site.line = 9;
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_MISMATCH);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    mpi_why_reason(&text, &scene.why);
    assert_string_equal(
        text.data, "the ranks disagree about collective 8 on MPI_COMM_WORLD: ranks 0,1 wait in MPI_Allreduce, and rank "
                   "2 has done another call in its place; rank 0 is in MPI_Allreduce at main (conv.c:7), rank 2 in "
                   "MPI_Finalize at main (conv.c:9)");
    scene.set.ranks[2].peers[0].sent_count = 8;
    look(&scene);
    assert_non_null(
        strstr(only(&scene, MPI_WHY_MISMATCH)->text,
               "ranks 0,1 wait in MPI_Allreduce, and all others have left it: they may have given another size"));
    buf_done(&text);
    done(&scene);
}

static void test_dead_peer(void **state)
{
    struct scene scene = scene_of(4);
    receives(&scene, 0, 1, 0);
    receives(&scene, 1, 3, 0);
    ends(&scene, 3, MPIA_RUNNING);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEAD_PEER);
    assert_list(finding->ranks, finding->rank_count, "3");
    assert_int_equal(finding->victim_count, 2);
    assert_int_equal(scene.why.ranks[3].state, MPI_WHY_DIED);
    done(&scene);
    scene = scene_of(2);
    ends(&scene, 0, MPIA_RUNNING);
    look(&scene);
    only(&scene, MPI_WHY_DIED_RANK);
    done(&scene);
}

/* One name and number on two nodes: both live, so neither is a try of the other that died. */
static void test_one_name_for_two(void **state)
{
    struct scene scene = scene_of(2);
    scene.set.ranks[1].rank = 0;
    scene.set.ranks[1].node = "m";
    scene.set.ranks[0].world_size = scene.set.ranks[1].world_size = 1;
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0);
    assert_int_equal(scene.why.ranks[0].state, MPI_WHY_COMPUTES);
    assert_int_equal(scene.why.ranks[1].state, MPI_WHY_COMPUTES);
    done(&scene);
}

static void test_unmatched(void **state)
{
    struct scene scene = scene_of(3);
    receives(&scene, 0, 1, 0);
    ends(&scene, 1, MPIA_ENDED);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_UNMATCHED);
    assert_string_equal(finding->text,
                        "a receive that nothing can match: rank 0 waits in MPI_Recv for rank 1, which has ended");
    done(&scene);
    scene = scene_of(3);
    receives(&scene, 0, MPIA_RANK_ANY, MPIA_TAG_ANY);
    ends(&scene, 1, MPIA_ENDED);
    look(&scene);
    assert_int_equal(scene.why.stuck, 0); /* rank 2 may send */
    ends(&scene, 2, MPIA_ENDED);
    look(&scene);
    only(&scene, MPI_WHY_UNMATCHED);
    done(&scene);
}

/* What was sent lies on another communicator, or is being sent there. */
static void test_other_communicator(void **state)
{
    for (int sends_now = 0; sends_now < 2; sends_now++) {
        struct scene scene = scene_of(2);
        for (size_t i = 0; i < 2; i++) {
            struct mpi_stats_comm *comms = (struct mpi_stats_comm *)scene.set.ranks[i].comms;
            comms[1] = comms[0];
            comms[1].parent = comms[0].number;
            comms[1].number = comms[1].ordinal = 1;
            comms[1].name = "oc\x1b[31m\xe2\x80\xae"; /* which a terminal may obey */
            scene.set.ranks[i].comm_count = 2;
        }
        receives(&scene, 0, 1, 5);
        if (sends_now) {
            sends(&scene, 1, 0, 5);
            now_of(&scene, 1)->comm = 1;
        } else {
            gathers(&scene, 1, CALL_MPI_Barrier, 1, MPIA_RANK_NONE);
            scene.set.ranks[1].peers[0] =
                (struct mpi_stats_peer){.comm = 1, .peer = 0, .call = CALL_NONE, .sent_count = 1};
            scene.set.ranks[1].peer_count = 1;
        }
        look(&scene);
        only(&scene, MPI_WHY_DEADLOCK);
        struct buf text = BUF_INIT;
        mpi_why_call_text(&text, &scene.why, &scene.why.ranks[0], &scene.why.ranks[0].threads[0]);
        assert_non_null(strstr(text.data, "; rank 1 has sent to it on"));
        assert_non_null(strstr(text.data, "and that has not been received: another communicator?"));
        assert_non_null(strstr(text.data, "oc\\x1b[31m\\xe2\\x80\\xae"));
        assert_null(strchr(text.data, '\x1b'));
        buf_clear(&text);
        mpi_why_text(&text, &scene.why);
        assert_non_null(strstr(text.data, "oc\\x1b[31m\\xe2\\x80\\xae"));
        assert_null(strchr(text.data, '\x1b'));
        buf_done(&text);
        done(&scene);
    }
}

/* Another tag than what was sent: the message that lies there is told. */
static void test_other_tag(void **state)
{
    struct scene scene = scene_of(2);
    receives(&scene, 0, 1, 5);
    gathers(&scene, 1, CALL_MPI_Barrier, 1, MPIA_RANK_NONE);
    scene.set.ranks[1].peers[0] = (struct mpi_stats_peer){.comm = WORLD, .peer = 0, .call = CALL_NONE, .sent_count = 3};
    scene.set.ranks[1].peer_count = 1;
    scene.set.ranks[0].peers[0] = (struct mpi_stats_peer){.comm = WORLD, .peer = 1, .call = CALL_NONE, .got_count = 2};
    scene.set.ranks[0].peer_count = 1;
    look(&scene);
    assert_int_equal(scene.why.stuck, 0); /* it may be on its way */
    now_of(&scene, 0)->age_ns = 6 * UINT64_C(1000000000);
    look(&scene);
    only(&scene, MPI_WHY_DEADLOCK);
    struct buf text = BUF_INIT;
    mpi_why_call_text(&text, &scene.why, &scene.why.ranks[0], &scene.why.ranks[0].threads[0]);
    assert_string_equal(text.data,
                        "MPI_Recv from rank 1, tag 5 on MPI_COMM_WORLD; 1 message that rank 1 sent there has "
                        "not been received: another tag?");
    buf_clear(&text);
    mpi_why_reason(&text, &scene.why);
    assert_string_equal(text.data,
                        "deadlock: ranks 0 and 1 wait for each other; rank 0 waits for a message with tag 5 that "
                        "rank 1 has not sent: rank 0 in MPI_Recv, rank 1 in MPI_Barrier; rank 0: 1 message "
                        "that rank 1 sent there has not been received: another tag?");
    buf_done(&text);
    /* ranks that were ended, of which nobody has seen whether they looked: six seconds are enough of five */
    struct mpi_why_options options = {.settled_ns = 5 * UINT64_C(1000000000)};
    now_of(&scene, 1)->age_ns = now_of(&scene, 0)->age_ns;
    assert_int_equal(mpi_why_find(&scene.why, &scene.set, &options, &scene.arena), 0);
    assert_int_equal(scene.why.stuck, 0);
    options.came_ns = options.settled_ns;
    assert_int_equal(mpi_why_find(&scene.why, &scene.set, &options, &scene.arena), 0);
    assert_int_equal(scene.why.stuck, 2);
    now_of(&scene, 0)->age_ns = 4 * UINT64_C(1000000000);
    assert_int_equal(mpi_why_find(&scene.why, &scene.set, &options, &scene.arena), 0);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

static void test_wildcards(void **state)
{
    struct scene scene = scene_of(4);
    for (size_t i = 0; i < 4; i++)
        receives(&scene, i, MPIA_RANK_ANY, 0);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_list(finding->ranks, finding->rank_count, "0 1 2 3");
    now_of(&scene, 2)->call = CALL_NONE; /* one that can still send sets all free */
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    only(&scene, MPI_WHY_STRAGGLER);
    done(&scene);
}

static void wait_for(struct scene *scene, size_t rank, uint32_t call, size_t count, const int32_t *peers, bool receive)
{
    struct mpi_stats *stats = &scene->set.ranks[rank];
    struct mpi_stats_now *now = now_of(scene, rank);
    now->call = call;
    now->flags = MPIA_NOW_REQUESTS;
    now->waiting = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        now->waits[i] = 0x1000 + i;
        stats->requests[i] = (struct mpi_stats_request){.call = receive ? CALL_MPI_Irecv : CALL_MPI_Isend,
                                                        .comm = WORLD,
                                                        .peer = peers[i],
                                                        .tag = 1,
                                                        .handle = 0x1000 + i,
                                                        .flags = receive ? MPIA_REQUEST_RECEIVE : MPIA_REQUEST_SEND};
    }
    stats->request_count = count;
}

static void test_requests(void **state)
{
    struct scene scene = scene_of(3);
    wait_for(&scene, 0, CALL_MPI_Waitall, 2, (int32_t[]){1, 2}, true);
    receives(&scene, 1, 0, 0);
    look(&scene); /* 0 needs 1, and 1 needs 0; that 2 may still send does not help */
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    /* if 1 has sent already, it is 2 that is waited for */
    scene.set.ranks[1].peers[0] = (struct mpi_stats_peer){.comm = WORLD, .peer = 0, .call = CALL_NONE, .sent_count = 1};
    scene.set.ranks[1].peer_count = 1;
    look(&scene);
    finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "2");
    /* any of them would do */
    scene.set.ranks[1].peer_count = 0;
    now_of(&scene, 0)->call = CALL_MPI_Waitany;
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
    scene = scene_of(2); /* one of another program may come yet; the other one has ended */
    wait_for(&scene, 0, CALL_MPI_Waitall, 2, (int32_t[]){MPIA_RANK_FOREIGN, 1}, true);
    ends(&scene, 1, MPIA_ENDED);
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_UNMATCHED)->text,
                        "a receive that nothing can match: rank 0 waits in MPI_Waitall for rank 1, which has ended");
    done(&scene);
    scene = scene_of(2); /* sends that are buffered prove nothing alone, but when both only send */
    wait_for(&scene, 0, CALL_MPI_Wait, 1, (int32_t[]){1}, false);
    wait_for(&scene, 1, CALL_MPI_Wait, 1, (int32_t[]){0}, false);
    look(&scene);
    only(&scene, MPI_WHY_DEADLOCK);
    done(&scene);
}

/* What both sides have begun is under way, and may take long. */
static void test_under_way(void **state)
{
    struct scene scene = scene_of(2);
    sends(&scene, 0, 1, 7);
    receives(&scene, 1, 0, 7);
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    receives(&scene, 1, MPIA_RANK_ANY, MPIA_TAG_ANY);
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    receives(&scene, 1, 0, 8); /* of another tag */
    look(&scene);
    only(&scene, MPI_WHY_DEADLOCK);
    done(&scene);
    scene = scene_of(2); /* edges handed over both ways at once */
    for (size_t i = 0; i < 2; i++) {
        wait_for(&scene, i, CALL_MPI_Waitall, 2, (int32_t[]){!i, !i}, true);
        scene.set.ranks[i].requests[1].flags = MPIA_REQUEST_SEND;
        scene.set.ranks[i].requests[1].call = CALL_MPI_Isend;
    }
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* A step of an exchange with both neighbours in a ring, after so many others: receives from both, sends to both, and what was counted. */
static void exchanges(struct scene *scene, size_t rank, int32_t left, int32_t right, uint64_t before)
{
    struct mpi_stats *stats = &scene->set.ranks[rank];
    const struct mpi_stats_request requests[] = {
        {.call = CALL_MPI_Irecv, .flags = MPIA_REQUEST_RECEIVE, .peer = left, .tag = 1, .handle = 11},
        {.call = CALL_MPI_Irecv, .flags = MPIA_REQUEST_RECEIVE, .peer = right, .tag = 2, .handle = 12},
        {.call = CALL_MPI_Isend, .flags = MPIA_REQUEST_SEND, .peer = right, .tag = 1, .handle = 13},
        {.call = CALL_MPI_Isend, .flags = MPIA_REQUEST_SEND, .peer = left, .tag = 2, .handle = 14}};
    struct mpi_stats_now *now = now_of(scene, rank);
    memcpy(stats->requests, requests, sizeof requests);
    stats->request_count = 4;
    for (size_t i = 0; i < 2; i++)
        stats->peers[i] = (struct mpi_stats_peer){
            .comm = WORLD, .peer = i ? right : left, .call = CALL_NONE, .sent_count = before + 1, .got_count = before};
    stats->peer_count = 2;
    now->call = CALL_MPI_Waitall;
    now->flags = MPIA_NOW_REQUESTS;
    now->waiting = 4;
    for (size_t i = 0; i < 4; i++)
        now->waits[i] = requests[i].handle;
}

/* Rank 2 has not sent to rank 3, and has gone on, as all others have: what rank 3 sent them in its step has been received, though its
 * Waitall has not returned. */
static void test_missing_message(void **state)
{
    for (int polls = 0; polls < 2; polls++) {
        struct scene scene = scene_of(5);
        for (int i = 0; i < 5; i++)
            exchanges(&scene, (size_t)i, (i + 4) % 5, (i + 1) % 5, i == 3 ? 6 : 7);
        struct mpi_stats *bad = &scene.set.ranks[2];
        bad->requests[2] = bad->requests[3]; /* nor in the next step */
        bad->request_count = 3;
        now_of(&scene, 2)->waiting = 3;
        bad->peers[1].sent_count = 6;
        now_of(&scene, 2)->age_ns += 1000; /* who came to its call first says nothing */
        for (size_t i = 0; i < 5 && polls; i++) {
            struct mpi_stats_thread *thread = &scene.set.ranks[i].threads[0];
            thread->now.call = CALL_MPI_Testall;
            thread->last = thread->now;
            thread->now.call = CALL_NONE;
            thread->polls = true;
            thread->polls_ns = LONG;
        }
        look(&scene);
        const struct mpi_why_finding *finding = only(&scene, polls ? MPI_WHY_POLLS_IN_VAIN : MPI_WHY_DEADLOCK);
        assert_list(finding->ranks, finding->rank_count, "2 3");
        assert_list(finding->victims, finding->victim_count, "4"); /* the others have all that they wait for */
        assert_non_null(strstr(finding->text, "; rank 3 waits for a message with tag 1 that rank 2 has not sent"));
        struct buf text = BUF_INIT; /* what has been matched is no more waited for */
        mpi_why_call_text(&text, &scene.why, &scene.why.ranks[3], &scene.why.ranks[3].threads[0]);
        assert_string_equal(text.data,
                            polls ? "polls: MPI_Testall for 4 requests: MPI_Irecv from rank 2, tag 1 on "
                                    "MPI_COMM_WORLD; ..."
                                  : "MPI_Waitall for 4 requests: MPI_Irecv from rank 2, tag 1 on MPI_COMM_WORLD; ...");
        buf_done(&text);
        done(&scene);
    }
    struct scene scene =
        scene_of(5); /* all is buffered: rank 4 has sent two steps, rank 2 one and a part of the next */
    for (int i = 0; i < 5; i++) {
        exchanges(&scene, (size_t)i, (i + 4) % 5, (i + 1) % 5, i == 3 ? 6 : 7);
        scene.set.ranks[i].request_count = 2;
        now_of(&scene, (size_t)i)->age_ns = (i == 3 ? 7 : 6) * UINT64_C(1000000000);
    }
    scene.set.ranks[2].peers[1].sent_count = 7;
    look(&scene);
    assert_true(scene.why.finding_count > 0);
    assert_non_null(strstr(scene.why.findings[0].text, "; rank 3 waits for a message with tag 1 that rank 2 has not"));
    done(&scene);
    scene = scene_of(3); /* messages that are not counted: what is open may be on its way */
    for (int i = 0; i < 3; i++) {
        exchanges(&scene, (size_t)i, (i + 2) % 3, (i + 1) % 3, 0);
        scene.set.ranks[i].peer_count = 0;
    }
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* More requests than are listed of a call: if it has no others, these are what it waits for. */
static void test_many_requests(void **state)
{
    enum { MANY = 12 };
    struct scene scene = scene_of(2);
    struct mpi_stats_request requests[MANY] = {{0}};
    struct mpi_stats *stats = &scene.set.ranks[0];
    struct mpi_stats_now *now = now_of(&scene, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        requests[i] = (struct mpi_stats_request){.call = CALL_MPI_Irecv,
                                                 .flags = MPIA_REQUEST_RECEIVE,
                                                 .peer = MPIA_RANK_NULL,
                                                 .tag = (int)i,
                                                 .handle = 100 + i};
        if (i < MPIA_WAITS)
            now->waits[i] = 100 + i;
    }
    requests[MANY - 1].peer = 1;
    stats->requests = requests;
    stats->request_count = MANY;
    now->call = CALL_MPI_Waitall;
    now->flags = MPIA_NOW_REQUESTS;
    now->waiting = MANY;
    gathers(&scene, 1, CALL_MPI_Barrier, 1, MPIA_RANK_NONE);
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_DEADLOCK)->text,
                        "deadlock: ranks 0 and 1 wait for each other; rank 0 waits for a message with tag 11 that "
                        "rank 1 has not sent");
    now->waiting = MANY - 1; /* it has one for which it does not wait now */
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

static void test_finalize(void **state)
{
    struct scene scene = scene_of(3);
    for (size_t i = 0; i < 2; i++) {
        now_of(&scene, i)->call = CALL_MPI_Finalize;
        scene.set.ranks[i].state = MPIA_ENDED;
    }
    gathers(&scene, 2, CALL_MPI_Barrier, 1, MPIA_RANK_NONE);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_int_equal(finding->rank_count, 2);
    done(&scene);
}

/* A thread that goes on keeps its rank from being stuck. */
static void test_threads(void **state)
{
    struct scene scene = scene_of(2);
    receives(&scene, 0, 1, 0);
    receives(&scene, 1, 0, 0);
    scene.set.ranks[1].thread_count = 2;
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    scene.set.ranks[1].threads[1].now = *now_of(&scene, 1);
    look(&scene);
    only(&scene, MPI_WHY_DEADLOCK);
    done(&scene);
}

/* One communicator has another place on each rank. */
static void test_communicators(void **state)
{
    struct scene scene = scene_of(4);
    static const int32_t low[] = {0, 1}, high[] = {2, 3};
    for (size_t i = 0; i < 4; i++) {
        struct mpi_stats *stats = &scene.set.ranks[i];
        uint32_t at = i % 2 ? 2 : 1;
        stats->comm_count = at + 1;
        if (at == 2)
            stats->comms[1] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                      .number = 1,
                                                      .parent = UINT32_MAX,
                                                      .size = 1,
                                                      .lowest = (int32_t)i,
                                                      .name = "MPI_COMM_SELF"};
        stats->comms[at] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                   .number = at,
                                                   .parent = 0,
                                                   .ordinal = 1,
                                                   .lowest = i < 2 ? 0 : 2,
                                                   .size = 2,
                                                   .rank = i % 2,
                                                   .ranks = i < 2 ? low : high,
                                                   .call = CALL_MPI_Comm_split};
        gathers(&scene, i, CALL_MPI_Barrier, 1, MPIA_RANK_NONE);
        stats->comms[0].collectives = 1;
        now_of(&scene, i)->comm = at;
        stats->comms[at].collectives = 1;
    }
    now_of(&scene, 1)->call = CALL_NONE;
    scene.set.ranks[1].comms[2].collectives = 0;
    look(&scene);
    assert_int_equal(scene.why.ranks[0].root, 1);
    assert_int_equal(scene.why.ranks[2].threads[0].condition_count, 0);
    done(&scene);
}

static void test_many(void **state)
{
    struct scene scene = scene_of(1024);
    for (size_t i = 0; i < 1024; i++)
        receives(&scene, i, i % 3 ? MPIA_RANK_ANY : (int32_t)(i + 1) % 1024, 0);
    uint64_t begun = clock_now_ns();
    look(&scene);
    assert_int_equal(scene.why.stuck, 1024);
    assert_int_equal(only(&scene, MPI_WHY_DEADLOCK)->rank_count, 1024);
    done(&scene);
    scene = scene_of(1024);
    for (size_t i = 1; i < 1024; i++) /* the longest chain, and the slow way round */
        receives(&scene, i, (int32_t)i - 1, 0);
    look(&scene);
    assert_int_equal(only(&scene, MPI_WHY_STRAGGLER)->victim_count, 1023);
    assert_true(clock_now_ns() - begun < UINT64_C(60) * NS_PER_SECOND);
    done(&scene);
}

/* Whatever stands there: an answer. */
static void test_any_numbers(void **state)
{
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        struct scene scene = scene_of((size_t)(rand_r(&seed) % 6));
        for (size_t i = 0; i < scene.set.count; i++) {
            struct mpi_stats *stats = &scene.set.ranks[i];
            struct mpi_stats_now *now = now_of(&scene, i);
            stats->rank = rand_r(&seed) % 8 - 1;
            stats->state = (uint32_t)rand_r(&seed) % 5;
            stats->running = rand_r(&seed) % 4;
            stats->comm_count = (size_t)(rand_r(&seed) % 4);
            stats->request_count = (size_t)(rand_r(&seed) % 8);
            stats->peer_count = (size_t)(rand_r(&seed) % 8);
            stats->thread_count = (size_t)(rand_r(&seed) % 3);
            now->call = (uint32_t)rand_r(&seed) % (CALL_COUNT + 3);
            now->peer = rand_r(&seed) % 10 - 5;
            now->source_peer = rand_r(&seed) % 10 - 5;
            now->comm = (uint32_t)(rand_r(&seed) % 5 - 1);
            now->ordinal = (uint32_t)rand_r(&seed) % 3;
            now->waiting = (uint32_t)rand_r(&seed) % 20;
            now->flags = (uint32_t)rand_r(&seed) % 8;
            for (size_t j = 0; j < 8; j++) {
                now->waits[j] = (uint64_t)(rand_r(&seed) % 4);
                stats->requests[j] = (struct mpi_stats_request){.call = (uint32_t)rand_r(&seed) % (CALL_COUNT + 3),
                                                                .comm = (uint32_t)(rand_r(&seed) % 5 - 1),
                                                                .peer = rand_r(&seed) % 10 - 5,
                                                                .handle = j % 4,
                                                                .flags = (uint32_t)rand_r(&seed) % 32,
                                                                .ordinal = (uint32_t)rand_r(&seed) % 3};
            }
            for (size_t j = 0; j < 4; j++)
                stats->comms[j] = (struct mpi_stats_comm){.kind = (uint32_t)rand_r(&seed) % 6,
                                                          .number = (uint32_t)rand_r(&seed) % 4,
                                                          .parent = (uint32_t)(rand_r(&seed) % 4 - 1),
                                                          .ordinal = (uint32_t)rand_r(&seed) % 3,
                                                          .lowest = rand_r(&seed) % 4 - 1,
                                                          .size = (uint32_t)rand_r(&seed) % 8};
        }
        look(&scene);
        done(&scene);
    }
}

/* A program that is to connect does not come: that is told, with who waits for those that wait for it. Another job's may come. */
static void test_accept(void **state)
{
    struct scene scene = scene_of(5);
    gathers(&scene, 0, CALL_MPI_Comm_accept, 1, 0);
    gathers(&scene, 1, CALL_MPI_Comm_accept, 1, 0);
    for (size_t i = 0; i < 2; i++) {
        now_of(&scene, i)->comm = 1;
        scene.set.ranks[i].comm_count = 2;
        scene.set.ranks[i].comms[1] = (struct mpi_stats_comm){.kind = MPIA_COMM_INTRA,
                                                              .number = 1,
                                                              .ordinal = 1,
                                                              .size = 2,
                                                              .rank = (uint32_t)i,
                                                              .collectives = 1,
                                                              .name = "two"};
    }
    receives(&scene, 2, 1, 3);
    receives(&scene, 3, 2, 3);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "0 1");
    assert_list(finding->victims, finding->victim_count, "2 3");
    assert_string_equal(finding->text,
                        "2 ranks wait for 2 ranks, which wait in MPI_Comm_accept, and no program of this job "
                        "calls MPI_Comm_connect");
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
    scene = scene_of(2);
    gathers(&scene, 0, CALL_MPI_Comm_accept, 1, 0);
    scene.set.ranks[1].namespace = "other";
    scene.set.ranks[0].world_size = scene.set.ranks[1].world_size = 1;
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_STRAGGLER)->text,
                        "rank 0 waits in MPI_Comm_accept, and no program of this job calls MPI_Comm_connect");
    gathers(&scene, 1, CALL_MPI_Comm_connect, 1, 0);
    look(&scene);
    assert_int_equal(scene.why.finding_count, 0); /* they are about to meet */
    done(&scene);
}

static void killed(struct scene *scene, size_t rank, int status, double seconds)
{
    scene->set.ranks[rank].running = false;
    scene->set.ranks[rank].end = (struct mpi_stats_end){.known = true, .status = status, .seconds = seconds};
    now_of(scene, rank)->age_ns = 8 * UINT64_C(1000000000);
}

/* They were ended from outside, or outlived their launcher: what they were in then. */
static void test_at_end(void **state)
{
    enum { EXIT_1 = 1 << 8, SEGV = 11, TERM = 15, THREAD_MULTIPLE = 3 };
    for (int way = 0; way < 12; way++) {
        struct scene scene = scene_of(2);
        receives(&scene, 0, MPIA_RANK_ANY, 7);
        now_of(&scene, 1)->call = CALL_MPI_Finalize;
        scene.set.ranks[1].state = MPIA_ENDED;
        killed(&scene, 0, way == 1 ? SEGV : TERM, 20);
        killed(&scene, 1, way == 2 ? EXIT_1 : way == 3 ? 0 : TERM, 20);
        if (way == 4) { /* when they were left */
            scene.set.ranks[0].running = scene.set.ranks[1].running = true;
            scene.set.ranks[0].end = scene.set.ranks[1].end = (struct mpi_stats_end){0};
        }
        if (way == 5)
            now_of(&scene, 0)->age_ns = 3 * UINT64_C(1000000000);
        if (way >= 6) /* as of mpi4py: other threads may call MPI, but none ever has */
            scene.set.ranks[0].thread_level = scene.set.ranks[1].thread_level = THREAD_MULTIPLE;
        if (way == 7)
            scene.set.ranks[0].thread_count = 2;
        for (int k = 0; k < 2 && way >= 8; k++) { /* after the end of the job, of which its records say nothing */
            scene.set.ranks[k].end = (struct mpi_stats_end){.later = true, .left = way != 11};
            scene.set.ranks[k].status_known = way != 9;
            scene.set.ranks[k].status = way == 10 ? EXIT_1 : TERM;
        }
        bool found = mpi_why_find_at_end(&scene.why, &scene.set, &scene.arena);
        assert_int_equal(found, way == 0 || way == 3 || way == 4 || way == 6 || way == 8 || way == 9);
        if (found) {
            assert_true(scene.why.ranks[0].stuck);
            assert_int_equal(mpi_why_finalizing_ns(&scene.why),
                             way == 3 ? 0 : UINT64_C(8000000000)); /* 3: it has ended */
        }
        done(&scene);
    }
}

/* A launcher killed all: one of them was in a call in which nothing held it up, and the others waited for it. */
static void test_failed_at_end(void **state)
{
    enum { KILL = 9 };
    for (int way = 0; way < 3; way++) {
        struct scene scene = scene_of(3);
        receives(&scene, 0, 2, 0);
        receives(&scene, 1, 2, 0);
        if (way == 0)
            sends(&scene, 2, MPIA_RANK_NONE, 0); /* to a rank that there is not */
        else if (way == 1)
            receives(&scene, 2, 0, 0); /* they wait for each other */
        for (size_t i = 0; i < 3; i++) {
            killed(&scene, i, KILL, 20);
            now_of(&scene, i)->age_ns = NS_PER_SECOND / 100;
        }
        uint32_t failed = mpi_why_failed_at_end(&scene.why, &scene.set, &scene.arena);
        assert_int_equal(failed, way == 0 ? 2 : MPI_WHY_NONE);
        done(&scene);
    }
}

/* Ranks waited for one that was outside of MPI: it is late if that was as long as counts as a stall; of some seconds it is known. */
static void test_late_at_end(void **state)
{
    enum { TERM = 15 };
    static const uint64_t seconds[] = {70, 50, 3};
    for (size_t i = 0; i < 3; i++) {
        struct scene scene = scene_of(3);
        receives(&scene, 0, 1, 7);
        receives(&scene, 2, 1, 7);
        for (size_t k = 0; k < 3; k++) {
            killed(&scene, k, TERM, 90);
            now_of(&scene, k)->age_ns = seconds[i] * NS_PER_SECOND;
        }
        assert_int_equal(mpi_why_find_at_end(&scene.why, &scene.set, &scene.arena), i < 2);
        const struct mpi_why_finding *late = mpi_why_waited(&scene.why);
        assert_int_equal(late != NULL, i < 2);
        assert_ptr_equal(mpi_why_late(&scene.why), i == 0 ? late : NULL);
        if (late) {
            assert_list(late->ranks, late->rank_count, "1");
            assert_list(late->victims, late->victim_count, "0 2");
        }
        done(&scene);
    }
}

/* ---- ranks in epochs of MPI_Win_start and MPI_Win_post: who waits for whom ---- */

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

/* ---- ranks of several nodes, each with the record of its own monitor ---- */

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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_two_receive),
        cmocka_unit_test(test_at_end),
        cmocka_unit_test(test_late_at_end),
        cmocka_unit_test(test_failed_at_end),
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_calls_that_just_began),
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_left_for_another),
        cmocka_unit_test(test_other_communicator),
        cmocka_unit_test(test_dead_peer),
        cmocka_unit_test(test_one_name_for_two),
        cmocka_unit_test(test_unmatched),
        cmocka_unit_test(test_other_tag),
        cmocka_unit_test(test_wildcards),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_under_way),
        cmocka_unit_test(test_missing_message),
        cmocka_unit_test(test_many_requests),
        cmocka_unit_test(test_finalize),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_any_numbers),
        cmocka_unit_test(test_post),
        cmocka_unit_test(test_posted),
        cmocka_unit_test(test_both_start),
        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_deadlock_over_nodes),
        cmocka_unit_test(test_clocks_matter),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_straggler_over_nodes),
        cmocka_unit_test(test_unheard),
    };
    return cmocka_run_group_tests_name("mpi_why", tests, NULL, NULL);
}
