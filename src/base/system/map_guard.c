/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/map_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static _Atomic uint64_t faults;

static void on_fault(int signo, siginfo_t *info, void *context)
{
    int code = errno;
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1)); /* of a raise() it is any number */
    if (info->si_code != BUS_ADRERR ||
        mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(signo, SIG_DFL); /* it comes again when we return */
    else
        atomic_fetch_add(&faults, 1);
    errno = code;
}

void map_guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

uint64_t map_guard_faults(void)
{
    return atomic_load(&faults);
}
