/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_CLOCK_H
#define SCRY_BASE_SYSTEM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Clocks in nanoseconds. Both are signal-safe. */

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

/* Waits until what poll(2) calls `events` is so at a descriptor, for whoever has no loop (loop.h). Returns what is so, also POLLHUP,
 * POLLERR and POLLNVAL; 0: the time is over, or a signal came. fd -1: only waits. timeout_ms -1: no limit. Signal-safe. */
int wait_fd(int fd, short events, int timeout_ms);
/* The same until a time of CLOCK_MONOTONIC, to a millisecond; not at all if that is over. */
int wait_fd_until(int fd, short events, uint64_t until_ns);

/*
 * How far another host's clock is from ours, from questions and answers with four times, as NTP does it (RFC 5905, 8 and
 * 10): of the last samples the one with the least round trip counts, half of it is the error bound, which grows with
 * age by what clocks drift (100 us in a second). Pure: times are the caller's.
 */

enum { CLOCK_SAMPLES = 16 };

struct clock_offset {
    struct {
        int64_t offset_ns; /* theirs minus ours */
        uint64_t round_ns; /* without the time that the other one took */
        uint64_t at_ns;    /* our clock when we asked */
    } samples[CLOCK_SAMPLES];
    unsigned count, next;
};

/* We asked at t0, it came there at t1, the answer left at t2, it came at t3. false: the times cannot be (the clock was set meanwhile);
 * when the clock was set, older samples are dropped. */
bool clock_offset_add(struct clock_offset *clock, uint64_t t0_ns, uint64_t t1_ns, uint64_t t2_ns, uint64_t t3_ns);
/* false: nothing is known yet, or all of it is of a time after `now_ns`. */
bool clock_offset_now(const struct clock_offset *clock, uint64_t now_ns, int64_t *ret_offset_ns,
                      uint64_t *ret_bound_ns);

/* By how much two clocks may move apart in a time. */
uint64_t clock_drift_ns(uint64_t time_ns);

#endif
