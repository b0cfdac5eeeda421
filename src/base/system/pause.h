/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a test can hold a process, so that it constructs a race instead of hoping for one. Only with
 * `meson setup -Dpauses=true`; else it compiles to nothing.
 *
 * If the file $SCRY_TEST_PAUSES/NAME exists, the first process that arrives creates NAME.here, with its number, and
 * waits until NAME is removed, at most 100 seconds. While NAME.here exists, others pass. Points are named
 * ROOM-OR-PROGRAM.WHERE, for instance "info.between-looks".
 */
#ifndef SCRY_BASE_SYSTEM_PAUSE_H
#define SCRY_BASE_SYSTEM_PAUSE_H

#ifdef SCRY_PAUSES
void pause_at(const char *name);
#else
static inline void pause_at(const char *name)
{
    (void)name;
}
#endif

#endif
