/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction does to what is known of registers and of the stack; of symbols/code/track.c. */
#ifndef SCRY_SYMBOLS_CODE_STEP_H
#define SCRY_SYMBOLS_CODE_STEP_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols/code/track.h"

/* Inside symbols: decoded instructions. Registers are numbered as in DWARF: 0-15 general, and 16-31 the vector ones. */

struct elf_code;

struct insn {
    uint64_t address, next;
    ZydisDecodedInstruction zydis;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

bool insn_decode(const struct elf_code *code, uint64_t address, struct insn *ret_insn);
/* -1: neither a general nor a vector register. */
int insn_register(ZydisRegister reg);
/* Of direct calls and jumps. */
bool insn_target(const struct insn *insn, uint64_t *ret_target);

enum { RSP = 7, RBP = 6, XMM0 = 16 }; /* of track.values */

void track_step(struct track *track, const struct insn *insn);
void track_called(struct track *track); /* a function was called: what it need not keep is unknown */
void track_store(struct track *track, struct tracked address, unsigned size, struct tracked value);

/* Operands: their `size` low bytes, at most 8 but for memory that goes to the x87 stack; what is written to a 32-bit
 * register is extended, vector registers keep their upper half. `half` of one of 16 bytes: 0 or 1. */
struct tracked track_operand(struct track *track, const ZydisDecodedOperand *op, unsigned size);
void track_set_operand(struct track *track, const ZydisDecodedOperand *op, unsigned size, struct tracked value);
struct tracked track_half(struct track *track, const ZydisDecodedOperand *op, unsigned half);
void track_set_half(struct track *track, const ZydisDecodedOperand *op, unsigned half, struct tracked value);
/* Whatever an instruction writes is unknown after it. */
void track_clobber(struct track *track, const struct insn *insn);

/* symbols/code/arithmetic.c: with track->nodes. */
struct tracked track_compute(struct track *track, unsigned how, unsigned size, struct tracked a, struct tracked b);
struct tracked track_select(struct track *track, struct tracked condition, struct tracked a, struct tracked b);
/* base + index * scale + displacement, as a number of `size` bytes. */
struct tracked track_address(struct track *track, const ZydisDecodedOperand *op, unsigned size);
/* 1 or 0: the condition of a jump, a move or a set: the low half of its opcode. */
struct tracked track_condition(struct track *track, unsigned code);
/* True: done. */
bool track_arithmetic(struct track *track, const struct insn *insn);
/* symbols/code/arithmetic.c. True: done. */
bool track_vector(struct track *track, const struct insn *insn);

static inline struct tracked track_constant(uint64_t number)
{
    return (struct tracked){.kind = TRACK_CONSTANT, .size = 8, .add = (int64_t)number};
}

static inline bool same(struct tracked a, struct tracked b)
{
    return a.kind == b.kind && a.base == b.base && a.size == b.size && a.add == b.add && a.mask == b.mask;
}

static inline bool is_address(struct tracked value)
{
    return value.kind == TRACK_REGISTER && value.size == 8 && value.base < 16 && !value.mask;
}

static inline bool overlaps(const struct track_slot *slot, unsigned base, int64_t offset, unsigned size)
{
    return slot->base == base && slot->offset < offset + (int64_t)size && offset < slot->offset + slot->size;
}

#endif
