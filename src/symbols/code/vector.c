/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector registers behind an exit hook: floating point, and what compilers do to put results together. Both encodings
 * of an instruction are one here; of the newer one the sources are the second and third operand.
 */
#include "symbols/code/step.h"

struct sources {
    const ZydisDecodedOperand *to, *a, *b;
    unsigned immediate;
};

static struct sources sources_of(const struct insn *insn)
{
    unsigned count = insn->zydis.operand_count_visible, last = count;
    struct sources sources = {&insn->operands[0], &insn->operands[0], &insn->operands[1], 0};
    if (last > 1 && insn->operands[last - 1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        sources.immediate = insn->operands[--last].imm.value.u & 0xff;
    if (last == 3) {
        sources.a = &insn->operands[1];
        sources.b = &insn->operands[2];
    } else if (last == 1)
        sources.b = sources.a;
    return sources;
}

static struct tracked low_of(struct tracked value, unsigned size)
{
    if (value.kind != TRACK_UNKNOWN && value.size > size)
        value.size = (uint8_t)size;
    return value;
}

static struct tracked upper(struct track *track, struct tracked value)
{
    return low_of(track_compute(track, CAPTURE_SHR, 8, value, track_constant(32)), 4);
}

/* Two of 32 bits as one of 64; without the upper one, the lower. */
static struct tracked pair(struct track *track, struct tracked low, struct tracked high)
{
    struct tracked both = track_compute(
        track, CAPTURE_OR, 8, track_compute(track, TRACK_ZERO_EXTEND, 8, low, track_constant(4)),
        track_compute(track, CAPTURE_SHL, 8, track_compute(track, TRACK_ZERO_EXTEND, 8, high, track_constant(4)),
                      track_constant(32)));
    return both.kind == TRACK_UNKNOWN ? low_of(low, 4) : both;
}

static struct tracked lane(struct track *track, const ZydisDecodedOperand *op, unsigned number)
{
    struct tracked half = track_half(track, op, number / 2);
    return number % 2 ? upper(track, half) : low_of(half, 4);
}

/* All of a register: halves that were computed before either is written. */
static void set_both(struct track *track, const struct sources *sources, struct tracked low, struct tracked high)
{
    track_set_half(track, sources->to, 0, low);
    track_set_half(track, sources->to, 1, high);
}

/* The lowest number of a register; the rest comes from the first source. */
static void set_scalar(struct track *track, const struct sources *sources, unsigned size, struct tracked value)
{
    struct tracked old = track_half(track, sources->a, 0), high = track_half(track, sources->a, 1);
    set_both(track, sources, size == 4 ? pair(track, value, upper(track, old)) : value, high);
}

/* ---- what is computed ---- */

enum shape { SHAPE_SCALAR, SHAPE_HALVES, SHAPE_LANES }; /* of the whole: of each half, of each quarter */

struct computation {
    unsigned how;
    uint8_t size;
    enum shape shape;
};

/* clang-format off */
#define BOTH(name) ZYDIS_MNEMONIC_##name: case ZYDIS_MNEMONIC_V##name
#define IS(...) \
    *ret = (struct computation){__VA_ARGS__}; \
    return true
#define SCALAR_OF(name, how) \
    case BOTH(name##SD): \
        IS(how, 8, SHAPE_SCALAR); \
    case BOTH(name##SS): \
        IS(how + CAPTURE_SINGLES - CAPTURE_FLOATS, 4, SHAPE_SCALAR)
#define FLOATS_OF(name, how) \
    SCALAR_OF(name, how); \
    case BOTH(name##PD): \
        IS(how, 8, SHAPE_HALVES); \
    case BOTH(name##PS): \
        IS(how + CAPTURE_SINGLES - CAPTURE_FLOATS, 4, SHAPE_LANES)
#define BITS_OF(name, how) \
    case BOTH(name##PD): \
    case BOTH(name##PS): \
        IS(how, 8, SHAPE_HALVES)
#define WHOLE_OF(name, how, size, shape) \
    case BOTH(name): \
        IS(how, size, shape)

static bool computation_of(const struct insn *insn, struct computation *ret)
{
    switch (insn->zydis.mnemonic) {
        FLOATS_OF(ADD, CAPTURE_FLOAT_ADD);
        FLOATS_OF(SUB, CAPTURE_FLOAT_SUB);
        FLOATS_OF(MUL, CAPTURE_FLOAT_MUL);
        FLOATS_OF(DIV, CAPTURE_FLOAT_DIV);
        FLOATS_OF(MIN, CAPTURE_FLOAT_MIN);
        FLOATS_OF(MAX, CAPTURE_FLOAT_MAX);
        SCALAR_OF(SQRT, CAPTURE_FLOAT_SQRT);
        BITS_OF(AND, CAPTURE_AND);
        BITS_OF(OR, CAPTURE_OR);
        BITS_OF(XOR, CAPTURE_XOR);
        WHOLE_OF(PAND, CAPTURE_AND, 8, SHAPE_HALVES);
        WHOLE_OF(POR, CAPTURE_OR, 8, SHAPE_HALVES);
        WHOLE_OF(PXOR, CAPTURE_XOR, 8, SHAPE_HALVES);
        WHOLE_OF(PADDQ, CAPTURE_ADD, 8, SHAPE_HALVES);
        WHOLE_OF(PSUBQ, CAPTURE_SUB, 8, SHAPE_HALVES);
        WHOLE_OF(PADDD, CAPTURE_ADD, 4, SHAPE_LANES);
        WHOLE_OF(PSUBD, CAPTURE_SUB, 4, SHAPE_LANES);
    default:
        return false;
    }
}
/* clang-format on */

static bool is_same_register(const struct sources *sources)
{
    return sources->a->type == ZYDIS_OPERAND_TYPE_REGISTER && sources->b->type == ZYDIS_OPERAND_TYPE_REGISTER &&
           sources->a->reg.value == sources->b->reg.value;
}

static struct tracked of_lanes(struct track *track, const struct computation *computation,
                               const struct sources *sources, unsigned half)
{
    struct tracked parts[2];
    for (unsigned i = 0; i < 2; i++)
        parts[i] = track_compute(track, computation->how, 4, lane(track, sources->a, 2 * half + i),
                                 lane(track, sources->b, 2 * half + i));
    return pair(track, parts[0], parts[1]);
}

static void vector_compute(struct track *track, const struct computation *computation, const struct sources *sources)
{
    unsigned how = computation->how, size = computation->size;
    struct tracked parts[2];
    if (how == CAPTURE_XOR && is_same_register(sources)) {
        set_both(track, sources, track_constant(0), track_constant(0));
        return;
    }
    if (computation->shape == SHAPE_SCALAR) {
        bool root = how == CAPTURE_FLOAT_SQRT || how == CAPTURE_FLOAT_SQRT + CAPTURE_SINGLES - CAPTURE_FLOATS;
        struct tracked a = root ? track_constant(0) : low_of(track_half(track, sources->a, 0), size);
        set_scalar(track, sources, size, track_compute(track, how, size, a, track_operand(track, sources->b, size)));
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        parts[i] = computation->shape == SHAPE_LANES ? of_lanes(track, computation, sources, i)
                                                     : track_compute(track, how, size, track_half(track, sources->a, i),
                                                                     track_half(track, sources->b, i));
    set_both(track, sources, parts[0], parts[1]);
}

/* ---- conversions ---- */

static struct tracked converted(struct track *track, unsigned how, unsigned size, struct tracked value)
{
    return track_compute(track, how, size, track_constant(0), value);
}

static bool vector_convert(struct track *track, const struct insn *insn, const struct sources *sources)
{
    enum { SINGLE = CAPTURE_SINGLES - CAPTURE_FLOATS };
    unsigned size = sources->b->size / 8, how;
    struct tracked value;
    switch (insn->zydis.mnemonic) {
    case BOTH(CVTSD2SS):
        set_scalar(track, sources, 4,
                   low_of(converted(track, CAPTURE_FLOAT_TO_OTHER, 8, track_operand(track, sources->b, 8)), 4));
        return true;
    case BOTH(CVTSS2SD):
        value = track_compute(track, TRACK_ZERO_EXTEND, 8, track_operand(track, sources->b, 4), track_constant(4));
        set_scalar(track, sources, 8, converted(track, CAPTURE_FLOAT_TO_OTHER + SINGLE, 8, value));
        return true;
    case BOTH(CVTSI2SD):
    case BOTH(CVTSI2SS):
        how = CAPTURE_FLOAT_OF_INT64;
        value =
            track_compute(track, TRACK_SIGN_EXTEND, 8, track_operand(track, sources->b, size), track_constant(size));
        if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_CVTSI2SS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCVTSI2SS)
            set_scalar(track, sources, 4, low_of(converted(track, how + SINGLE, 8, value), 4));
        else
            set_scalar(track, sources, 8, converted(track, how, 8, value));
        return true;
    case BOTH(CVTTSD2SI):
    case BOTH(CVTTSS2SI): {
        bool single =
            insn->zydis.mnemonic == ZYDIS_MNEMONIC_CVTTSS2SI || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCVTTSS2SI;
        how = (sources->to->size == 64 ? CAPTURE_FLOAT_TO_INT64 : CAPTURE_FLOAT_TO_INT32) + (single ? SINGLE : 0);
        value = track_operand(track, sources->b, single ? 4 : 8);
        value = track_compute(track, TRACK_ZERO_EXTEND, 8, value, track_constant(single ? 4 : 8));
        track_set_operand(track, sources->to, sources->to->size / 8, converted(track, how, 8, value));
        return true;
    }
    case BOTH(UCOMISD):
    case BOTH(COMISD):
    case BOTH(UCOMISS):
    case BOTH(COMISS): {
        bool single = insn->zydis.mnemonic == ZYDIS_MNEMONIC_UCOMISS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_COMISS ||
                      insn->zydis.mnemonic == ZYDIS_MNEMONIC_VUCOMISS || insn->zydis.mnemonic == ZYDIS_MNEMONIC_VCOMISS;
        track->flags.size = single ? 4 : 8;
        track->flags.a = track_operand(track, sources->to, track->flags.size);
        track->flags.b = track_operand(track, sources->b, track->flags.size);
        bool known = track->flags.a.kind != TRACK_UNKNOWN && track->flags.b.kind != TRACK_UNKNOWN;
        track->flags.kind = known ? FLAGS_FLOATS : FLAGS_UNKNOWN;
        return true;
    }
    default:
        return false;
    }
}

/* ---- what is put elsewhere ---- */

static void vector_shuffle(struct track *track, const struct sources *sources, const ZydisDecodedOperand *low,
                           const ZydisDecodedOperand *high)
{
    struct tracked parts[4];
    for (unsigned i = 0; i < 4; i++)
        parts[i] = lane(track, i < 2 ? low : high, sources->immediate >> 2 * i & 3);
    set_both(track, sources, pair(track, parts[0], parts[1]), pair(track, parts[2], parts[3]));
}

static void vector_interleave(struct track *track, const struct sources *sources, unsigned from)
{
    struct tracked parts[4];
    for (unsigned i = 0; i < 4; i++)
        parts[i] = lane(track, i % 2 ? sources->b : sources->a, from + i / 2);
    set_both(track, sources, pair(track, parts[0], parts[1]), pair(track, parts[2], parts[3]));
}

/* Of `size` bytes; from memory or a general register the rest is 0. */
static bool vector_move_low(struct track *track, const struct sources *sources, unsigned size)
{
    bool vector = sources->b->type == ZYDIS_OPERAND_TYPE_REGISTER && insn_register(sources->b->reg.value) >= XMM0;
    if (sources->to->type != ZYDIS_OPERAND_TYPE_REGISTER || insn_register(sources->to->reg.value) < XMM0)
        return false; /* a store, or to a general register: as any move */
    struct tracked value = track_operand(track, sources->b, size);
    if (vector)
        set_scalar(track, sources, size, low_of(value, size));
    else
        set_both(track, sources, pair(track, value, track_constant(0)), track_constant(0));
    if (!vector && size == 8)
        track_set_half(track, sources->to, 0, value);
    return true;
}

static bool vector_move(struct track *track, const struct insn *insn, const struct sources *sources)
{
    const ZydisDecodedOperand *a = sources->a, *b = sources->b;
    bool store = sources->to->type == ZYDIS_OPERAND_TYPE_MEMORY;
    switch (insn->zydis.mnemonic) {
    case BOTH(MOVSD):
        return b->type != ZYDIS_OPERAND_TYPE_MEMORY || !store ? vector_move_low(track, sources, 8) : false;
    case BOTH(MOVSS):
        return vector_move_low(track, sources, 4);
    case BOTH(MOVD):
        return vector_move_low(track, sources, 4);
    case BOTH(MOVQ):
        if (store || insn_register(sources->to->reg.value) < XMM0)
            return false;
        set_both(track, sources, track_operand(track, b, 8), track_constant(0));
        return true;
    case BOTH(MOVLPS):
    case BOTH(MOVLPD):
        if (store)
            track_set_half(track, sources->to, 0, track_half(track, b, 0));
        else
            set_both(track, sources, track_half(track, b, 0), track_half(track, a, 1));
        return true;
    case BOTH(MOVHPS):
    case BOTH(MOVHPD):
        if (store)
            track_set_half(track, sources->to, 0, track_half(track, b, 1));
        else
            set_both(track, sources, track_half(track, a, 0), track_half(track, b, 0));
        return true;
    case BOTH(MOVLHPS):
    case BOTH(UNPCKLPD):
    case BOTH(PUNPCKLQDQ):
        set_both(track, sources, track_half(track, a, 0), track_half(track, b, 0));
        return true;
    case BOTH(MOVHLPS):
        set_both(track, sources, track_half(track, b, 1), track_half(track, a, 1));
        return true;
    case BOTH(UNPCKHPD):
    case BOTH(PUNPCKHQDQ):
        set_both(track, sources, track_half(track, a, 1), track_half(track, b, 1));
        return true;
    case BOTH(UNPCKLPS):
    case BOTH(PUNPCKLDQ):
        vector_interleave(track, sources, 0);
        return true;
    case BOTH(UNPCKHPS):
    case BOTH(PUNPCKHDQ):
        vector_interleave(track, sources, 2);
        return true;
    case BOTH(SHUFPS):
        vector_shuffle(track, sources, a, b);
        return true;
    case BOTH(PSHUFD):
        vector_shuffle(track, sources, b, b);
        return true;
    case BOTH(SHUFPD):
        set_both(track, sources, track_half(track, a, sources->immediate & 1),
                 track_half(track, b, sources->immediate >> 1 & 1));
        return true;
    default:
        return false;
    }
}

bool track_vector(struct track *track, const struct insn *insn)
{
    struct computation computation;
    if (!track->nodes || insn->zydis.operand_count_visible < 2 || insn->zydis.operand_count_visible > 4 ||
        insn->operands[0].size > 128 || insn->operands[1].size > 128)
        return false;
    const struct sources sources = sources_of(insn);
    if (computation_of(insn, &computation)) {
        vector_compute(track, &computation, &sources);
        return true;
    }
    return vector_convert(track, insn, &sources) || vector_move(track, insn, &sources);
}
