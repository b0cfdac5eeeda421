/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/start_memory.h"

#include <link.h>
#include <malloc.h>
#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system/proc_file.h"

enum { STACK_MARGIN = 16384 /* below here, for what is called now */ };

/* A user's own files may be gone by now, where others can remove them: the code that is in memory of those stays there,
 * but not what only the loader reads, which lies at the beginning. */
static bool is_system(const char *path)
{
    return strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/lib", 8) == 0;
}

/* Only what is never written to: relocated pages lie in segments that are writable at first. */
static int drop_code(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const uintptr_t page = *(const uintptr_t *)ctx;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t from = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        bool system = is_system(info->dlpi_name) || (!segment->p_offset && !(segment->p_flags & PF_X));
        if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) && system)
            madvise((void *)from, end - from, MADV_DONTNEED); /* NOLINT: an address */
    }
    return 0;
}

static void drop_stack(uintptr_t page)
{
    struct proc_maps maps;
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (proc_maps_read(getpid(), &maps) < 0)
        return;
    const struct proc_map *stack = proc_maps_find(&maps, here);
    const uintptr_t end = (here - STACK_MARGIN) & ~(page - 1);
    if (stack && end > stack->start)
        madvise((void *)(uintptr_t)stack->start, end - stack->start, MADV_DONTNEED); /* NOLINT: an address */
    proc_maps_done(&maps);
}

/* The C library looks for calloc, which others may replace, when it first calls it itself: that would bring back the
 * loader and all tables of symbols. */
static void bind_calls(void)
{
    struct hsearch_data table = {0};
    if (hcreate_r(1, &table))
        hdestroy_r(&table);
}

void start_memory_drop(void)
{
    bind_calls();
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    drop_stack(page);
    malloc_trim(0);
    dl_iterate_phdr(drop_code, &page);
}
