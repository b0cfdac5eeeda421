/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a test can hold a process, do its thing, and let it go: so a race is constructed, not hit by
 * luck. Only with `meson setup -Dpauses=true`; else it compiles to nothing.
 *
 * If there is a file $SCRY_TEST_PAUSES/NAME, the first process that comes creates NAME.here beside it, with its number,
 * and waits until NAME is removed, at most half a minute; while NAME.here is there, others pass. Points are named
 * ROOM-OR-PROGRAM.WHERE, "info.between-looks".
 */
#ifndef SCRY_BASE_PAUSE_H
#define SCRY_BASE_PAUSE_H

#ifdef SCRY_PAUSES
void pause_at(const char *name);
#else
static inline void pause_at(const char *name)
{
    (void)name;
}
#endif

#endif
