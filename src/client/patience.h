/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a silent monitor still be expected to answer? A stopped one (SIGSTOP, a debugger) answers only when somebody
 * continues it. One that sleeps has nothing to do, and should have answered. One that works, wants a processor on a
 * busy machine, or waits for the disk will. By /proc/PID/stat, see proc(5).
 */
#ifndef SCRY_CLIENT_PATIENCE_H
#define SCRY_CLIENT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct patience {
    pid_t pid; /* 0: unknown (another machine or name space): only the time counts */
    uint64_t since_ns, cpu_ns;
};

/* Starts waiting for the monitor at the other end of a connected local socket: something was asked now. */
void patience_begin(struct patience *ret_patience, int fd);
/* Starts again, for the same monitor. */
void patience_again(struct patience *patience, uint64_t since_ns);
/* true: waiting is useless, and err (-ETIMEDOUT) says why and what to do. Uses the row WAIT_ANSWER, with `limit_ms`. */
bool patience_over(const struct patience *patience, unsigned limit_ms, struct err *err);

#endif
