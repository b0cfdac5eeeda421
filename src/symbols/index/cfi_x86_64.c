/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REG_SP = 7, REG_PC = 16, ROWS_MOST = 1 << 16, EXPRESSION_DEPTH = 16, EXPRESSION_MOST = 64 };
enum { COPY_MOST = 64 << 20 }; /* of a file: what is larger has no such information for us */

enum rule_kind {
    RULE_UNDEFINED,  /* nobody knows */
    RULE_SAME,       /* the callee has not changed it */
    RULE_SAVED,      /* in memory, at the frame's address plus offset */
    RULE_FRAME,      /* the frame's address plus offset itself */
    RULE_EXPRESSION, /* DWARF's operations say where */
};

struct rule {
    enum rule_kind kind;
    int32_t offset;
    const Dwarf_Op *ops; /* libdw's, as long as the information lives */
    size_t count;
};

struct row { /* what is known of an address */
    uint64_t address;
    bool known, signal;
    unsigned frame_register; /* the frame's address is this one plus offset; LINES_REGISTERS: as frame.ops say */
    struct rule frame;
    struct rule rules[LINES_REGISTERS];
    UT_hash_handle hh;
};

struct cfi {
    char *bytes; /* the parts of the file that are needed, in memory as large as it; NULL: of the vdso */
    size_t size;
    Elf *elf; /* of these bytes; NULL: they are too many */
    struct segment {
        uint64_t offset, size, address;
    } * segments; /* that are executed */
    size_t segment_count;
    Dwarf *dwarf;          /* of .debug_frame; NULL: none */
    Dwarf_CFI *eh, *debug; /* the second is the Dwarf's */
    struct row *rows;
};

/* Ours, which all processes have. */
static Elf *vdso_open(void)
{
    char *start = (char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const void *)start;
    return start ? elf_memory(start, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize) : NULL;
}

static void segments_find(struct cfi *cfi, Elf *elf)
{
    size_t count = 0;
    if (elf_getphdrnum(elf, &count) < 0)
        return;
    cfi->segments = calloc(count + 1, sizeof *cfi->segments);
    for (size_t i = 0; cfi->segments && i < count; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD && (header.p_flags & PF_X))
            cfi->segments[cfi->segment_count++] = (struct segment){header.p_offset, header.p_filesz, header.p_vaddr};
    }
}

/* ---- a copy ---- */

/* A file that is open, or mapped, cannot be unmounted, leaves a directory of NFS that cannot be removed, and ends who reads it
 * where it is cut short. So its parts lie in memory, at the same places; in between nothing is used. */
struct copy {
    int fd;
    char *bytes;
    size_t size, left;
};

/* As far as the file has it. false: it is too much. */
static bool part_copy(struct copy *copy, uint64_t offset, uint64_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (offset >= copy->size || !size)
        return true;
    size = size < copy->size - offset ? size : copy->size - offset;
    if (size > copy->left)
        return false;
    copy->left -= size;
    size_t from = offset & ~(page - 1), len = size;
    if (mprotect(copy->bytes + from, offset - from + len, PROT_READ | PROT_WRITE) < 0)
        return false;
    for (ssize_t got; len && (got = pread(copy->fd, copy->bytes + offset, len, (off_t)offset)) > 0; len -= (size_t)got)
        offset += (uint64_t)got;
    return true;
}

static bool sections_copy(struct copy *copy, Elf *elf, bool *ret_known)
{
    static const char *const names[] = {".eh_frame", ".eh_frame_hdr", ".debug_frame", ".zdebug_frame"};
    size_t texts = 0;
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    bool good = elf_getshdrstrndx(elf, &texts) == 0;
    while (good && (section = elf_nextscn(elf, section))) {
        const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, texts, header.sh_name) : NULL;
        bool wanted = elf_ndxscn(section) == texts;
        for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
            wanted |= strcmp(name, names[i]) == 0;
        if (!name || !wanted || header.sh_type == SHT_NOBITS)
            continue;
        *ret_known |= strcmp(name, *names) == 0;
        good = part_copy(copy, header.sh_offset, header.sh_size);
    }
    return good || !section;
}

/* Without sections it lies in the segment that its table of contents is in. */
static bool segments_copy(struct copy *copy, Elf *elf, bool known)
{
    size_t count = 0;
    GElf_Phdr header, table = {.p_type = PT_NULL};
    elf_getphdrnum(elf, &count);
    for (size_t i = 0; i < count; i++)
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_GNU_EH_FRAME)
            table = header;
    bool good = table.p_type == PT_NULL || part_copy(copy, table.p_offset, table.p_filesz);
    for (size_t i = 0; good && !known && table.p_type != PT_NULL && i < count; i++)
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
            table.p_offset - header.p_offset < header.p_filesz)
            good = part_copy(copy, header.p_offset, header.p_filesz);
    return good;
}

/* NULL: there is no memory, or it is too much. */
static Elf *elf_copy(struct cfi *cfi, Elf *elf, int fd)
{
    struct stat st;
    GElf_Ehdr header;
    if (fstat(fd, &st) < 0 || st.st_size <= 0 || !gelf_getehdr(elf, &header))
        return NULL;
    char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    cfi->bytes = bytes;
    cfi->size = (size_t)st.st_size;
    struct copy copy = {fd, bytes, cfi->size, COPY_MOST};
    size_t segments = 0, sections = 0;
    bool known = false;
    elf_getphdrnum(elf, &segments);
    elf_getshdrnum(elf, &sections);
    bool good = part_copy(&copy, 0, sizeof(Elf64_Ehdr)) &&
                part_copy(&copy, header.e_phoff, segments * header.e_phentsize) &&
                part_copy(&copy, header.e_shoff, sections * header.e_shentsize) && sections_copy(&copy, elf, &known) &&
                segments_copy(&copy, elf, known);
    return good ? elf_memory(bytes, cfi->size) : NULL;
}

struct cfi *cfi_open(int fd)
{
    struct cfi *cfi = calloc(1, sizeof *cfi);
    elf_version(EV_CURRENT);
    Elf *elf = !cfi ? NULL : fd < 0 ? vdso_open() : elf_begin(fd, ELF_C_READ, NULL);
    if (elf)
        segments_find(cfi, elf);
    if (elf && cfi->segment_count)
        cfi->elf = fd < 0 ? elf : elf_copy(cfi, elf, fd);
    if (elf && elf != cfi->elf)
        elf_end(elf);
    if (fd >= 0)
        close(fd);
    if (!cfi || !cfi->segment_count) {
        cfi_free(cfi);
        return NULL;
    }
    cfi->eh = cfi->elf ? dwarf_getcfi_elf(cfi->elf) : NULL;
    if (cfi->elf && !cfi->eh) {
        cfi->dwarf = dwarf_begin_elf(cfi->elf, DWARF_C_READ, NULL);
        cfi->debug = cfi->dwarf ? dwarf_getcfi(cfi->dwarf) : NULL;
    }
    return cfi;
}

bool cfi_address(const struct cfi *cfi, uint64_t offset, uint64_t *ret_address)
{
    for (size_t i = 0; cfi && i < cfi->segment_count; i++) {
        const struct segment *segment = &cfi->segments[i];
        if (offset - segment->offset >= segment->size)
            continue;
        *ret_address = offset - segment->offset + segment->address;
        return true;
    }
    return false;
}

static void rows_forget(struct cfi *cfi)
{
    struct row *row, *next;
    HASH_ITER(hh, cfi->rows, row, next)
    {
        HASH_DEL(cfi->rows, row);
        if (row->frame_register == LINES_REGISTERS)
            free((void *)row->frame.ops);
        free(row);
    }
}

void cfi_free(struct cfi *cfi)
{
    if (!cfi)
        return;
    rows_forget(cfi);
    if (cfi->eh)
        dwarf_cfi_end(cfi->eh);
    if (cfi->dwarf)
        dwarf_end(cfi->dwarf);
    if (cfi->elf)
        elf_end(cfi->elf);
    if (cfi->bytes)
        munmap(cfi->bytes, cfi->size);
    free(cfi->segments);
    free(cfi);
}

/* What libdw says in the usual case: DW_OP_call_frame_cfa, DW_OP_plus_uconst N, and DW_OP_stack_value for a value. */
static struct rule rule_of(const Dwarf_Op *ops, size_t count)
{
    size_t at = 0;
    int64_t offset = 0;
    struct rule rule = {.kind = RULE_EXPRESSION, .ops = ops, .count = count};
    if (at < count && ops[at].atom == DW_OP_call_frame_cfa)
        at++;
    else
        return rule;
    if (at < count && ops[at].atom == DW_OP_plus_uconst)
        offset = (int64_t)ops[at++].number;
    bool value = at < count && ops[at].atom == DW_OP_stack_value;
    if (at + value != count || offset != (int32_t)offset)
        return rule;
    return (struct rule){.kind = value ? RULE_FRAME : RULE_SAVED, .offset = (int32_t)offset};
}

/* libdw writes simple operations into room of ours, which does not stay. */
static struct rule rule_that_stays(const Dwarf_Op *ops, size_t count, const Dwarf_Op *room)
{
    struct rule rule = rule_of(ops, count);
    if (rule.kind == RULE_EXPRESSION && ops == room)
        rule.kind = RULE_UNDEFINED; /* another register has it: no compiler says so */
    return rule;
}

static void row_fill(struct cfi *cfi, struct row *row)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Op *ops, room[3];
    size_t count;
    if ((!cfi->eh || dwarf_cfi_addrframe(cfi->eh, row->address, &frame) < 0) &&
        (!cfi->debug || dwarf_cfi_addrframe(cfi->debug, row->address, &frame) < 0))
        return;
    int back = dwarf_frame_info(frame, NULL, NULL, &row->signal);
    if (back == REG_PC && dwarf_frame_cfa(frame, &ops, &count) == 0 && count) {
        row->known = true;
        row->frame_register = LINES_REGISTERS;
        row->frame = (struct rule){.kind = RULE_EXPRESSION, .ops = ops, .count = count};
        bool plain =
            count == 1 && (ops->atom == DW_OP_bregx || (ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg16));
        uint64_t number = !plain                     ? LINES_REGISTERS
                          : ops->atom == DW_OP_bregx ? ops->number
                                                     : (uint64_t)ops->atom - DW_OP_breg0;
        int64_t offset = (int64_t)(plain && ops->atom == DW_OP_bregx ? ops->number2 : ops->number);
        if (number < LINES_REGISTERS && offset == (int32_t)offset) {
            row->frame_register = (unsigned)number;
            row->frame.offset = (int32_t)offset;
        } else { /* its operations may lie in the frame, which goes */
            Dwarf_Op *copy = calloc(count, sizeof *copy);
            if (copy)
                memcpy(copy, ops, count * sizeof *copy);
            row->known = copy;
            row->frame.ops = copy;
        }
        for (int i = 0; i < LINES_REGISTERS && row->known; i++) {
            if (dwarf_frame_register(frame, i, room, &ops, &count) < 0)
                row->rules[i].kind = RULE_UNDEFINED;
            else if (count == 0)
                row->rules[i].kind = ops == room ? RULE_UNDEFINED : RULE_SAME;
            else
                row->rules[i] = rule_that_stays(ops, count, room);
        }
    }
    free(frame);
}

static const struct row *row_of(struct cfi *cfi, uint64_t address)
{
    struct row *row;
    HASH_FIND(hh, cfi->rows, &address, sizeof address, row);
    if (row)
        return row;
    if (HASH_COUNT(cfi->rows) >= ROWS_MOST)
        rows_forget(cfi);
    row = calloc(1, sizeof *row);
    if (!row)
        return NULL;
    row->address = address;
    row_fill(cfi, row);
    HASH_ADD(hh, cfi->rows, address, sizeof row->address, row);
    return row;
}

struct machine {
    const struct lines_registers *registers;
    cfi_read_fn *read;
    void *ctx;
    uint64_t bias, frame;
    bool has_frame;
    uint64_t stack[EXPRESSION_DEPTH];
    size_t depth;
};

static bool push(struct machine *machine, uint64_t value)
{
    if (machine->depth == EXPRESSION_DEPTH)
        return false;
    machine->stack[machine->depth++] = value;
    return true;
}

static bool push_register(struct machine *machine, uint64_t number, int64_t offset)
{
    return number < LINES_REGISTERS && (machine->registers->known >> number & 1) &&
           push(machine, machine->registers->values[number] + (uint64_t)offset);
}

/* The operations that compilers and linkers write into call frame information: of tables of calls to libraries, of stacks
 * that were aligned, of signal frames. false: another one, or what it needs is not known. */
static bool operate(struct machine *machine, const Dwarf_Op *op)
{
    uint64_t *top = machine->depth ? &machine->stack[machine->depth - 1] : NULL;
    uint64_t *below = machine->depth > 1 ? top - 1 : NULL;
    uint8_t atom = op->atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        return push(machine, atom - DW_OP_lit0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        return push_register(machine, atom - DW_OP_breg0, (int64_t)op->number);
    switch (atom) {
    case DW_OP_bregx:
        return push_register(machine, op->number, (int64_t)op->number2);
    case DW_OP_call_frame_cfa:
        return machine->has_frame && push(machine, machine->frame);
    case DW_OP_addr:
        return push(machine, op->number + machine->bias);
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return push(machine, op->number);
    case DW_OP_dup:
        return top && push(machine, *top);
    case DW_OP_deref:
        return top && machine->read(machine->ctx, *top, top);
    case DW_OP_plus_uconst:
        if (top)
            *top += op->number;
        return top;
    case DW_OP_drop:
    case DW_OP_plus:
    case DW_OP_minus:
    case DW_OP_and:
    case DW_OP_shl:
    case DW_OP_ge:
        break;
    default:
        return false;
    }
    if (atom == DW_OP_drop ? !top : !below)
        return false;
    if (atom == DW_OP_plus)
        *below += *top;
    else if (atom == DW_OP_minus)
        *below -= *top;
    else if (atom == DW_OP_and)
        *below &= *top;
    else if (atom == DW_OP_shl)
        *below = *top < 64 ? *below << *top : 0;
    else if (atom == DW_OP_ge)
        *below = (int64_t)*below >= (int64_t)*top;
    machine->depth--;
    return true;
}

/* *ret_value: what DW_OP_stack_value ends, or else where the value is. */
static bool evaluate(struct machine *machine, const struct rule *rule, uint64_t *ret_value, bool *ret_is_value)
{
    machine->depth = 0;
    *ret_is_value = false;
    if (rule->count > EXPRESSION_MOST)
        return false;
    for (size_t i = 0; i < rule->count; i++) {
        if (rule->ops[i].atom == DW_OP_stack_value)
            *ret_is_value = true;
        else if (!operate(machine, &rule->ops[i]))
            return false;
    }
    if (!machine->depth)
        return false;
    *ret_value = machine->stack[machine->depth - 1];
    return true;
}

/* A register of the caller. */
static bool recover(struct machine *machine, const struct rule *rule, unsigned number, uint64_t *ret_value)
{
    bool is_value;
    switch (rule->kind) {
    case RULE_UNDEFINED:
        return false;
    case RULE_SAME:
        *ret_value = machine->registers->values[number];
        return machine->registers->known >> number & 1;
    case RULE_FRAME:
        *ret_value = machine->frame + (uint64_t)(int64_t)rule->offset;
        return true;
    case RULE_SAVED:
        return machine->read(machine->ctx, machine->frame + (uint64_t)(int64_t)rule->offset, ret_value);
    case RULE_EXPRESSION:
        return evaluate(machine, rule, ret_value, &is_value) &&
               (is_value || machine->read(machine->ctx, *ret_value, ret_value));
    }
    return false;
}

enum cfi_step cfi_step(struct cfi *cfi, uint64_t address, uint64_t bias, struct lines_registers *inout_registers,
                       cfi_read_fn *read, void *ctx, bool *ret_interrupted)
{
    const struct row *row = cfi ? row_of(cfi, address) : NULL;
    struct machine machine = {.registers = inout_registers, .read = read, .ctx = ctx, .bias = bias};
    struct lines_registers caller = {.known = 0};
    bool is_value;
    *ret_interrupted = false;
    if (!row || !row->known)
        return CFI_UNKNOWN;
    if (row->frame_register < LINES_REGISTERS) {
        if (!(inout_registers->known >> row->frame_register & 1))
            return CFI_UNKNOWN;
        machine.frame = inout_registers->values[row->frame_register] + (uint64_t)(int64_t)row->frame.offset;
    } else if (!evaluate(&machine, &row->frame, &machine.frame, &is_value)) {
        return CFI_UNKNOWN;
    }
    machine.has_frame = true;
    if (row->rules[REG_PC].kind == RULE_UNDEFINED)
        return CFI_OUTERMOST;
    for (unsigned i = 0; i < LINES_REGISTERS; i++)
        if (recover(&machine, &row->rules[i], i, &caller.values[i]))
            caller.known |= 1U << i;
    if (!(caller.known >> REG_SP & 1)) { /* where nothing else is said, the frame's address */
        caller.values[REG_SP] = machine.frame;
        caller.known |= 1U << REG_SP;
    }
    if (!(caller.known >> REG_PC & 1))
        return CFI_UNKNOWN;
    if (!caller.values[REG_PC])
        return CFI_OUTERMOST;
    *ret_interrupted = row->signal;
    *inout_registers = caller;
    return CFI_CALLER;
}
