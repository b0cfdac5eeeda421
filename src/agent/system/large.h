/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into every process of a job, and most are never traced. A build pays for each page that such a
 * process touches some hundred times; so memory that only traced processes need lies after everything else. And what is
 * very large is only mapped when it is needed: the library's data counts against a limit of the program's (ulimit -d).
 */
#ifndef SCRY_AGENT_SYSTEM_LARGE_H
#define SCRY_AGENT_SYSTEM_LARGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "agent/system/sys.h"

/* The linker puts .bss.* behind .bss. */
#define AGENT_LARGE __attribute__((section(".bss.large")))

/* What there may be of memory where the program's is limited: 1/PART of it for what grows with threads and for what makes
 * calls cheaper; for a table that nothing can be recorded without, 1/CORE_PART. */
enum { LARGE_PART = 16, LARGE_CORE_PART = 4 };

/* Whether `size` is at most 1/part of the data that the program may have (RLIMIT_DATA). Signal-safe. */
static inline bool large_allowed(uint64_t size, uint64_t part)
{
    struct {
        uint64_t now, most;
    } limit = {UINT64_MAX, UINT64_MAX};
    sys_call4(SYS_prlimit64, 0, 2 /* RLIMIT_DATA */, 0, (long)&limit);
    return size <= limit.now / part;
}

/* The memory, of zeroes, that *place is for; it is mapped at the first call, if that is 1/part of a limit of data at most.
 * NULL: there is none. Signal-safe. */
static inline void *large_get(void *_Atomic *place, uint64_t size, uint64_t part)
{
    void *at = atomic_load_explicit(place, memory_order_acquire);
    if (at)
        return at;
    if (!large_allowed(size, part))
        return NULL;
    long made =
        sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made < 0 && made > -4096)
        return NULL;
    sys_call4(SYS_madvise, made, (long)size, MADV_NOHUGEPAGE, 0);
    if (atomic_compare_exchange_strong(place, &at, (void *)made))
        return (void *)made;
    sys_call2(SYS_munmap, made, (long)size);
    return at;
}

#endif
