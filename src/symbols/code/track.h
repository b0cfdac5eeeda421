/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the values that registers had at one instruction are at a later one. The code is followed, instruction by
 * instruction, as long as it does not branch.
 */
#ifndef SCRY_SYMBOLS_CODE_TRACK_H
#define SCRY_SYMBOLS_CODE_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/capture.h"
#include "symbols/code/code.h"

/* Where something is when a capture program runs: in memory, in registers, a constant, or in pieces. */

enum place_kind {
    PLACE_OPTIMISED_OUT,
    PLACE_NOT_AVAILABLE,
    PLACE_MEMORY,   /* v[base] + offset */
    PLACE_REGISTER, /* v[base] */
    PLACE_XMM,      /* xmm[base] */
    PLACE_CONSTANT, /* bytes of the constant */
    PLACE_PIECES,
};

enum { PLACE_PIECES_MAX = 8, SCRATCH_BITS = CAPTURE_SCRATCH_SIZE };

struct piece {
    enum place_kind kind;
    uint8_t base;
    bool frame;
    int64_t offset;
    uint64_t constant;
    uint32_t size;
};

struct place {
    enum place_kind kind;
    uint8_t base;
    bool frame;   /* memory: in the frame, certainly there */
    bool scratch; /* memory: put together; it is not where the program has it */
    int64_t offset;
    uint64_t constant;
    unsigned size; /* constant, register: bytes that are known; 0: all */
    unsigned piece_count;
    struct piece pieces[PLACE_PIECES_MAX];
    uint64_t missing[SCRATCH_BITS / 64]; /* of scratch memory that was put together: bytes that are not there */
};

enum track_kind {
    TRACK_UNKNOWN,
    TRACK_REGISTER, /* what the register was at the start, plus `add` */
    TRACK_MEMORY,   /* what lay at the register's value + add, then */
    TRACK_CONSTANT, /* add */
    TRACK_FIXED,    /* the address `add` of the file */
    TRACK_COMPUTED, /* nodes[base] */
    TRACK_EXTENDED, /* the x87 number of mantissa `add`, head `mask` */
};

struct tracked {
    enum track_kind kind;
    uint8_t base; /* 0-15, 16-31 xmm; DWARF order; from TRACK_HIGH on the upper halves of xmm */
    uint8_t size; /* low bytes that are known */
    int64_t add;
    uint64_t mask; /* and then only these bits of it; 0: all */
};

enum { TRACK_SLOTS = 192, TRACK_NODES = 192, TRACK_X87 = 32, TRACK_HIGH, TRACK_VALUES = TRACK_HIGH + 16 };
enum {
    TRACK_SIGN_EXTEND = CAPTURE_ALUS, /* of the low bytes of a, as many as the constant b says */
    TRACK_ZERO_EXTEND,
    TRACK_LOAD,  /* what lies at a + the constant b */
    TRACK_SELECT /* a if c is not 0, or b */
};

struct track_node {    /* what an instruction computes of two values */
    uint8_t how, size; /* enum capture_alu or of the above; of so many bytes */
    struct tracked a, b, c;
};

struct track_nodes { /* of all ways */
    struct track_node nodes[TRACK_NODES];
    unsigned count;
};

enum track_flags {
    FLAGS_UNKNOWN,
    FLAGS_COMPARED, /* a with b */
    FLAGS_ADDED,    /* b to something, and a is the sum */
    FLAGS_RESULT,   /* of a; neither carry nor overflow */
    FLAGS_SIGN,     /* of a; of the rest nothing is known */
    FLAGS_FLOATS,   /* a with b */
};

struct track_slot {
    int64_t offset; /* from the base's value at the start */
    uint8_t base, size;
    struct tracked value;
};

struct track {
    struct tracked values[TRACK_VALUES]; /* general, xmm, top of the x87 stack, upper halves of xmm */
    struct track_slot slots[TRACK_SLOTS];
    unsigned slot_count;
    struct track_nodes *nodes; /* results of instructions; NULL: computed values are unknown */
    const struct elf_code *code;
    uint64_t next; /* address behind the instruction that is followed */
    struct {       /* what the last instruction that set them did; of so many bytes */
        enum track_flags kind;
        uint8_t size;
        struct tracked a, b;
    } flags;
    uint8_t frame;    /* behind an entry hook: the register by which the frame's slots are addressed; 0: none */
    bool memory_lost; /* memory may not be as it was at the start */
    bool reachable;
};

/* From a function's first instruction to `end`. False: what happens between could not be followed. */
bool track_entry(struct track *track, const struct elf_code *code, uint64_t begin, uint64_t end);
/* The argument registers, bits by DWARF numbers, of which the function, or what it passes them on to, reads what its caller put
 * there, on some way that can be followed. */
uint32_t track_reads(const struct elf_code *code, uint64_t begin);
/* From behind an exit hook to the function's return, on all ways there: the values of registers for results. False also
 * where it goes on by calls, as when an exception leaves the function. */
bool track_exit(struct track *track, struct track_nodes *nodes, const struct elf_code *code, uint64_t begin);
/* The state right behind an entry hook, which is what a capture program finds; track_behind() goes on from there. The
 * frame's slots, addressed by `frame`, are set from now on. */
void track_start_behind(struct track *ret, struct track_nodes *nodes, const struct elf_code *code, unsigned frame);
/* The same at a function's first instruction. */
void track_start_entry(struct track *ret, struct track_nodes *nodes, const struct elf_code *code);
/* Goes on behind an entry hook, instruction by instruction, until `look` has found what it looks for. False: it has not
 * before the code branches. */
typedef bool track_look_fn(void *ctx, const struct track *now, uint64_t at);
bool track_behind(struct track *now, uint64_t begin, track_look_fn *look, void *ctx);
/* What the slot at rsp(at the start) + offset holds at the end, or after the first store to it from `begin` on, behind
 * an entry hook (`called`) or where the track ends. False: there is none before the code branches. */
bool track_first_stored(const struct track *track, uint64_t begin, bool called, int64_t offset,
                        struct tracked *ret_stored);
/* Whether something was stored to the byte at rsp(at the start) + offset. */
bool track_stored(const struct track *track, int64_t offset);
/* Where a place in memory is from rsp(at the start). */
bool track_offset(const struct track *track, const struct place *place, int64_t *ret_offset);
/* Where `size` bytes of what a register was at the function's start are at the end. */
bool track_find(const struct track *track, unsigned reg, unsigned size, struct place *ret_place);
/* Whether a place keeps its content through calls. */
bool track_keeps(const struct place *place);
/* The address rsp(at the start) + offset, at the end. */
bool track_stack(const struct track *track, int64_t offset, struct place *ret_place);

#endif
