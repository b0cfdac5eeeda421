/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowered action lists: a small bytecode that runs where the event occurs (in the tracer and in the agent), by one
 * interpreter, over 64-bit cells in shared memory. Freestanding, no allocation, async-signal-safe, and safe on any
 * program: code_check refuses what code_run could not run. There are no jumps: a program cannot loop.
 *
 * Numbers carry their type, because one condition is used for functions with different parameters. Integers compare by
 * value, whatever their signs. Beside a floating number an integer becomes one (nan != nan). A float and a number that
 * a float can hold make a float. Some results are missing: those of missing operands (but of `0 && missing` and `1 ||
 * missing`), those of more than 64 bits, and of a division of integers by 0. A value is true if it is neither missing
 * nor 0.
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
    CODE_TEMPS = 8,       /* of a run of a program */
};

enum code_op {
    CODE_ADD,         /* cell += a; nothing if a is no integer */
    CODE_TIMER_START, /* if cell == 0: cell = time */
    CODE_TIMER_STOP,  /* if cell != 0: other += time - cell, cell = 0 */
    CODE_UNLESS,      /* end unless a `operation` b is true */
    CODE_CALCULATE,   /* temporary number `other` = a `operation` b */
    CODE_SET,         /* cell = a */
    CODE_POST,        /* cell += 1, and the monitor is to be rung (CODE_POSTED) */
    CODE_OP_COUNT,
};

enum code_operand {
    CODE_IMMEDIATE, /* signed */
    CODE_PARAM,     /* value: 0..7 */
    CODE_TIME,
    CODE_IMMEDIATE_UNSIGNED,
    CODE_IMMEDIATE_FLOATING, /* the bits of a double */
    CODE_CELL,               /* value: index of a cell; signed */
    CODE_DURATION,           /* of the call that returns, in seconds; floating */
    CODE_TEMP,               /* value: which; calculated before */
    CODE_IMMEDIATE_SINGLE,   /* a float, as the bits of a double */
    CODE_OPERAND_COUNT
};

/* As those of C; `and` and `or` of truth values look at both. Of bits only integers have an operation. */
enum code_operation {
    CODE_EQ,
    CODE_NE,
    CODE_LT,
    CODE_LE,
    CODE_GT,
    CODE_GE,
    CODE_COMPARISON_COUNT, /* those before compare */
    CODE_PLUS = CODE_COMPARISON_COUNT,
    CODE_MINUS,
    CODE_TIMES,
    CODE_DIVIDED,
    CODE_MODULO,
    CODE_SHIFTED_LEFT,
    CODE_SHIFTED_RIGHT,
    CODE_BITS_AND,
    CODE_BITS_OR,
    CODE_BITS_XOR,
    CODE_AND,
    CODE_OR,
    CODE_AS_INTEGER,  /* a as one of b bits (8, 16, 32 or 64); b negative: one with a sign, of -b */
    CODE_AS_FLOATING, /* a as a floating number of b bits (32 or 64) */
    CODE_OPERATION_COUNT
};

/* What the 64 bits of a number are. */
enum code_type {
    CODE_SIGNED,
    CODE_UNSIGNED,
    CODE_FLOATING, /* double */
    CODE_SINGLE,   /* float, as a double that is worth the same */
    CODE_MISSING
};

struct code_insn {
    uint8_t op, operation, a_kind, b_kind;
    uint32_t cell, other; /* indices of cells; `other` of CODE_CALCULATE: of the temporary number */
    int64_t a, b;
};

struct code_program {
    uint32_t count;
    struct code_insn insns[CODE_INSN_LIMIT];
};

struct code_event { /* what happened */
    uint64_t time_ns, duration_ns;
    int64_t params[CODE_PARAMS];
    uint8_t types[CODE_PARAMS]; /* enum code_type; others count as missing */
    uint32_t param_count;
};

typedef _Atomic int64_t code_cell;

/* True if every operation, operand and index is one that code_run can run. */
bool code_check(const struct code_program *program, uint32_t cell_count);

enum code_outcome {
    CODE_PASSED = 1, /* ran to its end: no CODE_UNLESS ended it */
    CODE_POSTED = 2, /* a CODE_POST was run */
};

/* Runs a checked program; returns enum code_outcome bits. Parameters an event does not have read as 0. Cells may be
 * NULL if nothing of the program uses any. */
unsigned code_run(const struct code_program *program, const struct code_event *event, code_cell *cells);

#endif
