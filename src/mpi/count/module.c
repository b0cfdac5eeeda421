/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules that call sites lie in, each noted at its first one: the file is known even if it was unloaded since. Not
 * on the path of calls: once for each call site.
 */
#include "mpi/count/process.h"

#include <errno.h>
#include <link.h>
#include <unistd.h>

struct wanted {
    uint64_t address;
    struct mpi_module found; /* end 0: in none */
    uint64_t bias;
};

static void build_id_take(struct mpi_module *module, const uint8_t *notes, uint64_t size)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)notes;
        uint64_t name = MPIA_ALIGN((uint64_t)note->n_namesz, 4), value = MPIA_ALIGN((uint64_t)note->n_descsz, 4);
        if (sizeof *note + name + value > size)
            return;
        const uint8_t *id = notes + sizeof *note + name;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= sizeof module->build_id) {
            for (uint32_t i = 0; i < note->n_descsz; i++)
                module->build_id[i] = id[i];
            module->build_id_size = note->n_descsz;
            return;
        }
        notes += sizeof *note + name + value;
        size -= sizeof *note + name + value;
    }
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct wanted *wanted = data;
    struct mpi_module *module = &wanted->found;
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        low = at < low ? at : low;
        high = at + segment->p_memsz > high ? at + segment->p_memsz : high;
    }
    if (wanted->address < low || wanted->address >= high)
        return 0;
    module->base = low;
    module->end = high;
    wanted->bias = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE && !module->build_id_size)
            build_id_take(module, (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                          info->dlpi_phdr[i].p_memsz);
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    for (uint32_t i = 0; name[i] && i < sizeof module->path - 1; i++)
        module->path[i] = name[i];
    if (!module->path[0]) {
        int error = errno;
        ssize_t length = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
        module->path[length > 0 ? length : 0] = '\0';
        errno = error;
    }
    return 1;
}

/* Modules are few, and are added by one thread at a time; a reader sees those below module_count. */
static _Atomic uint32_t busy;
enum { TRIES = 100000 };

static uint32_t module_add(struct mpi_area *area, const struct mpi_module *module)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint32_t count = atomic_load(&area->module_count);
        for (uint32_t i = count; i-- > 0;)
            if (mpi_module_at(area, i)->base == module->base && mpi_module_at(area, i)->end == module->end)
                return i;
        if (count >= MPIA_MODULES)
            return UINT32_MAX;
        uint32_t free = 0;
        if (!atomic_compare_exchange_strong(&busy, &free, 1)) {
            __builtin_ia32_pause(); /* it takes the other one as long as a copy */
            continue;
        }
        bool mine = atomic_load(&area->module_count) == count;
        if (mine) {
            *mpi_module_at(area, count) = *module;
            atomic_store(&area->module_count, count + 1);
        }
        atomic_store(&busy, 0);
        if (mine)
            return count;
    }
    return UINT32_MAX;
}

/* Offsets are those of the file's own addresses (as symbols have them): the address less where the file was loaded. */
uint32_t COLD module_of(uint64_t address, uint64_t *ret_offset)
{
    struct wanted wanted = {.address = address};
    *ret_offset = 0;
    if (mpi_hot.sealed || !dl_iterate_phdr(look, &wanted))
        return UINT32_MAX;
    *ret_offset = address - wanted.bias;
    return module_add(mpi_hot.area, &wanted.found);
}
