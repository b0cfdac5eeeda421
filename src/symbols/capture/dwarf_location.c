/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locations (DWARF 5, 2.6): expressions are evaluated here as far as they can be without the process, the rest becomes
 * instructions. What is not certain is PLACE_NOT_AVAILABLE.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/capture/internal.h"

enum { RSP = 7, PC = 16, STACK_DEPTH = 32, NEST_LIMIT = 8 };

/* An entry of DWARF's stack: a constant, or v[base] + offset. */
struct entry {
    bool is_constant;
    bool frame; /* an address in the frame */
    uint8_t base;
    int64_t offset; /* or the constant */
};

struct machine {
    struct location *location;
    struct entry stack[STACK_DEPTH];
    unsigned depth;
    unsigned nest;
    bool failed; /* not available */
};

static void expression_evaluate(struct machine *machine, const Dwarf_Op *ops, size_t count, Dwarf_Attribute *attribute,
                                struct place *ret_place);

static void stack_push(struct machine *machine, struct entry entry)
{
    if (machine->depth == STACK_DEPTH)
        machine->failed = true;
    else
        machine->stack[machine->depth++] = entry;
}

static struct entry stack_pop(struct machine *machine)
{
    if (machine->depth == 0) {
        machine->failed = true;
        return (struct entry){.is_constant = true};
    }
    return machine->stack[--machine->depth];
}

static void push_constant(struct machine *machine, uint64_t value)
{
    stack_push(machine, (struct entry){.is_constant = true, .offset = (int64_t)value});
}

/* Registers that a call leaves as they were (System V): rbx, rbp, rsp, r12-r15. */
static bool survives_calls(unsigned reg)
{
    return reg == 3 || reg == 6 || reg == 7 || (reg >= 12 && reg <= 15);
}

static bool register_known(const struct location *location, uint64_t reg)
{
    return reg < 16 && !(location->unknown >> reg & 1) && (!location->caller || survives_calls((unsigned)reg));
}

static void push_register(struct machine *machine, uint64_t reg, int64_t offset)
{
    if (!register_known(machine->location, reg)) {
        machine->failed = true;
        return;
    }
    stack_push(machine, (struct entry){.base = (uint8_t)reg, .offset = offset, .frame = reg == 7});
}

/* Addresses of the file are as far from the program counter in all processes, wherever the file is mapped. */
static void push_address(struct machine *machine, uint64_t address)
{
    const struct capture_compiler *compiler = machine->location->compiler;
    uint64_t here = machine->location->emitter->here;
    address += compiler->dwarf_bias;
    if (here)
        stack_push(machine, (struct entry){.base = PC, .offset = (int64_t)(address - here)});
    else
        push_constant(machine, address + compiler->bias);
}

/* The entry as the number of a value. */
static unsigned stack_materialise(struct machine *machine, struct entry entry)
{
    struct emitter *emitter = machine->location->emitter;
    if (!entry.is_constant && entry.offset == 0 && entry.base >= CAPTURE_TEMP)
        return entry.base;
    unsigned temp = emit_temp(emitter);
    if (entry.is_constant)
        emit_constant(emitter, temp, (uint64_t)entry.offset);
    else
        emit(emitter, CAPTURE_LEA, temp, entry.base, entry.offset);
    return temp;
}

static void stack_binary(struct machine *machine, enum capture_alu kind)
{
    struct entry b = stack_pop(machine), a = stack_pop(machine);
    if (machine->failed)
        return;
    if (a.is_constant && b.is_constant) {
        push_constant(machine, capture_compute(kind, (uint64_t)a.offset, (uint64_t)b.offset));
        return;
    }
    if (kind == CAPTURE_ADD && (a.is_constant || b.is_constant)) {
        struct entry sum = a.is_constant ? b : a;
        if (!__builtin_add_overflow(a.offset, b.offset, &sum.offset)) {
            stack_push(machine, sum);
            return;
        }
    }
    if (kind == CAPTURE_SUB && b.is_constant && !__builtin_sub_overflow(a.offset, b.offset, &a.offset)) {
        stack_push(machine, a);
        return;
    }
    unsigned right = stack_materialise(machine, b), left = emit_temp(machine->location->emitter);
    unsigned from = stack_materialise(machine, a);
    emit(machine->location->emitter, CAPTURE_LEA, left, from, 0);
    emit(machine->location->emitter, CAPTURE_ALU, left, kind, right);
    stack_push(machine, (struct entry){.base = (uint8_t)left});
}

static void stack_dereference(struct machine *machine, uint64_t size)
{
    struct entry address = stack_pop(machine);
    struct emitter *emitter = machine->location->emitter;
    if (machine->failed || size == 0 || size > 8) {
        machine->failed = true;
        return;
    }
    struct place place = {.kind = PLACE_MEMORY, .frame = address.frame, .offset = address.offset};
    if (address.is_constant) {
        place.base = (uint8_t)stack_materialise(machine, address);
        place.offset = 0;
    } else
        place.base = address.base;
    int value = emit_load(emitter, &place, (unsigned)size);
    machine->failed |= value < 0;
    stack_push(machine, (struct entry){.base = (uint8_t)value});
}

static void push_frame_base(struct machine *machine, int64_t offset)
{
    struct location *location = machine->location;
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    struct place base = {.kind = PLACE_NOT_AVAILABLE};
    uint64_t pc = location->pc - location->compiler->dwarf_bias;
    if (machine->nest > NEST_LIMIT || !dwarf_attr_integrate(location->function, DW_AT_frame_base, &attribute) ||
        dwarf_getlocation_addr(&attribute, pc, &ops, &count, 1) != 1 ||
        (location->start && ops[0].atom != DW_OP_call_frame_cfa)) { /* a register that is not set yet */
        machine->failed = true;
        return;
    }
    struct machine inner = {.location = location, .nest = machine->nest + 1};
    expression_evaluate(&inner, ops, count, &attribute, &base);
    if ((base.kind != PLACE_MEMORY && base.kind != PLACE_REGISTER) || inner.failed) {
        machine->failed = true;
        return;
    }
    /* a register's location as frame base means its value */
    int64_t at = base.kind == PLACE_REGISTER ? 0 : base.offset;
    stack_push(machine, (struct entry){.base = base.base, .offset = at + offset, .frame = true});
}

static void push_cfa(struct machine *machine)
{
    uint8_t base;
    int64_t offset;
    if (location_cfa(machine->location->compiler, machine->location->pc, &base, &offset) &&
        !(machine->location->unknown >> base & 1))
        stack_push(machine, (struct entry){.base = base, .offset = offset, .frame = true});
    else
        machine->failed = true;
}

/* The value that a register had when the function was entered. */
static void push_entry_value(struct machine *machine, const Dwarf_Op *op, Dwarf_Attribute *attribute)
{
    struct location *location = machine->location;
    Dwarf_Op *ops;
    size_t count;
    Dwarf_Attribute result;
    struct place place;
    if (!location->entry || dwarf_getlocation_attr(attribute, op, &result) != 0 ||
        dwarf_getlocation(&result, &ops, &count) != 0 || count != 1 || ops[0].atom < DW_OP_reg0 ||
        ops[0].atom > DW_OP_reg15 || !track_find(location->entry, ops[0].atom - DW_OP_reg0, 8, &place)) {
        machine->failed = true;
        return;
    }
    int value = emit_load(location->emitter, &place, 8);
    machine->failed |= value < 0;
    stack_push(machine, (struct entry){.base = (uint8_t)value});
}

/* The value as one of an integer type: cut to its size and extended as it is signed. */
static void stack_convert(struct machine *machine, const Dwarf_Op *op, Dwarf_Attribute *attribute)
{
    struct entry value = stack_pop(machine);
    struct emitter *emitter = machine->location->emitter;
    Dwarf_Attribute result;
    Dwarf_Die type;
    if (op->number == 0) { /* to the generic type */
        stack_push(machine, value);
        return;
    }
    if (machine->failed || dwarf_getlocation_attr(attribute, op, &result) != 0 || !dwarf_formref_die(&result, &type)) {
        machine->failed = true;
        return;
    }
    uint64_t size = type_size(&type);
    enum type_kind kind = type_kind_of(&type);
    if ((kind != TYPE_SIGNED && kind != TYPE_UNSIGNED && kind != TYPE_CHAR) || size == 0 || size > 8) {
        machine->failed = true;
        return;
    }
    if (size < 8) {
        enum capture_alu right = kind != TYPE_UNSIGNED && type_is_signed(&type) ? CAPTURE_SAR : CAPTURE_SHR;
        unsigned from = stack_materialise(machine, value), temp = emit_temp(emitter), bits = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, from, 0);
        emit_constant(emitter, bits, 64 - size * 8);
        emit(emitter, CAPTURE_ALU, temp, CAPTURE_SHL, bits);
        emit(emitter, CAPTURE_ALU, temp, right, bits);
        value = (struct entry){.base = (uint8_t)temp};
    }
    stack_push(machine, value);
}

static void stack_operation(struct machine *machine, const Dwarf_Op *op)
{
    struct entry a, b;
    switch (op->atom) {
    case DW_OP_dup:
    case DW_OP_over:
    case DW_OP_pick: {
        unsigned index = op->atom == DW_OP_dup ? 0 : op->atom == DW_OP_over ? 1 : (unsigned)op->number;
        if (index >= machine->depth)
            machine->failed = true;
        else
            stack_push(machine, machine->stack[machine->depth - 1 - index]);
        break;
    }
    case DW_OP_drop:
        stack_pop(machine);
        break;
    default: /* DW_OP_swap */
        a = stack_pop(machine);
        b = stack_pop(machine);
        stack_push(machine, a);
        stack_push(machine, b);
    }
}

/* Operations that only compute with what is on the stack; false: it is another one. */
static bool stack_compute(struct machine *machine, const Dwarf_Op *op)
{
    static const struct {
        uint8_t atom, kind;
    } binaries[] = {{DW_OP_plus, CAPTURE_ADD}, {DW_OP_minus, CAPTURE_SUB}, {DW_OP_mul, CAPTURE_MUL},
                    {DW_OP_and, CAPTURE_AND},  {DW_OP_or, CAPTURE_OR},     {DW_OP_xor, CAPTURE_XOR},
                    {DW_OP_shl, CAPTURE_SHL},  {DW_OP_shr, CAPTURE_SHR},   {DW_OP_shra, CAPTURE_SAR}};
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++)
        if (binaries[i].atom == op->atom) {
            stack_binary(machine, binaries[i].kind);
            return true;
        }
    switch (op->atom) {
    case DW_OP_plus_uconst:
        push_constant(machine, op->number);
        stack_binary(machine, CAPTURE_ADD);
        return true;
    case DW_OP_neg: {
        struct entry value = stack_pop(machine);
        push_constant(machine, 0);
        stack_push(machine, value);
        stack_binary(machine, CAPTURE_SUB);
        return true;
    }
    case DW_OP_not:
        push_constant(machine, UINT64_MAX);
        stack_binary(machine, CAPTURE_XOR);
        return true;
    case DW_OP_dup:
    case DW_OP_over:
    case DW_OP_pick:
    case DW_OP_drop:
    case DW_OP_swap:
        stack_operation(machine, op);
        return true;
    case DW_OP_nop:
        return true;
    default:
        return false;
    }
}

/* Operations that leave a value on the stack; false: unknown. */
static bool expression_step(struct machine *machine, const Dwarf_Op *op, Dwarf_Attribute *attribute)
{
    if (stack_compute(machine, op))
        return true;
    if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
        push_constant(machine, op->atom - DW_OP_lit0);
    else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
        push_register(machine, op->atom - DW_OP_breg0, (int64_t)op->number);
    else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
        push_constant(machine, op->number);
    else
        switch (op->atom) {
        case DW_OP_bregx:
            push_register(machine, op->number, (int64_t)op->number2);
            break;
        case DW_OP_fbreg:
            push_frame_base(machine, (int64_t)op->number);
            break;
        case DW_OP_call_frame_cfa:
            push_cfa(machine);
            break;
        case DW_OP_push_object_address: {
            const struct place *object = machine->location->object;
            if (!object || object->kind != PLACE_MEMORY)
                return false;
            stack_push(machine, (struct entry){.frame = object->frame, .base = object->base, .offset = object->offset});
            break;
        }
        case DW_OP_addr:
            push_address(machine, op->number);
            break;
        case DW_OP_addrx:
        case DW_OP_GNU_addr_index: {
            Dwarf_Attribute result;
            Dwarf_Addr address = 0;
            if (dwarf_getlocation_attr(attribute, op, &result) != 0 || dwarf_formaddr(&result, &address) != 0)
                return false;
            push_address(machine, address);
            break;
        }
        case DW_OP_deref:
            stack_dereference(machine, 8);
            break;
        case DW_OP_deref_size:
            stack_dereference(machine, op->number);
            break;
        case DW_OP_entry_value:
        case DW_OP_GNU_entry_value:
            push_entry_value(machine, op, attribute);
            break;
        case DW_OP_convert:
        case DW_OP_GNU_convert:
        case DW_OP_reinterpret:
        case DW_OP_GNU_reinterpret:
            stack_convert(machine, op, attribute);
            break;
        default:
            return false;
        }
    return true;
}

/* What the stack's top means as a location: memory there. */
static struct place memory_of(struct machine *machine, struct entry top)
{
    struct place place = {.kind = PLACE_MEMORY, .frame = top.frame, .base = top.base, .offset = top.offset};
    if (top.is_constant) {
        place.base = (uint8_t)stack_materialise(machine, top);
        place.offset = 0;
    }
    return place;
}

static struct place value_of(struct machine *machine, struct entry top)
{
    if (top.is_constant)
        return (struct place){.kind = PLACE_CONSTANT, .constant = (uint64_t)top.offset, .size = 8};
    if (top.offset == 0)
        return (struct place){.kind = PLACE_REGISTER, .base = top.base, .size = 8};
    return (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)stack_materialise(machine, top), .size = 8};
}

static struct place register_place(const struct location *location, uint64_t reg)
{
    if (register_known(location, reg))
        return (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)reg, .size = 8};
    if (reg >= 17 && reg <= 32 && !location->caller && !location->no_xmm)
        return (struct place){.kind = PLACE_XMM, .base = (uint8_t)(reg - 17), .size = 16};
    return (struct place){.kind = PLACE_NOT_AVAILABLE};
}

static struct place implicit_value(const Dwarf_Op *op, Dwarf_Attribute *attribute)
{
    Dwarf_Block block;
    struct place place = {.kind = PLACE_NOT_AVAILABLE};
    if (dwarf_getlocation_implicit_value(attribute, op, &block) != 0 || block.length > 8 * PLACE_PIECES_MAX)
        return place;
    place.kind = PLACE_PIECES;
    for (size_t at = 0; at < block.length; at += 8) {
        struct piece *piece = &place.pieces[place.piece_count++];
        piece->kind = PLACE_CONSTANT;
        piece->size = (uint32_t)(block.length - at < 8 ? block.length - at : 8);
        memcpy(&piece->constant, block.data + at, piece->size);
    }
    return place;
}

static void add_piece(struct place *whole, const struct place *part, uint64_t size, bool *ret_failed)
{
    if (whole->piece_count == PLACE_PIECES_MAX || size == 0 || size > CAPTURE_SCRATCH_SIZE) {
        *ret_failed = true;
        return;
    }
    whole->pieces[whole->piece_count++] = (struct piece){.kind = part->kind,
                                                         .frame = part->frame,
                                                         .base = part->base,
                                                         .offset = part->offset,
                                                         .constant = part->constant,
                                                         .size = (uint32_t)size};
}

static void expression_evaluate(struct machine *machine, const Dwarf_Op *ops, size_t count, Dwarf_Attribute *attribute,
                                struct place *ret_place)
{
    struct place whole = {.kind = PLACE_PIECES}, now = {.kind = PLACE_OPTIMISED_OUT};
    bool pending = false; /* `now` holds a location that is not on the stack */
    for (size_t i = 0; i < count && !machine->failed; i++) {
        const Dwarf_Op *op = &ops[i];
        if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
            now = register_place(machine->location, op->atom - DW_OP_reg0);
            pending = true;
        } else if (op->atom == DW_OP_regx) {
            now = register_place(machine->location, op->number);
            pending = true;
        } else if (op->atom == DW_OP_stack_value) {
            now = value_of(machine, stack_pop(machine));
            pending = true;
        } else if (op->atom == DW_OP_implicit_value) {
            now = implicit_value(op, attribute);
            pending = true;
        } else if (op->atom == DW_OP_implicit_pointer || op->atom == DW_OP_GNU_implicit_pointer) {
            now = (struct place){.kind = PLACE_OPTIMISED_OUT};
            pending = true;
        } else if (op->atom == DW_OP_piece) {
            if (!pending && machine->depth > 0)
                now = memory_of(machine, stack_pop(machine));
            add_piece(&whole, &now, op->number, &machine->failed);
            now = (struct place){.kind = PLACE_OPTIMISED_OUT};
            pending = false;
        } else if (!expression_step(machine, op, attribute))
            machine->failed = true;
    }
    if (!machine->failed && whole.piece_count > 0) {
        bool something = false;
        for (unsigned i = 0; i < whole.piece_count; i++)
            something |= whole.pieces[i].kind != PLACE_OPTIMISED_OUT;
        *ret_place = something ? whole : (struct place){.kind = PLACE_OPTIMISED_OUT};
        return;
    }
    if (!pending && machine->depth > 0 && !machine->failed)
        now = memory_of(machine, stack_pop(machine));
    *ret_place = machine->failed ? (struct place){.kind = PLACE_NOT_AVAILABLE} : now;
}

void location_evaluate(struct location *location, const Dwarf_Op *ops, size_t count, Dwarf_Attribute *attribute,
                       struct place *ret_place)
{
    struct machine machine = {.location = location};
    expression_evaluate(&machine, ops, count, attribute, ret_place);
}

/* ---- variables ---- */

static bool constant_value(struct location *location, Dwarf_Die *variable, struct place *ret_place)
{
    Dwarf_Attribute attribute;
    Dwarf_Block block;
    uint64_t value;
    if (!dwarf_attr_integrate(variable, DW_AT_const_value, &attribute))
        return false;
    location->constant = true;
    *ret_place = (struct place){.kind = PLACE_CONSTANT, .size = 8};
    if (dwarf_formblock(&attribute, &block) == 0) {
        if (block.length > 8) {
            ret_place->kind = PLACE_NOT_AVAILABLE;
            return true;
        }
        memcpy(&ret_place->constant, block.data, block.length);
    } else if (die_number(variable, DW_AT_const_value, &value))
        ret_place->constant = value;
    else
        ret_place->kind = PLACE_NOT_AVAILABLE;
    return true;
}

/* At a function's beginning there may be several, of which all but the last one are of no length: before its first
 * statement, behind it ... gcc lists them all. */
static int first_location(Dwarf_Attribute *attribute, uint64_t pc, Dwarf_Op **ret_ops, size_t *ret_count)
{
    Dwarf_Addr base, begin, end;
    for (ptrdiff_t at = 0; (at = dwarf_getlocations(attribute, at, &base, &begin, &end, ret_ops, ret_count)) > 0;)
        if (begin == pc || (begin < pc && pc < end))
            return 1;
    return 0;
}

void location_variable(struct location *location, Dwarf_Die *variable, struct place *ret_place)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    uint64_t pc = location->pc - location->compiler->dwarf_bias;
    *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
    if (constant_value(location, variable, ret_place) || !dwarf_attr_integrate(variable, DW_AT_location, &attribute))
        return;
    unsigned form = dwarf_whatform(&attribute);
    location->is_list =
        form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 || form == DW_FORM_data8;
    int found = location->start && location->is_list ? first_location(&attribute, pc, &ops, &count)
                                                     : dwarf_getlocation_addr(&attribute, pc, &ops, &count, 1);
    if (found < 0)
        ret_place->kind = PLACE_NOT_AVAILABLE;
    else if (found > 0 && count > 0)
        location_evaluate(location, ops, count, &attribute, ret_place);
}

/* ---- call frame information ---- */

static bool frame_at(struct capture_compiler *compiler, uint64_t pc, Dwarf_Frame **ret_frame)
{
    for (int i = 0; i < 2; i++)
        if (compiler->cfi[i] && dwarf_cfi_addrframe(compiler->cfi[i], pc - compiler->cfi_bias[i], ret_frame) == 0)
            return true;
    return false;
}

static bool cfa_of(Dwarf_Frame *frame, uint8_t *ret_base, int64_t *ret_offset)
{
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0)
        return false;
    if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom < DW_OP_breg0 + 16) {
        *ret_base = (uint8_t)(ops[0].atom - DW_OP_breg0);
        *ret_offset = (int64_t)ops[0].number;
    } else if (count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < 16) {
        *ret_base = (uint8_t)ops[0].number;
        *ret_offset = (int64_t)ops[0].number2;
    } else
        return false;
    return true;
}

bool location_cfa(struct capture_compiler *compiler, uint64_t pc, uint8_t *ret_base, int64_t *ret_offset)
{
    Dwarf_Frame *frame;
    if (!frame_at(compiler, pc, &frame))
        return false;
    bool found = cfa_of(frame, ret_base, ret_offset);
    free(frame);
    return found;
}

void location_depths(struct capture_compiler *compiler, struct function_code *function)
{
    uint64_t start = 0, end = 0; /* what is known of one instruction holds for those around it */
    int64_t depth = 0;
    for (size_t i = 0; i < function->access_count; i++) {
        struct stack_access *access = &function->accesses[i];
        if (access->base != RSP)
            continue;
        if (access->address < start || access->address >= end) {
            Dwarf_Frame *frame;
            uint8_t base;
            depth = 0;
            start = access->address;
            end = start + 1;
            for (int k = 0; k < 2 && depth == 0; k++) {
                uint64_t bias = compiler->cfi_bias[k];
                if (!compiler->cfi[k] || dwarf_cfi_addrframe(compiler->cfi[k], access->address - bias, &frame) != 0)
                    continue;
                if (!cfa_of(frame, &base, &depth) || base != RSP || depth > INT32_MAX)
                    depth = 0;
                if (dwarf_frame_info(frame, &start, &end, NULL) >= 0) {
                    start += bias;
                    end += bias;
                }
                free(frame);
            }
        }
        access->depth = (int32_t)depth;
    }
}

/* Emits what one register is in the caller. */
static bool unwind_register(struct emitter *emitter, Dwarf_Frame *frame, int reg, uint8_t base, int64_t cfa)
{
    Dwarf_Op memory[3], *ops;
    size_t count;
    if (reg == 7) {
        emit(emitter, CAPTURE_ADDRESS, base, 0, cfa);
        return true;
    }
    if (dwarf_frame_register(frame, reg, memory, &ops, &count) != 0)
        return false;
    if (count == 0) { /* ops NULL: the same; else undefined, as those are that calls destroy */
        emit(emitter, CAPTURE_REG, (unsigned)reg, 8, 0);
        return reg < 16;
    }
    if (count < 1 || count > 2 || ops[0].atom != DW_OP_call_frame_cfa ||
        (count == 2 && ops[1].atom != DW_OP_plus_uconst))
        return false;
    int64_t offset = count == 2 ? (int64_t)ops[1].number : 0;
    emit(emitter, emitter->direct ? CAPTURE_MEM : CAPTURE_READ, base, 8, cfa + offset);
    return true;
}

bool location_unwind(struct capture_compiler *compiler, uint64_t pc, struct emitter *emitter)
{
    Dwarf_Frame *frame;
    uint8_t base;
    int64_t cfa;
    if (!frame_at(compiler, pc, &frame))
        return false;
    bool good = cfa_of(frame, &base, &cfa);
    for (int reg = 0; reg <= 16 && good; reg++) {
        good = unwind_register(emitter, frame, reg, base, cfa);
        emitter->minimum += 8;
    }
    free(frame);
    return good;
}
