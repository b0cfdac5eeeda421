/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a waiting thread sees of the world: the clock, and other processes. shm/waits.h decides on it. The agent gets it
 * from the kernel (world.c); unit tests link a world of their own, in which no time passes.
 *
 * Only system calls: async-signal-safe, no allocation, errno as it was.
 */
#ifndef SCRY_AGENT_SYSTEM_WORLD_H
#define SCRY_AGENT_SYSTEM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
uint64_t agent_now_ns(void);
static inline uint64_t agent_now_ms(void)
{
    return agent_now_ns() / 1000000;
}

/* poll(2) of one descriptor; fd -1: only the time passes. More than 0: ret_events is what came; 0: nothing did; or
 * -errno. */
int agent_poll(int fd, short events, uint64_t most_ns, short *ret_events);

/* FUTEX_WAIT: until somebody wakes the waiters of this word, the time has passed, or the word has another value. */
void agent_sleep_on(const _Atomic uint32_t *word, uint32_t value, uint64_t most_ns);

/* The kernel's letter in /proc/PID/stat; 0: not known. Takes the lowest free descriptor for a moment; a caller that
 * connects takes one anyway. Others use outside_read. */
char agent_state_of(int32_t pid);

/* Is there such a process, perhaps as a zombie? */
bool agent_is_there(int32_t pid);

#endif
