/* SPDX-License-Identifier: Apache-2.0 */
/* A world for unit tests of what waits for another process: a clock that goes only while somebody polls, and one
 * process, which is as they say. */
#ifndef SCRY_BASE_SYSTEM_TEST_WAIT_WORLD_H
#define SCRY_BASE_SYSTEM_TEST_WAIT_WORLD_H

#include "base/system/wait_world.h"

static struct {
    uint64_t now_ns;
    struct wait_process process;
    unsigned cpu_percent; /* so much of the time that passes it has a processor */
    struct wait_thread thread;
    uint64_t runs_at_ns; /* the thread has no processor until then; 0: never */
} test_world;

static inline uint64_t test_world_now_ns(void)
{
    return test_world.now_ns;
}

static inline void test_world_pass(uint64_t ns)
{
    test_world.now_ns += ns;
    test_world.process.cpu_ns += ns * test_world.cpu_percent / 100;
    if (test_world.runs_at_ns && test_world.now_ns >= test_world.runs_at_ns)
        test_world.thread.ran_ns += ns;
}

static inline int test_world_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (timeout_ms > 0)
        test_world_pass((uint64_t)timeout_ms * 1000000);
    return 0;
}

static inline struct wait_process test_world_look(pid_t pid)
{
    return test_world.process;
}

static inline struct wait_thread test_world_look_thread(pid_t pid, pid_t tid)
{
    return test_world.thread;
}

static const struct wait_world test_wait_world
    __attribute__((unused)) = {test_world_now_ns, test_world_poll, test_world_look, test_world_look_thread};

static inline void test_world_begin(char state)
{
    test_world.now_ns = UINT64_C(1000000000);
    test_world.process = (struct wait_process){.state = state, .cpu_ns = 5000000000};
    test_world.cpu_percent = 0;
    test_world.thread = (struct wait_thread){.state = state, .timed = true, .ran_ns = 1000000000};
    test_world.runs_at_ns = 0;
    wait_world = &test_wait_world;
}

static inline void test_world_end(void)
{
    wait_world = &wait_world_real;
}

#endif
