/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are mapped and shared with programs may be cut by these. What is touched behind their end then reads as
 * zeros, and what is written there is lost, instead of SIGBUS ending this process. Whoever reads such memory checks it
 * anyway.
 */
#ifndef SCRY_BASE_MAP_GUARD_H
#define SCRY_BASE_MAP_GUARD_H

#include <stdint.h>

/* For the whole process, from now on. */
void map_guard_install(void);
/* How many pages were missing so far. */
uint64_t map_guard_faults(void);

#endif
