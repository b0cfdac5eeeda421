/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that were compiled without hooks. A jump at their beginning leads to a stub (symbols/helper/patches.c), which calls
 * agent_patched_entry. That says to the hooks what a compiled hook would say, with the function's own address as the hook's, and
 * replaces the return address by a trampoline, so that the end of the call is seen, too: as a hook at the function's address and 1.
 *
 * The true return address is in a record of the trampoline, and unwinders are told so (patched_x86_64.S). So exceptions,
 * debuggers and backtraces find the true callers. A function that looks at its own return address finds the trampoline's; those
 * known for it are not patched (monitor/recorder/agent_patch.c).
 *
 * What was jumped to from the end of a patched function (a tail call) finds the trampoline there. It is a call inside that
 * one, as with compiled hooks, and both end at once.
 *
 * A trampoline is nobody's again when the function has returned to it. Where it never does (longjmp, exceptions, a stack that
 * is dropped), its record is lost at first. Only when there are no others, those of the thread's own stack are taken back where
 * something else than the trampoline is in the place of the return address; and that never in a program that was seen to return
 * from a call over which others had come to lie: it copies stacks to and fro, as greenlets do. Without a record a call's end is not seen, and that is counted.
 */
#ifndef SCRY_AGENT_HOOKS_PATCHED_H
#define SCRY_AGENT_HOOKS_PATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "agent/hooks/agent.h"

/* Applies what the monitor has laid ready (struct area_patches), while there is one thread. area.patching says how it went. */
void patched_apply(const struct area_view *view);

/* The true return address where `address` is a trampoline; where it is in a stub, that of the instruction that was moved there; else
 * itself. Signal-safe. */
uint64_t patched_where(uint64_t address);

/* A function that must find the true return address, at `place`, begins: what was jumped from to it has ended. */
void patched_uncover(uint64_t *place);

/* Where a hook of a patched function, of these registers, goes on without us: *ret_sp the stack pointer there. */
uint64_t patched_resume(const struct capture_frame *registers, uint64_t *ret_sp);

/* A fault in the short way of a hook (patched_x86_64.S): changes the context so that it is left. false: it is not there. */
bool patched_fault(greg_t *gregs);

/* The thread ends: its records are free. */
void patched_thread_end(struct agent_thread *self);

#endif
