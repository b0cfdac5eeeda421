/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/put.h"
#include "lang/value.h"
#include "monitor/engine/execute.h"
#include "monitor/tracing/tracing.h"
#include "service/omis/service.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/user.h>

/*
 * Register numbers of the services: those of the System V ABI's DWARF table (x86-64 psABI, figure "DWARF Register
 * Number Mapping"). Integer: 0-15, 16 = rip, 49 = rflags, 50-55 = es cs ss ds fs gs, 58 = fs.base, 59 = gs.base.
 * Floating point: 17-32 are the low doubles of xmm0-15 (the upper bits are kept on write), 33-40 are st0-7.
 */

#define REGISTERS_INTEGER_TEXT "0-16 (16 is the program counter), 49-55, 58 and 59 are defined"
#define REGISTERS_FLOATING_TEXT "17-32 (xmm) and 33-40 (x87) are defined"

enum { REGISTERS_PC = 16 };

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

/* The number of defined registers in sequence from reg on; 0: reg is undefined. */
static size_t registers_integer_run(uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return integer_runs[i].count - (size_t)(reg - integer_runs[i].first);
    return 0;
}

/* Where a defined register stands. */
static unsigned long long *registers_integer(struct user_regs_struct *regs, uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return (unsigned long long *)(void *)((char *)regs + integer_runs[i].offsets[reg - integer_runs[i].first]);
    return NULL;
}

/* Of a struct user_regs_struct. */
static struct value registers_integer_at(const void *regs, size_t size, uint64_t reg)
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

static size_t registers_floating_run(uint64_t reg)
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

/* In an XSAVE area of `size` bytes. */
static struct value registers_floating_at(const void *state, size_t size, uint64_t reg)
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

static void registers_floating_set(void *state, size_t size, uint64_t reg, const struct value *value)
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

/* Reading and writing registers (specification 8.1.3). */

/* Stops a running thread for a moment: the process is released when the execution is over. */
static int regs_of(struct scry_call *call, const struct thread *thread, struct user_regs_struct *ret_regs,
                   struct err *err)
{
    int code = tracing_seize(thread->process, err);
    return code < 0 ? code : tracer_get_regs(call->monitor->tracer, thread->tid, ret_regs);
}

static int xstate_of(struct scry_call *call, const struct thread *thread, void *ret_bytes, size_t *ret_size,
                     struct err *err)
{
    *ret_size = TRACER_XSTATE_SIZE;
    int code = tracing_seize(thread->process, err);
    return code < 0 ? code : tracer_get_xstate(call->monitor->tracer, thread->tid, ret_bytes, ret_size);
}

/* Checks reg and the number of registers. *ret_count is the length of the run of defined numbers. */
static bool check_run(struct scry_call *call, bool floating, uint64_t wanted, size_t *ret_count)
{
    uint64_t reg = call_unsigned(call, 1);
    size_t defined = floating ? registers_floating_run(reg) : registers_integer_run(reg);
    if (!defined) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "there is no %s register number %llu: %s",
                  floating ? "floating point" : "integer", (unsigned long long)reg,
                  floating ? REGISTERS_FLOATING_TEXT : REGISTERS_INTEGER_TEXT);
        return false;
    }
    *ret_count = wanted < defined ? wanted : defined;
    return true;
}

/* Checks that every value has its register. */
static bool check_values(struct scry_call *call, bool floating, size_t *ret_count)
{
    size_t wanted = call->args[2].list.count;
    if (!check_run(call, floating, wanted, ret_count))
        return false;
    if (*ret_count == wanted)
        return true;
    uint64_t reg = call_unsigned(call, 1);
    call_fail(call, NULL, OMIS_PARAMETER_ERROR, "val has %zu values, but only registers %llu to %llu are in sequence",
              wanted, (unsigned long long)reg, (unsigned long long)(reg + *ret_count - 1));
    return false;
}

typedef struct value member_fn(const void *state, size_t size, uint64_t reg);

/* The result of one thread: the registers from reg on. */
static void tell_run(struct scry_call *call, size_t object, size_t count, member_fn *member, const void *state,
                     size_t size)
{
    struct buf text = BUF_INIT;
    put_list(&text);
    for (size_t i = 0; i < count; i++)
        PUT(&text, member(state, size, call_unsigned(call, 1) + i));
    put_end(&text);
    call_text(call, call->objects[object], &text);
    buf_done(&text);
}

static void thread_read_int_regs(struct scry_call *call)
{
    size_t count;
    if (!call_check_range(call, 2, 0, INT32_MAX) || !check_run(call, false, call_unsigned(call, 2), &count))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct user_regs_struct regs;
        struct err err = {0};
        int code = regs_of(call, call_thread(call, i), &regs, &err);
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
            continue;
        }
        tell_run(call, i, count, registers_integer_at, &regs, sizeof regs);
    }
}

static void thread_write_int_regs(struct scry_call *call)
{
    const struct value *list = &call->args[2];
    uint64_t reg = call_unsigned(call, 1);
    size_t count;
    if (!check_values(call, false, &count))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct user_regs_struct regs;
        struct err err = {0};
        struct thread *thread = call_thread(call, i);
        int code = regs_of(call, thread, &regs, &err);
        for (size_t k = 0; code == 0 && k < count; k++) {
            *registers_integer(&regs, reg + k) = list->list.items[k].integer.bits;
            if (reg + k == REGISTERS_PC)
                regs.orig_rax = (unsigned long long)-1; /* a system call in progress must not be restarted there */
        }
        if (code == 0)
            code = tracer_set_regs(call->monitor->tracer, thread->tid, &regs);
        call_done(call, call->objects[i], code, &err);
    }
}

static void thread_read_fp_regs(struct scry_call *call)
{
    size_t count;
    if (!call_check_range(call, 2, 0, INT32_MAX) || !check_run(call, true, call_unsigned(call, 2), &count))
        return;
    void *state = arena_alloc(call->arena, TRACER_XSTATE_SIZE);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        size_t size;
        int code = state ? xstate_of(call, call_thread(call, i), state, &size, &err) : -ENOMEM;
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
            continue;
        }
        tell_run(call, i, count, registers_floating_at, state, size);
    }
}

static void thread_write_fp_regs(struct scry_call *call)
{
    const struct value *list = &call->args[2];
    uint64_t reg = call_unsigned(call, 1);
    size_t count;
    if (!check_values(call, true, &count))
        return;
    void *state = arena_alloc(call->arena, TRACER_XSTATE_SIZE);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct thread *thread = call_thread(call, i);
        size_t size;
        int code = state ? xstate_of(call, thread, state, &size, &err) : -ENOMEM;
        for (size_t k = 0; code == 0 && k < count; k++)
            registers_floating_set(state, size, reg + k, &list->list.items[k]);
        if (code == 0)
            code = tracer_set_xstate(call->monitor->tracer, thread->tid, state, size);
        call_done(call, call->objects[i], code, &err);
    }
}

const struct scry_service thread_register_services[] = {
    {"thread_write_int_regs", SCRY_MANIPULATION, "token<t>* thread_list, integer reg, integer* val -> void",
     SCRY_REQUIRED | SCRY_MEMORY, thread_write_int_regs,
     "Write integer registers reg, reg+1, ... (numbers of the ABI's DWARF table)."},
    {"thread_write_fp_regs", SCRY_MANIPULATION, "token<t>* thread_list, integer reg, floating* val -> void",
     SCRY_REQUIRED | SCRY_MEMORY, thread_write_fp_regs,
     "Write floating point registers (17-32: low doubles of xmm0-15; 33-40: st0-7)."},
    {"thread_read_int_regs", SCRY_INFORMATION, "token<t>* thread_list, integer reg, integer num -> integer*",
     SCRY_REQUIRED | SCRY_MEMORY, thread_read_int_regs,
     "Read integer registers; the run ends at the first undefined number."},
    {"thread_read_fp_regs", SCRY_INFORMATION, "token<t>* thread_list, integer reg, integer num -> floating*",
     SCRY_REQUIRED | SCRY_MEMORY, thread_read_fp_regs,
     "Read floating point registers (17-32: low doubles of xmm0-15; 33-40: st0-7)."},
    SERVICE_END,
};
