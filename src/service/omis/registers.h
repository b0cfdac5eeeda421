/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Register numbers of the services: those of the System V ABI's DWARF table (x86-64 psABI, figure "DWARF Register
 * Number Mapping"). Integer: 0-15, 16 = rip, 49 = rflags, 50-55 = es cs ss ds fs gs, 58 = fs.base, 59 = gs.base.
 * Floating point: 17-32 are the low doubles of xmm0-15 (the upper bits are kept on write), 33-40 are st0-7.
 */
#ifndef SCRY_SERVICE_OMIS_REGISTERS_H
#define SCRY_SERVICE_OMIS_REGISTERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "lang/value.h"

#define REGISTERS_INTEGER_TEXT "0-16 (16 is the program counter), 49-55, 58 and 59 are defined"
#define REGISTERS_FLOATING_TEXT "17-32 (xmm) and 33-40 (x87) are defined"

enum { REGISTERS_PC = 16 };

/* The number of defined registers in sequence from reg on; 0: reg is undefined. */
size_t registers_integer_run(uint64_t reg);
size_t registers_floating_run(uint64_t reg);

/* Where a defined register stands. */
unsigned long long *registers_integer(struct user_regs_struct *regs, uint64_t reg);
/* Of a struct user_regs_struct. */
struct value registers_integer_at(const void *regs, size_t size, uint64_t reg);

/* In an XSAVE area of `size` bytes. */
struct value registers_floating_at(const void *state, size_t size, uint64_t reg);
void registers_floating_set(void *state, size_t size, uint64_t reg, const struct value *value);

#endif
