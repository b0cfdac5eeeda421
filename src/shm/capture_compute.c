/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of capture programs. */
#include "shm/capture_code.h"

PLAIN uint64_t capture_compute(unsigned kind, uint64_t a, uint64_t b)
{
    switch (kind) {
    case CAPTURE_ADD:
        return a + b;
    case CAPTURE_SUB:
        return a - b;
    case CAPTURE_MUL:
        return a * b;
    case CAPTURE_DIV:
        return b ? a / b : 0;
    case CAPTURE_AND:
        return a & b;
    case CAPTURE_OR:
        return a | b;
    case CAPTURE_XOR:
        return a ^ b;
    case CAPTURE_SHL:
        return b < 64 ? a << b : 0;
    case CAPTURE_SHR:
        return b < 64 ? a >> b : 0;
    case CAPTURE_SAR:
        return (uint64_t)((int64_t)a >> (b < 64 ? b : 63));
    case CAPTURE_MOD:
        return b ? a % b : 0;
    case CAPTURE_EQUAL:
        return a == b;
    case CAPTURE_AT_MOST:
        return a <= b;
    case CAPTURE_LESS:
        return a < b;
    case CAPTURE_LESS_SIGNED:
        return (int64_t)a < (int64_t)b;
    case CAPTURE_MUL_HIGH:
        return (uint64_t)((unsigned __int128)a * b >> 64);
    case CAPTURE_MUL_HIGH_SIGNED:
        return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64);
    case CAPTURE_DIV_SIGNED: /* the most negative number has no opposite */
        return !b ? 0 : b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b);
    default:
        return kind >= CAPTURE_FLOATS && kind < CAPTURE_ALUS ? capture_compute_float(kind, a, b) : 0;
    }
}

PLAIN uint64_t capture_widen(uint32_t bits)
{
    uint64_t sign = (uint64_t)(bits >> 31) << 63;
    uint32_t exponent = bits >> 23 & 0xff;
    uint64_t mantissa = bits & 0x7fffff;
    if (exponent == 0xff)
        return sign | UINT64_C(0x7ff) << 52 | mantissa << 29;
    if (exponent == 0) {
        if (mantissa == 0)
            return sign;
        uint32_t biased = 1023 - 126;
        while (!(mantissa & 0x800000)) {
            mantissa <<= 1;
            biased--;
        }
        return sign | (uint64_t)biased << 52 | (mantissa & 0x7fffff) << 29;
    }
    return sign | (uint64_t)(exponent + 1023 - 127) << 52 | mantissa << 29;
}

PLAIN uint64_t capture_narrow(uint64_t mantissa, uint16_t head)
{
    uint64_t sign = (uint64_t)(head >> 15) << 63, infinite = sign | UINT64_C(0x7ff) << 52;
    int exponent = (head & 0x7fff) - 16383 + 1023;
    if ((head & 0x7fff) == 0x7fff)
        return mantissa << 1 ? infinite | UINT64_C(1) << 51 : infinite;
    if (!(mantissa >> 63) || exponent <= 0)
        return sign;
    uint64_t fraction = mantissa << 1 >> 12, rest = mantissa & 0x7ff;
    uint64_t value = (uint64_t)exponent << 52 | fraction;
    if (rest > 0x400 || (rest == 0x400 && fraction & 1))
        value++; /* may carry into the exponent, as it should */
    return exponent >= 2047 || value >> 52 >= 2047 ? infinite : sign | value;
}

/* ---- floating point ---- */

/*
 * Floating point for capture programs: by the instructions that the program itself would use, with its rounding, so
 * that the result is the same to the last bit. The agent has no vector registers of its own: what is used is put back,
 * with the status word, and nothing traps. That word is written only where it has to be: it takes longer than all the
 * rest.
 */

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
