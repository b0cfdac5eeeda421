/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowered action lists: a small bytecode, run where the event happens (in the tracer, later in the agent) by one
 * interpreter, over 64-bit cells in shared memory. Freestanding, no allocation, async-signal-safe, and safe on any
 * program: code_check refuses what code_run could not run. Straight-line: a program cannot loop.
 */
#ifndef SCRY_SHM_CODE_H
#define SCRY_SHM_CODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CODE_INSN_LIMIT = 64, /* of one program */
    CODE_CELLS = 65536,   /* of one monitor */
    CODE_PARAMS = 8,      /* par0 .. par7 */
};

enum code_op {
    CODE_ADD,         /* cell += a */
    CODE_TIMER_START, /* if cell == 0: cell = time */
    CODE_TIMER_STOP,  /* if cell != 0: other += time - cell, cell = 0 */
    CODE_UNLESS,      /* end unless a `comparison` b */
    CODE_OP_COUNT,
};

enum code_operand { CODE_IMMEDIATE, CODE_PARAM /* value: 0..7 */, CODE_TIME, CODE_OPERAND_COUNT };
enum code_comparison { CODE_EQ, CODE_NE, CODE_LT, CODE_LE, CODE_GT, CODE_GE, CODE_COMPARISON_COUNT };

struct code_insn {
    uint8_t op, comparison, a_kind, b_kind;
    uint32_t cell, other; /* indices of cells */
    int64_t a, b;
};

struct code_program {
    uint32_t count;
    struct code_insn insns[CODE_INSN_LIMIT];
};

struct code_event { /* what happened */
    uint64_t time_ns;
    int64_t params[CODE_PARAMS];
    uint32_t param_count;
};

typedef _Atomic int64_t code_cell;

/* True if every operation, operand and cell index is one that code_run can run. */
bool code_check(const struct code_program *program, uint32_t cell_count);

/* Runs a checked program. Parameters an event does not have read as 0. */
void code_run(const struct code_program *program, const struct code_event *event, code_cell *cells);

#endif
