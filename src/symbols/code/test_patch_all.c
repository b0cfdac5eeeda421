/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded into programs that know nothing of it (LD_PRELOAD): puts a jump into each of their functions that has a symbol, before main.
 * Each counts its calls; what they do and say has to stay the same. At the end TEST_PATCH_COUNTS gets "FUNCTIONS CALLS". */
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/code/code.h"

enum { FUNCTIONS_MOST = 1 << 14, STUBS = 4 << 20 };

static uint64_t calls, functions;
static pid_t process;

static void tell(void)
{
    const char *path = getenv("TEST_PATCH_COUNTS");
    FILE *out = path && getpid() == process ? fopen(path, "we") : NULL;
    if (!out)
        return;
    fprintf(out, "%llu %llu\n", (unsigned long long)functions, (unsigned long long)calls);
    fclose(out);
}

/* pushf; push %rax; movabs $calls, %rax; lock incq (%rax); pop %rax; popf: below the red zone. */
static uint8_t *put_counting(uint8_t *at)
{
    static const uint8_t before[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8},
                         after[] = {0xf0, 0x48, 0xff, 0x00, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0};
    uint64_t *counter = &calls;
    memcpy(at, before, sizeof before);
    memcpy(at + sizeof before, &counter, sizeof counter);
    memcpy(at + sizeof before + sizeof counter, after, sizeof after);
    return at + sizeof before + sizeof counter + sizeof after;
}

struct patching {
    struct elf_code code;
    uint64_t bias;
    struct patch patches[FUNCTIONS_MOST];
    size_t count;
    uint8_t *stubs, *at;
};

static bool is_known(const struct patching *patching, uint64_t address)
{
    for (size_t i = 0; i < patching->count; i++)
        if (patching->patches[i].address - address < PATCH_JUMP) /* behind its endbr64, too */
            return true;
    return false;
}

/* Cold parts are jumped to, and nobody calls them. */
static void plan(struct patching *patching, const char *name, const GElf_Sym *symbol)
{
    const struct address_range range = {symbol->st_value, symbol->st_value + symbol->st_size};
    if (GELF_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size && symbol->st_shndx != SHN_UNDEF &&
        !strstr(name, ".cold") && patching->count < FUNCTIONS_MOST && !is_known(patching, range.low) &&
        patch_plan(&patching->patches[patching->count], &patching->code, &range, 1, 0) == PATCH_CAN)
        patching->count++;
}

/* All are planned before the first is changed: they are read from the file, but a jump may lead to the next one. */
static void put_all(struct patching *patching)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < patching->code.section_count; i++) {
        const struct code_section *section = &patching->code.sections[i];
        low = section->address < low ? section->address : low;
        high = section->address + section->size > high ? section->address + section->size : high;
    }
    uint64_t page = ~UINT64_C(0xfff), from = (patching->bias + low) & page, to = (patching->bias + high + 0xfff) & page;
    patching->stubs = mmap((void *)(uintptr_t)(to + (512 << 20)), STUBS, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (patching->stubs == MAP_FAILED ||
        mprotect((void *)(uintptr_t)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        return;
    patching->at = patching->stubs;
    for (size_t i = 0; i < patching->count && patching->at + 2 * PATCH_STUB_MOST < patching->stubs + STUBS; i++) {
        const struct patch *patch = &patching->patches[i];
        uint8_t *moved = put_counting(patching->at);
        size_t len = patch_emit(patch, patching->bias, (uint64_t)(uintptr_t)moved, moved);
        if (len && patch_jump(patch->address + patching->bias, (uint64_t)(uintptr_t)patching->at,
                              (uint8_t *)(uintptr_t)(patch->address + patching->bias)))
            functions++;
        patching->at = moved + len;
    }
    mprotect((void *)(uintptr_t)from, to - from, PROT_READ | PROT_EXEC);
}

static __attribute__((constructor)) void start(void)
{
    static struct patching patching;
    struct err err = {0};
    GElf_Word kind = SHT_DYNSYM;
    GElf_Shdr header;
    GElf_Sym symbol;
    unsetenv("LD_PRELOAD");
    process = getpid();
    elf_version(EV_CURRENT);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (!elf || elf_code_read(&patching.code, elf, &err) < 0 || elf_code_read_pointers(&patching.code, elf) < 0)
        return;
    patching.bias = _r_debug.r_map->l_addr;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));)
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_SYMTAB)
            kind = SHT_SYMTAB;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));)
        if (gelf_getshdr(scn, &header) && header.sh_type == kind)
            for (int i = 0; gelf_getsym(elf_getdata(scn, NULL), i, &symbol); i++)
                plan(&patching, elf_strptr(elf, header.sh_link, symbol.st_name), &symbol);
    put_all(&patching);
    atexit(tell);
}
