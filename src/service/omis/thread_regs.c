/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing registers (specification 8.1.3), which registers_x86_64.c numbers. */
#include <errno.h>

#include "monitor/engine/call.h"
#include "monitor/tracing/tracing.h"
#include "lang/put.h"
#include "service/omis/registers.h"
#include "service/omis/service.h"

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
