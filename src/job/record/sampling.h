/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to take the next sample of a job: at first in short intervals, for short jobs, then at multiples of the period.
 * A late sample is not followed by those that were missed. Pure.
 */
#ifndef SCRY_JOB_RECORD_SAMPLING_H
#define SCRY_JOB_RECORD_SAMPLING_H

#include <stdint.h>

#include "base/system/clock.h"
#include "shm/waits.h"

/* After `now_ns`, of a job that began at `start_ns` (CLOCK_MONOTONIC), with --sample `period` seconds. */
static inline uint64_t sampling_next_ns(uint64_t start_ns, uint64_t now_ns, double period)
{
    uint64_t passed_ns = now_ns - start_ns, period_ns = (uint64_t)(period * NS_PER_SECOND);
    uint64_t next_ns = passed_ns < SAMPLING_FIRST_NS / 2 ? SAMPLING_FIRST_NS : passed_ns * 2;
    if (period_ns && next_ns > passed_ns + period_ns)
        next_ns = (passed_ns / period_ns + 1) * period_ns;
    return start_ns + next_ns;
}

#endif
