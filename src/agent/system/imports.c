/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does anything that is loaded call the hooks? Every process of a job checks this at its start, so it must be cheap.
 * The symbols that an object imports stand at the beginning of its symbol table, before those in its hash table. For an
 * object without such a table, or with an empty one, its relocations are read: they show imports, too, but there are
 * many more of them.
 */
#include "agent/system/imports.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

static const char HOOK[] = "__cyg_profile_func_enter";

struct object {
    const char *strings;
    const Elf64_Sym *symbols;
    const uint32_t *hash;
    uint64_t strings_size;
    const Elf64_Rela *plt, *rest;
    uint64_t plt_size, rest_size, relative;
    uint64_t constructors; /* of DT_INIT_ARRAY */
};

static const void *dynamic_pointer(const struct dl_phdr_info *info, uint64_t value)
{
    /* the dynamic linker has relocated the section in place where it is writable; the vdso's is not */
    return (const void *)(value >= info->dlpi_addr ? value : value + info->dlpi_addr);
}

static bool object_take(const struct dl_phdr_info *info, struct object *ret_object)
{
    const Elf64_Dyn *dynamic = NULL;
    *ret_object = (struct object){0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        switch (dynamic->d_tag) {
        case DT_STRTAB:
            ret_object->strings = dynamic_pointer(info, dynamic->d_un.d_ptr);
            break;
        case DT_STRSZ:
            ret_object->strings_size = dynamic->d_un.d_val;
            break;
        case DT_SYMTAB:
            ret_object->symbols = dynamic_pointer(info, dynamic->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            ret_object->hash = dynamic_pointer(info, dynamic->d_un.d_ptr);
            break;
        case DT_JMPREL:
            ret_object->plt = dynamic_pointer(info, dynamic->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            ret_object->plt_size = dynamic->d_un.d_val;
            break;
        case DT_RELA:
            ret_object->rest = dynamic_pointer(info, dynamic->d_un.d_ptr);
            break;
        case DT_RELASZ:
            ret_object->rest_size = dynamic->d_un.d_val;
            break;
        case DT_INIT_ARRAYSZ:
            ret_object->constructors = dynamic->d_un.d_val / sizeof(uint64_t);
            break;
        case DT_RELACOUNT:
            ret_object->relative = dynamic->d_un.d_val;
            break;
        default:
            break;
        }
    }
    return ret_object->strings && ret_object->symbols;
}

static bool is_hook(const struct object *object, const Elf64_Sym *symbol)
{
    if (symbol->st_shndx != SHN_UNDEF || symbol->st_name >= object->strings_size ||
        object->strings_size - symbol->st_name < sizeof HOOK)
        return false;
    const char *name = object->strings + symbol->st_name;
    for (size_t i = 0; i < sizeof HOOK; i++)
        if (name[i] != HOOK[i])
            return false;
    return true;
}

static bool relocated_hook(const struct object *object, const Elf64_Rela *relocations, uint64_t size, uint64_t from)
{
    for (uint64_t i = from; relocations && i < size / sizeof *relocations; i++) {
        uint64_t type = ELF64_R_TYPE(relocations[i].r_info);
        if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64) &&
            is_hook(object, &object->symbols[ELF64_R_SYM(relocations[i].r_info)]))
            return true;
    }
    return false;
}

/* What is taken from others and yet can be found by name: functions whose address a program at a fixed place takes. */
static bool hashed_hook(const struct object *object)
{
    const uint32_t *table = object->hash;
    uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3], hash = 5381;
    for (const char *c = HOOK; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    const uint64_t *bloom = (const uint64_t *)(const void *)(table + 4);
    uint64_t bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> shift) % 64;
    if ((bloom[hash / 64 % words] & bits) != bits)
        return false;
    const uint32_t *bucket = (const uint32_t *)(const void *)(bloom + words), *chain = bucket + buckets;
    uint32_t at = bucket[hash % buckets];
    for (; at >= first; at++) {
        uint32_t found = chain[at - first];
        if ((found | 1) == (hash | 1) && is_hook(object, &object->symbols[at]))
            return true;
        if (found & 1)
            break;
    }
    return false;
}

/* The number of the first symbol that the hash table finds; 0: it finds none, and does not tell. */
static uint32_t hashed_from(const struct object *object)
{
    const uint32_t *table = object->hash;
    if (!table || !table[0] || !table[2])
        return 0;
    const uint32_t *bucket = table + 4 + (uint64_t)table[2] * 2;
    for (uint32_t i = 0; i < table[0]; i++)
        if (bucket[i])
            return table[1];
    return 0;
}

static bool calls_hooks(const struct dl_phdr_info *info)
{
    struct object object;
    if (!object_take(info, &object))
        return false;
    uint32_t taken = hashed_from(&object);
    if (!taken)
        return relocated_hook(&object, object.plt, object.plt_size, 0) ||
               relocated_hook(&object, object.rest, object.rest_size, object.relative);
    for (uint32_t i = 1; i < taken; i++)
        if (is_hook(&object, &object.symbols[i]))
            return true;
    return hashed_hook(&object);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
    *(uint64_t *)ctx = info->dlpi_adds + info->dlpi_subs;
    return calls_hooks(info);
}

bool agent_imports_hooks(uint64_t *ret_changes)
{
    *ret_changes = 0;
    return dl_iterate_phdr(look_at, ret_changes) == 1;
}

bool agent_object_has(const struct dl_phdr_info *info, uint64_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

/* A lazily bound hook that nobody has called leads back to the object itself. */
static bool has_called(const struct dl_phdr_info *info, const struct object *object)
{
    for (uint64_t i = 0; object->plt && i < object->plt_size / sizeof *object->plt; i++) {
        if (ELF64_R_TYPE(object->plt[i].r_info) != R_X86_64_JUMP_SLOT ||
            !is_hook(object, &object->symbols[ELF64_R_SYM(object->plt[i].r_info)]))
            continue;
        uint64_t leads_to = *(const uint64_t *)(info->dlpi_addr + object->plt[i].r_offset);
        if (agent_object_has(info, leads_to))
            return false;
    }
    return true;
}

/* The program's own come after ours; and one of a library is the compiler's. */
struct constructed {
    bool (*matters)(const struct dl_phdr_info *info);
    unsigned count;
};

static int add_constructed(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct constructed *constructed = ctx;
    struct object object;
    if (info->dlpi_name && *info->dlpi_name && object_take(info, &object) && object.constructors > 1 &&
        calls_hooks(info) && has_called(info, &object) && (!constructed->matters || constructed->matters(info)))
        constructed->count++;
    return 0;
}

unsigned agent_constructed(bool (*matters)(const struct dl_phdr_info *info))
{
    struct constructed constructed = {.matters = matters};
    dl_iterate_phdr(add_constructed, &constructed);
    return constructed.count;
}

uint64_t agent_object_name(const struct dl_phdr_info *info)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = info->dlpi_name; c && *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return hash;
}

bool agent_object_imports_hooks(const struct dl_phdr_info *info)
{
    return calls_hooks(info);
}

static int add(struct dl_phdr_info *info, size_t size, void *ctx)
{
    if (calls_hooks(info))
        *(uint64_t *)ctx += (agent_object_name(info) ^ info->dlpi_addr) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    return 0;
}

uint64_t agent_importers(void)
{
    uint64_t sum = 0;
    dl_iterate_phdr(add, &sum);
    return sum;
}
