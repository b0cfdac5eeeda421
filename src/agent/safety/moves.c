/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/large.h"
#include "agent/safety/moves.h"

#include "agent/system/offsets.h"
#include "agent/system/sys.h"
#include "agent/safety/values.h"
#include "shm/capture.h"
#include "shm/record.h"

#include <sys/mman.h>

enum {
    VALUES_HEAD = RECORD_HEAD + 4 + 4 + 2, /* function, layout, size */
    HOOK = 8,                              /* the hook's own return address lies below the frame */
    FRAME_BYTES = CAPTURE_DIRECT - CAPTURE_RED_ZONE,
};

struct agent_moves *_Atomic agent_moves_table[MOVES_TABLE] AGENT_LARGE;
static _Atomic(struct agent_moves *) pool; /* MOVES_POOL, made when the first is learnt */
static _Atomic uint32_t pool_used;

static struct agent_moves *_Atomic *table_at(uint64_t address)
{
    return &agent_moves_table[address * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

/* The next free one; NULL: there is none. */
static struct agent_moves *pool_take(void)
{
    struct agent_moves *all = atomic_load_explicit(&pool, memory_order_acquire), *none = NULL;
    if (atomic_load_explicit(&pool_used, memory_order_relaxed) >= MOVES_POOL)
        return NULL;
    if (!all) {
        long size = MOVES_POOL * (long)sizeof *all;
        long at =
            sys_call6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at < 0 && at > -4096) {
            atomic_store(&pool_used, MOVES_POOL);
            return NULL;
        }
        sys_call4(SYS_madvise, at, size, MADV_NOHUGEPAGE, 0);
        all = (struct agent_moves *)at;
        if (!atomic_compare_exchange_strong(&pool, &none, all)) {
            sys_call2(SYS_munmap, at, size);
            all = none;
        }
    }
    uint32_t index = atomic_fetch_add_explicit(&pool_used, 1, memory_order_relaxed);
    return index < MOVES_POOL ? &all[index] : NULL;
}

/* Where the address is, or the free place that ended the search. NULL: neither. */
static const struct area_site *place_of(const struct area_view *view, uint64_t address)
{
    for (uint32_t i = 0; i < AREA_PROBES; i++) {
        const struct area_site *site = &view->sites[(area_hash(address) + i) & view->site_mask];
        uint64_t found = atomic_load_explicit(&site->address, memory_order_acquire);
        if (found == address || !found)
            return site;
    }
    return NULL;
}

/* Where hooks_x86_64.S keeps a register, from its rsp; 0: it does not. */
static int32_t kept_at(unsigned reg)
{
    switch (reg) {
    case 3:
        return KEPT_RBX;
    case 6:
        return KEPT_RBP;
    case 12:
        return KEPT_R12;
    case 13:
        return KEPT_R13;
    case 14:
        return KEPT_R14;
    case 15:
        return KEPT_R15;
    default:
        return 0;
    }
}

struct list {
    struct agent_moves *m;
    uint32_t constants;
    unsigned constant; /* the temporary that has the last one */
    int64_t low, high; /* of what lies at rbp */
};

static bool move_add(struct list *list, int base, int64_t off, unsigned size)
{
    while (size) {
        unsigned n = size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
        if (list->m->count == MOVES_MOST)
            return false;
        list->m->moves[list->m->count++] =
            (struct agent_move){.base = (int8_t)base, .size = (uint8_t)n, .off = (int32_t)off};
        list->m->size = (uint16_t)(list->m->size + n);
        off += n;
        size -= n;
    }
    return true;
}

static bool move_insn(struct list *list, const struct capture_insn *insn)
{
    int64_t off = insn->off;
    if (insn->n == 0 || insn->n > CAPTURE_RED_ZONE)
        return false;
    if (insn->op == CAPTURE_REG) {
        list->m->registers = 1;
        int32_t at = kept_at(insn->r);
        return at && off >= 0 && off < 8 && insn->n <= 8 - off && move_add(list, KEPT_RSP, at + off, insn->n);
    }
    if (insn->op == CAPTURE_VALUE) {
        int64_t at = (int64_t)offsetof(struct agent_moves, constants[list->constants]) - 8;
        return list->constants && insn->r == list->constant && off >= 0 && off < 8 && insn->n <= 8 - off &&
               move_add(list, KEPT_MOVES, at + off, insn->n);
    }
    if (insn->op != CAPTURE_MEM || off < -FRAME_BYTES || off > FRAME_BYTES)
        return false;
    if (insn->r == 7)
        return off >= 0 && off + insn->n <= FRAME_BYTES && move_add(list, KEPT_RSP, off + HOOK, insn->n);
    if (insn->r != 6)
        return false;
    list->m->registers = 1;
    list->low = off < list->low ? off : list->low;
    list->high = off + insn->n > list->high ? off + insn->n : list->high;
    return move_add(list, KEPT_RBP, off, insn->n);
}

static enum moves_kind decode(const struct area_view *view, uint32_t offset, struct agent_moves *m)
{
    struct list list = {.m = m, .low = INT32_MAX, .high = INT32_MIN};
    if (!offset)
        return MOVES_NONE;
    if (agent_program_flags(view, offset, AGENT_PROGRAM_CAPTURE) != (AGENT_PROGRAM_OK | AGENT_PROGRAM_KEPT))
        return MOVES_LONG;
    const struct area_program *program = (const struct area_program *)(const void *)(view->programs + offset);
    for (uint32_t at = sizeof(struct capture_head); at < program->size; at += sizeof(struct capture_insn)) {
        struct capture_insn insn;
        __builtin_memcpy(&insn, program->code + at, sizeof insn);
        if (insn.op == CAPTURE_CONST) {
            at += sizeof insn;
            if (at >= program->size || list.constants == MOVES_CONSTANTS)
                return MOVES_LONG;
            list.constant = insn.r;
            __builtin_memcpy(&m->constants[list.constants++], program->code + at, sizeof *m->constants);
        } else if (!move_insn(&list, &insn)) {
            return MOVES_LONG;
        }
    }
    if (!m->count || m->size < capture_minimum(program->code, program->size))
        return MOVES_LONG;
    if (m->size == 1 && m->moves[0].base == KEPT_MOVES) {
        uint8_t byte = ((const uint8_t *)m)[m->moves[0].off];
        m->registers = MOVES_ONE_CONSTANT;
        m->template = (uint64_t)byte << 56 | UINT64_C(1) << 40 | (uint64_t)m->layout << 8;
    }
    m->total = (uint16_t)(VALUES_HEAD + m->size);
    if (list.high < list.low)
        return MOVES_SHORT;
    if (list.high - list.low > FRAME_BYTES)
        return MOVES_LONG;
    m->rbp_bias = (uint64_t)(list.low - HOOK);
    m->rbp_limit = (uint64_t)(FRAME_BYTES - (list.high - list.low));
    return MOVES_SHORT;
}

void agent_moves_learn(const struct area_view *view, uint64_t address)
{
    struct agent_moves *_Atomic *known = table_at(address);
    const struct agent_moves *old = atomic_load_explicit(known, memory_order_acquire);
    if (old && old->address != address)
        return; /* taken: this one goes the long way */
    const struct area_site *site = place_of(view, address);
    if (!site)
        return;
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)&site->values, __ATOMIC_ACQUIRE);
    uint64_t site_address = atomic_load_explicit(&site->address, memory_order_acquire);
    if (site_address != address && (site_address || word))
        return; /* taken by another since */
    if (old && old->site == site && old->site_address == site_address && old->word == word)
        return;
    struct agent_moves *m = pool_take();
    if (!m)
        return;
    *m = (struct agent_moves){
        .address = address,
        .site = site,
        .site_address = site_address,
        .word = word,
        .rbp_limit = UINT64_MAX,
        .layout = (uint32_t)(word >> 32),
    };
    m->kind = decode(view, (uint32_t)word, m);
    atomic_store_explicit(known, m, memory_order_release);
}

void agent_moves_forget(void)
{
    const struct agent_moves *all = atomic_load_explicit(&pool, memory_order_acquire);
    uint32_t used = atomic_load_explicit(&pool_used, memory_order_relaxed);
    for (uint32_t i = 0; all && i < used && i < MOVES_POOL; i++)
        atomic_store_explicit(table_at(all[i].address), NULL, memory_order_relaxed);
    atomic_store_explicit(&pool_used, 0, memory_order_relaxed);
}
