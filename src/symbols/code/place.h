/* SPDX-License-Identifier: Apache-2.0 */
/* Where something is when a capture program runs: in memory, in registers, a constant, or in pieces. */
#ifndef SCRY_SYMBOLS_CODE_PLACE_H
#define SCRY_SYMBOLS_CODE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/capture.h"

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

#endif
