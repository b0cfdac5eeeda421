/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into every process of a job, and most are never traced. A build pays for each page that such a
 * process touches some hundred times; so memory that only traced processes need lies after everything else. And what is
 * very large is only mapped when it is needed: the library's data counts against a limit of the program's (ulimit -d).
 */
#ifndef SCRY_AGENT_SYSTEM_LARGE_H
#define SCRY_AGENT_SYSTEM_LARGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "agent/system/sys.h"

/* The linker puts .bss.* behind .bss. */
#define AGENT_LARGE __attribute__((section(".bss.large")))

/* The memory, of zeroes, that *place is for; it is mapped at the first call. NULL: there is none. Signal-safe. */
static inline void *large_get(void *_Atomic *place, uint64_t size)
{
    void *at = atomic_load_explicit(place, memory_order_acquire);
    if (at)
        return at;
    long made =
        sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made < 0 && made > -4096)
        return NULL;
    if (atomic_compare_exchange_strong(place, &at, (void *)made))
        return (void *)made;
    sys_call2(SYS_munmap, made, (long)size);
    return at;
}

#endif
