/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that restrict their own system calls. The agent's are not among those that they allow, and one that is not
 * may kill them (see seccomp(2); strict mode even takes the time stamp counter away). So before the restriction comes,
 * the agent is switched off, in this process and in those that it will fork.
 */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/hooks/agent.h"
#include "agent/hooks/modules.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SET_MODE_STRICT, SET_MODE_FILTER }; /* <linux/seccomp.h> */

static const char sealed[] = "the program restricted its system calls (seccomp)";

typedef int prctl_fn(int, unsigned long, unsigned long, unsigned long, unsigned long);
typedef long syscall_fn(long, ...);

EXPORTED int prctl(int option, ...)
{
    static _Atomic(prctl_fn *) known;
    prctl_fn *next = atomic_load_explicit(&known, memory_order_relaxed);
    if (!next) {
        next = (prctl_fn *)agent_next("prctl");
        atomic_store_explicit(&known, next, memory_order_relaxed);
    }
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long);
    unsigned long c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_SECCOMP)
        agent_seal(sealed);
    return next(option, a, b, c, d);
}

/* libseccomp has no other way to the system call than this one. */
void *modules_syscall(long number, long operation)
{
    static _Atomic(syscall_fn *) known;
    syscall_fn *next = atomic_load_explicit(&known, memory_order_relaxed);
    if (!next) {
        next = (syscall_fn *)agent_next("syscall");
        atomic_store_explicit(&known, next, memory_order_relaxed);
    }
    if (number == SYS_seccomp && (operation == SET_MODE_STRICT || operation == SET_MODE_FILTER))
        agent_seal(sealed);
    return (void *)next;
}
