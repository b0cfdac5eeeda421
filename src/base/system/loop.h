/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_LOOP_H
#define SCRY_BASE_SYSTEM_LOOP_H

#include <stdint.h>

/*
 * The event loop of the daemons: epoll over descriptors, timers and signals. One thread. A callback may remove any
 * source, also its own. All timers share one timerfd, which is armed only when needed: a loop without timers never
 * wakes up by itself.
 */

struct loop;
struct loop_source;

typedef void loop_fd_fn(void *ctx, int fd, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP ... */
typedef void loop_timer_fn(void *ctx);

int loop_new(struct loop **ret_loop); /* 0 or -errno */
void loop_free(struct loop *loop);    /* frees the remaining sources; closes no descriptor of the user's */

int loop_run(struct loop *loop); /* until loop_stop, which may have been called before; 0 or -errno */
void loop_stop(struct loop *loop);

/* Waits at most timeout_ns (-1: no limit, 0: not at all) and handles what is ready. 0 or -errno. */
int loop_step(struct loop *loop, int64_t timeout_ns);

/* The descriptor is borrowed and must be open until the source is removed. NULL when out of memory or the kernel
 * refused. */
struct loop_source *loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fd_fn *fn, void *ctx);
int loop_set_events(struct loop_source *source, uint32_t events);

/* Calls fn once after delay_ns; with period_ns > 0, again every period_ns after that. */
struct loop_source *loop_add_timer(struct loop *loop, uint64_t delay_ns, uint64_t period_ns, loop_timer_fn *fn,
                                   void *ctx);
void loop_set_timer(struct loop_source *source, uint64_t delay_ns, uint64_t period_ns);

/* Calls fn once, before the loop next waits, in the order in which they were added. The source removes itself. */
struct loop_source *loop_add_deferred(struct loop *loop, loop_timer_fn *fn, void *ctx);

/* Blocks the signal in this thread and calls fn (with fd -1 and the signal's number as events) when it arrives. */
struct loop_source *loop_add_signal(struct loop *loop, int signo, loop_fd_fn *fn, void *ctx);

void loop_remove(struct loop_source *source); /* NULL is fine */

/*
 * Reads a descriptor with thousands of small events a second in batches. After each call nobody is woken for a while;
 * events wait in the kernel's buffer. For the loop's thread.
 */

struct throttle;

/* Calls fn when the descriptor is readable, at most every rest_ns. The descriptor is borrowed. NULL: out of memory, or
 * the kernel refused. */
struct throttle *throttle_new(struct loop *loop, int fd, uint64_t rest_ns, loop_timer_fn *fn, void *ctx);
void throttle_free(struct throttle *throttle); /* NULL is fine; not inside of fn */

#endif
