/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are brought into running processes. TEST_LOAD_ROUNDS: how many processes (a few if it is not set). */
#include "tracer/test_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracer/test_load_library.h"

enum { THREADS = 4, BLOCKS = 64, BROKEN = 1, HANDLED = 2, HANDLED_INSIDE = 3, LOOPS = 8, INSIDE_VALUES = 0 };

static const char *library(const char *which)
{
    const char *path = getenv(which);
    assert_non_null(path);
    return path;
}

static int load(pid_t pid, const char *path, const struct test_load_data *data, struct err *err)
{
    const struct tracer_load wanted = {path, "test_load", data, sizeof *data};
    *err = (struct err){0};
    return tracer_load(tracer, pid, &wanted, err);
}

/* Until it is let to, and to its end. */
static void load_all(pid_t pid, const char *path, const struct test_load_data *data, unsigned *ret_tries)
{
    struct err err;
    int code = -EAGAIN;
    int64_t result = 0;
    unsigned tries = 0;
    WAIT_FOR((tries++, code = load(pid, path, data, &err)) != -EAGAIN);
    if (code < 0)
        fail_msg("%s", err.text);
    assert_int_equal(next_event(TRACER_LOADED, 0).result, 0);
    if (tracer_load_result(tracer, pid, &result, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(result, data->value + 1);
    if (ret_tries)
        *ret_tries += tries;
}

static void seize(pid_t pid)
{
    struct err err = {0};
    if (!tracer)
        tracer_begin();
    if (tracer_seize(tracer, pid, &err) < 0)
        fail_msg("%s", err.text);
}

/* ---- a program that does much with memory and finds out if anything is not as it left it ---- */

static _Atomic int inside;

static void on_alarm(int signo)
{
    (void)signo;
    shared->counters[HANDLED]++;
    if (inside)
        shared->counters[HANDLED_INSIDE]++;
}

/* The line of the first expectation that did not hold is kept. */
static void expect_at(bool holds, long line)
{
    long none = 0;
    if (!holds)
        atomic_compare_exchange_strong(&shared->counters[BROKEN], &none, line);
}
#define expect(holds) expect_at(holds, __LINE__)

static void *churn(void *arg)
{
    long number = (long)arg;
    unsigned seed = (unsigned)number + 1;
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    sigset_t before = {0}, after = {0};
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    double sum = 0, expected = 0;
    while (!shared->stop) {
        unsigned at = (unsigned)rand_r(&seed) % BLOCKS;
        for (size_t i = 0; i < sizes[at]; i++)
            expect(blocks[at][i] == (unsigned char)(at + i));
        free(blocks[at]);
        sizes[at] = (unsigned)rand_r(&seed) % (at == 0 ? 300000 : 2000);
        blocks[at] = malloc(sizes[at]);
        for (size_t i = 0; i < sizes[at]; i++)
            blocks[at][i] = (unsigned char)(at + i);
        errno = (int)(at + 1);
        for (volatile int i = 0; i < 2000; i++) {
            sum += i;
            expected += i;
        }
        if (at % 16 == 0)
            expect(usleep(100) == 0 || errno == EINTR);
        else
            expect(errno == (int)(at + 1));
        expect(sum == expected);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        expect(memcmp(&before, &after, sizeof before) == 0);
        shared->counters[LOOPS + number]++;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void busy(void)
{
    pthread_t threads[THREADS];
    signal(SIGALRM, on_alarm);
    const struct itimerval often = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    shared->ready = 1;
    churn(NULL);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void busy_programs_run_on(void **state)
{
    (void)state;
    const char *text = getenv("TEST_LOAD_ROUNDS");
    unsigned rounds = text ? (unsigned)strtoul(text, NULL, 10) : 3, tries = 0, loads = 0;
    for (unsigned round = 0; round < rounds; round++) {
        pid_t pid = target_start(busy);
        seize(pid);
        for (unsigned i = 0; i < 5; i++) {
            const struct test_load_data data = {.inside = &inside, .busy_ms = i, .value = (long)i};
            load_all(pid, library("TEST_LOAD_LIBRARY"), &data, &tries);
            loads++;
        }
        tracer_release(tracer, pid);
        long loops[THREADS];
        for (int i = 0; i < THREADS; i++)
            loops[i] = shared->counters[LOOPS + i];
        for (int i = 0; i < THREADS; i++)
            WAIT_FOR(shared->counters[LOOPS + i] > loops[i] + 10);
        shared->stop = 1;
        assert_int_equal(target_wait(pid), 0);
        shared->stop = 0;
        assert_int_equal(shared->counters[BROKEN], 0);
    }
    assert_true(shared->counters[HANDLED] > 0);
    print_message("# %u loads in %u processes, %u tries\n", loads, rounds, tries);
}

/* ---- what the program notices ---- */

static void on_usr1(int signo)
{
    (void)signo;
    shared->counters[HANDLED]++;
    if (shared->failed) /* as `inside` */
        shared->counters[HANDLED_INSIDE]++;
}

static void sleeper(void)
{
    struct timespec wanted = {0, 400000000}, left = {0};
    struct sigaction action = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &action, NULL);
    shared->ready = 1;
    shared->counters[0] = nanosleep(&wanted, &left) == 0 ? 1 : 2;
    while (!shared->go)
        ;
    errno = 0;
    while (!shared->stop)
        ;
    shared->counters[4] = errno;
}

static void waiting_calls_wait_on(void **state)
{
    (void)state;
    pid_t pid = target_start(sleeper);
    seize(pid);
    const struct test_load_data data = {.value = 41};
    load_all(pid, library("TEST_LOAD_LIBRARY"), &data, NULL);
    WAIT_FOR(shared->counters[0]);
    assert_int_equal(shared->counters[0], 1); /* not interrupted */
    shared->go = 1;
    test_pause();
    load_all(pid, library("TEST_LOAD_LIBRARY"), &data, NULL);
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    assert_int_equal(shared->counters[4], 0); /* errno */
}

/* Signals wait, and are not lost. */
static void signals_come_afterwards(void **state)
{
    (void)state;
    pid_t pid = target_start(sleeper);
    shared->go = 1;
    seize(pid);
    WAIT_FOR(shared->counters[0]);
    const struct test_load_data data = {.inside = &shared->failed, .busy_ms = 100, .value = 1};
    struct err err;
    int code = -EAGAIN;
    WAIT_FOR((code = load(pid, library("TEST_LOAD_LIBRARY"), &data, &err)) != -EAGAIN);
    assert_int_equal(code, 0);
    assert_int_equal(load(pid, library("TEST_LOAD_LIBRARY"), &data, &err), -EBUSY);
    WAIT_FOR(shared->failed);
    kill(pid, SIGUSR1);
    assert_int_equal(next_event(TRACER_LOADED, 0).result, 0);
    WAIT_FOR(shared->counters[HANDLED] == 1);
    assert_int_equal(shared->counters[HANDLED_INSIDE], 0);
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

/* Killed, or gone in an orderly way, while the function runs. */
static void programs_outlive_the_tracer(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        pid_t pid = target_start(sleeper);
        shared->go = 1;
        seize(pid);
        const struct test_load_data data = {.inside = &shared->failed, .busy_ms = 100, .value = 1};
        struct err err;
        WAIT_FOR(load(pid, library("TEST_LOAD_LIBRARY"), &data, &err) == 0);
        WAIT_FOR(shared->failed);
        if (killed)
            kill(tracer_pid(tracer), SIGKILL);
        tracer_stop_all(tracer);
        tracer = NULL;
        WAIT_FOR(!shared->failed);
        WAIT_FOR(shared->counters[0]);
        kill(pid, SIGUSR1); /* its mask is what it was */
        WAIT_FOR(shared->counters[HANDLED] == killed + 1);
        shared->stop = 1;
        assert_int_equal(target_wait(pid), 0);
        shared->stop = shared->go = 0;
        shared->counters[0] = 0;
    }
}

/* ---- where it is not done ---- */

static void refused(target_fn *fn, const char *path, int wanted, const char *reason)
{
    struct err err;
    const struct test_load_data data = {.value = 1};
    pid_t pid = target_start(fn);
    seize(pid);
    int code = load(pid, path, &data, &err);
    if (code != wanted || !strstr(err.text, reason))
        fail_msg("%d: %s", code, err.text);
    shared->stop = shared->go = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
    shared->stop = shared->go = 0;
}

static void read_line(void)
{
    char line[16];
    int ends[2];
    if (pipe(ends) < 0)
        _exit(2);
    FILE *file = fdopen(ends[0], "r");
    shared->values[0] = (uint64_t)ends[1];
    shared->ready = 1;
    _exit(fgets(line, sizeof line, file) && strcmp(line, "line\n") == 0 ? 0 : 3);
}

/* Its buffer and its lock are its own. */
static void a_reader_gets_its_line(void **state)
{
    (void)state;
    char path[64];
    const struct test_load_data data = {.value = 1};
    pid_t pid = target_start(read_line);
    seize(pid);
    WAIT_FOR(state_of(pid) == 'S');
    load_all(pid, library("TEST_LOAD_LIBRARY"), &data, NULL);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, (int)shared->values[0]);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "line\n", 5), 5);
    close(fd);
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

static void until_stop(void)
{
    shared->ready = 1;
    while (!shared->stop)
        ;
}

static int compare(const void *one, const void *other)
{
    (void)one, (void)other;
    until_stop();
    return 0;
}

static void in_callback(void)
{
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
}

static void handle(int signo)
{
    (void)signo;
    until_stop();
}

static void in_handler(void)
{
    signal(SIGUSR1, handle);
    raise(SIGUSR1);
}

static void *wait_a_while(void *arg)
{
    while (!shared->stop)
        usleep(50000);
    return arg;
}

static void in_constructor(void)
{
    char text[32];
    pthread_t thread;
    static _Atomic int *flag;
    flag = &shared->ready;
    snprintf(text, sizeof text, "%lx", (unsigned long)(uintptr_t)flag);
    setenv("TEST_LOAD_FLAG", text, 1);
    pthread_create(&thread, NULL, wait_a_while, NULL);
    dlopen(getenv("TEST_LOAD_BLOCKS"), RTLD_NOW);
    pthread_join(thread, NULL);
}

static void with_own_malloc(void)
{
    dlopen(getenv("TEST_LOAD_OWN_MALLOC"), RTLD_NOW);
    until_stop();
}

static void blocks_faults(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    until_stop();
}

static void *block_forever(void *arg)
{
    until_stop();
    return arg;
}

static void small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_create(&thread, &attributes, block_forever, NULL);
    pthread_detach(thread);
    syscall(SYS_exit, 0); /* the first thread */
}

static void bad_places_are_left_alone(void **state)
{
    (void)state;
    const char *path = library("TEST_LOAD_LIBRARY");
    refused(in_callback, path, -EAGAIN, "was called by qsort");
    refused(in_handler, path, -EAGAIN, "in a signal's handler");
    refused(with_own_malloc, path, -EOPNOTSUPP, "has a function malloc of its own");
    refused(blocks_faults, path, -EAGAIN, "blocks the signals");
    refused(small_stack, path, -EAGAIN, "the stack of thread");
}

static void a_linker_at_work_is_left_alone(void **state)
{
    (void)state;
    struct err err;
    const struct test_load_data data = {.value = 1};
    pid_t pid = target_start(in_constructor);
    seize(pid);
    int code = load(pid, library("TEST_LOAD_LIBRARY"), &data, &err);
    if (code != -EAGAIN || !strstr(err.text, "inside the dynamic linker"))
        fail_msg("%d: %s", code, err.text);
    shared->ready = 2;
    load_all(pid, library("TEST_LOAD_LIBRARY"), &data, NULL); /* later it is */
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

static void in_mpi(void)
{
    void *handle = dlopen(getenv("TEST_LOAD_MPI"), RTLD_NOW);
    void (*wait)(const _Atomic int *) = (void (*)(const _Atomic int *))dlsym(handle, "MPI_Test_wait");
    shared->ready = 1;
    wait(&shared->go);
    shared->counters[0] = 1;
    while (!shared->stop)
        ;
    shared->go = 0;
}

/* A thread that is in MPI is met where it leaves it, before it does anything else. */
static void a_thread_is_met_where_it_leaves_mpi(void **state)
{
    (void)state;
    struct err err = {0};
    const struct test_load_data data = {.value = 1};
    struct tracer_load wanted = {library("TEST_LOAD_LIBRARY"), "test_load", &data, sizeof data, true};
    pid_t pid = target_start(in_mpi);
    seize(pid);
    for (int i = 0; i < 3; i++)
        if (tracer_load(tracer, pid, &wanted, &err) != -EAGAIN || !strstr(err.text, "is inside MPI_Test_wait"))
            fail_msg("%s", err.text);
    shared->go = 1;
    struct tracer_event event = next_event(TRACER_LOADABLE, 0);
    assert_int_equal(event.tid, pid);
    assert_int_equal(shared->counters[0], 0);
    if (tracer_load(tracer, pid, &wanted, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(next_event(TRACER_LOADED, 0).result, 0);
    tracer_release_hold(tracer, event.hold);
    WAIT_FOR(shared->counters[0]);
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

/* Nobody needs it any more: the breakpoint goes, by the next try, or by the release. */
static void nobody_is_waited_for_in_the_end(void **state)
{
    (void)state;
    struct err err = {0};
    const struct test_load_data data = {.value = 1};
    struct tracer_load wanted = {library("TEST_LOAD_LIBRARY"), "test_load", &data, sizeof data, true};
    for (int released = 0; released < 2; released++) {
        pid_t pid = target_start(in_mpi);
        seize(pid);
        assert_int_equal(tracer_load(tracer, pid, &wanted, &err), -EAGAIN);
        if (released)
            tracer_release(tracer, pid);
        else
            assert_int_equal(load(pid, wanted.path, &data, &err), -EAGAIN);
        shared->go = 1;
        WAIT_FOR(shared->counters[0]);
        shared->stop = 1;
        if (!released)
            next_event(TRACER_GONE, 0);
        assert_int_equal(target_wait(pid), 0);
        shared->stop = shared->go = 0;
        shared->counters[0] = 0;
    }
}

static void the_linker_says_why_not(void **state)
{
    (void)state;
    struct err err;
    int64_t result;
    const struct test_load_data data = {.value = 1};
    pid_t pid = target_start(until_stop);
    seize(pid);
    assert_int_equal(tracer_load_result(tracer, pid, &result, &err), -ESRCH);
    assert_int_equal(load(pid, "/nowhere/libnothing.so", &data, &err), 0);
    assert_int_equal(next_event(TRACER_LOADED, 0).result, -ELIBACC);
    assert_int_equal(tracer_load_result(tracer, pid, &result, &err), -ELIBACC);
    assert_non_null(strstr(err.text, "/nowhere/libnothing.so: cannot open shared object file"));
    shared->stop = 1;
    next_event(TRACER_GONE, 0);
    assert_int_equal(target_wait(pid), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
        TEST(busy_programs_run_on),
        TEST(waiting_calls_wait_on),
        TEST(signals_come_afterwards),
        TEST(programs_outlive_the_tracer),
        TEST(bad_places_are_left_alone),
        TEST(a_linker_at_work_is_left_alone),
        TEST(the_linker_says_why_not),
        TEST(a_reader_gets_its_line),
        TEST(a_thread_is_met_where_it_leaves_mpi),
        TEST(nobody_is_waited_for_in_the_end),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("tracer_load", tests, NULL, NULL);
}
