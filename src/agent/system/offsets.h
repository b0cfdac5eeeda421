/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where hooks_x86_64.S finds things; hooks.c asserts that the structures agree.
 */
#ifndef SCRY_AGENT_SYSTEM_OFFSETS_H
#define SCRY_AGENT_SYSTEM_OFFSETS_H

#define HOT_AREA 0
#define HOT_SLOTS 8
#define HOT_SLOT_MASK 16
#define HOT_PLACES 24
#define HOT_PLACE_MASK 32
#define HOT_QUIET 64
#define QUIET_ABOVE 8

#define SELF_BLOCK 0
#define SELF_STACK_LOW 8
#define SELF_STACK_SIZE 16
#define SELF_FRAMES 24
#define SELF_PACKET_SEQ 32
#define SELF_WRITER 40
#define SELF_FRAME_LIMIT 48
#define SELF_LEAVING 56
#define SELF_PLAIN 88
#define SELF_HOLE_ID 212
#define SELF_POINTED 288
#define SELF_PATCHED_FREE 552
#define SELF_PATCHED_KEPT 560

#define FRAME_SIZE 64
#define FRAME_SHIFT 6
#define FRAME_FUNCTION 0
#define FRAME_CALLSITE 8
#define FRAME_SITE 16
#define FRAME_SP 24
#define FRAME_TIME 32
#define FRAME_SLOT 40
#define FRAME_FLAGS 44
#define FRAME_PACKET_SEQ 48

#define SLOT_MODE 8
#define SLOT_CALLS 32
#define SLOT_TICKS 40
#define SLOT_THINNED 48
#define SLOT_SHIFT 6

#define MODE_COUNT 1
#define MODE_RECORD 2
#define MODE_VALUES 6 /* recorded with values */
#define MODE_ACT 32   /* an action list at entries */
#define MODE_EXITS 67 /* what an exit is of use for */
#define MODE_TALLY 128
#define FLAG_RECORDED 1
#define FLAG_COUNT 4
#define FILTER_ENTER 1
#define FILTER_EXIT 2
#define FILTER_QUIET 0x80
#define FILTER_FACTOR 0x9e3779b1
#define QUIET_BITS 0x7f0 /* of a byte's place in the filter: one of AGENT_QUIET, times 16 */
#define TALLY_BITS 0x1ffff
#define EXIT_NEAR 128 /* bytes of arguments that may still be on the stack at an exit */
#define ID_EXIT 1
#define ID_ENTRY_VALUES 3
#define ID_EXIT_VALUES 4
#define TIME_BITS 27

#define AREA_ON 132
#define AREA_MAX_DEPTH 148
#define AREA_MIN_TICKS 160
#define AREA_READER 144

#define BLOCK_CURSOR 8
#define BLOCK_PENDING 16
#define BLOCK_END 24
#define BLOCK_LAST_TIME 40
#define BLOCK_DEPTH 48
#define BLOCK_DISCARDED 64
#define BLOCK_COUNTS 8192

/* struct area_count */
#define COUNT_CALLS 8
#define COUNT_TICKS 16
#define COUNT_THINNED 24
#define COUNT_SHIFT 5
#define COUNT_SIZE 32
#define COUNT_MASK 127

/* struct area_place */
#define PLACE_HOOK 8
#define PLACE_SLOT 16
#define PLACE_SHIFT 5
#define PLACE_PROBES 16
#define PLACE_BIT 0x80000000

/* struct area_site */
#define SITE_VALUES 8

/* struct agent_moves */
#define MOVES_ADDRESS 0
#define MOVES_SITE 8
#define MOVES_SITE_ADDRESS 16
#define MOVES_WORD 24
#define MOVES_RBP_BIAS 32
#define MOVES_RBP_LIMIT 40
#define MOVES_LAYOUT 48
#define MOVES_TOTAL 54
#define MOVES_KIND 56
#define MOVES_CONSTANT 60
#define MOVES_KEEPS 62
#define MOVES_TEMPLATE 64
#define MOVES_HEAD 72
#define MOVES_LIST 80
#define MOVES_KIND_NONE 0
#define MOVES_KIND_SHORT 1
#define MOVES_KIND_NEAR 2
#define MOVES_KIND_VARYING 3
#define MOVE_SIZE 16

#define HOOK_STACK 4096         /* on a stack for signals with less room the long way is not gone, */
#define HOOK_CONNECT_STACK 8192 /* nor, with less than this, in a process that is not connected */
#define AREA_UNPLACED 440       /* of struct area */

/* From the rsp of a hook, in the red zone: where it keeps what is below, and where steps may put numbers. */
#define KEPT_SIZE (-8)   /* of values whose steps are over */
#define KEPT_MOVES (-32) /* struct agent_moves */
#define KEPT_RBX (-40)
#define KEPT_RBP (-48)
#define KEPT_R12 (-56)
#define KEPT_R13 (-64)
#define KEPT_R14 (-72)
#define KEPT_R15 (-80)

/*
 * The steps of struct agent_moves, NUMBER being the step's number. One register computes:
 *
 *   RSP_n AT_RBP_n       n bytes at rsp or rbp + NUMBER are the next of the values
 *   RBX RBP ... _4 _8    so is the register,
 *   OUT_n                what was computed,
 *   NUMBER_n             or NUMBER
 *   RSP_n_RUN_m ...      m such as RSP_n, from NUMBER's lower half, its upper half, and what follows it
 *   ..._END              and that was the last
 *   GET_..., SET         the register that computes becomes this, zero-extended
 *   PUT, INCREASE        it goes to rsp + NUMBER; grows by NUMBER
 *   ADD_RBX ...          itself + - * the register
 *   ADD ...              (enum capture_alu) it becomes itself OPERATION what is at rsp + NUMBER
 *   ADD_NUMBER ...       itself OPERATION NUMBER
 *   COMPUTE              itself, any operation (upper half of NUMBER), what is at rsp + lower half
 *   COMPUTE_FLOAT        the same of floating point numbers
 *   FOLLOW, STRING       a status, and NUMBER bytes at the address that was computed, or the string there, of NUMBER
 *                        bytes at most, are the next of the values; what was computed is lost
 */
/* clang-format off */
#define MOVE_SIZES(X, name, after) X(name##_1##after) X(name##_2##after) X(name##_4##after) X(name##_8##after)
#define MOVE_RUNS(X, name, after) \
    X(name##_2##after) X(name##_3##after) X(name##_4##after) X(name##_5##after) X(name##_6##after) X(name##_7##after) \
    X(name##_8##after)
#define MOVE_REGISTERS(X, before, after) \
    X(before##RBX##after) X(before##RBP##after) X(before##R12##after) X(before##R13##after) X(before##R14##after) \
    X(before##R15##after)
#define MOVE_ALUS(X, after) \
    X(ADD##after) X(SUB##after) X(MUL##after) X(AND##after) X(OR##after) X(XOR##after) X(SHL##after) X(SHR##after) \
    X(SAR##after) X(EQUAL##after) X(AT_MOST##after) X(LESS##after) X(LESS_SIGNED##after) X(MUL_HIGH##after) \
    X(MUL_HIGH_SIGNED##after)
#define MOVE_OUTS(X, after) \
    MOVE_SIZES(X, RSP, after) MOVE_SIZES(X, AT_RBP, after) MOVE_REGISTERS(X, , _4##after) \
    MOVE_REGISTERS(X, , _8##after) MOVE_SIZES(X, OUT, after) MOVE_SIZES(X, NUMBER, after) \
    MOVE_RUNS(X, RSP_4_RUN, after) MOVE_RUNS(X, RSP_8_RUN, after) MOVE_RUNS(X, AT_RBP_4_RUN, after) \
    MOVE_RUNS(X, AT_RBP_8_RUN, after)
#define MOVE_CODES(X) \
    X(END) MOVE_OUTS(X, ) MOVE_OUTS(X, _END) \
    MOVE_SIZES(X, GET_RSP, ) MOVE_SIZES(X, GET_AT_RBP, ) MOVE_REGISTERS(X, GET_, ) X(SET) X(PUT) X(INCREASE) \
    MOVE_REGISTERS(X, ADD_, ) MOVE_REGISTERS(X, SUB_, ) \
    MOVE_REGISTERS(X, MUL_, ) MOVE_ALUS(X, ) MOVE_ALUS(X, _NUMBER) X(COMPUTE) X(COMPUTE_FLOAT) \
    X(FOLLOW) X(STRING)
/* clang-format on */

/* struct capture_frame */
#define REGS_XMM 136
#define REGS_HAS_XMM 392
#define REGS_RESULT 400
#define REGS_HAS_RESULT 408
#define REGS_PATCHED 409
#define REGS_SIZE 416

/* patched functions */
#define PATCHED_ENTRY 1
#define PATCHED_EXIT 2
#define PATCHED_CALLS 16384     /* open at once that are seen to end */
#define PATCHED_CALL 5          /* bytes of the call in a trampoline */
#define PATCHED_TRAMPOLINE 16   /* bytes */
#define PATCHED_RECORDS 0x40000 /* bytes of all trampolines, of all records, and of all places */
#define PATCHED_KEPT_MOST 64    /* records that a thread keeps for itself */
#define CALL_FUNCTION 8
#define CALL_SP PATCHED_RECORDS /* of struct patched_place */
#define CALL_NEXT (PATCHED_RECORDS + 12)

#endif
