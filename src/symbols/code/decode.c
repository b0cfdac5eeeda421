/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of an ELF file, and what is to be seen in a function by decoding it once from front to back: calls of the
 * hooks (by the PLT, by the GOT as with -fno-plt, or direct), with the function that they get; accesses to stack
 * slots; indirect calls.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "symbols/code/step.h"

enum {
    SITES_MAX = 4096, /* hooks in one function */
    ACCESSES_MAX = 1 << 18,
    SITES_OF_FILE_MAX = 1 << 24,
    FUNCTION_MAX = 1 << 24, /* bytes; corrupt debug information has larger ones */
};

/* ---- the file ---- */

static int hook_named(const char *name)
{
    return !name                                           ? -1
           : strcmp(name, "__cyg_profile_func_enter") == 0 ? 0
           : strcmp(name, "__cyg_profile_func_exit") == 0  ? 1
                                                           : -1;
}

/* Relocations that put the address of a hook somewhere. */
static void read_relocations(struct elf_code *code, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    Elf_Scn *symbols = elf_getscn(elf, header->sh_link);
    GElf_Shdr symbols_header;
    Elf_Data *symbol_data = symbols ? elf_getdata(symbols, NULL) : NULL;
    if (!data || !symbol_data || !gelf_getshdr(symbols, &symbols_header) || header->sh_entsize == 0)
        return;
    for (size_t i = 0; i < header->sh_size / header->sh_entsize; i++) {
        GElf_Rela relocation;
        GElf_Sym symbol;
        if (!gelf_getrela(data, (int)i, &relocation))
            break;
        if (GELF_R_SYM(relocation.r_info) == 0 ||
            !gelf_getsym(symbol_data, (int)GELF_R_SYM(relocation.r_info), &symbol))
            continue;
        int hook = hook_named(elf_strptr(elf, symbols_header.sh_link, symbol.st_name));
        struct hook_slot *more = hook >= 0 ? realloc(code->slots, (code->slot_count + 1) * sizeof *more) : NULL;
        if (!more)
            continue;
        code->slots = more;
        code->slots[code->slot_count++] = (struct hook_slot){relocation.r_offset, hook == 1};
    }
}

/* What compilers append to the names of functions whose interface they changed, of cold parts, and of the parts of
 * coroutines, which clang describes with the coroutine's parameters but calls with its frame. */
static bool is_clones_name(const char *dot)
{
    static const char *const anywhere[] = {".isra.", ".constprop.", ".part.", ".cold"};
    static const char *const last[] = {".resume", ".destroy", ".cleanup"};
    for (size_t i = 0; i < sizeof anywhere / sizeof *anywhere; i++)
        if (strstr(dot, anywhere[i]))
            return true;
    for (size_t i = 0; i < sizeof last / sizeof *last && !strstr(dot, ".Frame."); i++)
        if (strcmp(strrchr(dot, '.'), last[i]) == 0)
            return true;
    return false;
}

/* gcc leaves out results that nobody uses where it writes .isra or .part. */
static enum elf_returns clone_returns(const char *dot)
{
    static const char *const known[] = {".constprop.", ".isra.", ".part."};
    enum elf_returns returns = RETURNS_YES;
    while (dot) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strncmp(dot, known[i], strlen(known[i])) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return RETURNS_NO;
        returns = i > 0 ? RETURNS_MAYBE : returns;
        dot += strlen(known[i]);
        dot = strchr(dot, '.');
    }
    return returns;
}

static void add_clone(struct elf_code *code, const char *name, uint64_t address)
{
    const char *dot = name ? strchr(name, '.') : NULL; /* hardly any of a million names has one */
    if (!dot || !is_clones_name(dot))
        return;
    if ((code->clone_count & (code->clone_count - 1)) == 0) {
        struct elf_clone *more = realloc(code->clones, (code->clone_count ? 2 * code->clone_count : 1) * sizeof *more);
        if (!more)
            return;
        code->clones = more;
    }
    code->clones[code->clone_count++] = (struct elf_clone){address, clone_returns(dot)};
}

static int compare_clones(const void *a, const void *b)
{
    const struct elf_clone *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int compare_addresses(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_symbols(struct elf_code *code)
{
    if (code->clone_count > 1)
        qsort(code->clones, code->clone_count, sizeof *code->clones, compare_clones);
    if (code->global_count > 1)
        qsort(code->globals, code->global_count, sizeof *code->globals, compare_addresses);
}

bool elf_code_is_global(const struct elf_code *code, uint64_t address)
{
    return code->global_count &&
           bsearch(&address, code->globals, code->global_count, sizeof *code->globals, compare_addresses);
}

static const struct elf_clone *find_clone(const struct elf_code *code, uint64_t address)
{
    const struct elf_clone wanted = {.address = address};
    return code->clone_count ? bsearch(&wanted, code->clones, code->clone_count, sizeof *code->clones, compare_clones)
                             : NULL;
}

bool elf_code_is_clone(const struct elf_code *code, uint64_t address)
{
    return find_clone(code, address);
}

enum elf_returns elf_code_returns(const struct elf_code *code, uint64_t address)
{
    const struct elf_clone *clone = find_clone(code, address);
    return clone ? clone->returns : RETURNS_YES;
}

static void read_symbols(struct elf_code *code, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || header->sh_entsize == 0)
        return;
    for (size_t i = 0; i < header->sh_size / header->sh_entsize; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol))
            break;
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        int hook = hook_named(name);
        add_clone(code, name, symbol.st_value);
        if (code->want_globals && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
            GELF_ST_BIND(symbol.st_info) != STB_LOCAL && GROW(code->globals, code->global_count, code->global_room))
            code->globals[code->global_count++] = symbol.st_value;
        if (hook == 0)
            code->enter = symbol.st_value;
        else if (hook == 1)
            code->exit = symbol.st_value;
    }
}

void elf_code_read_symbols(struct elf_code *code, Elf *elf)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
            read_symbols(code, elf, section, &header);
    }
    sort_symbols(code);
}

static void add_section(Elf_Scn *section, const GElf_Shdr *header, struct code_section *sections, size_t *count,
                        size_t room)
{
    Elf_Data *data = *count < room ? elf_rawdata(section, NULL) : NULL;
    if (data && data->d_buf)
        sections[(*count)++] = (struct code_section){header->sh_addr, data->d_size, data->d_buf};
}

int elf_code_read(struct elf_code *code, Elf *elf, struct err *err)
{
    GElf_Ehdr ehdr;
    if (!gelf_getehdr(elf, &ehdr) || ehdr.e_machine != EM_X86_64)
        return err_set(err, -ENOTSUP, "values are only captured in programs for x86-64");
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header))
            continue;
        if (header.sh_type == SHT_RELA)
            read_relocations(code, elf, section, &header);
        else if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
            read_symbols(code, elf, section, &header);
        if (header.sh_type != SHT_PROGBITS)
            continue;
        if (header.sh_flags & SHF_EXECINSTR)
            add_section(section, &header, code->sections, &code->section_count,
                        sizeof code->sections / sizeof code->sections[0]);
        else if (header.sh_flags & SHF_ALLOC && !(header.sh_flags & SHF_WRITE))
            add_section(section, &header, code->constants, &code->constant_count,
                        sizeof code->constants / sizeof code->constants[0]);
    }
    sort_symbols(code);
    return 0;
}

void elf_code_done(struct elf_code *code)
{
    free(code->slots);
    free(code->calls.items);
    free(code->addresses.items);
    free(code->clones);
    free(code->globals);
    free(code->pointers);
    *code = (struct elf_code){0};
}

static const uint8_t *bytes_at(const struct code_section *sections, size_t count, uint64_t address, size_t *ret_left)
{
    for (size_t i = 0; i < count; i++) {
        const struct code_section *section = &sections[i];
        if (address - section->address < section->size) {
            *ret_left = section->size - (address - section->address);
            return section->bytes + (address - section->address);
        }
    }
    return NULL;
}

const uint8_t *elf_code_at(const struct elf_code *code, uint64_t address, size_t *ret_left)
{
    return bytes_at(code->sections, code->section_count, address, ret_left);
}

const uint8_t *elf_code_constant(const struct elf_code *code, uint64_t address, size_t *ret_left)
{
    return bytes_at(code->constants, code->constant_count, address, ret_left);
}

/* ---- addresses of code in data ---- */

struct pointers {
    struct elf_code *code;
    size_t room;
    bool failed;
};

static void add_pointer(struct pointers *pointers, uint64_t address)
{
    struct elf_code *code = pointers->code;
    size_t left;
    if (!elf_code_at(code, address, &left))
        return;
    pointers->failed = pointers->failed || !GROW(code->pointers, code->pointer_count, pointers->room);
    if (!pointers->failed)
        code->pointers[code->pointer_count++] = address;
}

static void add_symbols_of(struct pointers *pointers, Elf_Scn *section, const GElf_Shdr *header)
{
    GElf_Sym symbol;
    Elf_Data *data = header->sh_type == SHT_SYMTAB || header->sh_type == SHT_DYNSYM ? elf_getdata(section, NULL) : NULL;
    for (int i = 0; data && gelf_getsym(data, i, &symbol); i++)
        if (symbol.st_shndx != SHN_UNDEF)
            add_pointer(pointers, symbol.st_value);
}

/* What is to be relocated has its address in the relocation, or, in the shorter form (RELR) and in programs with fixed addresses, where
 * it stands. */
static void add_pointers_of(struct pointers *pointers, Elf_Scn *section, const GElf_Shdr *header)
{
    GElf_Rela relocation;
    Elf_Data *data = header->sh_type == SHT_RELA ? elf_getdata(section, NULL) : NULL;
    for (int i = 0; data && gelf_getrela(data, i, &relocation); i++)
        if (GELF_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE)
            add_pointer(pointers, (uint64_t)relocation.r_addend);
    if (header->sh_type != SHT_PROGBITS || !(header->sh_flags & SHF_ALLOC) || header->sh_flags & SHF_EXECINSTR ||
        !(data = elf_rawdata(section, NULL)) || !data->d_buf)
        return;
    for (size_t at = (8 - header->sh_addr % 8) % 8; at + 8 <= data->d_size; at += 8) {
        uint64_t address;
        memcpy(&address, (const uint8_t *)data->d_buf + at, sizeof address);
        if (address)
            add_pointer(pointers, address);
    }
}

int elf_code_read_pointers(struct elf_code *code, Elf *elf)
{
    struct pointers pointers = {.code = code};
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header)) {
            add_pointers_of(&pointers, section, &header);
            add_symbols_of(&pointers, section, &header);
        }
    }
    if (code->pointer_count)
        qsort(code->pointers, code->pointer_count, sizeof *code->pointers, compare_addresses);
    return pointers.failed ? -ENOMEM : 0;
}

/* Of a slot in the GOT: -1: no hook; 0: enter; 1: exit. */
static int elf_code_hook_slot(const struct elf_code *code, uint64_t slot)
{
    for (size_t i = 0; i < code->slot_count; i++)
        if (code->slots[i].address == slot)
            return code->slots[i].exit;
    return -1;
}

/* ---- instructions ---- */

bool insn_decode(const struct elf_code *code, uint64_t address, struct insn *ret_insn)
{
    size_t left;
    const uint8_t *bytes = elf_code_at(code, address, &left);
    ZydisDecoder decoder;
    if (!bytes || !ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
        !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, left, &ret_insn->zydis, ret_insn->operands)))
        return false;
    ret_insn->address = address;
    ret_insn->next = address + ret_insn->zydis.length;
    return true;
}

int insn_register(ZydisRegister reg)
{
    static const uint8_t dwarf_numbers[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15)
        return dwarf_numbers[whole - ZYDIS_REGISTER_RAX];
    if (reg >= ZYDIS_REGISTER_XMM0 && reg <= ZYDIS_REGISTER_XMM15)
        return 16 + (reg - ZYDIS_REGISTER_XMM0);
    if (reg >= ZYDIS_REGISTER_YMM0 && reg <= ZYDIS_REGISTER_YMM15)
        return 16 + (reg - ZYDIS_REGISTER_YMM0);
    if (reg >= ZYDIS_REGISTER_ZMM0 && reg <= ZYDIS_REGISTER_ZMM15)
        return 16 + (reg - ZYDIS_REGISTER_ZMM0);
    return -1;
}

bool insn_target(const struct insn *insn, uint64_t *ret_target)
{
    ZyanU64 target;
    if (insn->operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !insn->operands[0].imm.is_relative ||
        !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&insn->zydis, &insn->operands[0], insn->address, &target)))
        return false;
    *ret_target = target;
    return true;
}

/* Of an operand [rip + x]. */
static bool insn_rip_address(const struct insn *insn, unsigned operand, uint64_t *ret_address)
{
    const ZydisDecodedOperand *op = &insn->operands[operand];
    if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || op->mem.base != ZYDIS_REGISTER_RIP)
        return false;
    *ret_address = insn->next + (uint64_t)op->mem.disp.value;
    return true;
}

/* A PLT entry jumps to where a slot of the GOT says; it may begin with endbr64. */
/* The same of what a direct call or jump goes to. */
static int elf_code_hook(const struct elf_code *code, uint64_t target)
{
    if (target && (target == code->enter || target == code->exit))
        return target == code->exit;
    struct insn insn;
    for (int i = 0; i < 3 && insn_decode(code, target, &insn); i++) {
        uint64_t slot;
        if (insn.zydis.mnemonic == ZYDIS_MNEMONIC_JMP)
            return insn_rip_address(&insn, 0, &slot) ? elf_code_hook_slot(code, slot) : -1;
        if (insn.zydis.mnemonic != ZYDIS_MNEMONIC_ENDBR64)
            return -1;
        target = insn.next;
    }
    return -1;
}

static int insn_hook(const struct elf_code *code, const struct insn *insn)
{
    uint64_t address;
    if (insn_target(insn, &address))
        return elf_code_hook(code, address);
    return insn_rip_address(insn, 0, &address) ? elf_code_hook_slot(code, address) : -1;
}

/* ---- calls and addresses of the whole file ---- */

static int compare_sites(const void *a, const void *b)
{
    const struct code_site *x = a, *y = b;
    return x->target != y->target   ? x->target < y->target ? -1 : 1
           : x->behind != y->behind ? x->behind < y->behind ? -1 : 1
                                    : 0;
}

/* If it is code. */
static bool add_site(const struct elf_code *code, struct code_sites *sites, uint64_t behind, uint64_t target)
{
    size_t left;
    if (!elf_code_at(code, target, &left) || sites->count == SITES_OF_FILE_MAX)
        return true;
    if ((sites->count & (sites->count - 1)) == 0) {
        struct code_site *more = realloc(sites->items, (sites->count ? 2 * sites->count : 1) * sizeof *more);
        if (!more)
            return false;
        sites->items = more;
    }
    sites->items[sites->count++] = (struct code_site){behind, target};
    return true;
}

/* Every byte that looks like the beginning of `call rel32`, `lea r64, [rip + disp32]`, or `mov r32, imm32`: one that is
 * not an instruction does no harm, as no hook is ever called with such a return address. */
static void read_sites(struct elf_code *code)
{
    bool ok = true;
    code->sites_known = true;
    for (size_t s = 0; s < code->section_count; s++) {
        const struct code_section *section = &code->sections[s];
        const uint8_t *bytes = section->bytes;
        for (size_t i = 0; i + 7 <= section->size && ok; i++) {
            bool lea = (bytes[i] & 0xfb) == 0x48 && bytes[i + 1] == 0x8d && (bytes[i + 2] & 0xc7) == 5;
            if (bytes[i] != 0xe8 && !lea && (bytes[i] & 0xf8) != 0xb8)
                continue;
            size_t length = lea ? 7 : 5;
            int32_t number;
            memcpy(&number, bytes + i + length - 4, 4);
            uint64_t behind = section->address + i + length;
            uint64_t target = lea || bytes[i] == 0xe8 ? behind + (uint64_t)(int64_t)number : (uint32_t)number;
            ok = add_site(code, bytes[i] == 0xe8 ? &code->calls : &code->addresses, behind, target);
        }
    }
    if (code->calls.count)
        qsort(code->calls.items, code->calls.count, sizeof *code->calls.items, compare_sites);
    if (code->addresses.count)
        qsort(code->addresses.items, code->addresses.count, sizeof *code->addresses.items, compare_sites);
}

static size_t find_sites(const struct code_sites *sites, uint64_t target, const struct code_site **ret_sites)
{
    size_t low = COUNT_BEFORE(sites->count, i, sites->items[i].target < target);
    size_t end = low;
    while (end < sites->count && sites->items[end].target == target)
        end++;
    *ret_sites = sites->count > 0 ? sites->items + low : NULL;
    return end - low;
}

size_t elf_code_calls(struct elf_code *code, uint64_t target, const struct code_site **ret_calls)
{
    if (!code->sites_known)
        read_sites(code);
    return find_sites(&code->calls, target, ret_calls);
}

size_t elf_code_addresses(struct elf_code *code, uint64_t target, const struct code_site **ret_addresses)
{
    if (!code->sites_known)
        read_sites(code);
    return find_sites(&code->addresses, target, ret_addresses);
}

/* ---- one function ---- */

struct scan {
    struct function_code *function;
    const struct elf_code *code;
    uint64_t constants[16]; /* what general registers hold, where that is an address that was loaded; else 0 */
    size_t access_room;
    size_t before_call, unused; /* accesses from here on have not met a call, or what may use an address */
};

static bool add_hook(struct scan *scan, const struct insn *insn, bool exit)
{
    struct function_code *function = scan->function;
    if (function->hook_count == SITES_MAX)
        return true;
    struct hook_site *more = realloc(function->hooks, (function->hook_count + 1) * sizeof *more);
    if (!more)
        return false;
    function->hooks = more;
    function->hooks[function->hook_count++] = (struct hook_site){.address = insn->address,
                                                                 .returns = insn->next,
                                                                 .function = scan->constants[5],
                                                                 .exit = exit,
                                                                 .jump = insn->zydis.mnemonic == ZYDIS_MNEMONIC_JMP};
    return true;
}

static bool add_indirect(struct scan *scan, const struct insn *insn)
{
    struct function_code *function = scan->function;
    if (function->indirect_count == SITES_MAX)
        return true;
    uint64_t *more = realloc(function->indirect, (function->indirect_count + 1) * sizeof *more);
    if (!more)
        return false;
    function->indirect = more;
    function->indirect[function->indirect_count++] = insn->next;
    return true;
}

static bool put_access(struct scan *scan, const struct stack_access *access)
{
    struct function_code *function = scan->function;
    if (function->access_count == ACCESSES_MAX)
        return true;
    if (function->access_count == scan->access_room) {
        scan->access_room = scan->access_room ? 2 * scan->access_room : 64;
        struct stack_access *more = realloc(function->accesses, scan->access_room * sizeof *more);
        if (!more)
            return false;
        function->accesses = more;
    }
    function->accesses[function->access_count++] = *access;
    return true;
}

/* The address rsp + 0. */
static bool copies_rsp(const struct insn *insn)
{
    return insn->zydis.mnemonic == ZYDIS_MNEMONIC_MOV && insn->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           insn->operands[1].reg.value == ZYDIS_REGISTER_RSP && insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           insn->operands[0].reg.value != ZYDIS_REGISTER_RBP;
}

/* Instructions that look at a place relative to rsp or rbp. */
static bool add_access(struct scan *scan, const struct insn *insn)
{
    bool address = insn->zydis.mnemonic == ZYDIS_MNEMONIC_LEA;
    if (copies_rsp(insn))
        return put_access(scan, &(struct stack_access){.address = insn->address, .base = RSP, .writes = true});
    for (unsigned i = 0; i < insn->zydis.operand_count_visible; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        int base = insn_register(op->mem.base);
        if (base != RBP && base != RSP)
            continue;
        const struct stack_access access = {.address = insn->address,
                                            .offset = (int32_t)op->mem.disp.value,
                                            .size = address ? 0 : (uint16_t)(op->size / 8),
                                            .base = (uint8_t)base,
                                            .writes = address || op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE};
        if (!put_access(scan, &access))
            return false;
    }
    return true;
}

/* To memory that is neither the frame's nor at a fixed address. */
static bool stores_somewhere(const struct insn *insn)
{
    for (unsigned i = 0; i < insn->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        int base = op->type == ZYDIS_OPERAND_TYPE_MEMORY ? insn_register(op->mem.base) : -1;
        if (base >= 0 && base != RBP && base != RSP && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            return true;
    }
    return false;
}

/* Which addresses are in registers. */
static void follow_constants(struct scan *scan, const struct insn *insn)
{
    uint64_t value = 0;
    const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
    bool plain = insn->zydis.operand_count_visible == 2 && to->type == ZYDIS_OPERAND_TYPE_REGISTER;
    if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_LEA)
        insn_rip_address(insn, 1, &value);
    else if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_MOV && plain && from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        value = from->imm.value.u;
    else if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_MOV && plain && from->type == ZYDIS_OPERAND_TYPE_REGISTER) {
        int source = insn_register(from->reg.value);
        value = source >= 0 && source < 16 ? scan->constants[source] : 0;
    }
    for (unsigned i = 0; i < insn->zydis.operand_count; i++) {
        const ZydisDecodedOperand *op = &insn->operands[i];
        int reg = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? insn_register(op->reg.value) : -1;
        if (reg >= 0 && reg < 16 && op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            scan->constants[reg] = i == 0 ? value : 0;
    }
    if (insn->zydis.meta.category == ZYDIS_CATEGORY_CALL)
        for (unsigned reg = 0; reg < 16; reg++)
            if (reg != 3 && reg != 6 && reg < 12)
                scan->constants[reg] = 0;
}

static bool scan_range(struct scan *scan, const struct address_range *range)
{
    memset(scan->constants, 0, sizeof scan->constants);
    uint64_t high = range->high - range->low < FUNCTION_MAX ? range->high : range->low + FUNCTION_MAX;
    for (uint64_t at = range->low; at < high;) {
        struct insn insn;
        size_t left;
        if (!elf_code_at(scan->code, at, &left))
            break;
        if (!insn_decode(scan->code, at, &insn)) {
            at++; /* data between code */
            continue;
        }
        bool call = insn.zydis.meta.category == ZYDIS_CATEGORY_CALL;
        bool jump = insn.zydis.mnemonic == ZYDIS_MNEMONIC_JMP;
        int hook = call || jump ? insn_hook(scan->code, &insn) : -1;
        uint64_t target;
        if (hook >= 0 && !add_hook(scan, &insn, hook == 1))
            return false;
        if (hook < 0 && call && !insn_target(&insn, &target) && !add_indirect(scan, &insn))
            return false;
        if (!add_access(scan, &insn))
            return false;
        while (hook < 0 && call && scan->before_call < scan->function->access_count)
            scan->function->accesses[scan->before_call++].call = insn.next;
        while (hook < 0 && (call || stores_somewhere(&insn)) && scan->unused < scan->function->access_count)
            scan->function->accesses[scan->unused++].used = insn.next;
        follow_constants(scan, &insn);
        at = insn.next;
    }
    return true;
}

int function_code_read(struct function_code *function, const struct elf_code *code, const struct address_range *ranges,
                       size_t count)
{
    struct scan scan = {.function = function, .code = code};
    for (size_t i = 0; i < count; i++)
        if (!scan_range(&scan, &ranges[i]))
            return -ENOMEM;
    return 0;
}

void function_code_done(struct function_code *function)
{
    free(function->hooks);
    free(function->accesses);
    free(function->indirect);
    *function = (struct function_code){0};
}
