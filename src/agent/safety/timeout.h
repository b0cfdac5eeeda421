/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread waits for the monitor. For a running one, as long as needed: a request may make the thread wait.
 * Not for one that is gone (or a zombie), nor for its successor, which does not know the thread; and only a moment for
 * a stopped one. Then nobody waits again until it runs: else each of millions of calls would wait for that moment.
 *
 * Async-signal-safe, no allocation. Used by the MPI interposer, too, by mpi_host.lasts.
 */
#ifndef SCRY_AGENT_SAFETY_TIMEOUT_H
#define SCRY_AGENT_SAFETY_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/area.h"
#include "shm/waits.h"

struct timeout {
    struct doorbell *bell;
    uint64_t monitor_ticks; /* with the pid: which monitor it waits for */
    int32_t monitor_pid;
    uint64_t idle_since; /* it was last seen running; ns, 0: it runs */
};

/* Call it before the thread tells the monitor that it waits. */
static inline struct timeout timeout_start(struct doorbell *bell)
{
    struct timeout timeout = {.bell = bell};
    if (bell) {
        timeout.monitor_ticks = atomic_load(&bell->monitor_start_ticks);
        timeout.monitor_pid = atomic_load(&bell->monitor_pid);
    }
    return timeout;
}

/* Wait on? By the row WAIT_HELD, after each of its checks. Almost free if it was asked just before. */
typedef bool timeout_function(struct timeout *timeout);
timeout_function timeout_runs;

/* Does the monitor's process live, stopped or not? */
bool doorbell_monitor_alive(struct doorbell *bell);

/* The kernel's letter for it, at most a slice of WAIT_HELD old. 'X': gone, or another process now. 0: there is no
 * /proc, or another thread is making the first check. */
char doorbell_monitor_state(struct doorbell *bell);

/* After fork: forgets what is known of the monitor. */
void timeout_forget(void);

#endif
