/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: decoded instructions. Registers are numbered as in DWARF: 0-15 general, and 16-31 the vector ones. */
#ifndef SCRY_SYMBOLS_CODE_X86_64_H
#define SCRY_SYMBOLS_CODE_X86_64_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

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
/* Of an operand [rip + x]. */
bool insn_rip_address(const struct insn *insn, unsigned operand, uint64_t *ret_address);

#endif
