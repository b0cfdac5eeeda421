/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What capture.c leaves of a program: values, blocks, loops, doubtful memory.
 *
 * The program lies in memory that the traced process can scribble over: nothing here relies on capture_check().
 */
#include "shm/capture_code.h"
#include "shm/code.h"

/* ---- blocks, loops, doubtful memory ---- */

#define SCRATCH_BASE UINT64_C(0xfff0000000000000) /* no address of a program */

enum { NUMBER_SIZE = 9 };

struct block {
    uint64_t element; /* loops: address of the element that is being emitted */
    uint32_t resume;  /* pc after the block */
    uint32_t status_at, limit;
    uint32_t body; /* loops: pc of the first instruction; 0: no loop */
    uint32_t element_at;
    uint32_t stride;
    uint16_t left, shown;
    uint8_t r;
    bool number; /* status_at has its type */
    bool odd;    /* for what cannot be read */
};

struct machine {
    uint64_t v[64];
    uint8_t scratch[CAPTURE_SCRATCH_SIZE];
    struct block blocks[CAPTURE_BLOCKS];
    const struct capture_frame *frame;
    capture_read_fn *read;
    uint8_t *out;
    const uint8_t *code;
    size_t pos, limit, pc, size;
    unsigned depth;
    int fuel;
    unsigned shared; /* `depth` in the shared block that is run: `code` and `size` are its; 0: in none */
    const uint8_t *own_code;
    size_t own_size, before;
    int shared_fuel; /* instructions in shared blocks */
};

static PLAIN bool fetch(struct machine *m, void *dst, uint64_t address, size_t size)
{
    uint64_t in_scratch = address - SCRATCH_BASE;
    if (in_scratch < CAPTURE_SCRATCH_SIZE) {
        if (size > CAPTURE_SCRATCH_SIZE - in_scratch)
            return false;
        copy(dst, m->scratch + in_scratch, size);
        return true;
    }
    return address >= CAPTURE_LOWEST_ADDR && address + size >= address && m->read(dst, address, size) == 0;
}

static PLAIN enum capture_status status_here(const struct machine *m, enum capture_status status)
{
    return status == CAPTURE_INVALID && m->depth > 0 && m->blocks[m->depth - 1].odd ? CAPTURE_ODD : status;
}

/* The innermost block cannot be had: `status` says why. False: there is none, and so nothing at all. */
static PLAIN bool give_up(struct machine *m, enum capture_status status)
{
    if (m->depth == 0)
        return false;
    status = status_here(m, status);
    struct block *block = &m->blocks[--m->depth];
    if (block->number) {
        m->out[block->status_at] = CODE_MISSING;
        for (unsigned i = 1; i < NUMBER_SIZE; i++) {
            m->out[block->status_at + i] = 0;
            __asm__ volatile("" : : : "memory");
        }
        m->pos = block->status_at + NUMBER_SIZE;
    } else if (block->body && block->shown > 0) { /* the elements before it are good */
        m->pos = block->element_at;
        m->out[block->status_at] = CAPTURE_PART;
        copy(m->out + block->status_at + 5, &block->shown, 2);
    } else {
        m->pos = block->status_at + 1;
        m->out[block->status_at] = (uint8_t)status;
    }
    m->limit = block->limit;
    m->pc = block->resume;
    return true;
}

static PLAIN bool emit(struct machine *m, const void *bytes, size_t size)
{
    if (size > m->limit - m->pos)
        return give_up(m, CAPTURE_CUT);
    copy(m->out + m->pos, bytes, size);
    m->pos += size;
    return true;
}

static PLAIN bool emit_memory(struct machine *m, uint64_t address, size_t size)
{
    if (size > m->limit - m->pos)
        return give_up(m, CAPTURE_CUT);
    if (!fetch(m, m->out + m->pos, address, size))
        return give_up(m, CAPTURE_INVALID);
    m->pos += size;
    return true;
}

/* A status byte that nothing follows, and on behind `skip` instructions. */
static PLAIN bool emit_status(struct machine *m, uint32_t after, enum capture_status status, unsigned skip)
{
    if (m->limit - m->pos < 1 + (uint64_t)after)
        return give_up(m, CAPTURE_CUT);
    m->out[m->pos++] = (uint8_t)status_here(m, status);
    m->pc += 8 * (size_t)skip;
    return true;
}

/* Begins a block of n instructions with a status byte of CAPTURE_OK. */
static PLAIN bool begin_block(struct machine *m, unsigned n, uint32_t after, bool odd)
{
    if (m->depth == CAPTURE_BLOCKS || m->limit - m->pos < 1 + (uint64_t)after)
        return give_up(m, CAPTURE_CUT);
    struct block *block = &m->blocks[m->depth++];
    block->resume = (uint32_t)(m->pc + 8 * (size_t)n);
    block->status_at = (uint32_t)m->pos;
    block->limit = (uint32_t)m->limit;
    block->body = 0;
    block->shown = 0;
    block->number = false;
    block->odd = odd;
    m->limit -= after;
    m->out[m->pos++] = CAPTURE_OK;
    return true;
}

static PLAIN bool follow(struct machine *m, const struct capture_insn *insn)
{
    uint64_t address = m->v[insn->r & 63];
    if (address < CAPTURE_LOWEST_ADDR)
        return emit_status(m, (uint32_t)insn->off, address ? CAPTURE_INVALID : CAPTURE_NULL, insn->n);
    return begin_block(m, insn->n, (uint32_t)insn->off, false);
}

static PLAIN bool follow_shared(struct machine *m, const struct capture_insn *insn, uint64_t distance)
{
    uint64_t address = m->v[insn->r & 63];
    size_t size = 8 * (size_t)insn->n;
    if (m->shared || distance > m->before || size > distance || distance % 8)
        return false;
    if (address < CAPTURE_LOWEST_ADDR)
        return emit_status(m, (uint32_t)insn->off, address ? CAPTURE_INVALID : CAPTURE_NULL, 0);
    unsigned depth = m->depth;
    m->shared_fuel -= insn->n;
    if (m->shared_fuel < 0)
        return give_up(m, CAPTURE_CUT);
    bool goes_on = begin_block(m, 0, (uint32_t)insn->off, false);
    if (goes_on && m->depth > depth) {
        m->shared = m->depth;
        m->code = m->own_code - distance;
        m->size = size;
        m->pc = 0;
    }
    return goes_on;
}

/* As a block, but its first byte is a type, and there is room for all of it. */
static PLAIN bool begin_number(struct machine *m, const struct capture_insn *insn)
{
    if (m->limit - m->pos < NUMBER_SIZE || m->depth == CAPTURE_BLOCKS || !begin_block(m, insn->n, 0, false))
        return false;
    m->blocks[m->depth - 1].number = true;
    m->out[m->pos - 1] = (uint8_t)insn->off;
    return true;
}

enum { PAGE = 4096, FIRST_CHUNK = 64, CHUNK = 512 };

static PLAIN size_t put_utf8(uint8_t *text, size_t room, uint32_t c)
{
    enum { REPLACEMENT = 0xfffd };
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = REPLACEMENT;
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (size > room)
        return 0;
    for (size_t i = size; i > 1; i--, c >>= 6)
        text[i - 1] = (uint8_t)(0x80 | (c & 0x3f));
    text[0] = (uint8_t)(size == 1 ? c : (0xf00 >> size & 0xf0) | c);
    return size;
}

/* The bytes of the string, in UTF-8, at most `want`; -1: nothing could be read. */
static PLAIN int64_t wide_string(struct machine *m, uint64_t address, unsigned wide, uint8_t *text, size_t want,
                                 enum capture_status *ret_status)
{
    uint8_t units[FIRST_CHUNK];
    size_t got = 0, unit = (size_t)1 << (wide & 3);
    uint32_t high = 0; /* the first half of a pair */
    *ret_status = CAPTURE_PART;
    for (bool any = false;; any = true) {
        size_t n = (PAGE - address % PAGE) / unit * unit;
        n = n == 0 ? unit : n < sizeof units ? n : sizeof units;
        if (!fetch(m, units, address, n))
            return any ? (int64_t)got : -1;
        address += n;
        for (size_t at = 0; at < n; at += unit) {
            uint32_t c = 0;
            for (size_t i = unit; i > 0; i--)
                c = c << 8 | units[at + i - 1];
            bool low = unit == 2 && c >= 0xdc00 && c < 0xe000;
            if (high) { /* alone, it is no character */
                size_t size =
                    put_utf8(text + got, want - got, low ? 0x10000 + ((high - 0xd800) << 10) + c - 0xdc00 : high);
                got += size;
                high = 0;
                if (size == 0)
                    return (int64_t)got;
                if (low)
                    continue;
            }
            if (c == 0) {
                *ret_status = CAPTURE_OK;
                return (int64_t)got;
            }
            if (unit == 2 && c >= 0xd800 && c < 0xdc00) {
                high = c;
                continue;
            }
            size_t size = put_utf8(text + got, want - got, c);
            got += size;
            if (size == 0)
                return (int64_t)got;
        }
    }
}

static PLAIN bool put_string(struct machine *m, enum capture_status status, size_t got)
{
    uint16_t shown = (uint16_t)got;
    m->out[m->pos] = (uint8_t)status;
    copy(m->out + m->pos + 1, &shown, 2);
    m->pos += 3 + got;
    return true;
}

static PLAIN bool emit_string(struct machine *m, const struct capture_insn *insn)
{
    uint64_t address = m->v[insn->r & 63];
    uint32_t after = (uint32_t)insn->off;
    if (address < CAPTURE_LOWEST_ADDR)
        return emit_status(m, after, address ? CAPTURE_INVALID : CAPTURE_NULL, 0);
    if (m->limit - m->pos < 3 + (uint64_t)after)
        return emit_status(m, after, CAPTURE_CUT, 0);
    size_t want = m->limit - m->pos - 3 - after;
    if (want > CAPTURE_STRING_MAX(insn->n))
        want = CAPTURE_STRING_MAX(insn->n);
    uint8_t *text = m->out + m->pos + 3;
    size_t got = 0;
    enum capture_status status = CAPTURE_PART;
    if (CAPTURE_STRING_WIDE(insn->n)) {
        int64_t size = wide_string(m, address, CAPTURE_STRING_WIDE(insn->n), text, want, &status);
        return size < 0 ? emit_status(m, after, CAPTURE_INVALID, 0) : put_string(m, status, (size_t)size);
    }
    for (size_t chunk = FIRST_CHUNK; got < want; chunk = CHUNK) {
        size_t n = PAGE - (address + got) % PAGE;
        n = n < chunk ? n : chunk;
        n = n < want - got ? n : want - got;
        if (!fetch(m, text + got, address + got, n)) {
            if (got == 0)
                return emit_status(m, after, CAPTURE_INVALID, 0);
            break;
        }
        size_t end = got + n;
        while (got < end && text[got])
            got++;
        if (got < end) {
            status = CAPTURE_OK;
            break;
        }
    }
    uint8_t next;
    if (status == CAPTURE_PART && got == want && fetch(m, &next, address + got, 1) && next == 0)
        status = CAPTURE_OK;
    return put_string(m, status, got);
}

enum { ITEMS_HEAD = 7 }; /* status, count in all, shown */
#define COUNT_LIMIT (UINT64_C(1) << 40)

/* The head of counted elements, of which `max` are wanted: 1: *ret_shown are to come; 0: nothing is; -1: the end. */
static PLAIN int begin_items(struct machine *m, const struct capture_insn *insn, uint64_t count, size_t max,
                             bool indexed, uint16_t *ret_shown)
{
    uint64_t address = indexed ? CAPTURE_LOWEST_ADDR : m->v[insn->r & 63];
    uint32_t after = (uint32_t)insn->off;
    unsigned skip = insn->op == CAPTURE_LOOP ? insn->n : 0;
    bool bad = count > COUNT_LIMIT || (count > 0 && address < CAPTURE_LOWEST_ADDR);
    if (bad || m->limit - m->pos < ITEMS_HEAD + (uint64_t)after)
        return emit_status(m, after, bad ? CAPTURE_INVALID : CAPTURE_CUT, skip) ? 0 : -1;
    uint32_t total = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
    uint16_t shown = (uint16_t)(count < max ? count : max);
    uint8_t *head = m->out + m->pos;
    head[0] = shown < count ? CAPTURE_PART : CAPTURE_OK;
    copy(head + 1, &total, 4);
    copy(head + 5, &shown, 2);
    *ret_shown = shown;
    return 1;
}

static PLAIN bool emit_items(struct machine *m, const struct capture_insn *insn, const struct capture_operand *operand,
                             uint32_t stride)
{
    uint32_t after = (uint32_t)insn->off;
    if (stride == 0 || stride > CAPTURE_ITEM_LIMIT)
        return false;
    size_t max = insn->n;
    if (m->limit - m->pos >= ITEMS_HEAD + (uint64_t)after) {
        size_t fit = (m->limit - m->pos - ITEMS_HEAD - after) / stride;
        max = max < fit ? max : fit;
    }
    uint16_t shown = 0;
    int r = begin_items(m, insn, m->v[operand->count & 63], max, false, &shown);
    if (r <= 0)
        return r == 0;
    if (shown > 0 && !fetch(m, m->out + m->pos + ITEMS_HEAD, m->v[insn->r & 63], (size_t)shown * stride))
        return emit_status(m, after, CAPTURE_INVALID, 0);
    m->pos += ITEMS_HEAD + (size_t)shown * stride;
    return true;
}

static PLAIN bool begin_loop(struct machine *m, const struct capture_insn *insn, const struct capture_operand *operand)
{
    uint16_t shown = 0;
    if (m->depth == CAPTURE_BLOCKS)
        return give_up(m, CAPTURE_CUT);
    int r = begin_items(m, insn, m->v[operand->count & 63], operand->max, operand->indexed, &shown);
    if (r <= 0)
        return r == 0;
    size_t resume = m->pc + 8 * (size_t)insn->n;
    if (shown == 0)
        m->pc = resume;
    else {
        struct block *block = &m->blocks[m->depth++];
        block->element = m->v[insn->r & 63];
        block->resume = (uint32_t)resume;
        block->status_at = (uint32_t)m->pos;
        block->limit = (uint32_t)m->limit;
        block->body = (uint32_t)m->pc;
        block->element_at = (uint32_t)m->pos + ITEMS_HEAD;
        block->stride = operand->stride;
        block->left = shown;
        block->shown = 0;
        block->number = block->odd = false;
        block->r = insn->r & 63;
        m->limit -= (uint32_t)insn->off;
    }
    m->pos += ITEMS_HEAD;
    return true;
}

static PLAIN bool end_block(struct machine *m)
{
    if (m->depth == 0)
        return false;
    struct block *block = &m->blocks[m->depth - 1];
    if (block->body && --block->left > 0) {
        block->shown++;
        block->element_at = (uint32_t)m->pos;
        block->element += block->stride;
        m->v[block->r] = block->element;
        m->fuel -= (int)((m->pc - block->body) / 8);
        if (m->fuel < 0)
            return give_up(m, CAPTURE_CUT);
        m->pc = block->body;
        return true;
    }
    m->limit = block->limit;
    m->pc = block->resume;
    m->depth--;
    return true;
}

/* ---- values ---- */

static PLAIN bool emit_bits(struct machine *m, const struct capture_insn *insn)
{
    unsigned shift = insn->off & 63, bits = (unsigned)insn->off >> 8 & 127;
    uint64_t value = m->v[insn->r & 63] >> shift;
    if (bits > 0 && bits < 64) {
        bool negative = (unsigned)insn->off >> 16 & 1 && value >> (bits - 1) & 1;
        value &= (UINT64_C(1) << bits) - 1;
        if (negative)
            value |= ~UINT64_C(0) << bits;
    }
    return insn->n <= 8 && emit(m, &value, insn->n);
}

static PLAIN bool load(struct machine *m, const struct capture_insn *insn)
{
    uint64_t value = 0;
    unsigned size = insn->n >> 8;
    if (size == 0 || size > 8)
        return false;
    if (!fetch(m, &value, m->v[insn->n & 63] + (uint64_t)(int64_t)insn->off, size)) {
        if (insn->op != CAPTURE_PEEK)
            return give_up(m, CAPTURE_INVALID);
        value = 0;
    }
    m->v[insn->r & 63] = value;
    return true;
}

/* ---- nodes ---- */

enum {
    STEP_COST = 4,    /* instructions that one node is worth */
    TREE_HEIGHT = 128 /* of a balanced one with 2^64 nodes */
};

/* The address at a node, where there is one. */
static PLAIN bool link_at(struct machine *m, uint64_t node, uint64_t at, uint64_t *ret_link)
{
    m->fuel -= STEP_COST;
    return m->fuel >= 0 && node >= CAPTURE_LOWEST_ADDR && fetch(m, ret_link, node + at, 8);
}

static PLAIN bool count_chain(struct machine *m, const struct capture_insn *insn)
{
    uint64_t node = m->v[insn->r & 63], end = m->v[insn->n >> 10], count = 0;
    for (; node != end && count < (insn->n & 1023); count++)
        if (!link_at(m, node, (uint64_t)(int64_t)insn->off, &node))
            return give_up(m, CAPTURE_ODD);
    m->v[insn->r & 63] = count;
    return true;
}

static PLAIN bool next_in_order(struct machine *m, const struct capture_insn *insn)
{
    uint64_t node = m->v[insn->r & 63], end = m->v[insn->n & 63], other;
    int height = TREE_HEIGHT;
    uint64_t left = insn->off & 0xff, right = insn->off >> 8 & 0xff, parent = insn->off >> 16 & 0xff;
    if (!link_at(m, node, right, &other))
        return give_up(m, CAPTURE_ODD);
    if (other) /* the first of those to the right */
        do {
            node = other;
            if (height-- == 0 || !link_at(m, node, left, &other))
                return give_up(m, CAPTURE_ODD);
        } while (other);
    else { /* up, until from the left */
        uint64_t from;
        do {
            from = node;
            if (height-- == 0 || !link_at(m, from, parent, &node) || (node != end && !link_at(m, node, right, &other)))
                return give_up(m, CAPTURE_ODD);
        } while (node != end && other == from);
    }
    m->v[insn->r & 63] = node;
    return true;
}

static PLAIN bool emit_value(struct machine *m, const struct capture_insn *insn)
{
    unsigned from = (unsigned)insn->off;
    uint64_t value = m->v[insn->r & 63];
    if (from > 7 || insn->n > 8 - from)
        return false;
    value >>= from * 8;
    return emit(m, &value, insn->n);
}

static PLAIN bool emit_xmm(struct machine *m, const struct capture_insn *insn)
{
    unsigned from = (unsigned)insn->off;
    return from <= 16 && insn->n <= 16 - from && emit(m, (const uint8_t *)m->frame->xmm[insn->r & 15] + from, insn->n);
}

/* Instructions that do not depend on blocks. False: the end. */
static PLAIN bool run_value(struct machine *m, const struct capture_insn *insn)
{
    uint64_t *v = m->v, offset = (uint64_t)(int64_t)insn->off;
    unsigned r = insn->r & 63;
    switch (insn->op) {
    case CAPTURE_REG:
    case CAPTURE_VALUE:
        return emit_value(m, insn);
    case CAPTURE_REGS:
        return r + insn->n <= 17 && emit(m, &v[r], 8 * (size_t)insn->n);
    case CAPTURE_ADDRESS: {
        uint64_t address = v[r] + offset;
        return emit(m, &address, 8);
    }
    case CAPTURE_XMM:
        return emit_xmm(m, insn);
    case CAPTURE_MEM:
    case CAPTURE_READ:
        return emit_memory(m, v[r] + offset, insn->n);
    case CAPTURE_LEA:
        v[r] = v[insn->n & 63] + offset;
        return true;
    case CAPTURE_LOAD:
    case CAPTURE_PEEK:
        return load(m, insn);
    case CAPTURE_XREG:
        v[r] = m->frame->xmm[insn->n & 15][insn->off & 1];
        return true;
    case CAPTURE_ALU:
        v[r] = capture_compute(insn->n, v[r], v[insn->off & 63]);
        return true;
    case CAPTURE_SPILL:
        if ((uint32_t)insn->off > CAPTURE_SCRATCH_SIZE - 8)
            return false;
        copy(m->scratch + insn->off, &v[r], 8);
        return true;
    case CAPTURE_SCRATCH:
        v[r] = SCRATCH_BASE + offset;
        return true;
    case CAPTURE_BITS:
        return emit_bits(m, insn);
    case CAPTURE_FLOAT: {
        uint64_t value =
            insn->n == 4 ? capture_widen((uint32_t)v[r]) : capture_narrow(v[r], (uint16_t)v[insn->off & 63]);
        return emit(m, &value, 8);
    }
    default:
        return false;
    }
}

static PLAIN bool run_one(struct machine *m, const struct capture_insn *insn)
{
    struct capture_operand operand = {0};
    if (capture_is_long(insn->op)) {
        if (m->size - m->pc < 8)
            return false;
        copy(&operand, m->code + m->pc, 8);
        m->pc += 8;
    }
    switch (insn->op) {
    case CAPTURE_CONST:
        copy(&m->v[insn->r & 63], &operand, 8);
        return true;
    case CAPTURE_TRY:
        return begin_block(m, insn->n, (uint32_t)insn->off, insn->r == 1);
    case CAPTURE_FOLLOW:
        return follow(m, insn);
    case CAPTURE_SHARED:
        return follow_shared(m, insn, word_at(m->code + m->pc - 8));
    case CAPTURE_NUMBER:
        return begin_number(m, insn);
    case CAPTURE_END:
        return end_block(m);
    case CAPTURE_STRING:
        return emit_string(m, insn);
    case CAPTURE_BYTES:
        return emit_items(m, insn, &operand, 1);
    case CAPTURE_ITEMS:
        return emit_items(m, insn, &operand, operand.stride);
    case CAPTURE_LOOP:
        return begin_loop(m, insn, &operand);
    case CAPTURE_REQUIRE:
        return m->v[insn->r & 63] || give_up(m, insn->n & 0xff);
    case CAPTURE_CHAIN:
        return count_chain(m, insn);
    case CAPTURE_NEXT:
        return next_in_order(m, insn);
    default:
        return run_value(m, insn);
    }
}

PLAIN size_t capture_run_rest(const uint8_t *code, size_t size, size_t before, size_t pc,
                              const struct capture_frame *frame, capture_read_fn *read, uint8_t *out, size_t pos,
                              size_t room)
{
    struct machine m;
    m.frame = frame;
    m.read = read;
    m.out = out;
    m.code = m.own_code = code;
    m.size = m.own_size = size;
    m.before = before;
    m.shared = 0;
    m.shared_fuel = CAPTURE_FUEL;
    m.pc = pc;
    m.pos = pos;
    m.limit = room;
    m.depth = 0;
    m.fuel = CAPTURE_FUEL;
    copy(m.v, frame->gpr, sizeof frame->gpr);
    uint64_t head = word_at(code);
    unsigned temps = head >> 32 & 0xff, scratch = head >> 40 & 0xff;
    temps = temps ? temps : CAPTURE_TEMPS;
    scratch = scratch ? scratch : CAPTURE_SCRATCH_SIZE;
    for (unsigned i = CAPTURE_TEMP; i < CAPTURE_TEMP + temps && i < 64; i++) {
        m.v[i] = 0;
        __asm__ volatile("" : : : "memory"); /* no memset */
    }
    for (unsigned i = 0; i < scratch && i < CAPTURE_SCRATCH_SIZE; i += 8)
        __asm__ volatile("movq $0, %0" : "=m"(m.scratch[i]) : : "memory");
    while (m.size - m.pc >= 8 && m.pc < m.size) {
        struct capture_insn insn = insn_at(m.code + m.pc);
        m.pc += 8;
        if (!run_one(&m, &insn))
            return 0;
        if (m.depth < m.shared) {
            m.shared = 0;
            m.code = m.own_code;
            m.size = m.own_size;
        }
    }
    return m.depth == 0 ? m.pos : 0;
}
