/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait, and what is known of them beyond their calls: what may have come, who looks, who is stopped, who
 * joins whom, who holds a lock. */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system/process.h"
#include "base/system/test_wait_world.h"
#include "jobdir/analysis/test_mpi_why.h"
#include "jobdir/mpi/look.h"
#include "shm/waits.h"

/* Rank 1 sent a message to 0 and waits for the answer; 0 is in a receive that may take it, or not. */
static struct scene answer_awaited(int32_t from, int32_t tag, enum mpi_attends attends)
{
    struct scene scene = scene_of(2);
    receives(&scene, 0, from, tag);
    receives(&scene, 1, 0, 9);
    scene.set.ranks[1].peers[0] =
        (struct mpi_stats_peer){.comm = WORLD, .peer = 0, .call = CALL_NONE, .sent_count = 1, .sent_bytes = 8};
    scene.set.ranks[1].peer_count = 1;
    scene.set.ranks[0].threads[0].attends = attends;
    return scene;
}

static void test_message_there(void **state)
{
    static const struct {
        int32_t from, tag;
        enum mpi_attends attends;
        bool stuck;
    } cases[] = {
        {1, MPIA_TAG_ANY, MPI_ATTENDS, false},
        {MPIA_RANK_ANY, MPIA_TAG_ANY, MPI_ATTENDS, false},
        {1, 4, MPI_ATTENDS, true},
        {MPIA_RANK_ANY, 4, MPI_ATTENDS, true},
        {1, 4, MPI_STARVED, false},
        {MPIA_RANK_ANY, 4, MPI_STARVED, false},
        {1, 4, MPI_ATTENDS_UNKNOWN, false},
        {MPIA_RANK_ANY, 4, MPI_ATTENDS_UNKNOWN, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene = answer_awaited(cases[i].from, cases[i].tag, cases[i].attends);
        look(&scene);
        assert_int_equal(scene.why.ranks[0].stuck, cases[i].stuck);
        done(&scene);
        /* the receiving half of a send-receive whose other half has nobody to go to */
        scene = answer_awaited(cases[i].from, cases[i].tag, cases[i].attends);
        struct mpi_stats_now *now = now_of(&scene, 0);
        now->call = CALL_MPI_Sendrecv;
        now->source_peer = now->peer;
        now->source_tag = now->tag;
        now->peer = MPIA_RANK_NULL;
        look(&scene);
        assert_int_equal(scene.why.ranks[0].stuck, cases[i].stuck);
        done(&scene);
    }
}

static void test_starved(void **state)
{
    struct scene scene = answer_awaited(1, 4, MPI_STARVED);
    struct buf text = BUF_INIT;
    look(&scene);
    mpi_why_text(&text, &scene.why);
    assert_non_null(strstr(text.data, "\nrank 0 had no processor while it was looked at: what it waits for may have "
                                      "come. Ask again\n"));
    buf_clear(&text);
    scene.set.ranks[0].threads[0].attends = MPI_ATTENDS;
    look(&scene);
    mpi_why_text(&text, &scene.why);
    assert_null(strstr(text.data, "no processor"));
    buf_done(&text);
    done(&scene);
}

/* No "0 wait, 0 compute". */
static void test_head_of_others(void **state)
{
    struct scene scene = answer_awaited(1, 4, MPI_ATTENDS);
    struct buf text = BUF_INIT;
    look(&scene);
    for (size_t i = 0; i < scene.why.count; i++)
        scene.why.ranks[i].state = MPI_WHY_ENDED;
    scene.why.ranks[0].state = MPI_WHY_MOVES;
    scene.why.waiting = scene.why.polling = scene.why.computing = scene.why.stuck = scene.why.finding_count = 0;
    mpi_why_text(&text, &scene.why);
    char head[128];
    snprintf(head, sizeof head, "%zu ranks: 1 is in a call that waits for nobody, or just began, 1 has ended",
             scene.why.count);
    assert_memory_equal(text.data, head, strlen(head));
    buf_done(&text);
    done(&scene);
}

static void test_stopped(void **state)
{
    struct scene scene = answer_awaited(MPIA_RANK_ANY, 4, MPI_STOPPED);
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_string_equal(finding->text, "1 rank waits for rank 0, which is stopped (by a signal or a debugger)");
    scene.set.ranks[0].threads[0].attends = MPI_ATTENDS_UNKNOWN;
    scene.set.ranks[0].threads[0].held = "a tool of scry";
    look(&scene);
    assert_string_equal(only(&scene, MPI_WHY_STRAGGLER)->text,
                        "1 rank waits for rank 0, which is stopped by a tool of scry");
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* Threads of two ranks receive from each other, and their first ones wait for the end of these. */
static void test_joined(void **state)
{
    static const struct thread_seen seen[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_END, .tid = 11}}, {.tid = 11}};
    for (int joins = 1; joins >= 0; joins--) {
        struct scene scene = scene_of(2);
        for (size_t i = 0; i < 2; i++) {
            struct mpi_stats_thread *threads = scene.set.ranks[i].threads;
            receives(&scene, i, 1 - (int32_t)i, 4);
            threads[1].now = threads[0].now;
            threads[0].now = (struct mpi_stats_now){.age_ns = LONG};
            threads[0].tid = 10;
            threads[1].tid = 11;
            scene.set.ranks[i].thread_count = 2;
            scene.set.ranks[i].seen = seen;
            scene.set.ranks[i].seen_count = joins ? 2 : 0;
        }
        look(&scene);
        assert_int_equal(scene.why.stuck, joins ? 2 : 0);
        done(&scene);
    }
}

static void wants_lock(struct scene *scene, size_t rank, int32_t target)
{
    struct mpi_stats_now *now = now_of(scene, rank);
    now->call = CALL_MPI_Win_lock;
    now->peer = target;
    now->comm = 1;
}

/* Of three ranks' window: the lock is held, and wanted by two, one of them the target. */
static void test_lock(void **state)
{
    struct scene scene = scene_of(3);
    for (size_t i = 0; i < 3; i++) {
        scene.set.ranks[i].comms[1] = (struct mpi_stats_comm){.kind = MPIA_COMM_WINDOW,
                                                              .number = 1,
                                                              .parent = 0,
                                                              .ordinal = 1,
                                                              .size = 3,
                                                              .rank = (uint32_t)i,
                                                              .name = ""};
        scene.set.ranks[i].comm_count = 2;
    }
    wants_lock(&scene, 1, 1);
    wants_lock(&scene, 2, 1);
    scene.set.ranks[0].comms[1].held = 1;
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_list(finding->ranks, finding->rank_count, "0");
    assert_list(finding->victims, finding->victim_count, "1 2");
    receives(&scene, 0, 2, 0);
    look(&scene);
    finding = only(&scene, MPI_WHY_DEADLOCK);
    assert_int_equal(finding->rank_count, 2);
    assert_list(finding->victims, finding->victim_count, "1");
    scene.set.ranks[0].comms[1].held = 0; /* nobody is known to hold it: no judgement */
    look(&scene);
    assert_int_equal(scene.why.stuck, 0);
    done(&scene);
}

/* Two are in MPI_Init, and the third has not called it. */
static void test_start(void **state)
{
    struct scene scene = scene_of(3);
    for (size_t i = 0; i < 3; i++)
        scene.set.ranks[i].state = MPIA_LOADED;
    scene.set.ranks[2].thread_count = 0;
    now_of(&scene, 0)->call = CALL_MPI_Init;
    now_of(&scene, 1)->call = CALL_MPI_Init_thread;
    look(&scene);
    const struct mpi_why_finding *finding = only(&scene, MPI_WHY_STRAGGLER);
    assert_string_equal(finding->text, "2 ranks wait for rank 2, which has not called MPI_Init");
    done(&scene);
}

/* ---- looking at threads ---- */

static struct mpi_stats_set look_at(struct mpi_stats *stats, struct mpi_stats_thread *threads, pid_t pid)
{
    *stats = (struct mpi_stats){.node = "here", .running = true, .pid = pid, .threads = threads, .thread_count = 1};
    threads[0] = (struct mpi_stats_thread){.tid = pid, .is_main = true, .now = {.call = CALL_MPI_Recv}};
    return (struct mpi_stats_set){.ranks = stats, .count = 1};
}

static enum mpi_attends attends_after(pid_t pid, long ms)
{
    struct mpi_stats stats;
    struct mpi_stats_thread thread;
    struct mpi_stats_set set = look_at(&stats, &thread, pid);
    struct mpi_look *look;
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    assert_int_equal(mpi_look_begin(&look, &set), 0);
    nanosleep(&pause, NULL);
    mpi_look_end(look, &set);
    return thread.attends;
}

static void test_processes(void **state)
{
    struct mpi_stats stats;
    struct mpi_stats_thread thread;
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    while (attends_after(pid, 1) != MPI_ATTENDS) /* sleeps, and the kernel wakes it */
        ;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_int_equal(attends_after(pid, 1), MPI_STOPPED);
    struct mpi_stats_set set = look_at(&stats, &thread, pid);
    struct mpi_look *look;
    assert_int_equal(mpi_look_begin(&look, &set), 0);
    mpi_look_end_at_once(look, &set);
    assert_int_equal(thread.attends, MPI_STOPPED);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_int_equal(attends_after(pid, 1), MPI_ATTENDS_UNKNOWN);
}

/* A process that sleeps, and the one that stops it when it is told to: what is written to `order` by one, the answer.
 */
static pid_t start_traced(const char *name, int *ret_order, int *ret_answer, pid_t *ret_tracer)
{
    int order[2], answer[2];
    assert_int_equal(pipe(order) | pipe(answer), 0);
    pid_t pid = 0, tracer = fork();
    if (tracer == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        pid_t sleeper = fork();
        if (sleeper == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        bool good = write(answer[1], &sleeper, sizeof sleeper) == sizeof sleeper && read(order[0], &byte, 1) == 1 &&
                    ptrace(PTRACE_SEIZE, sleeper, NULL, NULL) == 0 &&
                    ptrace(PTRACE_INTERRUPT, sleeper, NULL, NULL) == 0 && waitpid(sleeper, NULL, __WALL) == sleeper &&
                    write(answer[1], &byte, 1) == 1;
        while (good)
            pause();
        _exit(1);
    }
    close(order[0]);
    close(answer[1]);
    assert_int_equal(read(answer[0], &pid, sizeof pid), sizeof pid);
    *ret_order = order[1];
    *ret_answer = answer[0];
    *ret_tracer = tracer;
    return pid;
}

/* Scry's tracer stops a thread for each trap. Only what stays is told, by whom else than the monitor says. */
static void test_stopped_for_a_moment(void **state)
{
    static const struct {
        const char *tracer, *held;
        enum mpi_attends first;
    } cases[] = {
        {TRACER_PROCESS_NAME, NULL, MPI_STOPPED_UNSAID},
        {TRACER_PROCESS_NAME, "", MPI_STOPPED_UNSAID},
        {TRACER_PROCESS_NAME, "a tool of scry", MPI_STOPPED},
        {TRACER_PROCESS_NAME "s", NULL, MPI_STOPPED},
        {"gdb", NULL, MPI_STOPPED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mpi_stats stats;
        struct mpi_stats_thread thread;
        struct mpi_look *look;
        int order, answer;
        char byte = 0;
        pid_t tracer, pid = start_traced(cases[i].tracer, &order, &answer, &tracer);
        while (attends_after(pid, 1) != MPI_ATTENDS)
            ;
        struct mpi_stats_set set = look_at(&stats, &thread, pid);
        assert_false(mpi_look_is_unsaid(&set));
        thread.held = cases[i].held;
        assert_int_equal(mpi_look_begin(&look, &set), 0);
        assert_int_equal(write(order, &byte, 1), 1);
        assert_int_equal(read(answer, &byte, 1), 1);
        mpi_look_end(look, &set);
        assert_int_equal(thread.attends, cases[i].first);
        assert_int_equal(mpi_look_is_unsaid(&set), cases[i].first == MPI_STOPPED_UNSAID);
        assert_int_equal(attends_after(pid, 1), MPI_STOPPED); /* it has not moved since the first of these looks */
        kill(tracer, SIGKILL);
        waitpid(tracer, NULL, 0);
        close(order);
        close(answer);
    }
}

static void look_wait(const struct mpi_look *look)
{
    do
        wait_poll(NULL, 0, (int)wait_policies[WAIT_RANKS].look_ms);
    while (mpi_look_goes_on(look));
}

/* How long is waited for a second look, in ms, if the thread gets a processor after so many. */
static uint64_t looks_for(char letter, uint64_t runs_after_ms, enum mpi_attends *ret_attends)
{
    struct mpi_stats stats;
    struct mpi_stats_thread thread;
    struct mpi_look *look;
    test_world_begin(letter);
    uint64_t since_ns = wait_now_ns();
    test_world.runs_at_ns = runs_after_ms ? since_ns + runs_after_ms * 1000000 : 0;
    struct mpi_stats_set set = look_at(&stats, &thread, getpid());
    assert_int_equal(mpi_look_begin(&look, &set), 0);
    look_wait(look);
    mpi_look_end(look, &set);
    *ret_attends = thread.attends;
    uint64_t took_ms = (wait_now_ns() - since_ns) / 1000000;
    test_world_end();
    return took_ms;
}

/* Until each had a processor: one that wants one is waited for thirty times as long. No time passes in this test. */
static void test_how_long(void **state)
{
    enum mpi_attends attends;
    assert_int_equal(looks_for('S', 0, &attends), 100);
    assert_int_equal(attends, MPI_ATTENDS);
    assert_int_equal(looks_for('R', 1, &attends), 100);
    assert_int_equal(attends, MPI_ATTENDS);
    assert_int_equal(looks_for('R', 750, &attends), 800);
    assert_int_equal(attends, MPI_ATTENDS);
    assert_int_equal(looks_for('R', 0, &attends), 3000);
    assert_int_equal(attends, MPI_STARVED);
    assert_int_equal(looks_for('T', 0, &attends), 100); /* it cannot */
    assert_int_equal(attends, MPI_STOPPED);
    assert_int_equal(looks_for(0, 0, &attends), 100);
    assert_int_equal(attends, MPI_ATTENDS_UNKNOWN);
}

/* However long it took until the second look: nothing is said of who had a processor. */
static void test_at_once(void **state)
{
    struct mpi_stats stats;
    struct mpi_stats_thread thread;
    struct mpi_look *look;
    test_world_begin('R');
    struct mpi_stats_set set = look_at(&stats, &thread, getpid());
    assert_int_equal(mpi_look_begin(&look, &set), 0);
    wait_poll(NULL, 0, 500);
    mpi_look_end_at_once(look, &set);
    test_world_end();
    assert_int_equal(thread.attends, MPI_ATTENDS_UNKNOWN);
}

static void test_one_that_polls(void **state)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            sched_yield();
    assert_true(pid > 0);
    enum mpi_attends attends = MPI_ATTENDS_UNKNOWN;
    for (int i = 0; i < 100 && attends != MPI_ATTENDS; i++) { /* the processors may be others' for a while */
        attends = attends_after(pid, 20);
        assert_int_not_equal(attends, MPI_STOPPED);
    }
    assert_int_equal(attends, MPI_ATTENDS);
    struct mpi_stats stats;
    struct mpi_stats_thread thread;
    struct mpi_stats_set set = look_at(&stats, &thread, pid);
    struct mpi_look *look;
    for (int i = 0; i < 10 && (i == 0 || attends != MPI_ATTENDS); i++) {
        assert_int_equal(mpi_look_begin(&look, &set), 0);
        look_wait(look);
        mpi_look_end(look, &set);
        attends = thread.attends;
    }
    assert_int_equal(attends, MPI_ATTENDS);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- ranks that ask again and again: how it is seen, and what is said of those that wait for them ---- */

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

/* Ranks that were ended had asked until then, for seconds: which is told, as they may have done something else. */
static void test_asked_until_the_end(void **state)
{
    enum { TERM = 15 };
    for (int way = 0; way < 4; way++) {
        struct scene scene = scene_of(2);
        for (size_t i = 0; i < 2; i++) {
            struct mpi_stats_thread *thread = &scene.set.ranks[i].threads[0];
            receives(&scene, i, i ? 0 : 1, 7);
            thread->last = thread->now;
            thread->last.call = CALL_MPI_Iprobe;
            thread->now.call = CALL_NONE;
            thread->blocking.compute_open_ns = way == 1 ? NS_PER_SECOND : 8 * (uint64_t)NS_PER_SECOND;
            thread->outermost.compute_open_ns = way == 2 ? NS_PER_SECOND : NS_PER_SECOND / 1000;
            if (way == 3) /* when they were left */
                continue;
            scene.set.ranks[i].running = false;
            scene.set.ranks[i].end = (struct mpi_stats_end){.known = true, .status = TERM, .seconds = 20};
        }
        assert_int_equal(mpi_why_find_at_end(&scene.why, &scene.set, &scene.arena), way == 0 || way == 3);
        if (way == 0 || way == 3)
            only(&scene, MPI_WHY_POLLS_IN_VAIN);
        assert_false(scene.set.ranks[0].threads[0].polls); /* the set stays as it was */
        assert_null(mpi_why_waited(&scene.why));
        done(&scene);
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
    assert_string_equal(scene.why.findings[0].text, "1 rank polls for rank 1, which is outside of MPI");
    assert_string_equal(scene.why.findings[1].text, "1 rank waits for rank 0, which polls for rank 1");
    scene.why.ranks[1].where = "in step (a.c:3)"; /* somebody has looked */
    mpi_why_found_where(&scene.why, &scene.arena);
    assert_string_equal(scene.why.findings[0].text, "1 rank polls for rank 1, which computes");
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
        cmocka_unit_test(test_message_there),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_head_of_others),
        cmocka_unit_test(test_starved),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_stopped_for_a_moment),
        cmocka_unit_test(test_how_long),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_one_that_polls),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_since_it_was_posted),
        cmocka_unit_test(test_asked_until_the_end),
        cmocka_unit_test(test_not_the_same),
        cmocka_unit_test(test_weak_circle),
        cmocka_unit_test(test_polls_a_window),
        cmocka_unit_test(test_larger_and_smaller_circle),
        cmocka_unit_test(test_polls_for_a_deadlock),
        cmocka_unit_test(test_polls_for_the_ended),
        cmocka_unit_test(test_polls_for_one_that_computes),
        cmocka_unit_test(test_thread_for_progress),
    };
    return cmocka_run_group_tests_name("mpi_why_look", tests, NULL, NULL);
}
