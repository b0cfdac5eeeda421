/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "agent/system/large.h"
#include "agent/safety/moves.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"

/*
 * What was found of each offset: generation << 40 | offset << 8 | kind << 6 | KNOWN | flags, in one of WAYS places from
 * that of its hash on. When all are taken, the first is taken over: then that one is checked again when it comes next,
 * which costs time and nothing else.
 */
enum { PLACES = 65536, WAYS = 4, KNOWN = 32, KIND_SHIFT = 6, OFFSET_SHIFT = 8, GENERATION_SHIFT = 40 };

static void *_Atomic known_memory;
static _Atomic uint64_t *known;                               /* [PLACES + WAYS] */
static uint64_t generation = UINT64_C(1) << GENERATION_SHIFT; /* of the area */

static const void *bytes_at(const struct area_view *view, uint64_t offset, uint64_t size)
{
    return offset != 0 && offset % 8 == 0 && offset <= view->programs_size && size <= view->programs_size - offset
               ? view->programs + offset
               : NULL;
}

/* Only registers that functions keep for their callers, what is computed of them, and the frame. */
static bool keeps(const struct area_program *program)
{
    const uint64_t kept = 1 << 3 | 1 << 6 | 1 << 7 | 31 << 12 | UINT64_C(0xffffffff) << CAPTURE_TEMP;
    for (uint32_t at = sizeof(struct capture_head); at < program->size; at += sizeof(struct capture_insn)) {
        struct capture_insn insn;
        uint64_t reads;
        __builtin_memcpy(&insn, program->code + at, sizeof insn);
        switch (insn.op) {
        case CAPTURE_CONST:
            at += sizeof insn;
            continue;
        case CAPTURE_END:
            continue;
        case CAPTURE_REG:
        case CAPTURE_MEM:
        case CAPTURE_VALUE:
        case CAPTURE_READ:
        case CAPTURE_FOLLOW:
        case CAPTURE_STRING:
            reads = UINT64_C(1) << (insn.r & 63);
            break;
        case CAPTURE_LEA:
        case CAPTURE_LOAD:
        case CAPTURE_PEEK:
            reads = UINT64_C(1) << (insn.n & 63);
            break;
        case CAPTURE_ALU:
            reads = UINT64_C(1) << (insn.off & 63) | UINT64_C(1) << (insn.r & 63);
            break;
        default:
            return false;
        }
        if (reads & ~kept)
            return false;
    }
    return true;
}

static unsigned check_capture(const struct area_view *view, uint32_t offset)
{
    const struct area_program *program = bytes_at(view, offset, sizeof *program);
    if (!program || !bytes_at(view, offset, sizeof *program + (uint64_t)program->size) ||
        !capture_check_sharing(program->code, program->size, offset + sizeof *program))
        return 0;
    return AGENT_PROGRAM_OK | (capture_wants_xmm(program->code, program->size) ? AGENT_PROGRAM_XMM : 0) |
           (keeps(program) ? AGENT_PROGRAM_KEPT : 0);
}

static unsigned check_code(const struct area_view *view, uint32_t offset)
{
    const struct code_program *program = bytes_at(view, offset, offsetof(struct code_program, insns));
    unsigned flags = AGENT_PROGRAM_OK;
    if (!program || program->count > CODE_INSN_LIMIT ||
        !bytes_at(view, offset, offsetof(struct code_program, insns) + program->count * sizeof *program->insns) ||
        !code_check(program, CODE_CELLS))
        return 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct code_insn *insn = &program->insns[i];
        if (insn->op == CODE_TIMER_START || insn->op == CODE_TIMER_STOP || insn->a_kind == CODE_TIME ||
            insn->b_kind == CODE_TIME)
            flags |= AGENT_PROGRAM_TIME;
        if (insn->a_kind == CODE_DURATION || insn->b_kind == CODE_DURATION)
            flags |= AGENT_PROGRAM_DURATION;
        if (insn->a_kind == CODE_PARAM || insn->b_kind == CODE_PARAM)
            flags |= AGENT_PROGRAM_PARAMS;
    }
    return flags;
}

static unsigned check_list(const struct area_view *view, uint32_t offset)
{
    const struct area_list *list = bytes_at(view, offset, sizeof *list);
    unsigned flags = AGENT_PROGRAM_OK;
    if (!list || !bytes_at(view, offset, sizeof *list + (uint64_t)list->count * sizeof *list->actions))
        return 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct area_action *action = &list->actions[i];
        if (action->program_at)
            flags |= agent_program_flags(view, action->program_at, AGENT_PROGRAM_CODE) &
                     (AGENT_PROGRAM_PARAMS | AGENT_PROGRAM_TIME | AGENT_PROGRAM_DURATION);
        if (action->raise)
            flags |= AGENT_PROGRAM_RAISES;
    }
    return flags;
}

unsigned agent_program_flags(const struct area_view *view, uint32_t offset, enum agent_program_kind kind)
{
    _Atomic uint64_t *place = &known[(offset / 8 * 2654435761U >> 16) % PLACES], *free = place;
    uint64_t key = generation | (uint64_t)offset << OFFSET_SHIFT | (uint64_t)kind << KIND_SHIFT | KNOWN;
    for (unsigned way = 0; way < WAYS; way++) {
        uint64_t found = atomic_load_explicit(&place[way], memory_order_relaxed);
        if (__builtin_expect((found & ~UINT64_C(31)) == key, 1))
            return found & 31;
        if (found >> GENERATION_SHIFT != generation >> GENERATION_SHIFT) {
            free = &place[way];
            break;
        }
    }
    unsigned flags = kind == AGENT_PROGRAM_CAPTURE ? check_capture(view, offset)
                     : kind == AGENT_PROGRAM_CODE  ? check_code(view, offset)
                                                   : check_list(view, offset);
    atomic_store_explicit(free, key | flags, memory_order_relaxed);
    return flags;
}

bool agent_programs_forget(void)
{
    generation += UINT64_C(1) << GENERATION_SHIFT;
    known = large_get(&known_memory, (PLACES + WAYS) * sizeof *known, LARGE_CORE_PART);
    return known && agent_moves_forget();
}

size_t agent_values_capture(const struct area_view *view, uint32_t offset, const struct capture_frame *frame, void *out,
                            size_t room)
{
    if (offset == 0 || !(agent_program_flags(view, offset, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK))
        return 0;
    const struct area_program *program = (const struct area_program *)(const void *)(view->programs + offset);
    return capture_run_sharing(program->code, program->size, offset + sizeof *program, frame, agent_read, out, room);
}

size_t agent_values_caller(const struct area_view *view, uint32_t unwind_at, uint32_t offset,
                           const struct capture_frame *frame, void *out, size_t room)
{
    struct capture_frame caller;
    if (offset == 0 || unwind_at == 0 ||
        agent_values_capture(view, unwind_at, frame, caller.gpr, sizeof caller.gpr) != sizeof caller.gpr)
        return 0;
    caller.has_xmm = false;
    caller.has_result = false;
    caller.result = 0;
    return agent_values_capture(view, offset, &caller, out, room);
}

bool agent_values_wants_xmm(const struct area_view *view, uint32_t offset)
{
    return offset != 0 && (agent_program_flags(view, offset, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_XMM);
}
