/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether anything of the job moves: processes that come, work or end, what they read and write, and how far its output
 * goes. (Of MPI programs, whose ranks may spin, --mpi-stall says more.) Pure.
 */
#ifndef SCRY_JOB_HEALTH_STALL_H
#define SCRY_JOB_HEALTH_STALL_H

#include "job/health/look.h"
#include "job/health/processes.h"

struct stall {
    uint64_t moved_ns; /* CLOCK_MONOTONIC; 0: not looked yet */
    bool said;
    const char *last; /* what moved last, for people */
    struct process_motion seen;
    int64_t output_bytes;
};

/* `output_bytes`: how far it has come in the files that it writes its output to. `after_seconds` 0: never warns. */
void stall_look(struct stall *stall, const struct look *look, const struct process_motion *motion, int64_t output_bytes,
                double after_seconds);

#endif
