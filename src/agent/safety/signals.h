/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGTRAP beside the program's own. They repair bad reads
 * (agent/safety/read.h), clean up after a killed tracer, and note crashes (agent/safety/crash.h). Everything else goes
 * to its receiver as the kernel would have delivered it: same stack, mask, arguments, context.
 *
 * While handlers are installed, sigaction and similar functions are interposed (signals_interpose.c): the program sees
 * and sets its own dispositions. The masks of threads, too: the four signals that faults cause stay open in the kernel
 * when the program blocks them, and are kept in a word of the thread (the program's mask is the kernel's and that
 * word). What the program ignores is really ignored, then without us: so it stays across exec. In programs that are not
 * traced everything passes through.
 *
 * Handlers that siglongjmp away get back what was believed blocked when the mask was saved (it is kept in the unused
 * end of the sigjmp_buf); setcontext and swapcontext restore the kernel's mask only.
 *
 * Exceptions: signals read by signalfd stay blocked as they are; handlers' sa_mask and the masks of
 * sigsuspend, ppoll ... act as they are (a direct read looks at the kernel's mask first, so it is safe wherever signals
 * are blocked behind our back); thread sanitizer: no handlers at all; address sanitizer: its handlers are called as
 * any program's own.
 */
#ifndef SCRY_AGENT_SAFETY_SIGNALS_H
#define SCRY_AGENT_SAFETY_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the handlers, when the agent is connected (area mapped, agent_read_init and agent_crash_init called). */
void agent_signals_start(void);
/* Restores the dispositions, when the agent switches itself off. */
void agent_signals_stop(void);
/* In the child after fork. */
void agent_signals_forked(void);
/* Checks whether the kernel still has our handlers (a runtime may set its own by system call). After dlopen. */
void agent_signals_check(void);

/* The part of the mask that a new thread inherits: the creator gets it in pthread_create, the new thread sets it. */
unsigned agent_signals_inherit(void);
void agent_signals_thread(unsigned inherited);

/* Before exec: blocks really what the program believes blocked, for the next program inherits it. After a failed exec,
 * undoes it with the first one's result. */
unsigned agent_signals_exec(void);
void agent_signals_exec_failed(unsigned before);

/* ---- for read.c ---- */

/* Are our handlers for SIGSEGV and SIGBUS still the kernel's, as far as is known? */
bool agent_signals_repair(void);

#endif
