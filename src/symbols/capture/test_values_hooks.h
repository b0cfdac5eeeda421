/* SPDX-License-Identifier: Apache-2.0 */
/* Between test_values_hooks.c and test_values_traps.c. */
#ifndef SCRY_SYMBOLS_CAPTURE_TEST_VALUES_HOOKS_H
#define SCRY_SYMBOLS_CAPTURE_TEST_VALUES_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/capture.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* A function is called or returns: runs what was compiled for frame->gpr[16] and writes down what it captured. */
HIDDEN void values_hook(void *function, void *callsite, const struct capture_frame *frame, int exit);
/* All functions of the program, by their addresses in the process. */
HIDDEN void values_each(void (*function)(uint64_t address));

#endif
