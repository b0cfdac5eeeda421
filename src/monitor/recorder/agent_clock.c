/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the time stamp counter runs, from two looks at it and at CLOCK_MONOTONIC_RAW: one when the monitor starts,
 * one when it is needed, at least 20 ms later; the longer between them the better. And what one record costs.
 */
#include <time.h>
#include <x86intrin.h>

#include "base/system/clock.h"
#include "monitor/recorder/agents_internal.h"
#include "shm/waits.h"

enum { TRIES = 16, COST_ROUNDS = 2000 };

uint64_t agent_clock_ticks(void)
{
    return __rdtsc();
}

/* The pair that was read with the least delay between. */
void agent_clock_sample(clockid_t clock, uint64_t *ret_ticks, uint64_t *ret_ns)
{
    uint64_t least = UINT64_MAX;
    *ret_ticks = *ret_ns = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = __rdtsc(), ns = clock_ns(clock), after = __rdtsc();
        if (after - before < least) {
            least = after - before;
            *ret_ticks = before + (after - before) / 2;
            *ret_ns = ns;
        }
    }
}

void agent_clock_start(struct agents *agents)
{
    agent_clock_sample(CLOCK_MONOTONIC_RAW, &agents->first_ticks, &agents->first_ns);
}

/* What an entry or an exit costs at least: the counter read and two words stored. */
static uint64_t measure_event(void)
{
    uint64_t record[2], start = __rdtsc();
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        record[0] = __rdtsc();
        record[1] = i;
        __asm__ volatile("" : : "r"(record) : "memory");
    }
    return (__rdtsc() - start) / COST_ROUNDS + 1;
}

void agent_clock_calibrate(struct agents *agents)
{
    uint64_t ticks, ns;
    agent_clock_sample(CLOCK_MONOTONIC_RAW, &ticks, &ns);
    if (ns - agents->first_ns < AGENT_CLOCK_LEAST_NS) {
        struct timespec rest = {.tv_nsec = (long)(AGENT_CLOCK_LEAST_NS - (ns - agents->first_ns))};
        nanosleep(&rest, NULL); /* once in the life of a monitor, when an agent comes within 20 ms of its start */
        agent_clock_sample(CLOCK_MONOTONIC_RAW, &ticks, &ns);
    }
    if (ns <= agents->first_ns || ticks <= agents->first_ticks)
        return;
    agents->ticks_per_second =
        (uint64_t)((unsigned __int128)(ticks - agents->first_ticks) * NS_PER_SECOND / (ns - agents->first_ns));
    if (!agents->event_ticks)
        agents->event_ticks = measure_event();
}

uint64_t agent_clock_zero_ns(const struct agents *agents)
{
    uint64_t ticks, ns;
    agent_clock_sample(CLOCK_REALTIME, &ticks, &ns);
    return ns - (uint64_t)((unsigned __int128)ticks * NS_PER_SECOND / agents->ticks_per_second);
}
