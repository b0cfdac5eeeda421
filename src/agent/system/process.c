/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>

#include "agent/system/sigset.h"
#include "agent/system/process.h"

long process_spawn(unsigned long flags, void *stack_high, int (*fn)(void *arg), void *arg, _Atomic uint32_t *clear_tid)
{
    uint64_t all = UINT64_MAX, before = 0;
    sigset_mask(SIG_SETMASK, &all, &before);
    long child = process_clone(flags, stack_high, (void *)clear_tid, fn, arg);
    sigset_mask(SIG_SETMASK, &before, NULL);
    return child;
}
