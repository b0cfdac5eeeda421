/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread waits for the monitor. For one that runs, as long as it takes: a request may have the thread wait.
 * Not for one that is gone (nor for what is left of it until somebody asks for its exit status), nor for another one
 * that has taken its place and knows nothing of it; and only a moment for one that is stopped. Then it is not waited
 * for any more at all until it runs again: else each of millions of calls would take that moment.
 *
 * Async-signal-safe, no allocation. Used by the MPI interposer, too, by mpi_host.lasts.
 */
#ifndef SCRY_AGENT_PATIENCE_H
#define SCRY_AGENT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/area.h"
#include "shm/waits.h"

struct patience {
    struct doorbell *bell;
    uint64_t monitor_ticks; /* with the pid: which monitor it waits for */
    int32_t monitor_pid;
    uint64_t idle_since; /* it was not seen to run; ns, 0: it runs */
};

/* Before the thread tells the monitor that it waits. */
static inline struct patience patience_begin(struct doorbell *bell)
{
    struct patience patience = {.bell = bell};
    if (bell) {
        patience.monitor_ticks = atomic_load(&bell->monitor_start_ticks);
        patience.monitor_pid = atomic_load(&bell->monitor_pid);
    }
    return patience;
}

/* Whether to wait (on), by the row WAIT_HELD, after each of its looks; it costs next to nothing when it was asked just
 * before. */
typedef bool patience_function(struct patience *patience);
patience_function patience_lasts;

/* Whether the monitor's process lives, stopped or not. */
bool patience_monitor_alive(struct doorbell *bell);

/* The kernel's letter of it, as it was at most a slice of WAIT_HELD ago: 'X' if it is gone, or is another process now;
 * 0: there is no /proc here, or another thread is just looking for the first time. */
char patience_monitor_state(struct doorbell *bell);

/* What is known of the monitor is forgotten: after fork. */
void patience_forget(void);

#endif
