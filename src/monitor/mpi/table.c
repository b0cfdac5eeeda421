/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that an MPI launcher keeps for debuggers ("The MPIR Process Acquisition Interface", MPI Forum 2010):
 * MPIR_proctable and MPIR_proctable_size, which are symbols of its library. They are read from its memory as it runs,
 * nothing is stopped, and no file is needed: the library's own tables say where they are (System V ABI, chapter 5;
 * .gnu.hash as in binutils).
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/mpi/internal.h"
#include "probe/proc.h"

enum {
    DYNAMIC_MAX = 512,
    CHAIN_MAX = 1 << 16,
    RANKS_MAX = 1 << 20,
    TEXT_MAX = 512,
};

struct library {
    pid_t pid;
    uint64_t bias, symbols, names, hash;
};

static bool peek(pid_t pid, uint64_t addr, void *bytes, size_t len)
{
    return proc_memory_read(pid, addr, bytes, len, NULL) == 0;
}

/* What is there of a string; "" for none. */
static void peek_text(pid_t pid, uint64_t addr, char text[TEXT_MAX])
{
    size_t done = 0;
    memset(text, 0, TEXT_MAX);
    if (addr)
        proc_memory_read(pid, addr, text, TEXT_MAX - 1, &done);
    text[done < TEXT_MAX ? done : TEXT_MAX - 1] = 0;
}

static bool find_tables(struct library *library)
{
    Elf64_Ehdr header;
    Elf64_Phdr phdr;
    uint64_t dynamic = 0;
    if (!peek(library->pid, library->bias, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_phentsize != sizeof phdr)
        return false;
    for (unsigned i = 0; i < header.e_phnum && !dynamic; i++)
        if (peek(library->pid, library->bias + header.e_phoff + i * sizeof phdr, &phdr, sizeof phdr) &&
            phdr.p_type == PT_DYNAMIC)
            dynamic = library->bias + phdr.p_vaddr;
    for (unsigned i = 0; dynamic && i < DYNAMIC_MAX; i++) {
        Elf64_Dyn item;
        if (!peek(library->pid, dynamic + i * sizeof item, &item, sizeof item) || item.d_tag == DT_NULL)
            break;
        if (item.d_tag == DT_SYMTAB) /* addresses: the loader has added the bias */
            library->symbols = item.d_un.d_ptr;
        else if (item.d_tag == DT_STRTAB)
            library->names = item.d_un.d_ptr;
        else if (item.d_tag == DT_GNU_HASH)
            library->hash = item.d_un.d_ptr;
    }
    return library->symbols && library->names && library->hash;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_symbol(const struct library *library, uint32_t index, const char *name, uint64_t *ret_address)
{
    Elf64_Sym symbol;
    char text[TEXT_MAX];
    if (!peek(library->pid, library->symbols + (uint64_t)index * sizeof symbol, &symbol, sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF)
        return false;
    peek_text(library->pid, library->names + symbol.st_name, text);
    *ret_address = library->bias + symbol.st_value;
    return strcmp(text, name) == 0;
}

static bool find_symbol(const struct library *library, const char *name, uint64_t *ret_address)
{
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    uint32_t index, entry, hash = hash_of(name);
    if (!peek(library->pid, library->hash, &head, sizeof head) || !head.buckets)
        return false;
    uint64_t buckets = library->hash + sizeof head + (uint64_t)head.bloom * 8;
    uint64_t chain = buckets + (uint64_t)head.buckets * 4;
    if (!peek(library->pid, buckets + (uint64_t)(hash % head.buckets) * 4, &index, sizeof index) || index < head.first)
        return false;
    for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
        if (!peek(library->pid, chain + (uint64_t)(index - head.first) * 4, &entry, sizeof entry))
            return false;
        if ((entry | 1) == (hash | 1) && is_symbol(library, index, name, ret_address))
            return true;
        if (entry & 1)
            return false;
    }
    return false;
}

static bool is_launcher_library(const char *path)
{
    static const char *const names[] = {"libopen-rte.so", "libprrte.so", "libmpir.so"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int find_library(pid_t pid, struct library *ret_library)
{
    struct proc_module *modules;
    size_t count;
    int code = proc_modules(pid, &modules, &count);
    if (code < 0)
        return code;
    code = -ENOENT;
    for (size_t i = 0; i < count && code == -ENOENT; i++) {
        *ret_library = (struct library){.pid = pid, .bias = modules[i].bias};
        if (is_launcher_library(modules[i].path) && find_tables(ret_library))
            code = 0;
    }
    proc_modules_free(modules, count);
    return code;
}

int mpi_table_read(pid_t launcher, void (*fn)(void *ctx, int rank, int pid, const char *host, const char *exe),
                   void *ctx, size_t *ret_size)
{
    struct library library;
    struct {
        uint64_t host, exe;
        int32_t pid, padding;
    } row;
    uint64_t table_at, size_at, table = 0;
    int32_t size = 0;
    *ret_size = 0;
    int code = find_library(launcher, &library);
    if (code < 0)
        return code;
    if (!find_symbol(&library, "MPIR_proctable", &table_at) ||
        !find_symbol(&library, "MPIR_proctable_size", &size_at) || !peek(launcher, table_at, &table, sizeof table) ||
        !peek(launcher, size_at, &size, sizeof size))
        return -ENOENT;
    if (!table || size <= 0 || size > RANKS_MAX) /* not filled yet */
        return 0;
    char host[TEXT_MAX], exe[TEXT_MAX];
    for (int rank = 0; rank < size; rank++) {
        if (!peek(launcher, table + (uint64_t)rank * sizeof row, &row, sizeof row) || row.pid <= 0)
            return -EBADMSG;
        peek_text(launcher, row.host, host);
        peek_text(launcher, row.exe, exe);
        fn(ctx, rank, row.pid, host, exe);
    }
    *ret_size = (size_t)size;
    return 0;
}
