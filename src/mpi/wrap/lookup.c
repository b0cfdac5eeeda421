/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/wrap/lookup.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct symbols {
    uint64_t base;
    const char *strings;
    const Elf64_Sym *table;
    const uint32_t *gnu, *old;
    bool undefined; /* which symbols are wanted */
};

static void symbols_take(struct symbols *symbols, const struct link_map *map)
{
    *symbols = (struct symbols){.base = map->l_addr};
    /* the dynamic linker has relocated the section in place where it is writable; the vdso's is not */
#define AT(value) (const void *)((value) >= map->l_addr ? (value) : (value) + map->l_addr)
    for (const Elf64_Dyn *dynamic = map->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB)
            symbols->strings = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_SYMTAB)
            symbols->table = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_GNU_HASH)
            symbols->gnu = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_HASH)
            symbols->old = AT(dynamic->d_un.d_ptr);
    }
#undef AT
}

static void *matching(const struct symbols *symbols, uint32_t number, const char *name)
{
    const Elf64_Sym *symbol = &symbols->table[number];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if ((symbol->st_shndx == SHN_UNDEF) != symbols->undefined || symbol->st_value == 0 ||
        (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) ||
        strcmp(symbols->strings + symbol->st_name, name) != 0)
        return NULL;
    return (void *)(symbols->base + symbol->st_value);
}

static void *find_gnu(const struct symbols *symbols, const char *name)
{
    const uint32_t *table = symbols->gnu;
    uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3], hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    const uint64_t *bloom = (const uint64_t *)(const void *)(table + 4);
    uint64_t bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> shift) % 64;
    if (!buckets || !words || (bloom[hash / 64 % words] & bits) != bits)
        return NULL;
    const uint32_t *bucket = (const uint32_t *)(const void *)(bloom + words), *chain = bucket + buckets;
    for (uint32_t at = bucket[hash % buckets]; at >= first; at++) {
        uint32_t other = chain[at - first];
        void *found = (other | 1) == (hash | 1) ? matching(symbols, at, name) : NULL;
        if (found)
            return found;
        if (other & 1)
            break;
    }
    return NULL;
}

static void *find_old(const struct symbols *symbols, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    const uint32_t *table = symbols->old, *bucket = table + 2, *chain = bucket + table[0];
    for (uint32_t at = table[0] ? bucket[hash % table[0]] : 0; at; at = chain[at]) {
        void *found = matching(symbols, at, name);
        if (found)
            return found;
    }
    return NULL;
}

static void *lookup(const struct link_map *map, const char *name, bool undefined)
{
    struct symbols symbols;
    symbols_take(&symbols, map);
    symbols.undefined = undefined;
    if (!symbols.strings || !symbols.table)
        return NULL;
    return symbols.gnu ? find_gnu(&symbols, name) : symbols.old ? find_old(&symbols, name) : NULL;
}

void *lookup_in(const struct link_map *map, const char *name)
{
    return lookup(map, name, false);
}

void *lookup_stands_for(const struct link_map *map, const char *name)
{
    return lookup(map, name, true);
}
