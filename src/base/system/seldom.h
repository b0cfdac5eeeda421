/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a descriptor with thousands of small events a second in batches. After each call nobody is woken for a while;
 * events wait in the kernel's buffer. For the loop's thread.
 */
#ifndef SCRY_BASE_SYSTEM_SELDOM_H
#define SCRY_BASE_SYSTEM_SELDOM_H

#include "base/system/loop.h"

struct seldom;

/* Calls fn when the descriptor is readable, at most every rest_ns. The descriptor is borrowed. NULL: out of memory, or
 * the kernel refused. */
struct seldom *seldom_new(struct loop *loop, int fd, uint64_t rest_ns, loop_timer_fn *fn, void *ctx);
void seldom_free(struct seldom *seldom); /* NULL is fine; not inside of fn */

#endif
