/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that are not in MPI: which of them may act for their rank, and what can be seen of that. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jobdir/mpi/look.h"
#include "jobdir/analysis/test_mpi_why.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/mpi/waiting.h"

enum { MULTIPLE = 3 };

/* Two ranks receive from each other, and have another thread each. */
static struct scene deadlock(const struct thread_seen *seen, size_t count, int32_t level)
{
    struct scene scene = scene_of(2);
    for (size_t i = 0; i < 2; i++) {
        receives(&scene, i, 1 - (int32_t)i, 4);
        scene.set.ranks[i].threads[0].tid = 10;
        scene.set.ranks[i].thread_level = level;
        scene.set.ranks[i].seen = seen;
        scene.set.ranks[i].seen_count = count;
    }
    return scene;
}

static void test_who_may_send(void **state)
{
    static const struct {
        struct thread_seen seen[4];
        size_t count;
        int32_t level;
        bool stuck;
    } cases[] = {
        {{{.tid = 10}}, 1, MULTIPLE, true},     /* there is no other */
        {{{.tid = 10}}, 0, MULTIPLE, false},    /* nobody has looked */
        {{{.tid = 10}}, 0, MULTIPLE - 1, true}, /* nobody else may call */
        {{{.tid = 10}, {.tid = 11}}, 2, MULTIPLE, false},
        {{{.tid = 10}, {.tid = 11}}, 2, MULTIPLE - 1, true},
        {{{.tid = 10}, {.tid = 11, .wait = {.unseen = true}}}, 2, MULTIPLE, false},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OTHERS}}}, 2, MULTIPLE, true},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OTHERS}}, {.tid = 12}}, 3, MULTIPLE, false},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 10}}}, 2, MULTIPLE, true},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_END, .tid = 10}}}, 2, MULTIPLE, true},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 12}}, {.tid = 12}}, 3, MULTIPLE, false},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 99}}},
         2,
         MULTIPLE,
         false}, /* who is it? */
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 11}}}, 2, MULTIPLE, true},
        {{{.tid = 10}, {.tid = 11, .wait = {.kind = THREAD_HAS_ENDED}}}, 2, MULTIPLE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene = deadlock(cases[i].seen, cases[i].count, cases[i].level);
        look(&scene);
        assert_int_equal(scene.why.stuck, cases[i].stuck ? 2 : 0);
        assert_int_equal(mpi_why_is_stuck(&scene.why), cases[i].stuck);
        done(&scene);
    }
}

/* Rank 1 is outside of MPI, and never comes back; or waits for a condition, which a signal's handler may serve. */
static void test_blocked_outside(void **state)
{
    static const struct thread_seen own[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 10}}};
    static const struct thread_seen two[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 11}},
                                             {.tid = 11, .wait = {.kind = THREAD_WAITS_END, .tid = 10}}};
    static const struct thread_seen condition[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_OTHERS}}};
    static const struct thread_seen joins[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_END, .tid = 11}},
                                               {.tid = 11, .wait = {.kind = THREAD_WAITS_OTHERS}}};
    static const struct thread_seen works[] = {{.tid = 10, .wait = {.kind = THREAD_WAITS_OTHERS}}, {.tid = 11}};
    static const struct thread_seen beside[] = {{.tid = 10},
                                                {.tid = 11, .wait = {.kind = THREAD_WAITS_OWNER, .tid = 11}}};
    static const struct {
        const struct thread_seen *seen;
        size_t count;
        const char *text; /* NULL: none */
        size_t stuck;
        bool asleep;
    } cases[] = {
        {own, 1, "deadlock: rank 1 waits for a mutex that it holds itself", 2},
        {two, 2, "deadlock: 2 threads of rank 1 wait for each other", 2},
        {condition, 1, NULL, 0, true},
        {joins, 2, NULL, 0, true},
        {works, 2, NULL, 0, false},
        {beside, 2, "deadlock: thread 11 of rank 1 waits for a mutex that it holds itself", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene = scene_of(2);
        receives(&scene, 0, 1, 4);
        scene.set.ranks[1].threads[0].tid = 10;
        scene.set.ranks[1].seen = cases[i].seen;
        scene.set.ranks[1].seen_count = cases[i].count;
        look(&scene);
        const struct mpi_why_finding *finding = &scene.why.findings[0];
        assert_int_equal(finding->kind, cases[i].text ? MPI_WHY_DEADLOCK : MPI_WHY_STRAGGLER);
        assert_int_equal(mpi_why_is_stuck(&scene.why), cases[i].text != NULL);
        assert_int_equal(scene.why.stuck, cases[i].stuck);
        assert_int_equal(scene.why.ranks[1].asleep, cases[i].asleep);
        if (cases[i].text) {
            assert_string_equal(finding->text, cases[i].text);
            assert_list(finding->ranks, finding->rank_count, "1");
            assert_list(finding->victims, finding->victim_count, cases[i].stuck ? "0" : "");
        }
        if (cases[i].seen == condition) {
            struct buf text = BUF_INIT;
            mpi_why_actor_text(&text, &scene.why.ranks[1].actors[0]);
            buf_putc(&text, 0);
            assert_string_equal(text.data, "waits for a semaphore, a condition, or a lock whose owner is not known");
            buf_done(&text);
        }
        if (cases[i].seen == joins) { /* none can go on: what each waits for is told */
            struct buf text = BUF_INIT;
            for (size_t k = 0; k < scene.why.ranks[1].actor_count; k++)
                scene.why.ranks[1].actors[k].where = "waits for a semaphore, at work (a.c:2)";
            mpi_why_text(&text, &scene.why);
            assert_non_null(strstr(text.data, "    thread 11 (): waits for a semaphore, at work (a.c:2)\n"));
            assert_null(strstr(text.data, "thread 10 ("));
            buf_done(&text);
        }
        done(&scene);
    }
}

/* ---- looking at threads ---- */

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER,
                       left = PTHREAD_MUTEX_INITIALIZER, robust;
static pthread_mutex_t crossed[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sem_t semaphore;

enum { ITSELF, HELD, HELD_ROBUST, LEFT, CONDITION, SEMAPHORE, LIMITED, SLEEPS, JOINS, CROSSED_0, CROSSED_1, WAYS };
static _Atomic int32_t tids[WAYS];
static pthread_t threads[WAYS];

static void *waits(void *ctx)
{
    int way = *(int *)ctx;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec later;
    clock_gettime(CLOCK_REALTIME, &later);
    later.tv_sec += 1000;
    if (way >= CROSSED_0) {
        pthread_mutex_lock(&crossed[way - CROSSED_0]);
        pthread_barrier_wait(&both);
    }
    atomic_store(&tids[way], (int32_t)syscall(SYS_gettid));
    switch (way) {
    case ITSELF:
        pthread_mutex_lock(&own);
        pthread_mutex_lock(&own);
        break;
    case HELD:
        pthread_mutex_lock(&held);
        break;
    case HELD_ROBUST:
        pthread_mutex_lock(&robust);
        break;
    case LEFT:
        pthread_mutex_lock(&left);
        break;
    case CONDITION:
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&condition, &mutex);
        break;
    case SEMAPHORE:
        sem_wait(&semaphore);
        break;
    case LIMITED:
        pthread_mutex_timedlock(&held, &later);
        break;
    case SLEEPS:
        pause();
        break;
    case JOINS:
        pthread_join(threads[SLEEPS], NULL);
        break;
    default:
        pthread_mutex_lock(&crossed[way == CROSSED_0]);
    }
    return ctx;
}

static void *leaves(void *ctx)
{
    pthread_mutex_lock(&left);
    *(int32_t *)ctx = (int32_t)syscall(SYS_gettid);
    return NULL;
}

static const struct thread_seen *seen_of(const struct mpi_stats *stats, int32_t tid)
{
    for (size_t i = 0; i < stats->seen_count; i++)
        if (stats->seen[i].tid == tid)
            return &stats->seen[i];
    return NULL;
}

static bool are_asleep(void)
{
    char path[64], text[256];
    for (int i = 0; i < WAYS; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tids[i]);
        FILE *file = fopen(path, "re");
        const char *state = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        if (file)
            fclose(file);
        if (!state || state[2] != 'S')
            return false;
    }
    return true;
}

static void test_look(void **state)
{
    static int ways[WAYS];
    pthread_mutexattr_t attr;
    if (access("/proc/self/syscall", R_OK) != 0)
        skip(); /* a kernel without it */
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attr);
    pthread_barrier_init(&both, NULL, 2);
    sem_init(&semaphore, 0, 0);
    int32_t gone;
    pthread_mutex_lock(&held);
    pthread_mutex_lock(&robust);
    assert_int_equal(pthread_create(&threads[LEFT], NULL, leaves, &gone), 0);
    pthread_join(threads[LEFT], NULL);
    for (int i = 0; i < WAYS; i++) {
        ways[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, waits, &ways[i]), 0);
    }
    for (int i = 0; i < WAYS; i++)
        while (!atomic_load(&tids[i]))
            sched_yield();
    while (!are_asleep())
        sched_yield();
    const struct {
        enum thread_wait_kind kind;
        int32_t tid;
    } expected[WAYS] = {
        [ITSELF] = {THREAD_WAITS_OWNER, tids[ITSELF]},
        [HELD] = {THREAD_WAITS_OWNER, getpid()},
        [HELD_ROBUST] = {THREAD_WAITS_OWNER, getpid()},
        [LEFT] = {THREAD_WAITS_OTHERS, 0},
        [CONDITION] = {THREAD_WAITS_OTHERS, 0},
        [SEMAPHORE] = {THREAD_WAITS_OTHERS, 0},
        [LIMITED] = {THREAD_MAY_ACT, 0},
        [SLEEPS] = {THREAD_MAY_ACT, 0},
        [JOINS] = {THREAD_WAITS_END, tids[SLEEPS]},
        [CROSSED_0] = {THREAD_WAITS_OWNER, tids[CROSSED_1]},
        [CROSSED_1] = {THREAD_WAITS_OWNER, tids[CROSSED_0]},
    };
    struct arena arena = ARENA_INIT;
    struct mpi_stats stats = {.node = "here", .running = true, .pid = getpid()};
    struct mpi_stats_set set = {.ranks = &stats, .count = 1, .arena = &arena};
    struct mpi_look *look;
    size_t circle[64];
    assert_int_equal(mpi_look_begin(&look, &set), 0);
    mpi_look_end(look, &set);
    assert_int_equal(stats.seen_count, WAYS + 1);
    for (int i = 0; i < WAYS; i++) {
        const struct thread_seen *seen = seen_of(&stats, tids[i]);
        assert_non_null(seen);
        assert_int_equal(seen->wait.kind, expected[i].kind);
        assert_int_equal(seen->wait.tid, expected[i].tid);
        assert_int_equal(seen->wait.other, i == LEFT ? gone : 0);
        enum waiting_for what;
        uint64_t sp, pc;
        assert_true(waiting_look(getpid(), tids[i], &what, &sp, &pc));
        assert_int_equal(what == WAITING_LOCK, i <= LEFT || i >= CROSSED_0);
        size_t length = threads_circle(stats.seen, stats.seen_count, (size_t)(seen - stats.seen), circle);
        assert_int_equal(length, i == ITSELF ? 1 : i >= CROSSED_0 ? 2 : 0);
    }
    assert_int_equal(seen_of(&stats, getpid())->wait.kind, THREAD_MAY_ACT);
    arena_done(&arena);
}

/* What has changed between the looks may act, and so may who has ended meanwhile. */
static void test_settle(void **state)
{
    static const struct thread_seen stands = {
        .tid = 3, .wait = {.kind = THREAD_WAITS_OTHERS, .word = 8}, .timed = true};
    struct thread_seen before[] = {stands, stands}, *now = calloc(2, sizeof *now);
    size_t count = 1;
    now[0] = stands;
    assert_int_equal(threads_settle(&now, &count, before, 1), 0);
    assert_int_equal(now[0].wait.kind, THREAD_WAITS_OTHERS);
    before[0].ran_ns = 1; /* it ran */
    assert_int_equal(threads_settle(&now, &count, before, 1), 0);
    assert_int_equal(now[0].wait.kind, THREAD_MAY_ACT);
    now[0] = stands;
    assert_int_equal(threads_settle(&now, &count, NULL, 0), 0); /* it is new */
    assert_int_equal(now[0].wait.kind, THREAD_MAY_ACT);
    now[0] = before[0] = stands;
    before[1].tid = 4; /* is gone */
    assert_int_equal(threads_settle(&now, &count, before, 2), 0);
    assert_int_equal(count, 2);
    assert_int_equal(now[0].wait.kind, THREAD_WAITS_OTHERS);
    assert_int_equal(now[1].wait.kind, THREAD_MAY_ACT);
    free(now);
}

static void test_whose_files(void **state)
{
    assert_true(thread_file_is_of_mpi("/usr/lib/x86_64-linux-gnu/libopen-pal.so.40.30.2"));
    assert_true(thread_file_is_of_mpi("/usr/lib/x86_64-linux-gnu/libucs.so.0"));
    assert_false(thread_file_is_of_mpi("/home/me/libmpi_helper.so"));
    assert_false(thread_file_is_of_mpi("/home/mca_/program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_may_send), cmocka_unit_test(test_blocked_outside),
        cmocka_unit_test(test_settle),       cmocka_unit_test(test_whose_files),
        cmocka_unit_test(test_look), /* last: its threads stay */
    };
    return cmocka_run_group_tests_name("mpi_why_threads", tests, NULL, NULL);
}
