/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"

#include <limits.h>
#include <poll.h>

int wait_fd(int fd, short events, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, timeout_ms) > 0 ? wait.revents : 0;
}

int wait_fd_until(int fd, short events, uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns(), left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 + 1 : 0;
    return wait_fd(fd, events, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}

/* Two clocks that nobody corrects: each is off by 50 us in a second at most. */
enum { DRIFT_PER_MILLION = 100 };

uint64_t clock_drift_ns(uint64_t time_ns)
{
    return time_ns / 1000000 * DRIFT_PER_MILLION + time_ns % 1000000 * DRIFT_PER_MILLION / 1000000;
}

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* By how much a sample may be wrong at a time of our clock that is not before it. Rounded up. */
static uint64_t bound_ns(const struct clock_offset *clock, unsigned i, uint64_t now_ns)
{
    return clock->samples[i].round_ns / 2 + clock_drift_ns(now_ns - clock->samples[i].at_ns) + 1;
}

/* Whether all samples can be of clocks that only drift. */
static bool agrees(const struct clock_offset *clock, int64_t offset_ns, uint64_t round_ns, uint64_t now_ns)
{
    for (unsigned i = 0; i < clock->count; i++)
        if (clock->samples[i].at_ns > now_ns ||
            distance(clock->samples[i].offset_ns, offset_ns) > bound_ns(clock, i, now_ns) + round_ns / 2 + 1)
            return false;
    return true;
}

bool clock_offset_add(struct clock_offset *clock, uint64_t t0_ns, uint64_t t1_ns, uint64_t t2_ns, uint64_t t3_ns)
{
    uint64_t here_ns = t3_ns - t0_ns, there_ns = t2_ns - t1_ns;
    if (t3_ns < t0_ns || t2_ns < t1_ns || (there_ns > here_ns && there_ns - here_ns > clock_drift_ns(here_ns))) {
        *clock = (struct clock_offset){0};
        return false;
    }
    uint64_t round_ns = there_ns < here_ns ? here_ns - there_ns : 0;
    int64_t offset_ns = (int64_t)(t1_ns - t0_ns - round_ns / 2); /* foreign numbers: it may wrap */
    if (!agrees(clock, offset_ns, round_ns, t3_ns))
        *clock = (struct clock_offset){0};
    clock->samples[clock->next].offset_ns = offset_ns;
    clock->samples[clock->next].round_ns = round_ns;
    clock->samples[clock->next].at_ns = t0_ns;
    clock->next = (clock->next + 1) % CLOCK_SAMPLES;
    clock->count += clock->count < CLOCK_SAMPLES;
    return true;
}

bool clock_offset_now(const struct clock_offset *clock, uint64_t now_ns, int64_t *ret_offset_ns, uint64_t *ret_bound_ns)
{
    bool found = false;
    for (unsigned i = 0; i < clock->count; i++) {
        if (clock->samples[i].at_ns > now_ns) /* our clock was set back */
            continue;
        uint64_t bound = bound_ns(clock, i, now_ns);
        if (found && bound >= *ret_bound_ns)
            continue;
        *ret_offset_ns = clock->samples[i].offset_ns;
        *ret_bound_ns = bound;
        found = true;
    }
    return found;
}
