/* SPDX-License-Identifier: Apache-2.0 */
/* Values at entries and exits: what the long ways of the hooks write of them. See hooks.h and values.h. */
#include "agent/hooks/hooks.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"

/* A program and its layout are changed together, as one word. */
struct site_values {
    uint32_t program, layout;
};
_Static_assert(offsetof(struct area_site, layout) == offsetof(struct area_site, values) + 4 &&
                   offsetof(struct area_site, values) % 8 == 0,
               "one word");

static struct site_values site_values(const struct area_site *site)
{
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)&site->values, __ATOMIC_ACQUIRE);
    return (struct site_values){(uint32_t)word, (uint32_t)(word >> 32)};
}

static void with_xmm(struct capture_frame *frame, uint32_t program)
{
    if (!frame->has_xmm && agent_values_wants_xmm(&agent_hot.view, program))
        agent_save_xmm(frame);
}

bool hook_values(const struct area_site *site, struct capture_frame *frame, bool kept, struct values *out)
{
    struct site_values what = site_values(site);
    uint32_t program = what.program;
    if (!program)
        return false;
    if (kept && !(agent_program_flags(&agent_hot.view, program, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_KEPT))
        return false;
    with_xmm(frame, program);
    size_t size = agent_values_capture(&agent_hot.view, program, frame, out->bytes, sizeof out->bytes);
    if (!size || size > sizeof out->bytes)
        return false;
    out->layout = what.layout;
    out->size = (uint16_t)size;
    return true;
}

bool hook_values_of_caller(const struct area_site *site, uint64_t callsite, struct capture_frame *frame,
                           struct values *out)
{
    uint32_t unwind = atomic_load_explicit(&site->unwind, memory_order_acquire);
    uint64_t hook = atomic_load_explicit(&site->address, memory_order_relaxed);
    /* an inlined function has been called from the function that it is in, and callsite is where that was */
    const struct area_site *call = unwind ? area_site_find(&agent_hot.view, hook - 1, false) : NULL;
    if (unwind && !call)
        call = area_site_find(&agent_hot.view, callsite, false);
    struct site_values what = call ? site_values(call) : (struct site_values){0, 0};
    uint32_t program = what.program;
    if (!program)
        return false;
    size_t size = agent_values_caller(&agent_hot.view, unwind, program, frame, out->bytes, sizeof out->bytes);
    if (!size || size > sizeof out->bytes)
        return false;
    out->layout = what.layout;
    out->size = (uint16_t)size;
    return true;
}

void agent_read_failed(uint64_t faults)
{
    if (agent_self.block)
        atomic_store_explicit(&agent_self.block->faults, faults, memory_order_relaxed);
}

/* One reading in MEASURE_EACH is measured, but not the first, when caches are cold. */
enum { MEASURE_EACH = 16 };

struct reading reading_begin(struct agent_thread *self)
{
    bool measured = ++self->values_read % MEASURE_EACH == 0;
    return (struct reading){agent_read_begin(), measured ? __builtin_ia32_rdtsc() : 0};
}

void reading_end(struct agent_thread *self, struct reading reading)
{
    struct area_thread *block = self->block;
    agent_read_end(reading.how);
    if (reading.since) {
        uint64_t ticks = atomic_load_explicit(&block->values_ticks, memory_order_relaxed);
        ticks += MEASURE_EACH * (__builtin_ia32_rdtsc() - reading.since);
        atomic_store_explicit(&block->values_ticks, ticks, memory_order_relaxed);
    }
}
