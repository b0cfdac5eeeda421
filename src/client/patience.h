/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a monitor that says nothing can still be expected to. One that is stopped (SIGSTOP, a debugger) will not
 * answer until somebody continues it; one that sleeps has nothing to do and should have answered; one that works, wants
 * a processor on a busy machine, or waits for the disk is waited for. By /proc/PID/stat, see proc(5).
 */
#ifndef SCRY_CLIENT_PATIENCE_H
#define SCRY_CLIENT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct patience {
    pid_t pid; /* 0: unknown (another machine or name space): only the time counts */
    uint64_t since_ns, cpu_ns;
};

/* For the monitor at the other end of a connected local socket: it was asked something now. */
void patience_begin(struct patience *ret_patience, int fd);
/* Again, of the same. */
void patience_again(struct patience *patience, uint64_t since_ns);
/* true, with err (-ETIMEDOUT) that says what is wrong and what to do: it is no use to wait on. By the row
 * WAIT_ANSWER, whose limit is `limit_ms`. */
bool patience_over(const struct patience *patience, unsigned limit_ms, struct err *err);

#endif
