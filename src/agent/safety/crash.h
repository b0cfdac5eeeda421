/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes fatal signals in the area before they are passed on: which, where, the registers, the stack. Has them recorded,
 * so that the last calls before the crash reach the disk. Async-signal-safe, no allocation. Reads memory by
 * process_vm_readv, because in a crash nothing can be trusted.
 */
#ifndef SCRY_AGENT_SAFETY_CRASH_H
#define SCRY_AGENT_SAFETY_CRASH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shm/area.h"

/* What the crash handler needs from the recording side; each may be NULL. Called in a signal handler, at any point of
 * the program or of a hook: must not wait. */
struct agent_crash_ops {
    struct area_thread *(*thread)(void); /* block of this thread; NULL: has none */
    /* Writes RECORD_SIGNAL and hands in the packet of this thread. */
    void (*record)(int32_t signal, int32_t code, uint64_t address, uint64_t pc);
    /* A fault inside the agent itself (pc in this library, not in a read): leaves a mark, switches the agent off and
     * changes the context so that the program goes on. false: cannot. */
    bool (*fault)(ucontext_t *context, int32_t signal, uint64_t address);
    uint64_t (*where)(uint64_t address); /* what an address of code that we have made stands for; else itself */
};

/* After agent_read_init. */
void agent_crash_init(const struct area_view *view, struct doorbell *bell, const struct agent_crash_ops *ops);

/* Notes the signal, once for the process. */
void agent_crash_note(int signal, const siginfo_t *info, const ucontext_t *context);

/* ---- for signals.c ---- */

bool agent_crash_own_fault(ucontext_t *context, int signal, const siginfo_t *info); /* ops.fault, if pc is ours */

#endif
