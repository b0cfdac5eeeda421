/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that restrict their own system calls. The agent's are not among those that they allow, and one that is not
 * may kill them (see seccomp(2); strict mode even takes the time stamp counter away). So before the restriction comes,
 * the agent is switched off, in this process and in those that it will fork.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/hooks/agent.h"
#include "agent/hooks/connect.h"
#include "agent/safety/signals.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SET_MODE_STRICT, SET_MODE_FILTER }; /* <linux/seccomp.h> */

static const char sealed[] = "the program restricted its system calls (seccomp)";

NEXT_EARLY(prctl);
EXPORTED int prctl(int option, ...)
{
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long);
    unsigned long c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_SECCOMP)
        agent_seal(sealed);
    return NEXT(prctl)(option, a, b, c, d);
}

/* libseccomp has no other way to the system call than this one. */
NEXT_EARLY(syscall);
void *modules_syscall(long number, long first, long second)
{
    if (number == SYS_seccomp && (first == SET_MODE_STRICT || first == SET_MODE_FILTER))
        agent_seal(sealed);
    if (number != SYS_sigaltstack)
        return (void *)NEXT(syscall);
    long result = NEXT(syscall)(number, first, second);
    int kept = errno;
    agent_altstack_look();
    errno = kept;
    return modules_answer((uint64_t)result);
}
