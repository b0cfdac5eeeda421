/* SPDX-License-Identifier: Apache-2.0 */
/* Signal dispositions and masks as the kernel has them (x86-64). */
#ifndef SCRY_AGENT_SYSTEM_SIGSET_H
#define SCRY_AGENT_SYSTEM_SIGSET_H

#include <asm/unistd.h>
#include <signal.h>
#include <stdint.h>

#include "agent/system/sys.h"

#define SIGSET_BIT(signal) (UINT64_C(1) << ((signal)-1))
#define SIGSET_RESTORER UINT64_C(0x04000000) /* SA_RESTORER */

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

/* signals_x86_64.S: what handlers return to; the bytes debuggers and unwinders know */
void sigset_restorer(void);

static inline long sigset_action(int signal, const struct kernel_action *action, struct kernel_action *ret_old)
{
    return sys_call4(__NR_rt_sigaction, signal, (long)action, (long)ret_old, 8);
}

static inline long sigset_mask(int how, const uint64_t *set, uint64_t *ret_old)
{
    return sys_call4(__NR_rt_sigprocmask, how, (long)set, (long)ret_old, 8);
}

#endif
