/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs may truncate files that they share with this process by mmap. With this guard, memory after the end of such
 * a file reads as zeros, and writes are lost; without it, SIGBUS would end this process. Check such memory anyway.
 */
#ifndef SCRY_BASE_SYSTEM_MAP_GUARD_H
#define SCRY_BASE_SYSTEM_MAP_GUARD_H

#include <stdint.h>

/* For the whole process, from now on. */
void map_guard_install(void);
/* The number of pages that were missing so far. */
uint64_t map_guard_faults(void);

#endif
