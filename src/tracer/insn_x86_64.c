/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction under a breakpoint: decoded by Zydis, emulated or relocated. Emulated are those whose effect is
 * simple and does not touch the flags: nops, endbr64, pushes of registers, and all control flow, because relative
 * targets and return addresses would be wrong elsewhere. Everything else runs as a copy.
 */
#include <errno.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "tracer/tracee.h"

static const ZydisDecoder *decoder(void)
{
    static ZydisDecoder made;
    static bool done;
    if (!done)
        ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    done = true;
    return &made;
}

static bool decode(const struct insn *insn, ZydisDecodedInstruction *ret, ZydisDecodedOperand *operands)
{
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder(), insn->bytes, insn->length, ret, operands));
}

static enum insn_kind classify(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operands)
{
    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_ENDBR32:
        return INSN_NOP;
    case ZYDIS_MNEMONIC_SYSCALL:
        return INSN_SYSCALL;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
        return INSN_IN_PLACE;
    case ZYDIS_MNEMONIC_PUSH:
        if (operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER && operands[0].size == 64)
            return INSN_PUSH;
        return INSN_COPY;
    default:
        break;
    }
    switch (decoded->meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_COND_BR:
        /* far transfers and interrupt returns change more than the program counter */
        if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || decoded->mnemonic == ZYDIS_MNEMONIC_IRETQ ||
            decoded->mnemonic == ZYDIS_MNEMONIC_IRETD || decoded->mnemonic == ZYDIS_MNEMONIC_IRET)
            return INSN_IN_PLACE;
        return INSN_JUMP;
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
        return INSN_IN_PLACE;
    default:
        return INSN_COPY;
    }
}

void insn_decode(struct insn *ret_insn, uint64_t addr, const uint8_t *bytes, size_t len)
{
    *ret_insn = (struct insn){.kind = INSN_IN_PLACE};
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder(), bytes, len, &decoded, operands)))
        return;
    ret_insn->length = decoded.length;
    memcpy(ret_insn->bytes, bytes, decoded.length);
    ret_insn->kind = classify(&decoded, operands);
    ret_insn->is_call = decoded.meta.category == ZYDIS_CATEGORY_CALL;
    ret_insn->is_pushf = decoded.mnemonic == ZYDIS_MNEMONIC_PUSHFQ || decoded.mnemonic == ZYDIS_MNEMONIC_PUSHF;
}

int insn_relocate(const struct insn *insn, uint64_t addr, uint64_t slot, uint8_t ret_bytes[SLOT_SIZE])
{
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!decode(insn, &decoded, operands))
        return -EOPNOTSUPP;
    memcpy(ret_bytes, insn->bytes, insn->length);
    for (unsigned i = 0; i < decoded.operand_count; i++) {
        if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY || operands[i].mem.base != ZYDIS_REGISTER_RIP)
            continue;
        if (decoded.raw.disp.size != 32)
            return -EOPNOTSUPP;
        int64_t displacement = decoded.raw.disp.value + (int64_t)(addr - slot);
        if (displacement != (int32_t)displacement)
            return -ERANGE;
        int32_t small = (int32_t)displacement;
        memcpy(ret_bytes + decoded.raw.disp.offset, &small, sizeof small);
    }
    uint8_t *jump = ret_bytes + insn->length;
    uint64_t next = addr + insn->length;
    int64_t distance = (int64_t)(next - (slot + insn->length + 5));
    if (distance == (int32_t)distance) {
        int32_t small = (int32_t)distance;
        jump[0] = 0xe9; /* jmp rel32 */
        memcpy(jump + 1, &small, sizeof small);
    } else {
        static const uint8_t indirect[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
        memcpy(jump, indirect, sizeof indirect);
        memcpy(jump + sizeof indirect, &next, sizeof next);
    }
    return 0;
}

/* Where the register lies in user_regs_struct; NULL for those that are not 64-bit general ones. */
static unsigned long long *register_of(struct user_regs_struct *regs, ZydisRegister reg)
{
    switch (reg) {
    case ZYDIS_REGISTER_RAX:
        return &regs->rax;
    case ZYDIS_REGISTER_RBX:
        return &regs->rbx;
    case ZYDIS_REGISTER_RCX:
        return &regs->rcx;
    case ZYDIS_REGISTER_RDX:
        return &regs->rdx;
    case ZYDIS_REGISTER_RSI:
        return &regs->rsi;
    case ZYDIS_REGISTER_RDI:
        return &regs->rdi;
    case ZYDIS_REGISTER_RBP:
        return &regs->rbp;
    case ZYDIS_REGISTER_RSP:
        return &regs->rsp;
    case ZYDIS_REGISTER_R8:
        return &regs->r8;
    case ZYDIS_REGISTER_R9:
        return &regs->r9;
    case ZYDIS_REGISTER_R10:
        return &regs->r10;
    case ZYDIS_REGISTER_R11:
        return &regs->r11;
    case ZYDIS_REGISTER_R12:
        return &regs->r12;
    case ZYDIS_REGISTER_R13:
        return &regs->r13;
    case ZYDIS_REGISTER_R14:
        return &regs->r14;
    case ZYDIS_REGISTER_R15:
        return &regs->r15;
    default:
        return NULL;
    }
}

/* The address a memory operand names; false for what this does not compute (32-bit addressing). */
static bool operand_address(const ZydisDecodedOperand *operand, uint64_t next, struct user_regs_struct *regs,
                            uint64_t *ret_addr)
{
    uint64_t addr = operand->mem.disp.has_displacement ? (uint64_t)operand->mem.disp.value : 0;
    if (operand->mem.segment == ZYDIS_REGISTER_FS)
        addr += regs->fs_base;
    else if (operand->mem.segment == ZYDIS_REGISTER_GS)
        addr += regs->gs_base;
    if (operand->mem.base == ZYDIS_REGISTER_RIP) {
        addr += next;
    } else if (operand->mem.base != ZYDIS_REGISTER_NONE) {
        unsigned long long *base = register_of(regs, operand->mem.base);
        if (!base)
            return false;
        addr += *base;
    }
    if (operand->mem.index != ZYDIS_REGISTER_NONE) {
        unsigned long long *index = register_of(regs, operand->mem.index);
        if (!index)
            return false;
        addr += *index * operand->mem.scale;
    }
    *ret_addr = addr;
    return true;
}

static int branch_target(const ZydisDecodedOperand *operand, uint64_t next, struct thread *thread,
                         struct user_regs_struct *regs, uint64_t *ret_target)
{
    uint64_t addr;
    switch (operand->type) {
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        *ret_target = next + (uint64_t)operand->imm.value.s;
        return 0;
    case ZYDIS_OPERAND_TYPE_REGISTER: {
        unsigned long long *reg = register_of(regs, operand->reg.value);
        if (!reg)
            return -EOPNOTSUPP;
        *ret_target = *reg;
        return 0;
    }
    case ZYDIS_OPERAND_TYPE_MEMORY:
        if (operand->size != 64 || !operand_address(operand, next, regs, &addr) ||
            space_read(thread->process, addr, ret_target, sizeof *ret_target) < 0)
            return -EOPNOTSUPP;
        return 0;
    default:
        return -EOPNOTSUPP;
    }
}

enum { FLAG_CARRY = 1, FLAG_PARITY = 4, FLAG_ZERO = 0x40, FLAG_SIGN = 0x80, FLAG_OVERFLOW = 0x800 };

static bool condition_holds(unsigned condition, uint64_t flags)
{
    bool sign_differs = !(flags & FLAG_SIGN) != !(flags & FLAG_OVERFLOW), holds;
    switch (condition >> 1) {
    case 0:
        holds = flags & FLAG_OVERFLOW;
        break;
    case 1:
        holds = flags & FLAG_CARRY;
        break;
    case 2:
        holds = flags & FLAG_ZERO;
        break;
    case 3:
        holds = flags & (FLAG_CARRY | FLAG_ZERO);
        break;
    case 4:
        holds = flags & FLAG_SIGN;
        break;
    case 5:
        holds = flags & FLAG_PARITY;
        break;
    case 6:
        holds = sign_differs;
        break;
    default:
        holds = sign_differs || (flags & FLAG_ZERO);
        break;
    }
    return holds != (condition & 1);
}

/* The condition of jcc rel8 (70..7f) and rel32 (0f 80..8f); jrcxz and the like are not among them. */
static int jump_condition(const ZydisDecodedInstruction *decoded)
{
    if (decoded->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && decoded->opcode >= 0x70 && decoded->opcode <= 0x7f)
        return decoded->opcode & 15;
    if (decoded->opcode_map == ZYDIS_OPCODE_MAP_0F && decoded->opcode >= 0x80 && decoded->opcode <= 0x8f)
        return decoded->opcode & 15;
    return -1;
}

static int emulate_jump(const struct insn *insn, uint64_t addr, struct thread *thread, struct user_regs_struct *regs)
{
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t target = 0, next = addr + insn->length;
    if (!decode(insn, &decoded, operands) || (decoded.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE))
        return -EOPNOTSUPP;
    if (decoded.meta.category == ZYDIS_CATEGORY_RET) {
        if (space_read(thread->process, regs->rsp, &target, sizeof target) < 0)
            return -EOPNOTSUPP;
        regs->rsp += 8;
        if (operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
            regs->rsp += operands[0].imm.value.u;
    } else {
        if (branch_target(&operands[0], next, thread, regs, &target) < 0)
            return -EOPNOTSUPP;
        if (decoded.meta.category == ZYDIS_CATEGORY_COND_BR) {
            int condition = jump_condition(&decoded);
            if (condition < 0)
                return -EOPNOTSUPP;
            if (!condition_holds((unsigned)condition, regs->eflags))
                target = next;
        } else if (decoded.meta.category == ZYDIS_CATEGORY_CALL) {
            if (space_write(thread->process, regs->rsp - 8, &next, sizeof next) < 0)
                return -EOPNOTSUPP;
            regs->rsp -= 8;
        }
    }
    regs->rip = target;
    return 0;
}

int insn_emulate(const struct insn *insn, uint64_t addr, struct thread *thread, struct user_regs_struct *regs)
{
    if (insn->kind == INSN_NOP) {
        regs->rip = addr + insn->length;
        return 0;
    }
    if (insn->kind == INSN_JUMP)
        return emulate_jump(insn, addr, thread, regs);
    if (insn->kind != INSN_PUSH)
        return -EOPNOTSUPP;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!decode(insn, &decoded, operands))
        return -EOPNOTSUPP;
    unsigned long long *reg = register_of(regs, operands[0].reg.value);
    if (!reg || space_write(thread->process, regs->rsp - 8, reg, 8) < 0)
        return -EOPNOTSUPP;
    regs->rsp -= 8;
    regs->rip = addr + insn->length;
    return 0;
}
