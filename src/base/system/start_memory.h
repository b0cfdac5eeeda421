/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that run for long and are to be small: what only their start has needed. */
#ifndef SCRY_BASE_SYSTEM_START_MEMORY_H
#define SCRY_BASE_SYSTEM_START_MEMORY_H

/* Gives back free memory of the heap, the stack below this call, and the pages of the system's libraries, of which those
 * come again that are used again: relocating and loading has touched most of them. Once, when all is loaded, before the
 * program has threads. */
void start_memory_drop(void);

#endif
