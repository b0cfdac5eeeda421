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
