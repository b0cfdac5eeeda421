/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a job stand still? For some seconds no rank has begun or ended an MPI call, and at least one is in a call. Each
 * stall is reported once. Pure: mpi/stall.c takes the samples and reads the clock.
 */
#ifndef SCRY_SERVICE_MPI_STALL_H
#define SCRY_SERVICE_MPI_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct mpi_stall_look {
    uint64_t mark; /* changes with each call that a rank begins or ends */
    unsigned ranks, in_call;
};

struct mpi_stall {
    uint64_t limit_ns;
    uint64_t mark, since_ns; /* since when nothing has changed, CLOCK_MONOTONIC; at first 0 */
    bool said;               /* this stall was reported */
};

/* true: it has stood still for limit_ns, and that was not reported yet. */
static inline bool mpi_stall_begins(struct mpi_stall *stall, const struct mpi_stall_look *look, uint64_t now_ns)
{
    if (look->mark != stall->mark || !look->in_call || !stall->since_ns) {
        stall->mark = look->mark;
        stall->since_ns = now_ns;
        stall->said = false;
    }
    if (stall->said || now_ns - stall->since_ns < stall->limit_ns)
        return false;
    stall->said = true;
    return true;
}

#endif
