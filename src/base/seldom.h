/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor at which news come one by one, thousands a second: they are read together. After each call nobody is
 * woken for a while; what comes meanwhile waits in the kernel's buffer. Of the loop's thread.
 */
#ifndef SCRY_BASE_SELDOM_H
#define SCRY_BASE_SELDOM_H

#include "base/loop.h"

struct seldom;

/* Calls fn when there is something to be read, no more often than every rest_ns. The descriptor is borrowed. NULL: out
 * of memory, or the kernel refused. */
struct seldom *seldom_new(struct loop *loop, int fd, uint64_t rest_ns, loop_timer_fn *fn, void *ctx);
void seldom_free(struct seldom *seldom); /* NULL is fine; not inside of fn */

#endif
