/* SPDX-License-Identifier: Apache-2.0 */
/* Capture programs looked at as a whole, before they are used. The interpreter relies on none of it. */
#include "shm/capture_code.h"
#include "shm/code.h"

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
