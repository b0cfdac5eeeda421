/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of capture programs. The common small ones, a few registers and slots of the frame, never leave
 * capture_run_sharing(); everything else is done by capture_run_rest() (capture_machine.c), which keeps values, scratch
 * memory and blocks.
 *
 * The program lies in memory that the traced process can scribble over: nothing here relies on capture_check().
 */
#include "shm/capture_code.h"

/* No calls here but the one at its end, so nothing has to be saved. */
PLAIN size_t capture_run_sharing(const void *code_bytes, size_t size, size_t before, const struct capture_frame *frame,
                                 capture_read_fn *read, void *out_bytes, size_t room)
{
    const uint8_t *code = code_bytes;
    uint8_t *out = out_bytes;
    if (size < 8)
        return 0;
    uint64_t head = word_at(code);
    if (room > 1 << 20)
        room = 1 << 20;
    if ((uint8_t)head != CAPTURE_VERSION || room < (uint16_t)(head >> 16) ||
        (head >> 8 & CAPTURE_XMM_USED && !frame->has_xmm))
        return 0;
    size_t pos = 0, pc = 8;
    for (; pc + 8 <= size; pc += 8) {
        uint64_t word = word_at(code + pc);
        unsigned op = (uint8_t)word, r = word >> 8 & 0xff;
        size_t n = word >> 16 & 0xffff;
        int64_t off = (int64_t)word >> 32;
        if (r > 16 || n > room - pos)
            goto rest;
        if (op == CAPTURE_MEM) {
            uint64_t address = frame->gpr[r] + (uint64_t)off;
            if (address - (frame->gpr[7] - CAPTURE_RED_ZONE) >= CAPTURE_DIRECT || n > CAPTURE_RED_ZONE)
                goto rest;
            copy_few(out + pos, (const uint8_t *)(uintptr_t)address, n);
        } else if (op == CAPTURE_REG) {
            uint64_t value = frame->gpr[r] >> (off & 7) * 8;
            if (n > 8 - (size_t)(off & 7))
                goto rest;
            copy_few(out + pos, (const uint8_t *)&value, n);
        } else if (op == CAPTURE_XMM) {
            if ((uint64_t)off > 16 || n > 16 - (size_t)off || r > 15 || !frame->has_xmm)
                goto rest;
            copy_few(out + pos, (const uint8_t *)frame->xmm[r] + off, n);
        } else if (op == CAPTURE_ADDRESS && room - pos >= 8) {
            uint64_t address = frame->gpr[r] + (uint64_t)off;
            n = 8;
            copy_few(out + pos, (const uint8_t *)&address, 8);
        } else if (op == CAPTURE_REGS && r + n <= 17 && n * 8 <= room - pos) {
            n *= 8;
            copy_few(out + pos, (const uint8_t *)&frame->gpr[r], n);
        } else
            goto rest;
        pos += n;
    }
    return pos;
rest:
    return capture_run_rest(code, size, before, pc, frame, read, out, pos, room);
}

PLAIN size_t capture_run(const void *code, size_t size, const struct capture_frame *frame, capture_read_fn *read,
                         void *out, size_t room)
{
    return capture_run_sharing(code, size, 0, frame, read, out, room);
}
