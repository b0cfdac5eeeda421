/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of capture programs. The common small ones, a few registers and slots of the frame, never leave
 * capture_run_sharing(); everything else is done by capture_run_rest() (capture_machine.c), which keeps values, scratch
 * memory and blocks.
 *
 * The program lies in memory that the traced process can scribble over: nothing here relies on capture_check().
 */
#include "shm/capture_code.h"
#include "shm/code.h"

/* No calls here but the one at its end, so nothing has to be saved. */
PLAIN size_t capture_run_sharing(const void *code_bytes, size_t size, size_t before, const struct capture_frame *frame,
                                 capture_read_fn *read, void *out_bytes, size_t room)
{
    const uint8_t *code = code_bytes;
    uint8_t *out = out_bytes;
    if (size < 8)
        return 0;
    uint64_t head = word_at(code);
    if (room > 1 << 20)
        room = 1 << 20;
    if ((uint8_t)head != CAPTURE_VERSION || room < (uint16_t)(head >> 16) ||
        (head >> 8 & CAPTURE_XMM_USED && !frame->has_xmm))
        return 0;
    size_t pos = 0, pc = 8;
    for (; pc + 8 <= size; pc += 8) {
        uint64_t word = word_at(code + pc);
        unsigned op = (uint8_t)word, r = word >> 8 & 0xff;
        size_t n = word >> 16 & 0xffff;
        int64_t off = (int64_t)word >> 32;
        if (r > 16 || n > room - pos)
            goto rest;
        if (op == CAPTURE_MEM) {
            uint64_t address = frame->gpr[r] + (uint64_t)off;
            if (address - (frame->gpr[7] - CAPTURE_RED_ZONE) >= CAPTURE_DIRECT || n > CAPTURE_RED_ZONE)
                goto rest;
            copy_few(out + pos, (const uint8_t *)(uintptr_t)address, n);
        } else if (op == CAPTURE_REG) {
            uint64_t value = frame->gpr[r] >> (off & 7) * 8;
            if (n > 8 - (size_t)(off & 7))
                goto rest;
            copy_few(out + pos, (const uint8_t *)&value, n);
        } else if (op == CAPTURE_XMM) {
            if ((uint64_t)off > 16 || n > 16 - (size_t)off || r > 15 || !frame->has_xmm)
                goto rest;
            copy_few(out + pos, (const uint8_t *)frame->xmm[r] + off, n);
        } else if (op == CAPTURE_ADDRESS && room - pos >= 8) {
            uint64_t address = frame->gpr[r] + (uint64_t)off;
            n = 8;
            copy_few(out + pos, (const uint8_t *)&address, 8);
        } else if (op == CAPTURE_REGS && r + n <= 17 && n * 8 <= room - pos) {
            n *= 8;
            copy_few(out + pos, (const uint8_t *)&frame->gpr[r], n);
        } else
            goto rest;
        pos += n;
    }
    return pos;
rest:
    return capture_run_rest(code, size, before, pc, frame, read, out, pos, room);
}

PLAIN size_t capture_run(const void *code, size_t size, const struct capture_frame *frame, capture_read_fn *read,
                         void *out, size_t room)
{
    return capture_run_sharing(code, size, 0, frame, read, out, room);
}

/* ---- checks: programs looked at as a whole, before they are used; the interpreter relies on none of it ---- */

/* Values that programs may look at: registers, and the temporaries that were announced. */
static bool value_valid(const struct capture_head *head, unsigned value)
{
    return value <= 16 || (value >= CAPTURE_TEMP && value < CAPTURE_TEMP + (unsigned)head->temps);
}

static bool operands_valid(const struct capture_head *head, const struct capture_insn *insn)
{
    uint32_t off = (uint32_t)insn->off;
    switch (insn->op) {
    case CAPTURE_XMM:
    case CAPTURE_TRY:
    case CAPTURE_NUMBER:
    case CAPTURE_END:
        return true;
    case CAPTURE_LEA:
    case CAPTURE_LOAD:
    case CAPTURE_PEEK:
        return value_valid(head, insn->r) && value_valid(head, insn->n & 63);
    case CAPTURE_ALU:
        return value_valid(head, insn->r) && value_valid(head, off & 63);
    case CAPTURE_FLOAT:
        return value_valid(head, insn->r) && (insn->n == 4 || value_valid(head, off & 63));
    case CAPTURE_CHAIN:
        return value_valid(head, insn->r) && value_valid(head, insn->n >> 10);
    case CAPTURE_NEXT:
        return value_valid(head, insn->r) && value_valid(head, insn->n & 63);
    case CAPTURE_SPILL:
        return value_valid(head, insn->r) && off + 8 <= head->scratch;
    case CAPTURE_SCRATCH:
        return value_valid(head, insn->r) && off < head->scratch;
    default:
        return value_valid(head, insn->r);
    }
}

static bool insn_valid(const struct capture_insn *insn)
{
    uint32_t off = (uint32_t)insn->off;
    bool temp = insn->r >= CAPTURE_TEMP;
    if (insn->op < CAPTURE_FAST && insn->op != CAPTURE_XMM && insn->r > 16)
        return false;
    switch (insn->op) {
    case CAPTURE_REG:
    case CAPTURE_VALUE:
        return insn->n > 0 && off <= 7 && insn->n <= 8 - off;
    case CAPTURE_REGS:
        return insn->r + (unsigned)insn->n <= 17;
    case CAPTURE_XMM:
        return insn->r < 16 && insn->n > 0 && off < 16 && insn->n <= 16 - off;
    case CAPTURE_LOAD:
    case CAPTURE_PEEK:
        return temp && insn->n >> 8 >= 1 && insn->n >> 8 <= 8;
    case CAPTURE_ALU:
        return temp && insn->n < CAPTURE_ALUS && off < 64;
    case CAPTURE_LEA:
        return temp && insn->n < 64;
    case CAPTURE_CONST:
    case CAPTURE_CHAIN:
        return temp;
    case CAPTURE_NEXT:
        return temp && insn->n < 64;
    case CAPTURE_REQUIRE:
        return insn->n >= CAPTURE_NULL && insn->n < CAPTURE_STATUSES;
    case CAPTURE_XREG:
        return temp && insn->n < 16 && off < 2;
    case CAPTURE_SPILL:
        return off <= CAPTURE_SCRATCH_SIZE - 8;
    case CAPTURE_SCRATCH:
        return temp && off < CAPTURE_SCRATCH_SIZE;
    case CAPTURE_BITS:
        return insn->n >= 1 && insn->n <= 8 && (off & 63) + (off >> 8 & 127) <= 64 && (off >> 8 & 127) >= 1;
    case CAPTURE_NUMBER:
        return off < CODE_MISSING;
    case CAPTURE_FLOAT:
        return insn->n == 4 || (insn->n == 10 && off < 64);
    case CAPTURE_TRY:
    case CAPTURE_FOLLOW:
    case CAPTURE_SHARED:
    case CAPTURE_STRING:
    case CAPTURE_BYTES:
    case CAPTURE_ITEMS:
    case CAPTURE_LOOP:
        return off <= UINT16_MAX && (insn->op != CAPTURE_LOOP || temp);
    default:
        return insn->op < CAPTURE_OPS;
    }
}

/* What is looked at: `before` bytes before the program are its shared blocks'; SIZE_MAX: they have only numbers. */
struct check {
    const uint8_t *code;
    struct capture_head head;
    size_t before;
    bool shared; /* it is such a block itself */
};

static bool insns_valid(const struct check *check, const uint8_t *code, size_t pc, size_t size);

static bool shared_valid(const struct check *check, const struct capture_insn *insn, uint64_t distance)
{
    size_t size = 8 * (size_t)insn->n;
    if (check->shared || insn->n == 0)
        return false;
    if (check->before == SIZE_MAX)
        return true;
    struct check block = *check;
    block.shared = true;
    return distance % 8 == 0 && distance <= check->before && size <= distance &&
           insns_valid(&block, check->code - distance, 0, size);
}

/* From pc on; a shared block ends with the END of a block that began elsewhere. */
static bool insns_valid(const struct check *check, const uint8_t *code, size_t pc, size_t size)
{
    const struct capture_head *head = &check->head;
    size_t ends[CAPTURE_BLOCKS]; /* of the open blocks */
    unsigned depth = 0;
    if (check->shared)
        ends[depth++] = size;
    while (pc < size) {
        struct capture_insn insn = insn_at(code + pc);
        pc += 8;
        if (insn.r > 63 || !insn_valid(&insn) || !operands_valid(head, &insn))
            return false;
        bool xmm = insn.op == CAPTURE_XMM || insn.op == CAPTURE_XREG;
        if (xmm && !(head->flags & CAPTURE_XMM_USED))
            return false;
        if (capture_is_long(insn.op)) {
            struct capture_operand operand;
            if (pc == size)
                return false;
            copy(&operand, code + pc, 8);
            if (insn.op == CAPTURE_SHARED && !shared_valid(check, &insn, word_at(code + pc)))
                return false;
            pc += 8;
            if (insn.op != CAPTURE_CONST && insn.op != CAPTURE_SHARED &&
                (!value_valid(head, operand.count) || (insn.op == CAPTURE_ITEMS && operand.stride == 0) ||
                 operand.stride > CAPTURE_ITEM_LIMIT))
                return false;
        }
        if (insn.op == CAPTURE_TRY || insn.op == CAPTURE_FOLLOW || insn.op == CAPTURE_NUMBER ||
            insn.op == CAPTURE_LOOP) {
            if (depth == CAPTURE_BLOCKS || insn.n == 0 || insn.n > (size - pc) / 8)
                return false;
            ends[depth++] = pc + 8 * (size_t)insn.n;
        } else if (insn.op == CAPTURE_END) {
            if (depth == 0 || ends[--depth] != pc)
                return false;
        }
        if (depth > 0 && pc > ends[depth - 1])
            return false;
    }
    return depth == 0;
}

bool capture_check_sharing(const void *code, size_t size, size_t before)
{
    struct check check = {.code = code, .before = before};
    if (size < 8 || size % 8 != 0 || size / 8 > CAPTURE_INSNS)
        return false;
    copy(&check.head, code, 8);
    if (check.head.version != CAPTURE_VERSION || check.head.flags & ~CAPTURE_XMM_USED ||
        check.head.temps > CAPTURE_TEMPS || check.head.scratch > CAPTURE_SCRATCH_SIZE)
        return false;
    check.head.temps = check.head.temps ? check.head.temps : CAPTURE_TEMPS;
    check.head.scratch = check.head.scratch ? check.head.scratch : CAPTURE_SCRATCH_SIZE;
    return insns_valid(&check, code, 8, size);
}

bool capture_check(const void *code, size_t size)
{
    return capture_check_sharing(code, size, 0);
}

bool capture_check_apart(const void *code, size_t size)
{
    return capture_check_sharing(code, size, SIZE_MAX);
}

bool capture_check_block(const void *code, size_t size)
{
    const struct check check = {
        .code = code,
        .head = {.flags = CAPTURE_XMM_USED, .temps = CAPTURE_TEMPS, .scratch = CAPTURE_SCRATCH_SIZE},
        .shared = true};
    return size >= 8 && size % 8 == 0 && size / 8 <= CAPTURE_INSNS && insns_valid(&check, code, 0, size);
}

bool capture_wants_xmm(const void *code, size_t size)
{
    struct capture_head head;
    if (size < sizeof head)
        return false;
    copy(&head, code, sizeof head);
    return head.flags & CAPTURE_XMM_USED;
}

size_t capture_minimum(const void *code, size_t size)
{
    struct capture_head head;
    if (size < sizeof head)
        return 0;
    copy(&head, code, sizeof head);
    return head.minimum;
}

/* ---- numbers ---- */

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
