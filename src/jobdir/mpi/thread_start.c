/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc keeps what a thread began with in its descriptor, which lies above all of its stack, and tells debuggers where
 * in it (nptl_db). It is found by what it holds: twice its own address, and the thread's number.
 */
#include "jobdir/mpi/thread_start.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/system/proc_file.h"
#include "base/system/pthread_fields.h"
#include "jobdir/text/text.h"

enum {
    PAGE = 4096,
    STACK_MOST = 16 << 20,
    SELF_WORD = 2, /* header.self; header.tcb is the first */
    WORD = sizeof(uint64_t),
};

/* Up to the end of what can be read, at most two pages. */
static size_t read_some(pid_t pid, uint64_t address, void *room, size_t size)
{
    size_t to_page = PAGE - address % PAGE, first = size < to_page ? size : to_page;
    struct iovec here = {room, size};
    struct iovec there[] = {{(void *)(uintptr_t)address, first},                   /* NOLINT: an address over there */
                            {(void *)(uintptr_t)(address + first), size - first}}; /* NOLINT */
    ssize_t got = process_vm_readv(pid, &here, 1, there, size > first ? 2 : 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static bool is_descriptor(pid_t pid, pid_t tid, uint64_t address, uint32_t tid_offset)
{
    int32_t number = 0;
    return read_some(pid, address + tid_offset, &number, sizeof number) == sizeof number && number == tid;
}

/* 0: there is none above. */
static uint64_t descriptor_above(pid_t pid, pid_t tid, uint64_t sp, uint32_t tid_offset)
{
    uint64_t words[PAGE / WORD];
    const uint64_t end = sp + STACK_MOST;
    for (uint64_t at = sp & ~(uint64_t)(WORD - 1); at < end;) {
        size_t got = read_some(pid, at, words, sizeof words) / WORD;
        for (size_t i = 0; i + SELF_WORD < got; i++)
            if (words[i] == at + i * WORD && words[i + SELF_WORD] == words[i] &&
                is_descriptor(pid, tid, words[i], tid_offset))
                return words[i];
        if (got <= SELF_WORD)
            break;
        at += (got - SELF_WORD) * WORD;
    }
    return 0;
}

bool thread_file_is_of_mpi(const char *path)
{
    static const char *const names[] = {"libmpi.so",  "libmpich.so", "libmpich-",  "libopen-", "libompi",
                                        "libprrte",   "libpmix",     "libpmi2",    "libevent", "libmpl.so",
                                        "libucs.so",  "libucp.so",   "libuct",     "libucm",   "libfabric.so",
                                        "libpsm2.so", "librdmacm",   "libibverbs", "libmca_",  "mca_"};
    const char *name = text_base(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_in_mpi(pid_t pid, uint64_t address)
{
    struct proc_maps maps;
    if (proc_maps_read(pid, &maps) < 0)
        return false;
    const struct proc_map *map = proc_maps_find(&maps, address);
    bool found = map && map->execute && thread_file_is_of_mpi(map->path);
    proc_maps_done(&maps);
    return found;
}

bool thread_is_of_mpi(pid_t pid, pid_t tid, const char *syscall)
{
    uint32_t tid_offset = pthread_field("_thread_db_pthread_tid");
    uint32_t start_offset = pthread_field("_thread_db_pthread_start_routine");
    unsigned long long sp = 0;
    if (!tid_offset || !start_offset || sscanf(syscall, "%*s 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx", &sp) != 1 ||
        !sp)
        return false;
    uint64_t descriptor = descriptor_above(pid, tid, sp, tid_offset), routine = 0;
    return descriptor && read_some(pid, descriptor + start_offset, &routine, sizeof routine) == sizeof routine &&
           is_in_mpi(pid, routine);
}
