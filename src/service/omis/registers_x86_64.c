/* SPDX-License-Identifier: Apache-2.0 */
#include "service/omis/registers.h"

#include <string.h>

/* ---- integer ---- */

#define AT(member) offsetof(struct user_regs_struct, member)

static const struct {
    unsigned first, count;
    unsigned short offsets[17];
} integer_runs[] = {
    {0,
     17,
     {AT(rax), AT(rdx), AT(rcx), AT(rbx), AT(rsi), AT(rdi), AT(rbp), AT(rsp), AT(r8), AT(r9), AT(r10), AT(r11), AT(r12),
      AT(r13), AT(r14), AT(r15), AT(rip)}},
    {49, 7, {AT(eflags), AT(es), AT(cs), AT(ss), AT(ds), AT(fs), AT(gs)}},
    {58, 2, {AT(fs_base), AT(gs_base)}},
};

size_t registers_integer_run(uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return integer_runs[i].count - (size_t)(reg - integer_runs[i].first);
    return 0;
}

unsigned long long *registers_integer(struct user_regs_struct *regs, uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return (unsigned long long *)(void *)((char *)regs + integer_runs[i].offsets[reg - integer_runs[i].first]);
    return NULL;
}

struct value registers_integer_at(const void *regs, size_t size, uint64_t reg)
{
    struct user_regs_struct copy;
    memcpy(&copy, regs, sizeof copy);
    return value_uint(*registers_integer(&copy, reg));
}

/* ---- floating point: the legacy part of the XSAVE area (Intel SDM vol. 1, 13.4) ---- */

enum {
    FIRST_XMM = 17,
    FIRST_ST = 33,
    END_ST = 41,
    ST_AT = 32,
    XMM_AT = 160,
    SLOT = 16,
    STATUS_AT = 2, /* FSW: TOP in bits 11-13 */
    TAG_AT = 4,    /* abridged FTW: a bit for each physical register in use */
    MXCSR_AT = 24,
    XSTATE_BV_AT = 512,
    X87_BIT = 1,
    SSE_BIT = 2,
    LEGACY_SIZE = 576, /* with the XSAVE header */
    FCW_INIT = 0x37f,
    MXCSR_INIT = 0x1f80,
};

size_t registers_floating_run(uint64_t reg)
{
    return reg >= FIRST_XMM && reg < END_ST ? (size_t)(END_ST - reg) : 0;
}

static uint64_t components(const unsigned char *state, size_t size)
{
    uint64_t bv = X87_BIT | SSE_BIT; /* without the XSAVE header both are there */
    if (size >= LEGACY_SIZE)
        memcpy(&bv, state + XSTATE_BV_AT, sizeof bv);
    return bv;
}

/* A component not marked as present is in its initial state, whatever its bytes are. */
static void make_present(unsigned char *state, size_t size, uint64_t bit)
{
    uint64_t bv = components(state, size);
    if (bv & bit)
        return;
    if (bit == X87_BIT) {
        uint16_t fcw = FCW_INIT;
        memset(state, 0, MXCSR_AT);
        memcpy(state, &fcw, sizeof fcw);
        memset(state + ST_AT, 0, 8 * SLOT);
    } else {
        uint32_t mxcsr = MXCSR_INIT;
        memcpy(state + MXCSR_AT, &mxcsr, sizeof mxcsr);
        memset(state + XMM_AT, 0, 16 * SLOT);
    }
    bv |= bit;
    if (size >= LEGACY_SIZE)
        memcpy(state + XSTATE_BV_AT, &bv, sizeof bv);
}

struct value registers_floating_at(const void *state, size_t size, uint64_t reg)
{
    const unsigned char *bytes = state;
    uint64_t present = components(bytes, size);
    if (reg < FIRST_ST) {
        double number = 0;
        if (present & SSE_BIT)
            memcpy(&number, bytes + XMM_AT + (reg - FIRST_XMM) * SLOT, sizeof number);
        return value_floating(number);
    }
    long double number = 0;
    if (present & X87_BIT)
        memcpy(&number, bytes + ST_AT + (reg - FIRST_ST) * SLOT, 10);
    return value_wide(number);
}

void registers_floating_set(void *state, size_t size, uint64_t reg, const struct value *value)
{
    unsigned char *bytes = state;
    if (reg < FIRST_ST) {
        make_present(bytes, size, SSE_BIT);
        memcpy(bytes + XMM_AT + (reg - FIRST_XMM) * SLOT, &value->floating.number, sizeof(double));
        return;
    }
    make_present(bytes, size, X87_BIT);
    long double number = value->floating.is_wide ? value->floating.wide : (long double)value->floating.number;
    memcpy(bytes + ST_AT + (reg - FIRST_ST) * SLOT, &number, 10);
    uint16_t status;
    memcpy(&status, bytes + STATUS_AT, sizeof status);
    unsigned top = status >> 11 & 7;
    bytes[TAG_AT] |= (unsigned char)(1u << ((top + (reg - FIRST_ST)) & 7));
}
