/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/code/code.h"

#include <Zydis/Zydis.h>
#include <string.h>

const char *const patch_reasons[PATCH_ANSWERS] = {
    [PATCH_CAN] = "",
    [PATCH_SHORT] = "it is too short for a jump",
    [PATCH_BRANCH] = "a branch leads to its first bytes",
    [PATCH_LOOP] = "its beginning is the head of a loop",
    [PATCH_CALL] = "it begins with a call",
    [PATCH_LOOKS] = "it looks at its own return address",
    [PATCH_STAYS] = "an instruction at its beginning cannot be moved",
    [PATCH_UNDECODED] = "its instructions are not known",
};

enum { ENDBR = 4, TABLE_MOST = 4096, TABLES_MOST = 64 };

/* ---- instructions ---- */

struct step {
    uint64_t address, next;
    const uint8_t *bytes;
    ZydisDecodedInstruction insn;
};

static const ZydisDecoder *decoder(void)
{
    static ZydisDecoder made;
    static bool is_made;
    if (!is_made)
        is_made = ZYAN_SUCCESS(ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
    return &made;
}

static bool step_decode(const struct elf_code *code, uint64_t address, struct step *ret_step)
{
    size_t left;
    const uint8_t *bytes = elf_code_at(code, address, &left);
    if (!bytes || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder(), NULL, bytes, left, &ret_step->insn)))
        return false;
    ret_step->address = address;
    ret_step->next = address + ret_step->insn.length;
    ret_step->bytes = bytes;
    return true;
}

static bool is_branch(const ZydisDecodedInstruction *insn)
{
    return insn->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE;
}

/* A jump, a conditional jump, a loop, or a call, to an address that stands in it. */
static bool branches_to(const struct step *step, uint64_t *ret_target)
{
    if (!is_branch(&step->insn) || !step->insn.raw.imm[0].is_relative)
        return false;
    *ret_target = step->next + (uint64_t)step->insn.raw.imm[0].value.s;
    return true;
}

/* Memory at a distance from the instruction. */
static bool is_relative(const ZydisDecodedInstruction *insn)
{
    return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod == 0 && insn->raw.modrm.rm == 5 &&
           insn->raw.disp.size == 32;
}

static bool is_call(const ZydisDecodedInstruction *insn)
{
    return insn->meta.category == ZYDIS_CATEGORY_CALL;
}

/* Nothing that follows is reached from it. */
static bool ends(const ZydisDecodedInstruction *insn)
{
    return insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR || insn->meta.category == ZYDIS_CATEGORY_RET ||
           insn->mnemonic == ZYDIS_MNEMONIC_UD2 || insn->mnemonic == ZYDIS_MNEMONIC_HLT;
}

/* ---- what is moved ---- */

static enum patch_answer part_make(const struct step *step, struct patch_part *part)
{
    const ZydisDecodedInstruction *insn = &step->insn;
    uint64_t target;
    if (is_relative(insn)) {
        if (is_branch(insn) && is_call(insn))
            return PATCH_CALL; /* of a pointer: there is no register to have it in */
        part->kind = PATCH_RELATIVE;
        part->field = insn->raw.disp.offset;
        part->target = step->next + (uint64_t)insn->raw.disp.value;
        return PATCH_CAN;
    }
    if (!is_branch(insn)) {
        part->kind = PATCH_COPY;
        return insn->attributes & ZYDIS_ATTRIB_IS_RELATIVE ? PATCH_STAYS : PATCH_CAN;
    }
    if (!branches_to(step, &target)) { /* jmp *%rax, ret */
        part->kind = PATCH_COPY;
        return is_call(insn) ? PATCH_CALL : PATCH_CAN;
    }
    part->target = target;
    part->kind = is_call(insn)                                     ? PATCH_CALLS
                 : insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR ? PATCH_GOTO
                                                                   : PATCH_CONDITIONAL;
    if (part->kind == PATCH_CONDITIONAL &&
        (insn->mnemonic == ZYDIS_MNEMONIC_JRCXZ || insn->mnemonic == ZYDIS_MNEMONIC_JECXZ ||
         insn->mnemonic == ZYDIS_MNEMONIC_LOOP || insn->mnemonic == ZYDIS_MNEMONIC_LOOPE ||
         insn->mnemonic == ZYDIS_MNEMONIC_LOOPNE || insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN))
        return PATCH_STAYS;                               /* have no form that reaches far */
    part->field = (uint8_t)(insn->raw.imm[0].offset - 1); /* the last byte of the opcode */
    return PATCH_CAN;
}

/* The instructions that the jump takes the place of. */
static enum patch_answer take_parts(struct patch *patch, const struct elf_code *code, const struct address_range *range,
                                    size_t room)
{
    uint64_t at = patch->address, until = patch->address + PATCH_JUMP;
    bool ended = false;
    while (at < until) {
        struct step step;
        struct patch_part *part = &patch->parts[patch->part_count];
        if (at >= range->high) { /* padding, to which nothing goes on */
            if (range->high + room < until || !ended)
                return PATCH_SHORT;
            break;
        }
        if (!step_decode(code, at, &step) || step.next > range->high)
            return PATCH_UNDECODED;
        enum patch_answer answer = part_make(&step, part);
        if (answer != PATCH_CAN)
            return answer;
        if (part->kind == PATCH_CALLS && step.next < until && step.next < range->high)
            return PATCH_CALL;
        part->at = (uint8_t)(at - patch->address);
        part->length = step.insn.length;
        memcpy(patch->bytes + part->at, step.bytes, part->length);
        patch->part_count++;
        at = step.next;
        ended = ends(&step.insn);
        if (ended && at < until && at < range->high)
            return PATCH_SHORT; /* what follows is reached by another way */
    }
    patch->length = (uint8_t)(at - patch->address);
    return PATCH_CAN;
}

/* ---- what may lead there ---- */

struct search {
    const struct elf_code *code;
    const struct address_range *ranges;
    size_t count;
    uint64_t entry, jump, until; /* of the function, of the jump; behind its bytes */
    uint64_t tables[TABLES_MOST];
    size_t table_count;
    bool by_table;
};

static bool is_inside(const struct search *search, uint64_t address)
{
    for (size_t i = 0; i < search->count; i++)
        if (address >= search->ranges[i].low && address < search->ranges[i].high)
            return true;
    return false;
}

static enum patch_answer judge(const struct search *search, uint64_t target, bool call)
{
    if (target > search->jump && target < search->until)
        return PATCH_BRANCH;
    return !call && (target == search->entry || target == search->jump) ? PATCH_LOOP : PATCH_CAN;
}

/* Distances of 32 bits from the table itself, as compilers make them for position independent code, or addresses of 64. A
 * table ends where an entry leads out of the function. */
static enum patch_answer judge_table(const struct search *search, uint64_t table, bool addresses)
{
    size_t left, size = addresses ? 8 : 4;
    const uint8_t *bytes = elf_code_constant(search->code, table, &left);
    for (size_t i = 0; bytes && i < TABLE_MOST && (i + 1) * size <= left; i++) {
        int32_t distance;
        uint64_t target;
        memcpy(&distance, bytes + i * size, sizeof distance);
        memcpy(&target, bytes + i * size, addresses ? sizeof target : 0);
        target = addresses ? target : table + (uint64_t)(int64_t)distance;
        if (!is_inside(search, target))
            break;
        enum patch_answer answer = judge(search, target, false);
        if (answer != PATCH_CAN)
            return answer;
    }
    return PATCH_CAN;
}

static void note_table(struct search *search, uint64_t address)
{
    size_t left;
    if (elf_code_constant(search->code, address, &left) && search->table_count < TABLES_MOST)
        search->tables[search->table_count++] = address;
}

/* [TABLE + register * 8], as where addresses are not position independent. */
static bool is_by_addresses(const ZydisDecodedInstruction *insn)
{
    return insn->attributes & ZYDIS_ATTRIB_HAS_SIB && insn->raw.modrm.mod == 0 && insn->raw.sib.base == 5 &&
           insn->raw.sib.scale == 3 && insn->raw.disp.size == 32;
}

static enum patch_answer look_at(struct search *search, const struct step *step)
{
    const ZydisDecodedInstruction *insn = &step->insn;
    uint64_t target;
    if (branches_to(step, &target))
        return judge(search, target, is_call(insn));
    if (is_by_addresses(insn))
        return judge_table(search, (uint64_t)(uint32_t)insn->raw.disp.value, true);
    if (is_relative(insn) && insn->mnemonic == ZYDIS_MNEMONIC_LEA)
        note_table(search, step->next + (uint64_t)insn->raw.disp.value);
    search->by_table |= insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR && !is_relative(insn); /* jmp *%rax */
    return PATCH_CAN;
}

/* The label of a computed goto: its address stands in data. */
static bool is_pointed_into(const struct search *search)
{
    const struct elf_code *code = search->code;
    size_t low = 0, high = code->pointer_count;
    while (low < high) { /* the first behind the beginning of the jump */
        size_t middle = low + (high - low) / 2;
        if (code->pointers[middle] > search->jump)
            high = middle;
        else
            low = middle + 1;
    }
    return low < code->pointer_count && code->pointers[low] < search->until;
}

/* Short jumps from other functions, as assembler has them: into the midst of its neighbour. Decoding begins so far before that it
 * is in step with the instructions when it matters. */
static enum patch_answer look_around(const struct search *search)
{
    enum { SHORT = 130, STEP = 128 };
    uint64_t from = search->entry > SHORT + STEP ? search->entry - SHORT - STEP : 0, until = search->until + SHORT,
             target;
    while (from < search->entry && !elf_code_at(search->code, from, &(size_t){0}))
        from++;
    for (uint64_t at = from; at < until;) {
        struct step step;
        if (at == search->entry)
            at = search->ranges[0].high; /* its own were looked at */
        if (!step_decode(search->code, at, &step)) {
            at++;
            continue;
        }
        if (at < search->entry && step.next > search->entry)
            step.next = search->entry;
        if (branches_to(&step, &target) && judge(search, target, true) != PATCH_CAN)
            return PATCH_BRANCH;
        at = step.next;
    }
    return PATCH_CAN;
}

static enum patch_answer look_for_branches(struct search *search)
{
    enum patch_answer answer = is_pointed_into(search) ? PATCH_BRANCH : PATCH_CAN;
    for (size_t i = 0; i < search->count; i++)
        for (uint64_t at = search->ranges[i].low; answer == PATCH_CAN && at < search->ranges[i].high;) {
            struct step step;
            if (!step_decode(search->code, at, &step))
                return PATCH_UNDECODED;
            answer = look_at(search, &step);
            at = step.next;
        }
    for (size_t i = 0; answer == PATCH_CAN && search->by_table && i < search->table_count; i++)
        answer = judge_table(search, search->tables[i], false);
    return answer == PATCH_CAN ? look_around(search) : answer;
}

/* [rsp], [rbp + 8] */
static bool reads_at(const ZydisDecodedInstruction *insn, unsigned base, int64_t offset)
{
    bool sib = insn->attributes & ZYDIS_ATTRIB_HAS_SIB;
    unsigned its = sib ? insn->raw.sib.base : insn->raw.modrm.rm;
    return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod != 3 && its == base &&
           !(sib && insn->raw.sib.index != 4) && !(insn->attributes & ZYDIS_ATTRIB_HAS_REX && insn->raw.rex.B) &&
           insn->raw.disp.value == offset && (insn->raw.modrm.mod != 0 || base != 5) &&
           insn->mnemonic != ZYDIS_MNEMONIC_LEA;
}

static bool moves_stack(const ZydisDecodedInstruction *insn)
{
    return is_branch(insn) || insn->meta.category == ZYDIS_CATEGORY_PUSH || insn->meta.category == ZYDIS_CATEGORY_POP ||
           (insn->attributes & ZYDIS_ATTRIB_HAS_MODRM &&
            insn->raw.modrm.mod == 3 && /* mov to a register has it on the left */
            (insn->opcode == 0x8b ? insn->raw.modrm.reg : insn->raw.modrm.rm) == 4) ||
           reads_at(insn, 4, insn->raw.disp.value);
}

/* Whether it takes its return address from where that is: at once, before it moves the stack, as assembler does that switches stacks;
 * or by its frame pointer. */
static bool looks_at_return(const struct elf_code *code, const struct address_range *range)
{
    enum { FRAME_BP = 5, STACK_SP = 4 };
    struct step step;
    bool still = true, framed = false, pushed = false;
    for (uint64_t at = range->low; at < range->high && step_decode(code, at, &step); at = step.next) {
        const ZydisDecodedInstruction *insn = &step.insn;
        if (still && (insn->meta.category == ZYDIS_CATEGORY_POP || reads_at(insn, STACK_SP, 0)))
            return true;
        if (framed && reads_at(insn, FRAME_BP, sizeof(uint64_t)))
            return true;
        framed |= pushed && insn->mnemonic == ZYDIS_MNEMONIC_MOV && insn->length == 3 && step.bytes[0] == 0x48 &&
                  (step.bytes[1] == 0x89 ? step.bytes[2] == 0xe5 : step.bytes[1] == 0x8b && step.bytes[2] == 0xec);
        pushed = insn->length == 1 && step.bytes[0] == 0x55;
        still = still && !moves_stack(insn);
    }
    return false;
}

enum patch_answer patch_plan(struct patch *ret_patch, const struct elf_code *code, const struct address_range *ranges,
                             size_t count, size_t room)
{
    static const uint8_t endbr[ENDBR] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t left;
    if (!count || ranges[0].low >= ranges[0].high)
        return PATCH_SHORT;
    const uint8_t *bytes = elf_code_at(code, ranges[0].low, &left);
    bool has_endbr = bytes && left >= ENDBR && memcmp(bytes, endbr, ENDBR) == 0;
    *ret_patch = (struct patch){.address = ranges[0].low + (has_endbr ? ENDBR : 0)};
    enum patch_answer answer = take_parts(ret_patch, code, &ranges[0], room);
    if (answer != PATCH_CAN)
        return answer;
    if (looks_at_return(code, &ranges[0]))
        return PATCH_LOOKS;
    struct search search = {.code = code,
                            .ranges = ranges,
                            .count = count,
                            .entry = ranges[0].low,
                            .jump = ret_patch->address,
                            .until = ret_patch->address + PATCH_JUMP};
    return look_for_branches(&search);
}

/* ---- the stub ---- */

struct emitter {
    uint8_t *bytes;
    uint64_t at; /* where its first byte will be */
    size_t len;
    bool failed;
};

static void emit(struct emitter *out, const void *bytes, size_t len)
{
    if (out->len + len > PATCH_STUB_MOST) {
        out->failed = true;
        return;
    }
    memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

/* 32 bits: how far it is from the end of the instruction, `behind` bytes after them. */
static void emit_distance(struct emitter *out, uint64_t target, size_t behind)
{
    int64_t distance = (int64_t)(target - (out->at + out->len + 4 + behind));
    int32_t field = (int32_t)distance;
    out->failed |= field != distance;
    emit(out, &field, sizeof field);
}

static void emit_jump(struct emitter *out, uint64_t target)
{
    static const uint8_t jump = 0xe9;
    emit(out, &jump, 1);
    emit_distance(out, target, 0);
}

/* The call returns to the function, where unwinders know it: its return address is pushed, in two halves, and then jumped. */
static void emit_call(struct emitter *out, uint64_t target, uint64_t returns)
{
    static const uint8_t push = 0x68, high[] = {0xc7, 0x44, 0x24, 0x04}; /* push $LOW; movl $HIGH,4(%rsp) */
    uint32_t halves[] = {(uint32_t)returns, (uint32_t)(returns >> 32)};
    emit(out, &push, 1);
    emit(out, &halves[0], 4);
    emit(out, high, sizeof high);
    emit(out, &halves[1], 4);
    emit_jump(out, target);
}

static void emit_part(struct emitter *out, const struct patch *patch, const struct patch_part *part, uint64_t bias)
{
    const uint8_t *bytes = patch->bytes + part->at;
    uint8_t condition[] = {0x0f, 0};
    switch (part->kind) {
    case PATCH_COPY:
        emit(out, bytes, part->length);
        break;
    case PATCH_RELATIVE:
        emit(out, bytes, part->field);
        emit_distance(out, part->target + bias, (size_t)part->length - part->field - 4);
        emit(out, bytes + part->field + 4, (size_t)part->length - part->field - 4);
        break;
    case PATCH_GOTO:
        emit_jump(out, part->target + bias);
        break;
    case PATCH_CONDITIONAL: /* the condition is the low half of the last byte of the opcode, in the short form and in the long */
        condition[1] = (uint8_t)(0x80 | (bytes[part->field] & 0xf));
        emit(out, condition, sizeof condition);
        emit_distance(out, part->target + bias, 0);
        break;
    case PATCH_CALLS:
        emit_call(out, part->target + bias, patch->address + bias + part->at + part->length);
        break;
    }
}

size_t patch_emit(const struct patch *patch, uint64_t bias, uint64_t at, uint8_t ret_bytes[PATCH_STUB_MOST])
{
    struct emitter out = {.bytes = ret_bytes, .at = at};
    for (size_t i = 0; i < patch->part_count; i++)
        emit_part(&out, patch, &patch->parts[i], bias);
    emit_jump(&out, patch->address + bias + patch->length);
    return out.failed ? 0 : out.len;
}

bool patch_jump(uint64_t from, uint64_t to, uint8_t ret_bytes[PATCH_JUMP])
{
    struct emitter out = {.bytes = ret_bytes, .at = from};
    emit_jump(&out, to);
    return !out.failed;
}
