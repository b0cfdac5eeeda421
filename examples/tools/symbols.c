/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions for addresses, and the other way round. proc_get_loader_info says which files a process has
 * loaded, and where; their symbol tables (ELF, see elf(5)) say the rest. A tool that wants lines and variables, too,
 * uses a library for DWARF, or asks the services of scry that begin with ct_.
 */
#include "tool.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct symbol {
    uint64_t start, size;
    const char *name; /* in the mapped file, which stays */
};

/* The code of a file: what has no symbol of its own is named by it, "[libc.so.6]". */
struct code {
    uint64_t start, size;
    char name[80];
};

static struct symbol *symbols;
static size_t symbol_count;
static struct code codes[256];
static size_t code_count;

static int by_start(const void *a, const void *b)
{
    const struct symbol *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static void add_table(const char *file, size_t size, const Elf64_Shdr *table, const Elf64_Shdr *strings, uint64_t bias)
{
    if (table->sh_offset + table->sh_size > size || strings->sh_offset + strings->sh_size > size)
        return;
    const Elf64_Sym *each = (const Elf64_Sym *)(file + table->sh_offset);
    size_t count = table->sh_size / sizeof *each;
    struct symbol *more = realloc(symbols, (symbol_count + count) * sizeof *symbols);
    if (!more)
        tool_fail("out of memory");
    symbols = more;
    for (size_t i = 0; i < count; i++)
        if (ELF64_ST_TYPE(each[i].st_info) == STT_FUNC && each[i].st_value && each[i].st_name < strings->sh_size)
            symbols[symbol_count++] =
                (struct symbol){bias + each[i].st_value, each[i].st_size, file + strings->sh_offset + each[i].st_name};
}

/* The first byte of the code as it lies in memory is known; where the file wants it is in its program header. */
static uint64_t find_bias(const char *file, size_t size, uint64_t code_start)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(file + header->e_phoff);
    for (int i = 0; i < header->e_phnum && header->e_phoff + (i + 1) * sizeof *segment <= size; i++)
        if (segment[i].p_type == PT_LOAD && (segment[i].p_flags & PF_X))
            return (code_start & ~4095ull) - (segment[i].p_vaddr & ~4095ull);
    return 0;
}

static void add_file(const char *path, uint64_t code_start)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* [vdso], or a file that is gone: its functions have no names */
    size_t size = fstat(fd, &status) == 0 ? (size_t)status.st_size : 0;
    const char *file = size > sizeof(Elf64_Ehdr) ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED || memcmp(file, ELFMAG, SELFMAG) != 0 || file[EI_CLASS] != ELFCLASS64)
        return;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(file + header->e_shoff);
    if (header->e_shoff + header->e_shnum * sizeof *section > size)
        return;
    uint64_t bias = find_bias(file, size, code_start);
    for (int i = 0; i < header->e_shnum; i++)
        if ((section[i].sh_type == SHT_SYMTAB || section[i].sh_type == SHT_DYNSYM) &&
            section[i].sh_link < header->e_shnum)
            add_table(file, size, &section[i], &section[section[i].sh_link], bias);
}

void symbols_load(const char *process)
{
    enum { PATH, CODE_START = 2, CODE_SIZE, MEMBERS = 8 }; /* proc_get_loader_info: eight values for each file */
    struct omis_reader *reader = tool_try(": proc_get_loader_info([%s])", process);
    if (omis_reader_status(reader) == OMIS_UNKNOWN_OBJECT) { /* it has ended: what is known stays */
        omis_reader_free(reader);
        return;
    }
    if (omis_reader_error(reader))
        tool_fail("%s", omis_reader_error(reader));
    const struct omis_value *files = omis_item(omis_reader_values(reader), 1);
    symbol_count = code_count = 0;
    for (size_t i = 0; i < omis_count(files) && code_count < sizeof codes / sizeof *codes; i += MEMBERS) {
        struct code *code = &codes[code_count++];
        const char *path = omis_text(omis_item(files, i + PATH), NULL), *slash = strrchr(path, '/');
        code->start = omis_unsigned(omis_item(files, i + CODE_START));
        code->size = omis_unsigned(omis_item(files, i + CODE_SIZE));
        snprintf(code->name, sizeof code->name, slash ? "[%s]" : "%s", slash ? slash + 1 : path);
        add_file(path, code->start);
    }
    qsort(symbols, symbol_count, sizeof *symbols, by_start);
    omis_reader_free(reader);
}

uint64_t symbols_address(const char *name)
{
    for (size_t i = 0; i < symbol_count; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].start;
    return 0;
}

const char *symbols_name(uint64_t address)
{
    size_t low = 0, high = symbol_count; /* the last symbol that starts at or before the address */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (symbols[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low && address < symbols[low - 1].start + symbols[low - 1].size)
        return symbols[low - 1].name;
    for (size_t i = 0; i < code_count; i++)
        if (address >= codes[i].start && address < codes[i].start + codes[i].size)
            return codes[i].name;
    return "?";
}
