/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/exports.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

enum { HEADERS = 64, ENTRIES = 128, CHAIN_MOST = 4096, NAME_MOST = 64 };

/* The dynamic linker writes addresses over what the file has, unless the section is read-only. */
static uint64_t address_of(uint64_t value, uint64_t bias)
{
    return value < bias ? value + bias : value;
}

static int read_dynamic(struct exports *exports, uint64_t address, uint64_t *ret_hash)
{
    Elf64_Dyn entry;
    for (int i = 0; i < ENTRIES; i++) {
        int r = python_get(exports->memory, address + (uint64_t)i * sizeof entry, &entry, sizeof entry);
        if (r < 0)
            return r;
        uint64_t at = address_of(entry.d_un.d_ptr, exports->bias);
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_SYMTAB)
            exports->symbols = at;
        if (entry.d_tag == DT_STRTAB)
            exports->names = at;
        if (entry.d_tag == DT_GNU_HASH)
            *ret_hash = at;
    }
    return exports->symbols && exports->names && *ret_hash ? 0 : -ENOEXEC;
}

static int find_dynamic(struct exports *exports, uint64_t base, uint64_t *ret_dynamic)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[HEADERS];
    int r = python_get(exports->memory, base, &header, sizeof header);
    if (r < 0)
        return r;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof *segments || header.e_phnum == 0 || header.e_phnum > HEADERS)
        return -ENOEXEC;
    r = python_get(exports->memory, base + header.e_phoff, segments, header.e_phnum * sizeof *segments);
    if (r < 0)
        return r;
    const Elf64_Phdr *dynamic = NULL, *first = NULL;
    for (size_t i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = &segments[i];
        if (segments[i].p_type == PT_LOAD && !first)
            first = &segments[i];
    }
    if (!dynamic || !first)
        return -ENOEXEC;
    exports->bias = base - (first->p_vaddr - first->p_offset);
    *ret_dynamic = exports->bias + dynamic->p_vaddr;
    return 0;
}

int exports_open(struct exports *ret_exports, const struct python_memory *memory, uint64_t base)
{
    uint64_t dynamic = 0, hash = 0;
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } table = {0};
    *ret_exports = (struct exports){.memory = memory};
    int r = find_dynamic(ret_exports, base, &dynamic);
    if (r == 0)
        r = read_dynamic(ret_exports, dynamic, &hash);
    if (r == 0)
        r = python_get(memory, hash, &table, sizeof table);
    if (r < 0)
        return r;
    if (table.buckets == 0)
        return -ENOEXEC;
    ret_exports->first = table.first;
    ret_exports->bucket_count = table.buckets;
    ret_exports->buckets = hash + sizeof table + (uint64_t)table.bloom_words * sizeof(uint64_t);
    ret_exports->chains = ret_exports->buckets + (uint64_t)table.buckets * sizeof(uint32_t);
    return 0;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

uint64_t exports_find(const struct exports *exports, const char *name)
{
    const uint32_t wanted = hash_of(name);
    const size_t size = strlen(name) + 1;
    uint32_t index, hash;
    if (size > NAME_MOST ||
        python_get(exports->memory, exports->buckets + wanted % exports->bucket_count * sizeof index, &index,
                   sizeof index) < 0)
        return 0;
    for (uint32_t i = index; i >= exports->first && i && i - index < CHAIN_MOST; i++) {
        Elf64_Sym symbol;
        char found[NAME_MOST];
        if (python_get(exports->memory, exports->chains + (uint64_t)(i - exports->first) * sizeof hash, &hash,
                       sizeof hash) < 0)
            return 0;
        if ((hash | 1) == (wanted | 1) &&
            python_get(exports->memory, exports->symbols + (uint64_t)i * sizeof symbol, &symbol, sizeof symbol) == 0 &&
            symbol.st_shndx != SHN_UNDEF && symbol.st_value &&
            python_get(exports->memory, exports->names + symbol.st_name, found, size) == 0 &&
            memcmp(found, name, size) == 0)
            return exports->bias + symbol.st_value;
        if (hash & 1)
            break;
    }
    return 0;
}
