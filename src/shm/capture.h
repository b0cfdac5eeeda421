/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture programs: which bytes of a call are recorded. Compiled outside the target from debug information
 * (symbols/capture/compile.h), run by the agent in the hook. Freestanding, no allocation, async-signal-safe, safe on
 * any bytes: every access is checked as it is made, jumps go forward, and loops are counted and have a limit in all.
 * Memory is read through a function that reports bad addresses instead of faulting, except the frame itself.
 *
 * What a program emits is described by a layout (symbols/layout/layout.h) with the same id. Little-endian,
 * byte-aligned. Optional parts begin with a status byte (enum capture_status). Parts that are always there have their
 * size in the head. Before anything optional is emitted, the program checks that everything after it still fits. So a
 * run emits either nothing, or bytes that its layout describes completely. Programs for conditions emit 9 bytes for
 * each number: u8 enum code_type (shm/code.h), i64 bits.
 */
#ifndef SCRY_SHM_CAPTURE_H
#define SCRY_SHM_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The registers as the hook found them, by DWARF numbers: 0 rax 1 rdx 2 rcx 3 rbx 4 rsi 5 rdi 6 rbp 7 rsp 8..15, 16 the
 * hook's return address. rsp is as before the call of the hook. Of functions without hooks: symbols/capture/compile.h. */
struct capture_frame {
    uint64_t gpr[17];
    uint64_t xmm[16][2]; /* low 128 bits; only valid with has_xmm */
    bool has_xmm;
    uint64_t result; /* with has_result, of an exit: 0: not worth values */
    bool has_result;
    uint8_t patched; /* agent's own: it is of a patched function (agent/hooks/patched.h); 0: it is not */
};

enum capture_status {
    CAPTURE_OK,      /* content follows */
    CAPTURE_PART,    /* content follows, but there is more than that */
    CAPTURE_NULL,    /* a null pointer; nothing follows, as with the next two */
    CAPTURE_INVALID, /* not readable */
    CAPTURE_CUT,     /* no room */
    CAPTURE_ABSENT,  /* validly absent: the other alternatives of a variant */
    CAPTURE_ODD,     /* contradictory: not made yet, or destroyed */
    CAPTURE_STATUSES
};

/* Copies `size` bytes from an address that may be bad. 0, or -1: nothing usable was copied. */
typedef int capture_read_fn(void *dst, uint64_t address, size_t size);

/* Runs a program. Returns the number of bytes emitted. 0: no room for its minimum, it needs vector registers that the
 * frame does not have, or a mandatory part could not be read. `read` must be async-signal-safe. */
size_t capture_run(const void *code, size_t size, const struct capture_frame *frame, capture_read_fn *read, void *out,
                   size_t room);
/* The same for a program with shared blocks in the `before` bytes before it, which must be readable. */
size_t capture_run_sharing(const void *code, size_t size, size_t before, const struct capture_frame *frame,
                           capture_read_fn *read, void *out, size_t room);

/* True if every operation is one that capture_run can run and blocks nest as they should. */
bool capture_check(const void *code, size_t size);
bool capture_check_sharing(const void *code, size_t size, size_t before);
/* The same for a program whose shared blocks are only numbers yet; and for such a block. */
bool capture_check_apart(const void *code, size_t size);
bool capture_check_block(const void *code, size_t size);

/* Does the program use xmm registers? */
bool capture_wants_xmm(const void *code, size_t size);

/* The least number of bytes that it emits. */
size_t capture_minimum(const void *code, size_t size);

/* ---- what programs are made of: 8 bytes of head, then instructions of 8 bytes ---- */

enum {
    CAPTURE_VERSION = 3,
    CAPTURE_INSNS = 4096, /* of a program */
    CAPTURE_BLOCKS = 20,  /* inside each other */
    CAPTURE_TEMPS = 32,
    CAPTURE_TEMP = 32, /* number of the first: values are 0..16 registers, 32..63 temporaries */
    CAPTURE_SCRATCH_SIZE = 128,
    CAPTURE_FUEL = 1 << 16,      /* instructions in loops */
    CAPTURE_DIRECT = 4096,       /* how far above rsp the frame is read directly */
    CAPTURE_RED_ZONE = 128,      /* below it */
    CAPTURE_LOWEST_ADDR = 4096,  /* below it nothing is mapped */
    CAPTURE_ITEM_LIMIT = 1 << 16 /* bytes of one element */
};

enum capture_flag { CAPTURE_XMM_USED = 1 };

struct capture_head {
    uint8_t version, flags;
    uint16_t minimum; /* bytes emitted at least */
    uint8_t temps;    /* number of temporaries used, from the first; 0: all */
    uint8_t scratch;  /* bytes of scratch, likewise */
    uint16_t reserved;
};

struct capture_insn {
    uint8_t op, r;
    uint16_t n;
    int32_t off;
};

/* v[] are the values. `after` is the number of bytes that must still fit after a block (or its replacement).
 * Instructions marked 2 have a second word: struct capture_operand, or the constant. */
enum capture_op {
    CAPTURE_REG,     /* emit n bytes of v[r] from its byte off on; only registers: fast, like the next four */
    CAPTURE_REGS,    /* emit registers r .. r + n - 1 */
    CAPTURE_ADDRESS, /* emit v[r] + off */
    CAPTURE_MEM,     /* emit n bytes at v[r] + off, which is in the frame: read directly where near rsp */
    CAPTURE_XMM,     /* emit n bytes of xmm r from its byte off on */
    CAPTURE_FAST,    /* those before it */
    CAPTURE_READ = CAPTURE_FAST, /* emit n bytes at v[r] + off */
    CAPTURE_VALUE,               /* emit n bytes of v[r] from its byte off on */
    CAPTURE_LEA,                 /* v[r] = v[n] + off */
    CAPTURE_CONST,               /* v[r] = constant (2) */
    CAPTURE_LOAD,                /* v[r] = n >> 8 bytes at v[n & 63] + off, zero-extended */
    CAPTURE_PEEK,                /* the same, but 0 where there is nothing to be read */
    CAPTURE_XREG,                /* v[r] = half off of xmm n */
    CAPTURE_ALU,                 /* v[r] = v[r] (enum capture_alu n) v[off] */
    CAPTURE_SPILL,               /* 8 bytes of scratch at off = v[r] */
    CAPTURE_SCRATCH,             /* v[r] = address of scratch at off */
    CAPTURE_BITS,                /* emit n bytes: bits of v[r], see CAPTURE_BITS_OFF */
    CAPTURE_FLOAT,  /* emit as a double: n 4: the float v[r]; n 10: the x87 number of mantissa v[r], head v[off] */
    CAPTURE_TRY,    /* status; the block of n instructions up to its END; after: off. With r 1, what it cannot read is
                       not CAPTURE_INVALID but CAPTURE_ODD */
    CAPTURE_FOLLOW, /* the same, if the pointer v[r] is one */
    CAPTURE_NUMBER, /* u8 off (enum code_type), then what the block of n instructions emits: 8 bytes; if it cannot, the
                       nine bytes of CODE_MISSING */
    CAPTURE_END,
    CAPTURE_STRING, /* status; u16 length, bytes: of the string at v[r], at most CAPTURE_STRING_MAX(n); after: off. Of
                       wide characters it becomes UTF-8 */
    CAPTURE_BYTES,  /* 2: status; u32 count in all, u16 shown, bytes: v[count] bytes at v[r], at most n; after: off */
    CAPTURE_ITEMS,  /* 2: the same with elements of stride bytes */
    CAPTURE_LOOP,   /* 2: the same, elements emitted by the block of n instructions with v[r] at each; at most max. With
                       `indexed` v[r] need be no address */
    CAPTURE_REQUIRE, /* unless v[r], the innermost block cannot be had: status n */
    CAPTURE_CHAIN,   /* v[r], a node, becomes the number of nodes from it on, the address of the next at off, until
                        v[n >> 10]; at most n & 1023. What leads to nowhere is odd */
    CAPTURE_NEXT,    /* v[r], a node of a binary tree, becomes the next in order, or v[n]; the bytes of off, from the
                        lowest: where the addresses of left, right and parent are. What leads to nowhere is odd */
    CAPTURE_SHARED,  /* 2: as FOLLOW, but its block of n instructions, in which there is none of these, is shared with
                        other programs: it lies before this one, the second word is by how many bytes */
    CAPTURE_OPS
};

/* Does a second word follow the instruction? */
static inline bool capture_is_long(unsigned op)
{
    return op == CAPTURE_CONST || op == CAPTURE_SHARED || (op >= CAPTURE_BYTES && op <= CAPTURE_LOOP);
}

enum capture_alu {
    CAPTURE_ADD,
    CAPTURE_SUB,
    CAPTURE_MUL,
    CAPTURE_DIV, /* unsigned; by 0 is 0 */
    CAPTURE_AND,
    CAPTURE_OR,
    CAPTURE_XOR,
    CAPTURE_SHL,
    CAPTURE_SHR,
    CAPTURE_SAR,
    CAPTURE_MOD,     /* unsigned; by 0 is 0 */
    CAPTURE_EQUAL,   /* comparisons give 1 or 0 */
    CAPTURE_AT_MOST, /* unsigned */
    CAPTURE_LESS,
    CAPTURE_LESS_SIGNED,
    CAPTURE_MUL_HIGH, /* the upper 64 bits of the product */
    CAPTURE_MUL_HIGH_SIGNED,
    CAPTURE_DIV_SIGNED,
    CAPTURE_FLOATS, /* as the processor's vector unit does it in this thread, without a trace in its status */
    CAPTURE_FLOAT_ADD = CAPTURE_FLOATS,
    CAPTURE_FLOAT_SUB,
    CAPTURE_FLOAT_MUL,
    CAPTURE_FLOAT_DIV,
    CAPTURE_FLOAT_MIN,
    CAPTURE_FLOAT_MAX,
    CAPTURE_FLOAT_SQRT, /* of b, as the conversions are */
    CAPTURE_FLOAT_LESS,
    CAPTURE_FLOAT_LESS_EQUAL,
    CAPTURE_FLOAT_TO_INT32, /* towards 0 */
    CAPTURE_FLOAT_TO_INT64,
    CAPTURE_FLOAT_OF_INT64,
    CAPTURE_FLOAT_TO_OTHER, /* of the other size */
    CAPTURE_SINGLES,        /* the same of floats; those before are of doubles */
    CAPTURE_ALUS = CAPTURE_SINGLES + (CAPTURE_SINGLES - CAPTURE_FLOATS)
};

struct capture_operand {
    uint32_t stride;
    uint16_t max; /* of LOOP */
    uint8_t count;
    uint8_t indexed; /* of LOOP */
};

/* n of CAPTURE_STRING: `wide` is 0 for bytes, 1 for UTF-16, 2 for UTF-32. */
#define CAPTURE_STRING_N(max, wide) ((max) | (wide) << 14)
#define CAPTURE_STRING_MAX(n) ((n)&0x3fff)
#define CAPTURE_STRING_WIDE(n) ((n) >> 14)

#define CAPTURE_BITS_OFF(shift, bits, is_signed) ((shift) | (bits) << 8 | (is_signed) << 16)

/* The result of CAPTURE_ALU for two numbers (enum capture_alu), for the compiler if it knows both. Defined for all: a
 * division by 0 gives 0, a shift by 64 or more what is left then. */
uint64_t capture_compute(unsigned kind, uint64_t a, uint64_t b);

#endif
