/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/large.h"
#include "agent/safety/moves.h"

#include "agent/system/offsets.h"
#include "agent/system/sys.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"
#include "shm/capture.h"
#include "shm/record.h"

#include <sys/mman.h>

enum {
    VALUES_HEAD = RECORD_HEAD + 4 + 4 + 2, /* function, layout, size */
    HOOK = 8,                              /* the hook's own return address lies below the frame */
    FRAME_BYTES = CAPTURE_DIRECT - CAPTURE_RED_ZONE,
    PAGE = 4096,
};

static void *_Atomic table_memory;
struct agent_moves *_Atomic *agent_moves_table;
static void *_Atomic pool; /* struct agent_moves[MOVES_POOL], made when the first is learnt */
static _Atomic uint32_t pool_used;

static struct agent_moves *_Atomic *table_at(uint64_t address)
{
    return &agent_moves_table[address * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

/* The next free one; NULL: there is none. */
static struct agent_moves *pool_take(void)
{
    if (atomic_load_explicit(&pool_used, memory_order_relaxed) >= MOVES_POOL)
        return NULL;
    struct agent_moves *all = large_get(&pool, MOVES_POOL * sizeof *all, LARGE_PART);
    if (!all) {
        atomic_store(&pool_used, MOVES_POOL);
        return NULL;
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

/* ---- what a program comes to ---- */

/* Where a number is. */
enum where { WHERE_NOWHERE, WHERE_NUMBER, WHERE_REGISTER, WHERE_WORD, WHERE_COMPUTED };

struct operand {
    enum where where;
    int64_t at; /* the number; which of MOVE_REGISTERS; from the hook's rsp */
};

enum { RBP = 6, RSP = 7, HOOK_RETURN = 16, KEPT_AT_RBP = 1, WORDS = 9, NONE = -1 };

struct list {
    struct agent_moves *m;
    const struct area_program *program;
    uint32_t next;  /* of the program: behind the instruction that is looked at */
    uint32_t count; /* of m->moves */
    int computed;   /* the temporary that the register that computes holds, or NONE */
    struct operand temps[CAPTURE_TEMPS];
    int64_t low, high; /* of what lies at rbp */
    bool varies;
};

static const void *moves_code(unsigned code)
{
    return (const uint8_t *)agent_moves_code + agent_moves_code[code];
}

static bool move_add(struct list *list, unsigned code, int64_t number)
{
    if (list->count == MOVES_MOST)
        return false;
    list->m->moves[list->count++] = (struct agent_move){moves_code(code), number};
    return true;
}

/* One of the next of the values. */
static bool move_out(struct list *list, unsigned code, int64_t number, unsigned size)
{
    list->m->size = (uint16_t)(list->m->size + size);
    return move_add(list, code, number);
}

/* Of MOVE_SIZES; NONE: there is no such one. */
static int size_index(unsigned size)
{
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : NONE;
}

static bool move_copy(struct list *list, unsigned code, int64_t at, unsigned size)
{
    while (size) {
        unsigned n = size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
        if (!move_out(list, code + (unsigned)size_index(n), at, n))
            return false;
        at += n;
        size -= n;
    }
    return true;
}

/* In the red zone: where the hook has kept rax, r10 and r11, which it needs no more, and below the registers. */
static int64_t word_at(uint32_t index)
{
    return index < 3 ? -8 - 8 * (int64_t)index : KEPT_R15 - 8 * ((int64_t)index - 2);
}

static bool insn_reads(const struct capture_insn *insn, unsigned value)
{
    switch (insn->op) {
    case CAPTURE_LEA:
    case CAPTURE_LOAD:
    case CAPTURE_PEEK:
        return (insn->n & 63) == value;
    case CAPTURE_ALU:
        return insn->r == value || (insn->off & 63) == (int)value;
    default:
        return insn->r == value;
    }
}

/* Is the temporary of use after this instruction? More often than not is not wrong. */
static bool is_read_later(const struct list *list, int temp)
{
    for (uint32_t at = list->next; at < list->program->size; at += sizeof(struct capture_insn)) {
        struct capture_insn insn;
        __builtin_memcpy(&insn, list->program->code + at, sizeof insn);
        if (insn_reads(&insn, (unsigned)temp + CAPTURE_TEMP))
            return true;
        if (capture_is_long(insn.op))
            at += sizeof insn;
    }
    return false;
}

static struct operand operand_of(const struct list *list, unsigned value)
{
    if (value >= CAPTURE_TEMP && value < CAPTURE_TEMP + CAPTURE_TEMPS)
        return list->temps[value - CAPTURE_TEMP];
    int64_t kept = value == 3                   ? 0
                   : value == RBP               ? KEPT_AT_RBP
                   : value >= 12 && value <= 15 ? (int64_t)value - 10
                                                : NONE;
    if (kept != NONE)
        return (struct operand){WHERE_REGISTER, kept};
    return value == HOOK_RETURN ? (struct operand){WHERE_WORD, 0} : (struct operand){WHERE_NOWHERE, 0};
}

static void temp_set(struct list *list, int temp, struct operand operand)
{
    if (list->computed == temp)
        list->computed = NONE;
    list->temps[temp] = operand;
    if (operand.where == WHERE_COMPUTED)
        list->computed = temp;
}

static bool word_used(const struct list *list, int64_t at)
{
    for (int i = 0; i < CAPTURE_TEMPS; i++)
        if (list->temps[i].where == WHERE_WORD && list->temps[i].at == at)
            return true;
    return false;
}

/* What is computed goes to a word, too; from here on that is where its temporary is. */
static bool computed_put(struct list *list)
{
    for (uint32_t i = 0; i < WORDS; i++)
        if (!word_used(list, word_at(i))) {
            temp_set(list, list->computed, (struct operand){WHERE_WORD, word_at(i)});
            return move_add(list, MOVE_PUT, word_at(i));
        }
    return false;
}

/* Another number is to be computed. */
static bool computed_leave(struct list *list)
{
    if (list->computed == NONE)
        return true;
    if (is_read_later(list, list->computed))
        return computed_put(list);
    temp_set(list, list->computed, (struct operand){WHERE_NOWHERE, 0});
    return true;
}

/* What `from` is gets into the register that computes, for `to`; NONE: for the next step alone. */
static bool computed_get(struct list *list, int to, unsigned from)
{
    struct operand operand = operand_of(list, from);
    if (operand.where == WHERE_NOWHERE || (list->computed != to && !computed_leave(list)))
        return false;
    unsigned code = operand.where == WHERE_NUMBER     ? MOVE_SET
                    : operand.where == WHERE_REGISTER ? MOVE_GET_RBX + (unsigned)operand.at
                                                      : MOVE_GET_RSP_8;
    return operand.where == WHERE_COMPUTED || move_add(list, code, operand.at);
}

/* `to` is computed, and begins as `from`. */
static bool computed_begin(struct list *list, int to, unsigned from)
{
    if (!computed_get(list, to, from))
        return false;
    temp_set(list, to, (struct operand){WHERE_COMPUTED, 0});
    return true;
}

static int64_t kept_at(unsigned index)
{
    return KEPT_RBX - 8 * (int64_t)index;
}

/* A register is wanted in memory. */
static void register_keep(struct list *list, struct operand *io_operand)
{
    if (io_operand->where != WHERE_REGISTER)
        return;
    *io_operand = (struct operand){WHERE_WORD, kept_at((unsigned)io_operand->at)};
    list->m->keeps = 1;
}

/* MOVE_ADD ...; NONE: it is done by COMPUTE. */
static int alu_code(unsigned kind)
{
    switch (kind) {
    case CAPTURE_ADD:
        return MOVE_ADD;
    case CAPTURE_SUB:
        return MOVE_SUB;
    case CAPTURE_MUL:
        return MOVE_MUL;
    case CAPTURE_AND:
        return MOVE_AND;
    case CAPTURE_OR:
        return MOVE_OR;
    case CAPTURE_XOR:
        return MOVE_XOR;
    case CAPTURE_SHL:
        return MOVE_SHL;
    case CAPTURE_SHR:
        return MOVE_SHR;
    case CAPTURE_SAR:
        return MOVE_SAR;
    case CAPTURE_EQUAL:
        return MOVE_EQUAL;
    case CAPTURE_AT_MOST:
        return MOVE_AT_MOST;
    case CAPTURE_LESS:
        return MOVE_LESS;
    case CAPTURE_LESS_SIGNED:
        return MOVE_LESS_SIGNED;
    case CAPTURE_MUL_HIGH:
        return MOVE_MUL_HIGH;
    case CAPTURE_MUL_HIGH_SIGNED:
        return MOVE_MUL_HIGH_SIGNED;
    default:
        return NONE;
    }
}

#define ANY INT64_MIN

static bool is_last(const struct list *list, unsigned code, int64_t number)
{
    const struct agent_move *last = list->count ? &list->m->moves[list->count - 1] : NULL;
    return last && last->code == moves_code(code) && (number == ANY || last->number == number);
}

/* Left and right: extended by zeroes. What was read so, is. */
static bool compute_extended(struct list *list, int64_t bits)
{
    list->count--;
    if (bits == 32 && (is_last(list, MOVE_GET_RSP_4, ANY) || is_last(list, MOVE_GET_AT_RBP_4, ANY)))
        return true;
    return move_add(list, MOVE_AND_NUMBER, (int64_t)(UINT64_MAX >> bits));
}

static bool compute(struct list *list, int temp, unsigned kind, unsigned with)
{
    int code = alu_code(kind);
    struct operand a = list->temps[temp], b = operand_of(list, with);
    bool swapped = b.where == WHERE_COMPUTED && (a.where == WHERE_WORD || a.where == WHERE_NUMBER) &&
                   (kind == CAPTURE_ADD || kind == CAPTURE_MUL || kind == CAPTURE_AND || kind == CAPTURE_OR ||
                    kind == CAPTURE_XOR || kind == CAPTURE_EQUAL) &&
                   !is_read_later(list, (int)with - CAPTURE_TEMP);
    if (swapped) {
        b = a;
        temp_set(list, (int)with - CAPTURE_TEMP, (struct operand){WHERE_NOWHERE, 0});
        temp_set(list, temp, (struct operand){WHERE_COMPUTED, 0});
    } else if (b.where == WHERE_COMPUTED || (b.where == WHERE_NUMBER && code == NONE)) { /* it has to be in memory */
        if (!computed_begin(list, (int)with - CAPTURE_TEMP, with) || !computed_put(list))
            return false;
        b = operand_of(list, with);
    }
    if (b.where == WHERE_NOWHERE || !computed_begin(list, temp, (unsigned)temp + CAPTURE_TEMP))
        return false;
    if (b.where == WHERE_REGISTER && code >= MOVE_ADD && code <= MOVE_MUL)
        return move_add(list, MOVE_ADD_RBX + 6 * (unsigned)(code - MOVE_ADD) + (unsigned)b.at, 0);
    register_keep(list, &b);
    if (code == NONE)
        return kind < CAPTURE_ALUS && move_add(list, kind < CAPTURE_FLOATS ? MOVE_COMPUTE : MOVE_COMPUTE_FLOAT,
                                               (int64_t)kind << 32 | (uint32_t)b.at);
    if (kind == CAPTURE_SHR && b.where == WHERE_NUMBER && b.at > 0 && b.at < 64 && is_last(list, MOVE_SHL_NUMBER, b.at))
        return compute_extended(list, b.at);
    return move_add(list, b.where == WHERE_NUMBER ? (unsigned)code + (MOVE_ADD_NUMBER - MOVE_ADD) : (unsigned)code,
                    b.at);
}

/* Does a bit of what is computed depend on no higher ones of what was there? */
static bool carries_up(enum agent_move_code code)
{
    return code == MOVE_INCREASE || (code >= MOVE_ADD && code <= MOVE_XOR) ||
           (code >= MOVE_ADD_NUMBER && code <= MOVE_XOR_NUMBER) || (code >= MOVE_ADD_RBX && code <= MOVE_MUL_R15);
}

static bool leaves_computed(enum agent_move_code code)
{
    return (code >= MOVE_RSP_1 && code <= MOVE_R15_8) || (code >= MOVE_NUMBER_1 && code <= MOVE_NUMBER_8);
}

static enum agent_move_code code_of(const struct agent_move *move)
{
    enum agent_move_code code = MOVE_END;
    while (code < MOVES_CODES && moves_code(code) != move->code)
        code++;
    return code;
}

/* Takes out what makes zeroes of bits that nobody looks at. */
static void moves_tidy(struct list *list)
{
    struct agent_move *moves = list->m->moves, *to = moves + list->count;
    uint64_t seen = 0; /* bits of what is computed that are looked at later */
    for (struct agent_move *move = to; move-- > moves;) {
        enum agent_move_code code = code_of(move);
        if (code == MOVE_AND_NUMBER) {
            if (!(seen & ~(uint64_t)move->number))
                continue;
            seen &= (uint64_t)move->number;
        } else if (code >= MOVE_OUT_1 && code <= MOVE_OUT_8) {
            seen |= code == MOVE_OUT_8 ? UINT64_MAX : (UINT64_C(1) << (8 << (code - MOVE_OUT_1))) - 1;
        } else if (carries_up(code)) {
            seen = seen ? UINT64_MAX >> __builtin_clzll(seen) : 0;
        } else if (code >= MOVE_GET_RSP_1 && code <= MOVE_SET) {
            seen = 0;
        } else if (!leaves_computed(code)) {
            seen = UINT64_MAX;
        }
        *--to = *move;
    }
    list->count = (uint32_t)(moves + list->count - to);
    for (uint32_t i = 0; i < list->count; i++)
        moves[i] = to[i];
}

enum { RUN_MOST = 8, REGISTERS = MOVE_RBX_8 - MOVE_RBX_4, REGISTERS_MANY = 3 };

/* Many registers that are values are kept: they then are memory as others, which may be a run. */
static void moves_keep(struct list *list)
{
    struct agent_move *moves = list->m->moves;
    uint32_t found = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        unsigned index = (unsigned)code_of(&moves[i]) - MOVE_RBX_4;
        found += index < 2 * REGISTERS;
    }
    for (uint32_t i = 0; found >= REGISTERS_MANY && i < list->count; i++) {
        unsigned index = (unsigned)code_of(&moves[i]) - MOVE_RBX_4;
        if (index < 2 * REGISTERS)
            moves[i] = (struct agent_move){moves_code(index < REGISTERS ? MOVE_RSP_4 : MOVE_RSP_8),
                                           kept_at(index % REGISTERS)};
    }
    if (found >= REGISTERS_MANY)
        list->m->keeps = 1;
}

/* How many from here on are the same, but for their numbers. */
static uint32_t run_length(const struct list *list, uint32_t from)
{
    uint32_t to = from + 1;
    while (to < list->count && to - from < RUN_MOST && list->m->moves[to].code == list->m->moves[from].code)
        to++;
    return to - from;
}

/* One step for each run of values; the last one is said to be the last, which leaves out where it has come to. */
static bool moves_join(struct list *list)
{
    struct agent_move *moves = list->m->moves;
    uint32_t to = 0;
    enum agent_move_code code = MOVE_END;
    for (uint32_t from = 0, length; from < list->count; from += length) {
        code = code_of(&moves[from]);
        unsigned run = code == MOVE_RSP_4      ? MOVE_RSP_4_RUN_2
                       : code == MOVE_RSP_8    ? MOVE_RSP_8_RUN_2
                       : code == MOVE_AT_RBP_4 ? MOVE_AT_RBP_4_RUN_2
                       : code == MOVE_AT_RBP_8 ? MOVE_AT_RBP_8_RUN_2
                                               : MOVE_END;
        length = run == MOVE_END ? 1 : run_length(list, from);
        if (length > 1)
            code = run + length - 2;
        bool last = !list->varies && from + length == list->count && code >= MOVE_RSP_1 && code < MOVE_RSP_1_END;
        const void *where = moves_code(last ? code + (MOVE_RSP_1_END - MOVE_RSP_1) : code);
        if (length == 1) {
            moves[to++] = (struct agent_move){where, moves[from].number};
            continue;
        }
        int32_t numbers[RUN_MOST];
        for (uint32_t i = 0; i < length; i++)
            numbers[i] = (int32_t)moves[from + i].number;
        moves[to].code = where;
        __builtin_memcpy((uint8_t *)moves + to * sizeof *moves + offsetof(struct agent_move, number), numbers,
                         length * sizeof *numbers);
        to += 1 + (length + 1) / 4;
    }
    list->count = to;
    return (!list->varies && code >= MOVE_RSP_1 && code < MOVE_RSP_1_END) || move_add(list, MOVE_END, 0);
}

/* n bytes at off of one of the registers that the frame is found by. */
static bool in_frame(struct list *list, unsigned base, int64_t off, unsigned n)
{
    struct operand operand = operand_of(list, base);
    if (n == 0 || n > CAPTURE_RED_ZONE || off < -FRAME_BYTES || off > FRAME_BYTES)
        return false;
    if (base == RSP)
        return off >= 0 && off + n <= FRAME_BYTES;
    if (operand.where != WHERE_REGISTER || operand.at != KEPT_AT_RBP)
        return false;
    list->low = off < list->low ? off : list->low;
    list->high = off + n > list->high ? off + n : list->high;
    return true;
}

static bool move_value(struct list *list, unsigned value, int64_t from, unsigned n)
{
    struct operand operand = operand_of(list, value);
    int size = size_index(n);
    if (operand.where == WHERE_NOWHERE || from < 0 || from > 7 || n == 0 || n > 8 - from)
        return false;
    if (operand.where == WHERE_NUMBER && size != NONE)
        return move_out(list, MOVE_NUMBER_1 + (unsigned)size, (int64_t)((uint64_t)operand.at >> 8 * from), n);
    if (operand.where == WHERE_REGISTER && from == 0 && n >= 4 && size != NONE)
        return move_out(list, (n == 8 ? MOVE_RBX_8 : MOVE_RBX_4) + (unsigned)operand.at, 0, n);
    if (operand.where == WHERE_COMPUTED && from == 0 && size != NONE)
        return move_out(list, MOVE_OUT_1 + (unsigned)size, 0, n);
    if (operand.where == WHERE_COMPUTED || operand.where == WHERE_NUMBER) {
        if (!computed_begin(list, (int)value - CAPTURE_TEMP, value) || !computed_put(list))
            return false;
        operand = operand_of(list, value);
    }
    register_keep(list, &operand);
    return move_copy(list, MOVE_RSP_1, operand.at + from, n);
}

static bool move_insn(struct list *list, const struct capture_insn *insn)
{
    int64_t off = insn->off;
    int temp = insn->r - CAPTURE_TEMP;
    bool load = insn->op == CAPTURE_LOAD || insn->op == CAPTURE_PEEK;
    unsigned base = load ? insn->n & 63 : insn->r, at_rsp = base == RSP;
    if (insn->op == CAPTURE_REG || insn->op == CAPTURE_VALUE)
        return move_value(list, insn->r, off, insn->n);
    if (insn->op == CAPTURE_MEM)
        return in_frame(list, base, off, insn->n) &&
               move_copy(list, at_rsp ? MOVE_RSP_1 : MOVE_AT_RBP_1, at_rsp ? off + HOOK : off, insn->n);
    if (temp < 0 || temp >= CAPTURE_TEMPS)
        return false;
    if (insn->op == CAPTURE_ALU)
        return compute(list, temp, insn->n, insn->off & 63);
    if (insn->op == CAPTURE_LEA) {
        struct operand from = operand_of(list, insn->n & 63);
        if (from.where == WHERE_NUMBER)
            from.at = (int64_t)((uint64_t)from.at + (uint64_t)off);
        if (from.where == WHERE_NUMBER || (!off && (from.where == WHERE_REGISTER || from.where == WHERE_WORD))) {
            temp_set(list, temp, from);
            return true;
        }
        return computed_begin(list, temp, insn->n & 63) && (!off || move_add(list, MOVE_INCREASE, off));
    }
    int size = size_index(insn->n >> 8);
    if (!load || size == NONE || !in_frame(list, base, off, insn->n >> 8) ||
        (list->computed != temp && !computed_leave(list)))
        return false;
    temp_set(list, temp, (struct operand){WHERE_COMPUTED, 0});
    return move_add(list, (at_rsp ? MOVE_GET_RSP_1 : MOVE_GET_AT_RBP_1) + (unsigned)size, at_rsp ? off + HOOK : off);
}

static struct capture_insn insn_next(struct list *list)
{
    struct capture_insn insn = {.op = CAPTURE_OPS};
    if (list->next + sizeof insn <= list->program->size) {
        __builtin_memcpy(&insn, list->program->code + list->next, sizeof insn);
        list->next += (uint32_t)sizeof insn;
    }
    return insn;
}

/* Where a pointer leads to, as long as nothing is done with it but that it is taken. */
static bool move_pointer(struct list *list, const struct capture_insn *insn)
{
    unsigned code = MOVE_STRING, most = insn->n, head = 3;
    if (insn->op == CAPTURE_FOLLOW) {
        const struct capture_insn bytes = insn_next(list), end = insn_next(list);
        if (insn->n != 2 || bytes.op != CAPTURE_READ || bytes.r != insn->r || bytes.off || end.op != CAPTURE_END)
            return false;
        code = MOVE_FOLLOW;
        most = bytes.n;
        head = 1;
    }
    if (most == 0 || head + most + list->m->size > MOVES_POINTED || !computed_get(list, NONE, insn->r))
        return false;
    list->varies = true;
    return move_out(list, code, most, head + most);
}

static bool move_program(struct list *list)
{
    const struct area_program *program = list->program;
    for (uint32_t at = sizeof(struct capture_head); at < program->size; at = list->next) {
        struct capture_insn insn;
        __builtin_memcpy(&insn, program->code + at, sizeof insn);
        list->next = at + (capture_is_long(insn.op) ? 2 : 1) * (uint32_t)sizeof insn;
        if (list->next > program->size)
            return false;
        if (insn.op == CAPTURE_CONST && insn.r >= CAPTURE_TEMP && insn.r < CAPTURE_TEMP + CAPTURE_TEMPS) {
            struct operand number = {WHERE_NUMBER, 0};
            __builtin_memcpy(&number.at, program->code + at + sizeof insn, sizeof number.at);
            temp_set(list, insn.r - CAPTURE_TEMP, number);
        } else if (insn.op == CAPTURE_FOLLOW || insn.op == CAPTURE_STRING) {
            if (!move_pointer(list, &insn))
                return false;
        } else if (!move_insn(list, &insn)) {
            return false;
        }
    }
    return true;
}

static enum moves_kind decode(const struct area_view *view, uint32_t offset, struct agent_moves *m)
{
    struct list list = {.m = m, .low = INT32_MAX, .high = INT32_MIN, .computed = NONE};
    if (!offset)
        return MOVES_NONE;
    if (agent_program_flags(view, offset, AGENT_PROGRAM_CAPTURE) != (AGENT_PROGRAM_OK | AGENT_PROGRAM_KEPT))
        return MOVES_LONG;
    list.program = (const struct area_program *)(const void *)(view->programs + offset);
    size_t minimum = capture_minimum(list.program->code, list.program->size);
    if (!move_program(&list) || !list.count || m->size < minimum ||
        (list.varies && (minimum < 8 || m->size > MOVES_POINTED)))
        return MOVES_LONG;
    if (list.count == 1 && m->size == 1 && m->moves[0].code == moves_code(MOVE_NUMBER_1)) {
        m->constant = 1;
        m->template = (uint64_t)m->moves[0].number << 56 | UINT64_C(1) << 40 | (uint64_t)m->layout << 8;
    }
    m->head = (uint64_t)m->size << 48 | (uint64_t)m->layout << 16;
    m->total = (uint16_t)(VALUES_HEAD + m->size);
    moves_tidy(&list);
    moves_keep(&list);
    if (!moves_join(&list))
        return MOVES_LONG;
    if (list.high < list.low)
        return list.varies ? MOVES_VARYING : MOVES_SHORT;
    if (list.high - list.low > FRAME_BYTES)
        return MOVES_LONG;
    m->rbp_bias = (uint64_t)(list.low - HOOK);
    m->rbp_limit = (uint64_t)(FRAME_BYTES - (list.high - list.low));
    return list.varies ? MOVES_VARYING : MOVES_NEAR;
}

/* ---- where pointers lead to: as the interpreter does it ---- */

/* Nothing follows. */
static uint8_t *status_put(uint8_t *to, uint64_t address)
{
    *to = address ? CAPTURE_INVALID : CAPTURE_NULL;
    return to + 1;
}

uint8_t *agent_moves_follow(uint8_t *to, uint64_t address, uint64_t size)
{
    if (address < CAPTURE_LOWEST_ADDR || agent_read_again(to + 1, address, size) != 0)
        return status_put(to, address);
    *to = CAPTURE_OK;
    return to + 1 + size;
}

/* Up to its end, or `size`. */
static uint64_t text_length(const uint8_t *text, uint64_t size)
{
    const uint64_t ones = UINT64_MAX / 255, highs = ones << 7;
    uint64_t length = 0, word;
    for (; length + sizeof word <= size; length += sizeof word) {
        __builtin_memcpy(&word, text + length, sizeof word);
        word = (word - ones) & ~word & highs; /* the lowest bit is that of the first zero */
        if (word)
            return length + (unsigned)__builtin_ctzll(word) / 8;
    }
    while (length < size && text[length])
        length++;
    return length;
}

/* `got` bytes are there, and none of them is its end: the rest, on another page, and what follows all that is wanted. */
static __attribute__((noinline)) enum capture_status string_go_on(uint8_t *text, uint64_t address, uint64_t most,
                                                                  uint64_t *io_got)
{
    uint64_t got = *io_got, left = most - got;
    uint8_t next;
    if (left && agent_read_again(text + got, address + got, left) != 0)
        return CAPTURE_PART;
    *io_got = got + text_length(text + got, left);
    if (*io_got < most)
        return CAPTURE_OK;
    return agent_read_again(&next, address + most, 1) == 0 && next == 0 ? CAPTURE_OK : CAPTURE_PART;
}

uint8_t *agent_moves_string(uint8_t *to, uint64_t address, uint64_t most)
{
    uint64_t got = PAGE - address % PAGE, first = got < most ? got : most;
    enum capture_status status = CAPTURE_OK;
    if (address < CAPTURE_LOWEST_ADDR || agent_read_again(to + 3, address, first) != 0)
        return status_put(to, address);
    got = text_length(to + 3, first);
    if (got == first)
        status = string_go_on(to + 3, address, most, &got);
    *to = (uint8_t)status;
    const uint16_t shown = (uint16_t)got;
    __builtin_memcpy(to + 1, &shown, sizeof shown);
    return to + 3 + got;
}

void agent_moves_learn(const struct area_view *view, uint64_t address)
{
    struct agent_moves *_Atomic *known = table_at(address);
    const struct agent_moves *old = atomic_load_explicit(known, memory_order_acquire);
    if (old && old->address != address)
        return; /* taken: this one goes the long way */
    if (old && old->word == __atomic_load_n((const uint64_t *)(const void *)&old->site->values, __ATOMIC_ACQUIRE) &&
        old->site_address == atomic_load_explicit(&old->site->address, memory_order_acquire))
        return; /* known, and long */
    const struct area_site *site = place_of(view, address);
    if (!site)
        return;
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)&site->values, __ATOMIC_ACQUIRE);
    uint64_t site_address = atomic_load_explicit(&site->address, memory_order_acquire);
    if (site_address != address && (site_address || word))
        return; /* taken by another since */
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

bool agent_moves_forget(void)
{
    agent_moves_table = large_get(&table_memory, MOVES_TABLE * sizeof *agent_moves_table, LARGE_CORE_PART);
    if (!agent_moves_table)
        return false;
    const struct agent_moves *all = atomic_load_explicit(&pool, memory_order_acquire);
    uint32_t used = atomic_load_explicit(&pool_used, memory_order_relaxed);
    for (uint32_t i = 0; all && i < used && i < MOVES_POOL; i++)
        atomic_store_explicit(table_at(all[i].address), NULL, memory_order_relaxed);
    /* A hook that was interrupted may still be in the steps of one, which would lead anywhere if another took its place:
     * they stay as they are, and others are made elsewhere. */
    if (used) {
        atomic_store_explicit(&pool, NULL, memory_order_release);
        atomic_store_explicit(&pool_used, 0, memory_order_relaxed);
    }
    return true;
}
