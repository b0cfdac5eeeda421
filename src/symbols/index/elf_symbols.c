/* SPDX-License-Identifier: Apache-2.0 */
/* Functions by the symbol tables, and what kind of program it is (elf(5); the gABI's dynamic section). */
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <string.h>

#include "symbols/index/index_build.h"

static const char hook[] = "__cyg_profile_func_enter";

static bool is_code(Elf *elf, GElf_Word section)
{
    GElf_Shdr header;
    Elf_Scn *scn = section != SHN_UNDEF && section < SHN_LORESERVE ? elf_getscn(elf, section) : NULL;
    return scn && gelf_getshdr(scn, &header) && (header.sh_flags & SHF_EXECINSTR);
}

/* Symbols without a size (assembler) reach to the next one, or to the end of their section. */
static void give_sizes(struct builder *builder, Elf *elf)
{
    for (size_t i = 0; i < builder->count; i++) {
        struct built_function *function = &builder->functions[i];
        if (function->size)
            continue;
        uint64_t end = i + 1 < builder->count ? builder->functions[i + 1].address : UINT64_MAX;
        for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
            GElf_Shdr header;
            if (gelf_getshdr(scn, &header) && (header.sh_flags & SHF_ALLOC) &&
                function->address - header.sh_addr < header.sh_size) {
                uint64_t section_end = header.sh_addr + header.sh_size;
                function->size = (end < section_end ? end : section_end) - function->address;
                break;
            }
        }
    }
}

static void collect(struct builder *builder, Dwfl_Module *module)
{
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        Elf *elf;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, &elf, NULL);
        if (!name || !*name || section == SHN_UNDEF)
            continue;
        int type = GELF_ST_TYPE(symbol.st_info);
        if (type != STT_FUNC && type != STT_GNU_IFUNC)
            continue;
        if (strcmp(name, hook) == 0)
            builder->flags |= INDEX_OWN_HOOKS;
        if (!is_code(elf, section))
            continue;
        struct built_function *function = builder_add(builder);
        if (!function)
            return;
        function->address = address;
        function->size = symbol.st_size;
        function->linkage = name;
        function->global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL;
        function->in_symtab = true;
    }
}

/* ---- what kind of program ---- */
static bool is_sanitizer(const char *name)
{
    return name && (strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libclang_rt.asan", 16) == 0);
}

static void read_dynamic(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, unsigned *flags, bool *pie)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    GElf_Dyn entry;
    for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
        if (entry.d_tag == DT_NEEDED && is_sanitizer(elf_strptr(elf, header->sh_link, entry.d_un.d_val)))
            *flags |= INDEX_NEEDS_ASAN;
        if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE))
            *pie = true;
    }
}

static void read_dynamic_symbols(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, unsigned *flags)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    GElf_Sym symbol;
    for (int i = 1; data && gelf_getsym(data, i, &symbol); i++) {
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name && strcmp(name, hook) == 0)
            *flags |= symbol.st_shndx == SHN_UNDEF ? INDEX_HAS_HOOKS : INDEX_OWN_HOOKS;
    }
}

static void read_kind(struct builder *builder, Elf *elf)
{
    size_t count = 0;
    bool interpreted = false, pie = false;
    GElf_Ehdr header;
    if (!gelf_getehdr(elf, &header))
        return;
    elf_getphdrnum(elf, &count);
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_INTERP)
            interpreted = true;
    }
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr section;
        if (!gelf_getshdr(scn, &section))
            continue;
        if (section.sh_type == SHT_DYNAMIC)
            read_dynamic(elf, scn, &section, &builder->flags, &pie);
        else if (section.sh_type == SHT_DYNSYM)
            read_dynamic_symbols(elf, scn, &section, &builder->flags);
    }
    if (!interpreted && (header.e_type == ET_EXEC || (header.e_type == ET_DYN && pie)))
        builder->flags |= INDEX_STATIC;
    /* a program that defines the hooks itself does it to be called; of a static one the C library's stands there */
    if ((builder->flags & INDEX_OWN_HOOKS) && (header.e_type == ET_EXEC || pie))
        builder->flags |= INDEX_HAS_HOOKS;
    if (builder->flags & INDEX_STATIC)
        builder->flags &= ~(unsigned)INDEX_OWN_HOOKS;
}

void build_symbols(struct builder *builder, Dwfl_Module *module)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(module, &bias);
    collect(builder, module);
    builder_sort(builder);
    if (elf) {
        read_kind(builder, elf);
        give_sizes(builder, elf);
    }
}
