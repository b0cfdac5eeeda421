/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_OWN_MEMORY_H
#define SCRY_BASE_SYSTEM_OWN_MEMORY_H

#include <stdint.h>

/*
 * Runs our programs on a stack that is large enough even if the user's limit is small (ulimit -s). The limit is for the
 * job, and stays for the programs that are started.
 */

/* Returns fn's result. Threads get stacks of that size, too. */
int stack_run(int (*fn)(int argc, char **argv), int argc, char **argv);

/* For programs that run for long and are to be small: what only their start has needed. */

/* Gives back free memory of the heap, the stack below this call, and the pages of the system's libraries, of which those
 * come again that are used again: relocating and loading has touched most of them. Once, when all is loaded, before the
 * program has threads. */
void start_memory_drop(void);

/*
 * Programs may truncate files that they share with this process by mmap. With this guard, memory after the end of such
 * a file reads as zeros, and writes are lost; without it, SIGBUS would end this process. Check such memory anyway.
 */

/* For the whole process, from now on. */
void map_guard_install(void);
/* The number of pages that were missing so far. */
uint64_t map_guard_faults(void);

/*
 * Whether this is compiled with AddressSanitizer, for what cannot be as usual then: it maps terabytes for itself, and its
 * code is larger. Gcc defines a macro, clang 14 only has a feature.
 */

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
