/* SPDX-License-Identifier: Apache-2.0 */
/* That real processes are seen as they are: who sleeps, works, waits as for a disk, is stopped, has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/test_wait_world.h"

/* In the state of one that waits for the disk: its memory is that of the child, until it executes something. */
static void wait_as_for_a_disk(void)
{
    pid_t parent = getpid();
    pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): the child only sleeps */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) /* it may have been killed before */
            pause();
        _exit(0);
    }
}

static pid_t process_new(char letter)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "S) (T 1 2) R"); /* the name may have any characters */
        if (letter == 'D')
            wait_as_for_a_disk();
        volatile unsigned turns = 0;
        while (letter == 'R')
            turns++;
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void reaches(pid_t pid, char letter)
{
    uint64_t end_ns = clock_now_ns() + UINT64_C(30) * NS_PER_SECOND;
    while (wait_look(pid).state != letter && clock_now_ns() < end_ns)
        wait_poll(NULL, 0, 1);
    assert_int_equal(wait_look(pid).state, letter);
    assert_int_equal(wait_look_thread(pid, pid).state, letter);
}

static void test_states(void **state)
{
    for (const char *letter = "SRD"; *letter; letter++) {
        pid_t pid = process_new(*letter);
        reaches(pid, *letter);
        kill(pid, SIGSTOP);
        if (*letter != 'D')
            reaches(pid, 'T');
        kill(pid, SIGKILL);
        reaches(pid, 'Z');
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(wait_look(pid).state, 0);
        assert_int_equal(wait_look_thread(pid, pid).state, 0);
        assert_false(wait_look_thread(pid, pid).timed);
    }
    assert_int_equal(wait_look(0).state, 0);
    assert_int_equal(wait_look(-1).state, 0);
}

static void test_processor_time(void **state)
{
    uint64_t before_ns = wait_look(getpid()).cpu_ns, end_ns = clock_now_ns() + UINT64_C(30) * NS_PER_SECOND;
    struct wait_thread thread = wait_look_thread(getpid(), gettid()), now = thread;
    while (wait_look(getpid()).cpu_ns == before_ns && wait_now_ns() < end_ns)
        continue;
    uint64_t used_ns = wait_look(getpid()).cpu_ns - before_ns, own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    assert_true(used_ns > 0 && used_ns <= own_ns + NS_PER_SECOND / 50);
    while (thread.timed && now.ran_ns == thread.ran_ns && wait_now_ns() < end_ns)
        now = wait_look_thread(getpid(), gettid());
    assert_true(!thread.timed || now.ran_ns > thread.ran_ns);
}

/* In the kernel, too: system calls as few programs make them. */
static void test_time_in_the_kernel(void **state)
{
    uint64_t tick_ns = NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK),
             end_ns = clock_now_ns() + UINT64_C(30) * NS_PER_SECOND;
    struct tms before, after;
    uint64_t seen_ns;
    char bytes[4096];
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    do {
        for (int i = 0; i < 1000; i++)
            assert_int_equal(read(fd, bytes, sizeof bytes), sizeof bytes);
        times(&before);
        seen_ns = wait_look(getpid()).cpu_ns;
        times(&after);
    } while (before.tms_stime < 3 && wait_now_ns() < end_ns);
    close(fd);
    assert_true(before.tms_stime >= 3);
    assert_true(seen_ns >= (uint64_t)(before.tms_utime + before.tms_stime) * tick_ns);
    assert_true(seen_ns <= (uint64_t)(after.tms_utime + after.tms_stime) * tick_ns);
}

/* Until the limit, to which the last of them is cut, and not beyond; an input ends one at once. */
static void test_slices(void **state)
{
    const uint64_t limit_ns = wait_policies[WAIT_PARTS].limit_ms * WAITS_NS_PER_MS;
    struct pollfd input = {.events = POLLIN};
    int ends[2], slices = 0;
    test_world_begin('S');
    const uint64_t start_ns = wait_now_ns();
    while (wait_slice(WAIT_PARTS, start_ns, NULL))
        slices++;
    const uint64_t end_ns = wait_now_ns();
    assert_true(slices > 10 && end_ns >= start_ns + limit_ns && end_ns < start_ns + limit_ns + 2 * WAITS_NS_PER_MS);
    assert_false(wait_slice(WAIT_PARTS, start_ns, NULL));
    assert_int_equal(wait_now_ns(), end_ns);
    test_world_end();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    input.fd = ends[0];
    assert_true(wait_slice(WAIT_PARTS, wait_now_ns(), &input));
    assert_int_equal(input.revents, POLLIN);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_processor_time),
        cmocka_unit_test(test_time_in_the_kernel),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
