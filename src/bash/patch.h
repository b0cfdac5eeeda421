/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leads all calls of a function of the program to another one of ours. The function's first instructions are moved to a
 * page near it, and a jump takes their place. Only those are moved that save registers and make room on the stack: they
 * mean the same anywhere, and no compiler jumps between them.
 *
 * To be called while the process has one thread, which is not in the function. Async-signal-safe.
 */
#ifndef SCRY_BASH_PATCH_H
#define SCRY_BASH_PATCH_H

#include <stddef.h>

/* How many bytes of the code would be moved, of the first `size`; 0: it cannot be done. *ret_skip: before them stands a
 * mark for indirect jumps, which stays. */
size_t patch_measure(const unsigned char *code, size_t size, size_t *ret_skip);
/* NULL, and *ret_original is what does what the function did; or the reason why nothing was changed. */
const char *patch_function(void *function, size_t size, void *ours, void **ret_original);

#endif
