/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks in nanoseconds. Both are signal-safe. */
#ifndef SCRY_BASE_SYSTEM_CLOCK_H
#define SCRY_BASE_SYSTEM_CLOCK_H

#include <stdint.h>
#include <time.h>

enum { NS_PER_SECOND = 1000000000 };

static inline uint64_t clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* The clock of every time stamp inside scry: CLOCK_MONOTONIC. */
static inline uint64_t clock_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Wall-clock time since 1970, for what people read. */
static inline uint64_t clock_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

#endif
