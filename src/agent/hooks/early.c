/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last entry of the C library's DT_INIT_ARRAY is replaced by ours, which puts it back and calls it. The dynamic
 * linker reads each entry when it comes to it, and there is one thread.
 */
#include "agent/hooks/early.h"

#include "agent/system/raw.h"
#include "agent/system/sys.h"
#include "shm/area.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>

extern char **__environ; /* which no program defines itself */

static early_function *after, **place, *original;
static bool first;
static uint64_t relro_low, relro_high; /* pages that the dynamic linker has made read-only; 0: not those of the place */

static bool is_libc(const char *path)
{
    static const char name[] = "/libc.so.6";
    size_t length = raw_length(path, SIZE_MAX), size = sizeof name - 1;
    for (size_t i = 0; length >= size && i < size; i++)
        if (path[length - size + i] != name[i])
            return false;
    return length >= size;
}

/* Finds the last entry, and whether it can be written. */
static bool find_place(const struct link_map *libc)
{
    uint64_t at = 0, size = 0;
    for (const Elf64_Dyn *dynamic = libc->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_INIT_ARRAY)
            at = libc->l_addr + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_INIT_ARRAYSZ)
            size = dynamic->d_un.d_val;
    }
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)libc->l_addr;
    if (!at || size < sizeof *place || size % sizeof *place || !head || head->e_ident[0] != ELFMAG0 ||
        head->e_ident[1] != ELFMAG1 || head->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    place = (early_function **)(at + size - sizeof *place);
    const Elf64_Phdr *part = (const Elf64_Phdr *)(libc->l_addr + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uint64_t low = (libc->l_addr + part[i].p_vaddr) & -AREA_PAGE;
        uint64_t high = (libc->l_addr + part[i].p_vaddr + part[i].p_memsz) & -AREA_PAGE;
        if (part[i].p_type != PT_GNU_RELRO || (uint64_t)place < low || (uint64_t)place >= high)
            continue;
        relro_low = (uint64_t)place & -AREA_PAGE;
        relro_high = relro_low + AREA_PAGE;
    }
    return true;
}

static long protect(int protection)
{
    long size = (long)(relro_high - relro_low);
    return size ? sys_call4(SYS_mprotect, (long)relro_low, size, protection, 0) : 0;
}

static void behind_libc(int argc, char **argv, char **envp)
{
    *(early_function *volatile *)place = original;
    protect(PROT_READ);
    original(argc, argv, envp);
    after(argc, argv, envp);
}

bool early_after_libc(early_function *fn)
{
    if (__environ || after)
        return false;
    first = true;
    const struct link_map *map = _r_debug.r_map;
    while (map && !is_libc(map->l_name))
        map = map->l_next;
    if (!map || !find_place(map))
        return false;
    if (protect(PROT_READ | PROT_WRITE) < 0)
        return false;
    original = *place;
    after = fn;
    *(early_function *volatile *)place = behind_libc;
    return true;
}

bool early_was_first(void)
{
    return first;
}
