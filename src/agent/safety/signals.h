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
 * sigsuspend, ppoll ... act as they are; thread sanitizer: no handlers at all; address sanitizer: its handlers are
 * called as any program's own.
 *
 * A fault whose signal is blocked in the kernel kills, whatever handler there is. So a direct read has to know that
 * SIGSEGV and SIGBUS are open, and a system call for each event would cost more than all the rest of it. It is enough to
 * look once in each thread, as long as nothing can close them since:
 *
 *   - What blocks signals goes through these interposed functions, and they keep both open.
 *   - Where they cannot, they doubt, before it takes effect: the sa_mask of a handler; our way into the program's handler
 *     of one of our signals; a context or sigjmp_buf with such a mask; signalfd; a child of vfork; exec and posix_spawn
 *     with a signal that is believed blocked. A thread that is found with one blocked (it inherited that) is doubt, too.
 *   - From a doubt on, every thread of the process looks at each event, for good. Which is slower, and always right.
 *   - During a call that waits with a mask of its own (sigsuspend, ppoll ...) the thread looks at each event.
 *
 * What is not seen is a system call that the program makes by itself (Go does; its masks keep these two open) or a mask
 * that a handler writes into the context it returns to. So a thread looks anew at each 1024th event, and whenever a page
 * is read that nobody has read yet (read.c): what was never readable does no harm even then. What is left: blocked in
 * such a way, by a program that then passes a pointer into memory that it has given back.
 */
#ifndef SCRY_AGENT_SAFETY_SIGNALS_H
#define SCRY_AGENT_SAFETY_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/system/sys.h"

/* Installs the handlers, when the agent is connected (area mapped, agent_read_init and agent_crash_init called). */
void agent_signals_start(void);
/* Restores the dispositions, when the agent switches itself off. */
void agent_signals_stop(void);
/* In the child after fork, also in one that is not traced: from then on its children of vfork are told from it. */
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

/* SIGSEGV and SIGBUS. */
#define SIGNALS_READING (UINT64_C(1) << 10 | UINT64_C(1) << 6)

/* A mask that is going to act in the kernel, in one thread or another. */
void agent_signals_doubt(uint64_t mask);

/* 1: pointers lead to reads that take time, for direct ones are not possible, or not without a look at the mask. */
extern _Atomic uint32_t agent_signals_careful __attribute__((visibility("hidden")));

/* ---- the thread's stack for signals, as hooks_x86_64.S wants to know it ---- */

/* It may be another one now: asks the kernel. */
void agent_altstack_look(void);

/* ---- the next definition of a function that the agent defines, too ---- */

/* libc's, or that of another preloaded library. Programs call many of them in handlers of signals, where dlsym must not be
 * used: it takes a lock, and more of the stack than there may be. So they are looked up before the program runs; NEXT_LATE is
 * for those that are not in each libc, or never called there. */
struct next_entry {
    _Atomic(void *) *function;
    const char *name;
};

#define NEXT_LATE(name) static _Atomic(void *) next_##name
#define NEXT_EARLY(name) \
    NEXT_LATE(name); \
    static struct next_entry next_entry_##name __attribute__((section("next_entries"), used)) = {&next_##name, #name}
#define NEXT(name) ((__typeof__(&name))agent_next_of(&next_##name, #name))

void *agent_next_of(_Atomic(void *) *function, const char *name);
/* Once, when the library starts. */
void agent_next_find(void);

/* ---- for read.c ---- */

/* How many calls that wait with a mask of their own this thread is in, inside each other. */
extern _Thread_local uint32_t agent_signals_waiting __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Does a thread that was found with SIGSEGV and SIGBUS open have them open still? */
bool agent_signals_known(void);

/* Are our handlers for SIGSEGV and SIGBUS still the kernel's, as far as is known? */
bool agent_signals_repair(void);

/* ---- between signals.c and signals_interpose.c; masks are the kernel's 64 bits ---- */

/* In the unused end of the mask of a sigjmp_buf; see signals_x86_64.S. */
#define SIGNALS_TAG UINT64_C(0x7363727900000000)
enum { SIGNALS_TAG_AT = 192 };

/* What the program believes blocked in this thread but the kernel keeps open. */
extern _Thread_local uint64_t agent_signals_blocked __attribute__((tls_model("initial-exec")));

/* Do we keep the disposition of this signal? Then call the next function instead of the real one. */
bool signals_mine(int signal);
/* Either pointer may be NULL. 0 or -errno. */
int signals_action(int signal, const struct kernel_action *action, struct kernel_action *ret_old);

/* Do we keep the masks of threads now, at least in part? */
bool signals_masking(void);
/* As rt_sigprocmask; set and ret_old may be NULL. 0 or -errno. */
int signals_mask(int how, const uint64_t *set, uint64_t *ret_old);

/* Around calls that wait, with this mask or (0) their thread's: blocks really what is believed blocked. */
struct signals_wait {
    uint64_t believed;
    bool unknown; /* until the end */
};
struct signals_wait signals_wait_begin(uint64_t mask);
void signals_wait_end(struct signals_wait wait);

/* The program reads these itself: from now on blocked means blocked. */
void signals_step_aside(uint64_t set);

#endif
