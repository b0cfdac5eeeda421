/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of fork that come in quick succession. To trace a process takes longer than many a process lives. So where nobody
 * said what to record (area.young_ticks), a child waits if its process forks faster than it is worth: until it is that old its
 * hooks only note which calls are open. Then it asks the monitor, as others do at their first call, and these calls are recorded
 * with the times of their entries. One that ends sooner asks the monitor for nothing. How many waited, and called anything,
 * is counted in the area of the process that forked them.
 *
 * Only system calls; all but young_judge may be called in signal handlers.
 */
#ifndef SCRY_AGENT_HOOKS_YOUNG_H
#define SCRY_AGENT_HOOKS_YOUNG_H

#include "agent/hooks/agent.h"

/* Before a fork, in the thread that forks: whether the child waits. area NULL: this is a child itself, without one yet.
 * exempt: it does not. */
void young_judge(struct area *area, bool exempt);
/* In the child. */
void young_begin(void);
/* In a process without an area: it waits, and no hook is to do anything else; the call is noted, if there is room. */
bool young_entered(uint64_t function, uint64_t callsite, const struct capture_frame *registers);
bool young_left(uint64_t function, uint64_t callsite, const struct capture_frame *registers);
bool young_waits(void); /* or would by now no longer */
void young_jumped(uint64_t sp); /* longjmp to there */
/* It waits no longer, is about to connect, and then has what was noted recorded. */
void young_end(void);
void young_tell(void);
/* It crashes: whether it waits, or did. Nothing that was noted is recorded. */
bool young_crashes(void);
/* No hook is to make a system call, or to read the time, any more. */
void young_seal(void);

#endif
