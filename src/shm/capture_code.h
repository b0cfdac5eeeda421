/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside shm: reading capture programs, and copying, as interpreter and checker do it. Inline, for the hooks call
 * nothing on the way that need not be called.
 */
#ifndef SCRY_SHM_CAPTURE_CODE_H
#define SCRY_SHM_CAPTURE_CODE_H

#include "shm/capture.h"

/* The frame is read where instrumented code would not expect it; no call of memcpy, which may be the program's own. */
#define PLAIN __attribute__((no_sanitize("address", "undefined"), no_sanitize_thread))

/* Without the registers that a string instruction takes. */
static inline PLAIN __attribute__((always_inline)) void copy_few(uint8_t *dst, const uint8_t *src, size_t size)
{
    if (size == 8)
        __builtin_memcpy(dst, src, 8);
    else if (size == 4)
        __builtin_memcpy(dst, src, 4);
    else {
        for (; size >= 8; size -= 8, dst += 8, src += 8) {
            __builtin_memcpy(dst, src, 8);
            __asm__ volatile("" : : : "memory"); /* no call of memcpy */
        }
        for (; size > 0; size--) {
            *dst++ = *src++;
            __asm__ volatile("" : : : "memory");
        }
    }
}

static inline PLAIN void copy(void *dst, const void *src, size_t size)
{
    switch (size) {
    case 8:
        __builtin_memcpy(dst, src, 8);
        break;
    case 4:
        __builtin_memcpy(dst, src, 4);
        break;
    case 1:
        __builtin_memcpy(dst, src, 1);
        break;
    case 2:
        __builtin_memcpy(dst, src, 2);
        break;
    default:
        if (size > 256) {
            __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(size) : : "memory");
            break;
        }
        copy_few(dst, src, size);
    }
}

/* One load: the program may change while it is looked at. */
static inline PLAIN uint64_t word_at(const uint8_t *code)
{
    uint64_t word;
    __builtin_memcpy(&word, code, 8);
    __asm__ volatile("" : "+r"(word));
    return word;
}

static inline PLAIN struct capture_insn insn_at(const uint8_t *code)
{
    struct capture_insn insn;
    uint64_t word = word_at(code);
    __builtin_memcpy(&insn, &word, 8);
    return insn;
}

/* A float's bits as a double's, without the vector unit. */
uint64_t capture_widen(uint32_t bits);
/* An x87 number as the nearest double; what is too small for a normal one is 0. */
uint64_t capture_narrow(uint64_t mantissa, uint16_t head);
/* capture_compute() of floating point numbers: `kind` from CAPTURE_FLOATS on. */
uint64_t capture_compute_float(unsigned kind, uint64_t a, uint64_t b);

/* The rest of a program from pc on, `pos` bytes being emitted (capture_machine.c). */
size_t capture_run_rest(const uint8_t *code, size_t size, size_t before, size_t pc, const struct capture_frame *frame,
                        capture_read_fn *read, uint8_t *out, size_t pos, size_t room);

#endif
