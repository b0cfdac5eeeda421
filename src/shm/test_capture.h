/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of captures share: programs that are made by hand, and the memory that they see. */
#ifndef SCRY_SHM_TEST_CAPTURE_H
#define SCRY_SHM_TEST_CAPTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "shm/capture.h"
#include "shm/code.h"

/* The only memory there is: everything else is a bad address. */
static const uint8_t *good_memory;
static size_t good_size;
static unsigned reads;

static inline int read_good(void *dst, uint64_t address, size_t size)
{
    reads++;
    uint64_t from = address - (uint64_t)(uintptr_t)good_memory;
    if (!good_memory || from > good_size || size > good_size - from)
        return -1;
    memcpy(dst, good_memory + from, size);
    return 0;
}

static inline void allow(const void *memory, size_t size)
{
    good_memory = memory;
    good_size = size;
    reads = 0;
}

struct program {
    struct capture_head head;
    struct capture_insn insns[64];
    unsigned count;
};

#define I(...) ((struct capture_insn){__VA_ARGS__})

static inline void add(struct program *program, struct capture_insn insn)
{
    program->insns[program->count++] = insn;
}

static inline void add_operand(struct program *program, struct capture_operand operand)
{
    memcpy(&program->insns[program->count++], &operand, sizeof operand);
}

static inline size_t size_of(const struct program *program)
{
    return sizeof program->head + program->count * sizeof program->insns[0];
}

static inline size_t run(const struct program *program, const struct capture_frame *frame, void *out, size_t room)
{
    assert_true(capture_check(program, size_of(program)));
    return capture_run(program, size_of(program), frame, read_good, out, room);
}

static inline struct program program_of(unsigned minimum)
{
    return (struct program){
        .head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)minimum, .temps = 32, .scratch = 128}};
}

static inline struct capture_frame frame_here(void *sp)
{
    struct capture_frame frame = {.has_xmm = true};
    for (unsigned i = 0; i < 17; i++)
        frame.gpr[i] = 0x1000000000000000u + i * 0x0101010101010101u;
    frame.gpr[7] = (uint64_t)(uintptr_t)sp;
    return frame;
}

#endif
