/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point for capture programs: by the instructions that the program itself would use, with its rounding, so
 * that the result is the same to the last bit. The agent has no vector registers of its own: what is used is put back,
 * with the status word, and nothing traps. That word is written only where it has to be: it takes longer than all the
 * rest.
 */
#include "shm/capture_code.h"

enum { EXCEPTIONS = 0x3f, ALL_MASKED = 0x1f80 };

struct vectors {
    uint64_t a, b;        /* 0 */
    uint64_t result;      /* 16 */
    uint64_t saved[2][2]; /* 24 */
};

_Static_assert(offsetof(struct vectors, result) == 16 && offsetof(struct vectors, saved) == 24, "the offsets below");

/* An instruction on xmm0 (a, and the result) and xmm1 (b); integers are in %rax. */
#define COMPUTE(text) \
    __asm__ volatile("movups %%xmm0,24(%0)\nmovups %%xmm1,40(%0)\nmovq (%0),%%xmm0\nmovq 8(%0),%%xmm1\n" text \
                     "\nmovups 24(%0),%%xmm0\nmovups 40(%0),%%xmm1" \
                     : \
                     : "r"(&vectors) \
                     : "rax", "cc", "memory")
#define TO_XMM(text) text " %%xmm1,%%xmm0\nmovq %%xmm0,16(%0)"
#define TO_NUMBER(text) "xorl %%eax,%%eax\n" text "\nmovq %%rax,16(%0)"

#define BOTH(kind, text) \
    case kind: \
        COMPUTE(TO_XMM(text "sd")); \
        break; \
    case kind + (CAPTURE_SINGLES - CAPTURE_FLOATS): \
        COMPUTE(TO_XMM(text "ss")); \
        break
#define BOTH_NUMBER(kind, before, after) \
    case kind: \
        COMPUTE(TO_NUMBER(before "sd" after)); \
        break; \
    case kind + (CAPTURE_SINGLES - CAPTURE_FLOATS): \
        COMPUTE(TO_NUMBER(before "ss" after)); \
        break

PLAIN uint64_t capture_compute_float(unsigned kind, uint64_t a, uint64_t b)
{
    struct vectors vectors;
    uint32_t status, after;
    vectors.a = a;
    vectors.b = b;
    vectors.result = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(status));
    if ((status & ALL_MASKED) != ALL_MASKED) {
        const uint32_t masked = (status | ALL_MASKED) & ~(uint32_t)EXCEPTIONS;
        __asm__ volatile("ldmxcsr %0" : : "m"(masked) : "memory");
    }
    switch (kind) {
        BOTH(CAPTURE_FLOAT_ADD, "add");
        BOTH(CAPTURE_FLOAT_SUB, "sub");
        BOTH(CAPTURE_FLOAT_MUL, "mul");
        BOTH(CAPTURE_FLOAT_DIV, "div");
        BOTH(CAPTURE_FLOAT_MIN, "min");
        BOTH(CAPTURE_FLOAT_MAX, "max");
        BOTH(CAPTURE_FLOAT_SQRT, "sqrt");
        BOTH_NUMBER(CAPTURE_FLOAT_LESS, "comi", " %%xmm0,%%xmm1\nseta %%al");
        BOTH_NUMBER(CAPTURE_FLOAT_LESS_EQUAL, "comi", " %%xmm0,%%xmm1\nsetae %%al");
        BOTH_NUMBER(CAPTURE_FLOAT_TO_INT32, "cvtt", "2si %%xmm1,%%eax");
        BOTH_NUMBER(CAPTURE_FLOAT_TO_INT64, "cvtt", "2si %%xmm1,%%rax");
    case CAPTURE_FLOAT_OF_INT64:
        COMPUTE("cvtsi2sdq 8(%0),%%xmm0\nmovq %%xmm0,16(%0)");
        break;
    case CAPTURE_FLOAT_OF_INT64 + (CAPTURE_SINGLES - CAPTURE_FLOATS):
        COMPUTE("cvtsi2ssq 8(%0),%%xmm0\nmovq %%xmm0,16(%0)");
        break;
    case CAPTURE_FLOAT_TO_OTHER:
        COMPUTE(TO_XMM("cvtsd2ss"));
        break;
    case CAPTURE_FLOAT_TO_OTHER + (CAPTURE_SINGLES - CAPTURE_FLOATS):
        COMPUTE(TO_XMM("cvtss2sd"));
        break;
    default:
        break;
    }
    __asm__ volatile("stmxcsr %0" : "=m"(after));
    if (after != status)
        __asm__ volatile("ldmxcsr %0" : : "m"(status) : "memory");
    return vectors.result;
}
