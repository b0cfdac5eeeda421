/* SPDX-License-Identifier: Apache-2.0 */
/* What a siginfo tells of a fault. */
#ifndef SCRY_BASE_SYSTEM_SIGINFO_H
#define SCRY_BASE_SYSTEM_SIGINFO_H

#include <signal.h>
#include <stdbool.h>

/* Is si_addr the address of an access that failed? Not if somebody sent the signal, and not of what the processor
 * refuses otherwise: that has no address. */
static inline bool siginfo_has_address(const siginfo_t *info)
{
    return (info->si_signo == SIGSEGV && (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR)) ||
           (info->si_signo == SIGBUS && info->si_code == BUS_ADRERR);
}

#endif
