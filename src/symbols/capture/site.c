/* SPDX-License-Identifier: Apache-2.0 */
/* Where variables and results are at the hooks and calls of a function, and what is to be known of such a place before. */
#include "symbols/capture/site.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/code/step.h"

enum { CODES_LIMIT = 64 << 20 /* bytes */ };

/* The compiler and its options; NULL: unknown. */
static const char *site_producer(const struct site *site)
{
    Dwarf_Die unit;
    Dwarf_Attribute attribute;
    Dwarf_Die function = site->function;
    return dwarf_diecu(&function, &unit, NULL, NULL) ? dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attribute))
                                                     : NULL;
}

/* Calls are described in optimised code only. */
static bool is_optimised(Dwarf_Die *function)
{
    return die_flag(function, DW_AT_call_all_calls) || die_flag(function, DW_AT_GNU_all_call_sites) ||
           die_flag(function, DW_AT_call_all_tail_calls) || die_flag(function, DW_AT_GNU_all_tail_call_sites);
}

void site_judge(struct site *site)
{
    const char *producer = site_producer(site);
    site->by_clang = !producer || strstr(producer, "clang") || strstr(producer, "LLVM");
    site->optimised = is_optimised(&site->function);
    site->unused_are_garbage = site->by_clang && site->optimised;
    uint8_t base;
    int64_t depth;
    if (location_cfa(site->job->compiler, site->pc, &base, &depth) && base == RSP && depth <= INT32_MAX)
        site->depth = (int32_t)depth;
}

/* The function or inlined instance whose hook this is. */
static void scope_of_hook(struct site *site, const struct hook_site *hook, bool *ret_own)
{
    struct job *job = site->job;
    struct capture_compiler *compiler = job->compiler;
    Dwarf_Die named;
    bool known = hook->function && scopes_function(compiler, hook->function, &named) &&
                 scopes_entry(compiler, &named) == hook->function;
    *ret_own = false;
    if (scopes_inlined(compiler, &job->function, hook->address, known ? &named : NULL, &site->scope))
        return; /* of itself, too: unrolled recursion */
    uint64_t entry = scopes_entry(compiler, &job->function);
    *ret_own = !hook->function || hook->function == entry;
    if (*ret_own)
        site->is_left = RETURNS_YES;
    else if (known && scopes_same(&named, &job->function)) /* clones tell the function that they are made of */
        site->is_left = elf_code_returns(&compiler->code, entry);
    site->scope = *ret_own ? job->function : known ? named : job->function;
    site->nowhere = !*ret_own;
}

/* Nothing is between the registers that the program finds and those by which the function was called, or has returned. */
static void site_at_patch(struct site *site, bool exit)
{
    struct capture_compiler *compiler = site->job->compiler;
    bool clone = elf_code_is_clone(&compiler->code, site->pc);
    site->patched = true;
    site->scope = site->function;
    site->nowhere = exit;
    site->tracked = track_entry(&site->track, &compiler->code, site->pc, site->pc);
    site_judge(site);
    site->is_changed = site->unused_are_garbage && !elf_code_is_global(&compiler->code, site->pc);
    if (!exit && site->unused_are_garbage)
        site->reads = track_reads(&compiler->code, site->pc);
    site_find_parameters(site, !clone);
    if (exit && !site->is_changed && !site->is_other && elf_code_returns(&compiler->code, site->pc) == RETURNS_YES)
        site->is_left = RETURNS_YES;
}

void site_at_hook(struct site *site, const struct hook_site *hook)
{
    struct capture_compiler *compiler = site->job->compiler;
    uint64_t entry = scopes_entry(compiler, &site->function);
    bool own;
    if (hook->patched) {
        site_at_patch(site, hook->exit);
        return;
    }
    scope_of_hook(site, hook, &own);
    if (hook->exit ? site->is_left : own)
        site->tracked = hook->exit ? track_exit(&site->track, &site->nodes, &compiler->code, hook->returns)
                                   : track_entry(&site->track, &compiler->code, entry, hook->address);
    site_judge(site);
    site_find_parameters(site, own && !elf_code_is_clone(&compiler->code, entry));
}

/* Most functions are looked at for each of their calls, and not one after the other. */
struct code_entry {
    const void *function; /* its DIE's address */
    struct function_code code;
    UT_hash_handle hh;
};

void site_codes_done(struct capture_compiler *compiler)
{
    HASH_FREE_ALL(compiler->codes, function_code_done(&each->code));
    compiler->codes_size = 0;
}

void site_codes_limit(struct capture_compiler *compiler)
{
    if (compiler->codes_size > CODES_LIMIT)
        site_codes_done(compiler);
}

const struct function_code *site_code(struct capture_compiler *compiler, Dwarf_Die *function)
{
    struct address_range ranges[RANGES_MAX];
    struct code_entry *entry;
    HASH_FIND(hh, compiler->codes, &function->addr, sizeof function->addr, entry);
    if (entry)
        return &entry->code;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->function = function->addr;
    size_t count = scopes_ranges(compiler, function, ranges, RANGES_MAX);
    if (function_code_read(&entry->code, &compiler->code, ranges, count) < 0) {
        function_code_done(&entry->code);
        free(entry);
        return NULL;
    }
    location_depths(compiler, &entry->code);
    compiler->codes_size += sizeof *entry + entry->code.access_count * sizeof *entry->code.accesses +
                            entry->code.hook_count * sizeof *entry->code.hooks +
                            entry->code.indirect_count * sizeof *entry->code.indirect;
    HASH_ADD(hh, compiler->codes, function, sizeof entry->function, entry);
    return &entry->code;
}

void site_in_frame(struct site *site, struct job *job, uint64_t pc, bool innermost)
{
    static const struct function_code none;
    const struct function_code *code = site_code(job->compiler, &job->function);
    *site = (struct site){.job = job,
                          .kind = CAPTURE_CALL,
                          .pc = pc,
                          .returns = innermost ? pc : pc + 1,
                          .function = job->function,
                          .scope = job->function,
                          .code = code ? code : &none,
                          .emitter = site->emitter,
                          .frame = true,
                          .innermost = innermost};
    for (size_t i = 0; i < site->code->hook_count; i++) {
        const struct hook_site *hook = &site->code->hooks[i];
        if (innermost || hook->jump || hook->exit || hook->returns != site->returns)
            continue;
        site->kind = CAPTURE_ENTRY;
        site->pc = hook->address;
        site_at_hook(site, hook);
        return;
    }
    site_judge(site);
}

/* ---- variables ---- */

/*
 * Where a function's variables are at its hooks and calls.
 *
 * Arguments at an entry hook: first the registers and stack slots in which the ABI passes them, followed through the
 * instructions from the function's start to the hook; then what DWARF says for the hook's address, if that is a
 * statement about this address (a location list), or about a slot that was written before. The compiler may have
 * changed the interface of clones; for those, and for inlined instances, only DWARF counts.
 *
 * Locals at an exit hook: those in scope there, as gdb would show them; static ones are not captured. At calls, only
 * those with a slot that some instruction before the call wrote to, or with a location list. At neither those for which
 * a compiler that does not follow variables names one register: it may hold something else by then.
 */

enum { WHOLE_MAX = 64 }; /* larger ones are not written part by part */

enum written { WRITTEN_NEVER, WRITTEN_UNKNOWN, WRITTEN };

/* Where an access is, in terms of the site's register: rsp is somewhere else while arguments are being pushed. */
static int64_t access_offset(const struct site *site, const struct stack_access *access)
{
    bool moved = access->depth > 0 && site->depth > 0;
    return access->offset + (moved ? (int64_t)site->depth - access->depth : 0);
}

/* Whether a call could write its result to a variable of this type. */
static bool is_result_in_memory(Dwarf_Die *type)
{
    struct abi_type abi;
    Dwarf_Die stripped;
    abi_classify(type, &abi);
    return type_strip(type, &stripped) && type_kind_of(&stripped) != TYPE_ARRAY && abi_has_hidden_pointer(&abi);
}

/* Whether some instruction before the site wrote to the bytes from `from` to `to` of a slot, or took their address and
 * another one may have written there; not the call that is looked at, if it may be to write a result of this type there
 * (NULL: it may not). Never: the address was taken, and nothing done with it. */
static enum written written_part(const struct site *site, const struct place *place, int64_t from, int64_t to,
                                 Dwarf_Die *result)
{
    enum written answer = WRITTEN_UNKNOWN;
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        int64_t begin = access_offset(site, access) - place->offset;
        bool address = access->size == 0;
        if (!access->writes || access->address >= site->pc || access->base != place->base || begin >= to ||
            (address ? begin < 0 : begin + access->size <= from))
            continue;
        if (!address || (access->used && access->used <= site->pc &&
                         !(result && access->call == site->returns && is_result_in_memory(result))))
            return WRITTEN;
        answer = WRITTEN_NEVER;
    }
    return answer;
}

/* Of optimised code all of it counts, for members that nothing uses are left out. */
static enum written place_written(const struct site *site, const struct place *place, uint64_t size, Dwarf_Die *result)
{
    enum { PART = 8 };
    enum written answer = WRITTEN;
    int64_t end = size ? (int64_t)size : 1, part = site->optimised && end <= WHOLE_MAX ? PART : end;
    for (int64_t from = 0; from < end; from += part) {
        enum written one = written_part(site, place, from, from + part < end ? from + part : end, result);
        answer = one < answer ? one : answer;
    }
    return answer;
}

static bool was_written(const struct site *site, const struct place *place, uint64_t size)
{
    return place_written(site, place, size, NULL) == WRITTEN;
}

static struct location location_at(const struct site *site, struct emitter *emitter)
{
    return (struct location){.compiler = site->job->compiler,
                             .emitter = emitter,
                             .function = (Dwarf_Die *)&site->function,
                             .pc = site->pc,
                             .caller = site->frame ? !site->innermost : site->kind == CAPTURE_CALL,
                             .unknown = site->unknown,
                             .no_xmm = site->frame,
                             .start = site->patched && site->kind == CAPTURE_ENTRY,
                             .entry = site->tracked ? &site->track : NULL};
}

/* Whether a register that DWARF names for all of a scope has the variable wherever the scope is. gcc also says so of
 * variables that it does not follow: without optimisation, and with it of those that nothing uses. */
static bool follows_registers(const struct site *site)
{
    const char *producer = site_producer(site);
    return producer && (strstr(producer, "clang") || strstr(producer, "LLVM"));
}

static bool is_register(const struct place *place)
{
    bool found = place->kind == PLACE_REGISTER || place->kind == PLACE_XMM;
    for (unsigned i = 0; i < place->piece_count && place->kind == PLACE_PIECES; i++)
        found |= place->pieces[i].kind == PLACE_REGISTER || place->pieces[i].kind == PLACE_XMM;
    return found;
}

/* In the caller's part of the stack: it was written before the call. */
static bool is_passed(const struct site *site, const struct place *place)
{
    int64_t offset;
    return site->kind == CAPTURE_ENTRY && site->tracked && track_offset(&site->track, place, &offset) && offset >= 8;
}

/* Whether all of it has been stored: optimised code leaves out the members that the function does not use. */
static bool is_stored(const struct site *site, const struct place *place, uint64_t size)
{
    int64_t offset;
    if (site->kind != CAPTURE_ENTRY || !site->tracked || !track_offset(&site->track, place, &offset))
        return true;
    for (int64_t at = offset; size > 8 && at < offset + (int64_t)size; at += 8)
        if (!track_stored(&site->track, at))
            return false;
    return true;
}

/* Whether the place is at an address that a slot of the frame has, and the slot may not have been written yet. */
static bool is_behind_unwritten(const struct site *site, struct emitter *emitter, Dwarf_Die *variable)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    struct place slot;
    if (!dwarf_attr_integrate(variable, DW_AT_location, &attribute) ||
        dwarf_getlocation(&attribute, &ops, &count) != 0 || count < 2 || ops[0].atom != DW_OP_fbreg)
        return false;
    struct location location = location_at(site, emitter);
    location_evaluate(&location, ops, 1, &attribute, &slot);
    return slot.kind != PLACE_MEMORY || !slot.frame ||
           (!was_written(site, &slot, sizeof(uint64_t)) && !is_passed(site, &slot));
}

/* The parameter is in one place from beginning to end. */
static bool has_slot(Dwarf_Die *parameter)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return dwarf_attr_integrate(parameter, DW_AT_location, &attribute) &&
           dwarf_getlocation(&attribute, &ops, &count) == 0 && count > 0 && ops[0].atom == DW_OP_fbreg;
}

/* Whether an instruction of the function looks at some of it, or takes its address. */
static bool is_looked_at(const struct site *site, const struct place *place, uint64_t size)
{
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        int64_t begin = access_offset(site, access) - place->offset;
        if (access->base == place->base && begin >= 0 && begin < (int64_t)size)
            return true;
    }
    return false;
}

/* LLVM lets callers pass anything for parameters that the function does not use, however large, and describes them all
 * the same. What is used after the hook is kept where the hook leaves it alone; what is only in a register that calls
 * destroy may be garbage. Without a hook, what no instruction reads. */
static bool is_unused(const struct site *site, Dwarf_Die *parameter, const struct abi_place *abi,
                      const struct place *place)
{
    if (!site->unused_are_garbage || site->kind == CAPTURE_EXIT)
        return false;
    if (site->patched && !abi->in_memory)
        return !(site->reads >> (place->base + (place->kind == PLACE_XMM ? XMM0 : 0)) & 1);
    return abi->in_memory ? !is_looked_at(site, place, abi->by_address ? sizeof(uint64_t) : abi->size)
                          : !has_slot(parameter) && !track_keeps(place);
}

/* Where the caller put it. */
static bool in_callers_frame(const struct site *site, const struct place *place)
{
    uint8_t base;
    int64_t cfa;
    return location_cfa(site->job->compiler, site->pc, &base, &cfa) && base == place->base && place->offset >= cfa;
}

/* The same of a parameter of which DWARF says that it is where the caller put it. */
static bool is_unused_slot(const struct site *site, Dwarf_Die *variable, const struct place *place, uint64_t size)
{
    return site->unused_are_garbage && dwarf_tag(variable) == DW_TAG_formal_parameter &&
           in_callers_frame(site, place) && !is_looked_at(site, place, size);
}

/* Whether a slot of the frame has its variable at the site. */
static bool is_set(const struct site *site, Dwarf_Die *variable, const struct place *place, uint64_t size,
                   Dwarf_Die *type)
{
    if (is_passed(site, place))
        return true;
    switch (site->kind) {
    case CAPTURE_ENTRY:
        return was_written(site, place, size) && is_stored(site, place, size);
    case CAPTURE_CALL: /* when a function calls another its parameters have long been stored */
        return (dwarf_tag(variable) == DW_TAG_formal_parameter &&
                (in_callers_frame(site, place) || !(site->optimised || site->innermost))) ||
               place_written(site, place, size, type) == WRITTEN;
    default:
        return place_written(site, place, size, NULL) != WRITTEN_NEVER;
    }
}

/* Nothing is done to parameters before they are stored. gcc notes its options; it describes calls of some such code, too. */
static bool is_plain(const struct site *site)
{
    const char *producer = site_producer(site), *level = producer ? strstr(producer, " -O") : NULL;
    return producer && strstr(producer, " -g") && (!level || level[3] == '0');
}

/* What gcc says of a variable at a function's first instruction: lists have what it was before the first statement, and constants
 * are what the function was made for. What is not optimised, itself or its address, is stored to a slot before anything
 * else is done: so it is where that comes from. */
static void locate_at_start(const struct site *site, struct emitter *emitter, Dwarf_Die *variable,
                            const struct location *location, const struct emitter_mark *before, struct place *ret_place)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    Dwarf_Die type;
    size_t count;
    struct place slot;
    const char *producer = site_producer(site);
    bool computed = ret_place->kind == PLACE_REGISTER && ret_place->base >= CAPTURE_TEMP;
    bool by_gcc = producer && strncmp(producer, "GNU ", 4) == 0;
    if (by_gcc && (location->constant  ? true
                   : location->is_list ? dwarf_hasattr(variable, DW_AT_GNU_locviews) && !computed
                                       : is_passed(site, ret_place)))
        return;
    emitter_reset(emitter, before);
    ret_place->kind = PLACE_NOT_AVAILABLE;
    if (!by_gcc || location->is_list || !dwarf_attr_integrate(variable, DW_AT_location, &attribute) ||
        dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0 || count > 2 || ops[0].atom != DW_OP_fbreg ||
        (count == 2 && ops[1].atom != DW_OP_deref) || !type_of(variable, &type) ||
        (count == 1 && (type_size(&type) == 0 || type_size(&type) > sizeof(uint64_t))))
        return;
    unsigned size = count == 1 ? (unsigned)type_size(&type) : sizeof(uint64_t);
    struct location here = location_at(site, emitter);
    location_evaluate(&here, ops, 1, &attribute, &slot);
    if (!is_passed(site, &slot) && (!is_plain(site) || !site_locate_stored(site, emitter, &slot, size, &slot)))
        return;
    *ret_place = slot;
    if (count == 2) {
        int value = emit_load(emitter, &slot, sizeof(uint64_t));
        *ret_place = (struct place){.kind = value < 0 ? PLACE_NOT_AVAILABLE : PLACE_MEMORY, .base = (uint8_t)value};
    }
}

/* What DWARF says, as far as it can be believed here. */
static void locate_by_dwarf(const struct site *site, struct emitter *emitter, Dwarf_Die *variable,
                            struct place *ret_place)
{
    struct emitter_mark before = emitter_mark(emitter);
    struct location location = location_at(site, emitter);
    Dwarf_Die type;
    location_variable(&location, variable, ret_place);
    if (location.start && !variable_is_static(variable)) {
        locate_at_start(site, emitter, variable, &location, &before, ret_place);
        return;
    }
    bool slot = ret_place->kind == PLACE_MEMORY && ret_place->frame && !location.is_list && !location.constant;
    bool typed = type_of(variable, &type);
    uint64_t size = typed ? type_size(&type) : 1;
    if (slot && !is_set(site, variable, ret_place, size, typed ? &type : NULL))
        ret_place->kind = PLACE_NOT_AVAILABLE;
    if (site->kind == CAPTURE_ENTRY && !slot && !location.is_list && is_behind_unwritten(site, emitter, variable))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (is_register(ret_place) && !location.is_list && !location.constant && !follows_registers(site))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (slot && is_unused_slot(site, variable, ret_place, size))
        *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
}

/* A register's part of a value: its members, and padding that is nowhere. */
static void site_add_eightbyte(struct place *whole, const struct place *part, const struct abi_place *abi,
                               unsigned index)
{
    uint64_t left = abi->size - 8 * (uint64_t)index;
    unsigned size = abi->wide ? 16 : left < 8 ? (unsigned)left : 8, used = abi->wide ? 16 : abi->used[index];
    whole->pieces[whole->piece_count++] = (struct piece){.kind = part->kind,
                                                         .base = part->base,
                                                         .frame = part->frame,
                                                         .offset = part->offset,
                                                         .constant = part->constant,
                                                         .size = used};
    if (used < size)
        whole->pieces[whole->piece_count++] = (struct piece){.kind = PLACE_OPTIMISED_OUT, .size = size - used};
}

/* A value that has one piece only, without pieces. */
static struct place site_whole(const struct place *pieces)
{
    const struct piece *piece = &pieces->pieces[0];
    return (struct place){.kind = piece->kind,
                          .base = piece->base,
                          .frame = piece->frame,
                          .offset = piece->offset,
                          .constant = piece->constant,
                          .size = piece->kind == PLACE_MEMORY ? 0 : piece->size};
}

/* Bytes of an argument by its registers, followed to the site. */
static bool locate_by_abi(const struct site *site, struct emitter *emitter, Dwarf_Die *parameter,
                          const struct abi_place *abi, struct place *ret_place)
{
    if (abi->in_memory && !abi->by_address) {
        if (!track_stack(&site->track, (int64_t)abi->stack, ret_place))
            return false;
        if (is_unused(site, parameter, abi, ret_place))
            *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
        return true;
    }
    if (abi->by_address) {
        struct place pointer;
        if (abi->in_memory ? !track_stack(&site->track, (int64_t)abi->stack, &pointer)
                           : !track_find(&site->track, abi->registers[0], 8, &pointer))
            return false;
        if (is_unused(site, parameter, abi, &pointer)) {
            *ret_place = (struct place){.kind = PLACE_OPTIMISED_OUT};
            return true;
        }
        int value = emit_load(emitter, &pointer, 8);
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
        return value >= 0;
    }
    if (abi->count == 0) { /* an empty class: its bytes are nowhere */
        *ret_place = (struct place){.kind = PLACE_CONSTANT};
        return true;
    }
    struct place whole = {.kind = PLACE_PIECES};
    for (unsigned i = 0; i < abi->count; i++) {
        struct place part;
        unsigned used = abi->wide ? 16 : abi->used[i];
        if (!track_find(&site->track, abi->registers[i], used, &part))
            return false;
        if (is_unused(site, parameter, abi, &part))
            part.kind = PLACE_OPTIMISED_OUT;
        site_add_eightbyte(&whole, &part, abi, i);
    }
    *ret_place = abi->count == 1 && whole.piece_count == 1 ? site_whole(&whole) : whole;
    return true;
}

/* Objects with destructors have been destroyed when the exit hook is called; static ones live on. */
static bool is_destroyed(const struct site *site, Dwarf_Die *variable)
{
    Dwarf_Die type;
    return site->kind == CAPTURE_EXIT && dwarf_tag(variable) == DW_TAG_variable && type_of(variable, &type) &&
           type_has_destructor(&type) && !variable_is_static(variable);
}

/* Whether all slots of the frame that an expression names have been written. */
static bool slots_are_written(const struct site *site, struct emitter *emitter, const Dwarf_Op *ops, size_t count,
                              Dwarf_Attribute *attribute)
{
    for (size_t i = 0; i < count; i++) {
        struct place slot;
        struct location location = location_at(site, emitter);
        if (ops[i].atom != DW_OP_fbreg)
            continue;
        location_evaluate(&location, &ops[i], 1, attribute, &slot);
        if (slot.kind != PLACE_MEMORY || !slot.frame ||
            (!was_written(site, &slot, sizeof(uint64_t)) && !is_passed(site, &slot)))
            return false;
    }
    return true;
}

/* An attribute that is a number, another variable, or an expression. Only of parameters: what a function allocated
 * itself may have been freed, and optimised code leaves the descriptor as it was. */
static int attribute_of(void *ctx, struct emitter *emitter, Dwarf_Die *type, unsigned number,
                        const struct place *object)
{
    const struct variable *variable = ctx;
    const struct site *site = variable->site;
    Dwarf_Attribute attribute;
    Dwarf_Die other, other_type;
    Dwarf_Op *ops;
    size_t count;
    struct place place;
    uint64_t constant;
    if (dwarf_tag(variable->die) != DW_TAG_formal_parameter || !dwarf_attr(type, number, &attribute))
        return -1;
    if (dwarf_formref_die(&attribute, &other)) {
        if (!type_of(&other, &other_type) || type_size(&other_type) != sizeof(uint64_t))
            return -1;
        locate_by_dwarf(site, emitter, &other, &place);
        bool known = place.kind != PLACE_NOT_AVAILABLE && place.kind != PLACE_OPTIMISED_OUT;
        if (place.kind == PLACE_PIECES || (!known && !site_locate_bound(site, emitter, &other, &place)))
            return -1;
        return emit_load(emitter, &place, sizeof(uint64_t));
    }
    if (die_number(type, number, &constant)) {
        unsigned temp = emit_temp(emitter);
        emit_constant(emitter, temp, constant);
        return (int)temp;
    }
    if (dwarf_getlocation(&attribute, &ops, &count) != 0 || !slots_are_written(site, emitter, ops, count, &attribute))
        return -1;
    struct location location = location_at(site, emitter);
    location.object = object;
    location_evaluate(&location, ops, count, &attribute, &place);
    if (place.kind != PLACE_MEMORY) /* what is on the stack is the number */
        return -1;
    unsigned temp = emit_temp(emitter);
    emit(emitter, CAPTURE_LEA, temp, place.base, place.offset);
    return (int)temp;
}

/* Whether calls leave it, and all parts of it, alone. */
static bool is_kept(const struct place *place)
{
    for (unsigned i = 0; i < place->piece_count && place->kind == PLACE_PIECES; i++) {
        struct place part = {.kind = place->pieces[i].kind, .base = place->pieces[i].base};
        if (part.kind != PLACE_OPTIMISED_OUT && part.kind != PLACE_CONSTANT && !track_keeps(&part))
            return false;
    }
    return place->kind == PLACE_PIECES || place->kind == PLACE_OPTIMISED_OUT || place->kind == PLACE_CONSTANT ||
           track_keeps(place);
}

void site_locate_variable(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct variable *variable = ctx;
    emitter->attribute = attribute_of;
    emitter->attribute_ctx = variable;
    if ((variable->site->nowhere && !variable_is_static(variable->die)) ||
        is_destroyed(variable->site, variable->die)) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && variable->abi->doubted && (variable->site->patched || !has_slot(variable->die))) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && !variable->abi->unknown && variable->site->tracked &&
        locate_by_abi(variable->site, emitter, variable->die, variable->abi, ret_place)) {
        if (variable->site->frame && !is_kept(ret_place))
            *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    locate_by_dwarf(variable->site, emitter, variable->die, ret_place);
}

/* ---- results ---- */

/*
 * A function's result at its exit hook, which is called before the result is where callers look for it: what the code
 * behind the hook makes of registers and memory is computed by the capture program.
 */

enum {
    PC = 16,           /* of values: the hook's return address */
    ROOM = 6,          /* temporaries that a result has beside what is computed */
    RESULT_INSNS = 200 /* of a program for one register; what is used twice is computed twice */
};

struct result {
    struct emitter *emitter;
    const struct track *track;
    size_t limit; /* of the program's bytes */
};

static int load_value(struct result *result, const struct tracked *value);

/* Puts a value into the temporary `to`; those above it are free again. */
static int value_settle(struct emitter *emitter, unsigned to, unsigned value)
{
    if (value != to)
        emit(emitter, CAPTURE_LEA, to, value, 0);
    emitter->temps = to + 1;
    return (int)to;
}

static void value_shift(struct emitter *emitter, unsigned temp, enum capture_alu how, unsigned bits)
{
    unsigned count = emit_temp(emitter);
    emit_constant(emitter, count, bits);
    emit(emitter, CAPTURE_ALU, temp, how, count);
}

/* Of the low bytes, a number of 64 bits. */
static void value_extend(struct emitter *emitter, unsigned temp, unsigned size, bool is_signed)
{
    if (size >= 8)
        return;
    value_shift(emitter, temp, CAPTURE_SHL, 64 - 8 * size);
    value_shift(emitter, temp, is_signed ? CAPTURE_SAR : CAPTURE_SHR, 64 - 8 * size);
}

/* b ^ ((a ^ b) & (c ? all bits : 0)) */
static void value_choose(struct emitter *emitter, unsigned temp, unsigned b, unsigned c)
{
    unsigned bits = emit_temp(emitter);
    emit_constant(emitter, bits, 0);
    emit(emitter, CAPTURE_ALU, bits, CAPTURE_SUB, c);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_XOR, b);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_AND, bits);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_XOR, b);
}

static int load_node(struct result *result, const struct track_node *node)
{
    struct emitter *emitter = result->emitter;
    unsigned temp = emit_temp(emitter), how = node->how;
    bool one = how == TRACK_LOAD || how == TRACK_SIGN_EXTEND || how == TRACK_ZERO_EXTEND;
    int a = load_value(result, &node->a), b = a < 0 || one ? a : load_value(result, &node->b);
    int c = b < 0 || how != TRACK_SELECT ? b : load_value(result, &node->c);
    if (c < 0)
        return -1;
    if (how == TRACK_LOAD) {
        emit(emitter, CAPTURE_PEEK, temp, (unsigned)node->size << 8 | (unsigned)a, 0);
        return value_settle(emitter, temp, temp);
    }
    emit(emitter, CAPTURE_LEA, temp, (unsigned)a, 0);
    if (how == TRACK_SELECT)
        value_choose(emitter, temp, (unsigned)b, (unsigned)c);
    else if (one)
        value_extend(emitter, temp, (unsigned)node->b.add, how == TRACK_SIGN_EXTEND);
    else
        emit(emitter, CAPTURE_ALU, temp, how, b);
    return value_settle(emitter, temp, temp);
}

/* What is read may not be there where the program does not read it. */
static int load_memory(struct result *result, const struct tracked *value)
{
    unsigned temp = emit_temp(result->emitter), size = value->size < 8 ? value->size : 8;
    emit(result->emitter, CAPTURE_PEEK, temp, size << 8 | value->base, value->add);
    return (int)temp;
}

static int load_plain(struct result *result, const struct tracked *value)
{
    struct emitter *emitter = result->emitter;
    unsigned temp;
    switch (value->kind) {
    case TRACK_COMPUTED:
        return load_node(result, &result->track->nodes->nodes[value->base]);
    case TRACK_CONSTANT:
        temp = emit_temp(emitter);
        emit_constant(emitter, temp, (uint64_t)value->add);
        return (int)temp;
    case TRACK_MEMORY:
        return value->base < PC ? load_memory(result, value) : -1;
    case TRACK_FIXED:
        if (!emitter->here)
            return -1;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, PC, value->add - (int64_t)emitter->here);
        return (int)temp;
    case TRACK_REGISTER:
        if (value->base >= PC)
            return -1;
        if (value->add == 0)
            return value->base;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, value->base, value->add);
        return (int)temp;
    default:
        return -1;
    }
}

/* The value in a register of the program: a number whose value->size low bytes count. -1: it takes too much of it. */
static int load_value(struct result *result, const struct tracked *value)
{
    struct emitter *emitter = result->emitter;
    if (emitter->temps + ROOM >= CAPTURE_TEMP + CAPTURE_TEMPS || emitter->code.len > result->limit)
        return -1;
    unsigned to = emitter->temps;
    int plain = load_plain(result, value);
    if (plain < 0 || !value->mask)
        return plain;
    unsigned temp = emit_temp(emitter), bits = emit_temp(emitter);
    emit(emitter, CAPTURE_LEA, temp, (unsigned)plain, 0);
    emit_constant(emitter, bits, value->mask);
    emit(emitter, CAPTURE_ALU, temp, CAPTURE_AND, bits);
    return value_settle(emitter, to, temp);
}

bool site_place_of(const struct track *track, struct tracked value, unsigned size, struct emitter *emitter,
                   struct place *ret_place)
{
    struct result result = {emitter, track, emitter->code.len + RESULT_INSNS * sizeof(struct capture_insn)};
    uint64_t wanted = size < 8 ? (UINT64_C(1) << 8 * size) - 1 : UINT64_MAX;
    if (value.kind == TRACK_UNKNOWN || value.size < size)
        return false;
    if ((value.mask & wanted) == wanted)
        value.mask = 0;
    if (value.kind == TRACK_MEMORY && !value.mask) {
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = value.base, .frame = true, .offset = value.add};
        return value.base < PC;
    }
    if (value.kind == TRACK_EXTENDED) {
        *ret_place = (struct place){.kind = PLACE_PIECES, .piece_count = 3};
        ret_place->pieces[0] = (struct piece){.kind = PLACE_CONSTANT, .constant = (uint64_t)value.add, .size = 8};
        ret_place->pieces[1] = (struct piece){.kind = PLACE_CONSTANT, .constant = value.mask, .size = 2};
        ret_place->pieces[2] = (struct piece){.kind = PLACE_CONSTANT, .size = 6}; /* padding */
        return true;
    }
    if (value.kind == TRACK_CONSTANT) {
        *ret_place = (struct place){.kind = PLACE_CONSTANT, .constant = (uint64_t)value.add, .size = 8};
        return true;
    }
    int number = size > 8 ? -1 : load_value(&result, &value);
    *ret_place = (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)number, .size = 8};
    return number >= 0;
}

/* Of Fortran numbers are returned as in C, if it is not asked otherwise; texts, arrays and derived types not always. */
static bool is_returned_otherwise(struct site *site, Dwarf_Die *type)
{
    Dwarf_Die stripped;
    const char *producer = site_producer(site);
    return die_is_fortran(&site->scope) && ((producer && strstr(producer, " -ff2c")) || !type_strip(type, &stripped) ||
                                            (!type_is_scalar(&stripped) && type_kind_of(&stripped) != TYPE_COMPLEX));
}

/* A result in memory that the caller provides: nothing is written there behind the hook. */
static bool is_complete(const struct track *track, const struct tracked *address)
{
    for (unsigned i = 0; i < track->slot_count; i++)
        if (!is_address(*address) || track->slots[i].base == address->base || track->slots[i].base != RSP)
            return false;
    return !track->memory_lost;
}

static bool locate_registers(const struct track *track, const struct abi_place *abi, struct emitter *emitter,
                             struct place *ret_place)
{
    struct place whole = {.kind = PLACE_PIECES};
    unsigned count = abi->wide ? 2 : abi->count;
    struct abi_place halves = *abi;
    if (abi->wide) { /* of one vector register */
        halves.wide = false;
        halves.used[0] = halves.used[1] = 8;
        halves.registers[1] = (uint8_t)(TRACK_HIGH + abi->registers[0] - XMM0);
    }
    for (unsigned i = 0; i < count; i++) {
        struct place part;
        if (!site_place_of(track, track->values[halves.registers[i]], halves.used[i], emitter, &part))
            return false;
        site_add_eightbyte(&whole, &part, &halves, i);
    }
    if (count > 0)
        *ret_place = count == 1 && whole.piece_count == 1 ? site_whole(&whole) : whole;
    return true;
}

void site_locate_result(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct site *site = ctx;
    const struct track *track = &site->track;
    struct abi_type type;
    struct abi_place abi;
    Dwarf_Die die;
    bool inlined = dwarf_tag(&site->scope) == DW_TAG_inlined_subroutine; /* nothing is returned */
    *ret_place = (struct place){.kind = inlined ? PLACE_OPTIMISED_OUT : PLACE_NOT_AVAILABLE};
    if (inlined || !site->is_left || !site->tracked || !type_of(&site->scope, &die) ||
        is_returned_otherwise(site, &die))
        return;
    abi_classify(&die, &type);
    struct emitter_mark mark = emitter_mark(emitter);
    bool in_registers = abi_result(&type, &abi), found;
    if (site->is_left == RETURNS_MAYBE &&
        (!in_registers || track->values[abi.registers[0]].kind == TRACK_CONSTANT)) /* registers may be cleared */
        return;
    if (site->patched) { /* they are where the caller looks for them, but for those of the x87 */
        found = in_registers && !abi.unknown && locate_by_abi(site, emitter, NULL, &abi, ret_place);
    } else if (!in_registers) {
        found = site_place_of(track, track->values[TRACK_X87], 10, emitter, ret_place);
    } else if (abi.by_address) {
        struct place pointer;
        const struct tracked *address = &track->values[abi.registers[0]];
        found = is_complete(track, address) && site_place_of(track, *address, 8, emitter, &pointer);
        int value = found ? emit_load(emitter, &pointer, 8) : -1;
        found = value >= 0;
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
    } else
        found = locate_registers(track, &abi, emitter, ret_place);
    if (found)
        return;
    emitter_reset(emitter, &mark);
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
}
