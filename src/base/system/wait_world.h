/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process that waits for another one sees: the clock, the other's state, whether it had a processor, and the
 * passing of time. shm/waits.h decides on it. All of it comes from the kernel, unless a unit test sets `wait_world` to
 * a world in which no time passes. (The agent has agent/system/world.h.)
 *
 * No allocation of its own; not for signal handlers.
 */
#ifndef SCRY_BASE_SYSTEM_WAIT_WORLD_H
#define SCRY_BASE_SYSTEM_WAIT_WORLD_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/waits.h"

struct wait_process {
    char state;      /* the kernel's letter; 0: there is no such process, or it cannot be seen */
    uint64_t cpu_ns; /* its processor time, of all its threads: utime and stime, to a tick of the system */
};

struct wait_thread {
    char state;      /* likewise */
    bool timed;      /* ran_ns is known: the kernel counts it */
    uint64_t ran_ns; /* how long it was on a processor: schedstat, exact */
};

struct wait_world {
    uint64_t (*now_ns)(void); /* CLOCK_MONOTONIC */
    int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
    struct wait_process (*look)(pid_t pid); /* its leader's state, /proc/PID/stat */
    struct wait_thread (*look_thread)(pid_t pid, pid_t tid);
};

extern const struct wait_world *wait_world; /* never NULL */
extern const struct wait_world wait_world_real;

static inline uint64_t wait_now_ns(void)
{
    return wait_world->now_ns();
}

static inline int wait_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return wait_world->poll(fds, count, timeout_ms);
}

static inline struct wait_process wait_look(pid_t pid)
{
    return wait_world->look(pid);
}

static inline struct wait_thread wait_look_thread(pid_t pid, pid_t tid)
{
    return wait_world->look_thread(pid, tid);
}

/* A wait of which only its time is known, from `since_ns` on: waits until it is to be looked again, or `input` has an event, if it is not
 * NULL. false, at once: the limit is reached. */
bool wait_slice(enum wait_kind kind, uint64_t since_ns, struct pollfd *input);

#endif
