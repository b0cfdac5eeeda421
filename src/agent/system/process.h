/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the agent's own in the program's memory: no threads of the program, no signal handlers in common. */
#ifndef SCRY_AGENT_SYSTEM_PROCESS_H
#define SCRY_AGENT_SYSTEM_PROCESS_H

#include <stdint.h>

/* clone(flags) on the given stack (its high end, 16-byte aligned). Runs fn(arg) there and exits with its result. No
 * exit signal. Thread-local storage is the creator's: fn must not use it. All signals are blocked around the clone and
 * in the child, so no handler of the program runs there. `clear_tid` (with CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID
 * in flags) is set to its id, and to 0 when it dies. Returns the process id or -errno. */
long process_spawn(unsigned long flags, void *stack_high, int (*fn)(void *arg), void *arg, _Atomic uint32_t *clear_tid);

/* process_x86_64.S */
long process_clone(unsigned long flags, void *stack_high, void *tid, int (*fn)(void *arg), void *arg);

#endif
