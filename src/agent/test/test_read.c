/* SPDX-License-Identifier: Apache-2.0 */
/* Reading doubtful memory by each of the three ways: the same answers, and nothing of it is seen by the program. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/safety/crash.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"

static struct area_view view;
static uint8_t *pages; /* three of them, the one in the middle is not readable */
enum { PAGE = 4096 };

static int setup(void **state)
{
    view.area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3 * PAGE; i++)
        pages[i] = (uint8_t)(i * 7 + i / 256);
    mprotect(pages + PAGE, PAGE, PROT_NONE);
    atomic_store(&view.area->on, 1);
    agent_read_init(&view);
    agent_crash_init(&view, NULL, &(struct agent_crash_ops){0});
    agent_signals_start();
    return 0;
}

static int teardown(void **state)
{
    agent_read_done();
    agent_signals_stop();
    return 0;
}

static void each_way(void (*test)(void))
{
    for (uint32_t way = AREA_READ_DIRECT; way <= AREA_READ_VICTIM; way++) {
        atomic_store(&view.area->reader, way);
        test();
        unsigned before = agent_read_begin();
        test();
        agent_read_end(before);
    }
}

/* Every size up to the edge, over it, and behind it. */
static void edges(void)
{
    uint8_t got[700], *edge = pages + PAGE;
    for (size_t size = 1; size < 600; size += size < 40 ? 1 : 37) {
        memset(got, 170, sizeof got);
        assert_int_equal(agent_read(got + 1, (uintptr_t)(edge - size), size), 0);
        assert_memory_equal(got + 1, edge - size, size);
        assert_int_equal(got[0], 170);
        assert_int_equal(got[size + 1], 170);
        assert_int_equal(agent_read(got + 1, (uintptr_t)(edge - size + 1), size), -1);
        assert_int_equal(got[0], 170);
        assert_int_equal(got[size + 1], 170);
        assert_int_equal(agent_read(got, (uintptr_t)(edge + PAGE - 1), size), -1);
        assert_int_equal(agent_read(got, (uintptr_t)(edge + PAGE), size), 0);
    }
    assert_int_equal(agent_read(NULL, 0, 0), 0);
}

static void test_edges(void **state)
{
    each_way(edges);
}

static void large(void)
{
    static uint8_t from[100000], to[100000];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * i);
    assert_int_equal(agent_read(to, (uintptr_t)from, sizeof from), 0);
    assert_memory_equal(to, from, sizeof from);
}

static void test_large(void **state)
{
    each_way(large);
}

static void refused(void)
{
    uint64_t bad[] = {0,
                      1,
                      4095,
                      UINT64_C(0x7ffffffff000),
                      UINT64_C(0x800000000000),
                      UINT64_C(0xffff888000000000),
                      UINT64_C(0xffffffffff600000),
                      UINT64_MAX,
                      UINT64_MAX - 7,
                      UINT64_C(0x123456789abcdef0)};
    uint8_t got[8];
    errno = 123;
    uint64_t before = agent_read_faults();
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(agent_read(got, bad[i], 8), -1);
    assert_int_equal(agent_read(got, (uintptr_t)got, SIZE_MAX), -1);
    assert_int_equal(agent_read(got, (uintptr_t)pages, UINT64_C(1) << 46), -1);
    assert_int_equal(agent_read_faults() - before, sizeof bad / sizeof *bad + 2);
    assert_int_equal(errno, 123);
}

static void test_refused(void **state)
{
    each_way(refused);
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What each costs, for the reader of the log; that the ways differ shows that they are what they are called: in this
 * thread's processor time, whoever else has the processor meanwhile. */
static void test_cost(void **state)
{
    static const char *const ways[] = {"direct", "syscall", "victim"};
    static const int rounds[] = {100000, 2000, 500};
    uint64_t good[3], used[3], word;
    for (uint32_t way = 0; way < 3; way++) {
        atomic_store(&view.area->reader, way);
        int n = rounds[way], bad_n = way ? n : 2000, wrong = 0;
        uint64_t start = nanoseconds(CLOCK_MONOTONIC), use = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        unsigned before = agent_read_begin();
        for (int i = 0; i < n; i++)
            wrong += agent_read(&word, (uintptr_t)pages, 8) != 0;
        good[way] = (nanoseconds(CLOCK_MONOTONIC) - start) * 100 / (uint64_t)n;
        used[way] = (nanoseconds(CLOCK_THREAD_CPUTIME_ID) - use) * 100 / (uint64_t)n;
        start = nanoseconds(CLOCK_MONOTONIC);
        for (int i = 0; i < bad_n; i++)
            wrong += agent_read(&word, (uintptr_t)pages + PAGE, 8) != -1;
        agent_read_end(before);
        uint64_t bad = (nanoseconds(CLOCK_MONOTONIC) - start) / (uint64_t)bad_n;
        start = nanoseconds(CLOCK_MONOTONIC);
        for (int i = 0; i < n; i++) {
            before = agent_read_begin();
            wrong += agent_read(&word, (uintptr_t)pages, 8) != 0;
            agent_read_end(before);
        }
        print_message("# %s: good %lu.%02lu ns, bad %lu ns, one read in an event %lu ns\n", ways[way], good[way] / 100,
                      good[way] % 100, bad, (nanoseconds(CLOCK_MONOTONIC) - start) / (uint64_t)n);
        assert_int_equal(wrong, 0);
    }
    uint64_t start = nanoseconds(CLOCK_MONOTONIC), local = 5;
    for (int i = 0; i < 100000; i++)
        agent_read(&word, (uintptr_t)&local, 8);
    print_message("# own stack: %lu ns\n", (nanoseconds(CLOCK_MONOTONIC) - start) / 100000);
    assert_true(used[0] * 3 < used[1]);
}

static atomic_int stop;

static void *maps(void *address)
{
    while (!atomic_load(&stop)) {
        mmap(address, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(address, 5, PAGE);
        munmap(address, PAGE);
    }
    return NULL;
}

/* Memory that comes and goes while it is read; what was read is right. */
static void test_race(void **state)
{
    pthread_t thread;
    uint8_t got[256];
    /* a hole of our own, so that nobody else maps something there */
    uint8_t *place = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint32_t way = AREA_READ_DIRECT; way <= AREA_READ_VICTIM; way++) {
        atomic_store(&stop, 0);
        atomic_store(&view.area->reader, way);
        pthread_create(&thread, NULL, maps, place + PAGE);
        int bad = 0;
        for (int i = 0; i < (way == AREA_READ_VICTIM ? 500 : 20000); i++)
            if (agent_read(got, (uintptr_t)place + PAGE + 100, sizeof got) != 0)
                bad++;
            else
                for (unsigned k = 0; k < sizeof got; k++)
                    assert_true(got[k] == 5 || got[k] == 0);
        atomic_store(&stop, 1);
        pthread_join(thread, NULL);
        print_message("# way %u: %d bad\n", way, bad);
    }
}

static void *reads_and_ends(void *unused)
{
    uint64_t word;
    return agent_read(&word, (uintptr_t)pages, 8) == 0 && agent_read(&word, (uintptr_t)pages + PAGE, 8) == -1 ? pages
                                                                                                              : NULL;
}

static void *waits_for_any(void *ret_count)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, __WALL)) > 0)
        (*(int *)ret_count)++;
    return NULL;
}

/* One thread waits for any child all the time: it gets the program's only. */
static void test_victim_threads(void **state)
{
    pthread_t threads[4], waiter;
    void *result;
    int children = 0;
    atomic_store(&view.area->reader, AREA_READ_VICTIM);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    pthread_create(&waiter, NULL, waits_for_any, &children);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, reads_and_ends, NULL);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], &result);
            assert_non_null(result);
        }
    }
    kill(child, SIGKILL);
    pthread_join(waiter, NULL);
    assert_int_equal(children, 1);
}

/* There is none between reads, whatever they met: the program has no child that it did not make. */
static void test_victim_unseen(void **state)
{
    uint64_t word;
    atomic_store(&view.area->reader, AREA_READ_VICTIM);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(agent_read(&word, (uintptr_t)pages + (i & 1) * PAGE, 8), -(i & 1));
        assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
}

/* They do not outlive the program, whatever it dies of, nor hold its descriptors open. */
static void test_victim_dies(void **state)
{
    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        uint64_t word;
        agent_read_init(&view);
        agent_signals_forked();
        atomic_store(&view.area->reader, AREA_READ_VICTIM);
        if (agent_read(&word, (uintptr_t)pages, 8) != 0 || agent_read(&word, (uintptr_t)pages + PAGE, 8) != -1)
            _exit(1);
        if (write(pipes[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(read(pipes[0], &byte, 1), 0); /* nobody has it any more */
    waitpid(child, NULL, 0);
    close(pipes[0]);
}

/* A child of fork does not use its parent's victim, and without an area of its own reads all the same. */
static void in_child(void)
{
    uint64_t word;
    assert_int_equal(agent_read(&word, (uintptr_t)pages, 8), 0);
    *(volatile uint8_t *)pages = 77;
    pid_t child = fork();
    if (child == 0) {
        *(volatile uint8_t *)pages = 99;
        if (agent_read(&word, (uintptr_t)pages, 1) != 0 || (uint8_t)word != 99)
            _exit(1);
        agent_read_init(&view);
        agent_signals_forked();
        if (agent_read(&word, (uintptr_t)pages, 1) != 0 || (uint8_t)word != 99)
            _exit(2);
        agent_read_done();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(agent_read(&word, (uintptr_t)pages, 1), 0);
    assert_int_equal((uint8_t)word, 77);
}

static void test_fork(void **state)
{
    each_way(in_child);
}

static void test_outside(void **state)
{
    int fd = dup(0);
    const struct outside *outside = outside_read(getpid(), OUTSIDE_TRACER | OUTSIDE_DEVICES | OUTSIDE_STAT);
    assert_non_null(outside);
    assert_int_equal(outside->tracer, 0);
    assert_true(outside->ticks > 0);
    assert_int_equal(outside->state, 'R');
    assert_true(outside->device_count >= 1); /* [vvar] at least */
    assert_null(outside_read(getpid(), OUTSIDE_TRACER));
    outside_release();
    assert_int_equal(dup(0), fd + 1); /* it left no descriptor */
    close(fd + 1);
    close(fd);
    outside = outside_read(0x7ffffff0, OUTSIDE_STAT);
    assert_non_null(outside);
    assert_int_equal(outside->ticks, 0);
    assert_int_equal(outside->state, 0);
    outside_release();
    pid_t ended = fork();
    if (ended == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT), 0);
    outside = outside_read(ended, OUTSIDE_STAT);
    assert_int_equal(outside->state, 'Z'); /* it is there until somebody asks for its exit status */
    outside_release();
    assert_int_equal(waitpid(ended, NULL, 0), ended);
    assert_int_equal(waitpid(-1, NULL, __WALL), -1);
}

/* Files are plain memory, other things are not; too many of them, and all may be one. */
static void test_devices(void **state)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    uint64_t word;
    atomic_store(&view.area->reader, AREA_READ_DIRECT);
    if (fd >= 0) {
        void *ring = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        const struct outside *outside = outside_read(getpid(), OUTSIDE_DEVICES);
        bool listed = false;
        for (unsigned i = 0; i < outside->device_count; i++)
            listed = listed || outside->devices[i][0] == (uintptr_t)ring;
        outside_release();
        assert_true(ring == MAP_FAILED || listed);
        agent_read(&word, (uintptr_t)ring, 8);
        munmap(ring, 2 * PAGE);
        close(fd);
    } else {
        print_message("# skipped: no perf events here\n");
    }
    for (uint64_t i = 0; i < 200; i++)
        agent_read_mapped(0x10000 + i * PAGE, PAGE, -1);
    assert_int_equal(agent_read(&word, (uintptr_t)pages, 8), 0);
    agent_read_rescan();
    assert_int_equal(agent_read(&word, (uintptr_t)pages, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_victim_unseen),
        cmocka_unit_test(test_victim_dies),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_outside),
        /* from here on it has threads */
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_victim_threads),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
