/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a test can hold a process, so that it constructs a race instead of hoping for one. Only with
 * `meson setup -Dpauses=true`; else it compiles to nothing.
 *
 * If the file $SCRY_TEST_PAUSES/NAME exists, the first process that arrives creates NAME.here, with its number, and
 * waits until NAME is removed, at most 100 seconds. While NAME.here exists, others pass. Points are named
 * ROOM-OR-PROGRAM.WHERE, for instance "info.between-looks".
 *
 * And how tests wait for a limit of time of the product without waiting so long: time_hasten().
 */
#ifndef SCRY_BASE_SYSTEM_PAUSE_H
#define SCRY_BASE_SYSTEM_PAUSE_H

#include <stdint.h>

#ifdef SCRY_PAUSES
void pause_at(const char *name);
/*
 * A time of any unit, divided by $SCRY_TEST_HASTE (2 to 100), at least 1 unless it is 0. Wrap the limits that a test waits for, where
 * they are used: time_hasten(WAITS_LEASE_MS). Without the variable, and in any build for users, it is the time itself.
 */
uint64_t time_hasten(uint64_t time);
#else
static inline void pause_at(const char *name)
{
    (void)name;
}

static inline uint64_t time_hasten(uint64_t time)
{
    return time;
}
#endif

#endif
