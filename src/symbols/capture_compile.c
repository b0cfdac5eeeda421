/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function's hook sites become programs.
 *
 * Arguments at an entry hook: first the registers and stack slots in which the ABI passes them, followed through the
 * instructions from the function's start to the hook; then what DWARF says for the hook's address, if that is a
 * statement about this address (a location list), or about a slot that was written before. The compiler may have
 * changed the interface of clones; for those, and for inlined instances, only DWARF counts.
 *
 * Locals at an exit hook: those in scope there, as gdb would show them; static ones are not captured. At calls, only
 * those with a slot that some instruction before the call wrote to, or with a location list.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "symbols/capture_internal.h"

enum { RANGES_MAX = 64, PARAMETERS_MAX = 128 };

/* ---- what is common to all sites of a job ---- */

struct job {
    struct capture_compiler *compiler;
    const struct capture_output *output;
    uint32_t *layout_id;
    uint64_t address; /* of the function that was asked for */
    Dwarf_Die function;
    struct function_code code;
    const char *const *params;
    unsigned param_count;
};

/* One site: what is in scope, and how it is found. */
struct site {
    struct job *job;
    enum capture_site_kind kind;
    uint64_t pc;      /* where DWARF is asked */
    uint64_t returns; /* its address for the agent */
    Dwarf_Die function, scope;
    const struct function_code *code;
    struct track track;
    bool tracked;
    bool unused_are_garbage;
    bool nowhere; /* the scope's variables are not to be found at this place */
    struct emitter *emitter;
    unsigned fields;
    /* the parameters' places by the ABI, in order; none for inlined instances and clones */
    Dwarf_Die parameters[PARAMETERS_MAX];
    struct abi_place places[PARAMETERS_MAX];
    unsigned parameter_count;
    bool by_abi;
};

static void tell(const struct job *job, uint64_t address, const char *text)
{
    job->output->problem(job->output->ctx, address, text);
}

static int layout_id_of(struct job *job, const char *text, uint32_t *ret_id)
{
    struct layout_entry *entry;
    HASH_FIND_STR(job->compiler->layouts, text, entry);
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry || !(entry->text = strdup(text))) {
            free(entry);
            return -ENOMEM;
        }
        entry->id = (*job->layout_id)++;
        HASH_ADD_KEYPTR(hh, job->compiler->layouts, entry->text, strlen(entry->text), entry);
        job->output->layout(job->output->ctx, entry->id, text);
    }
    *ret_id = entry->id;
    return 0;
}

/* Gives the finished program of a site away. */
static int hand_over(struct site *site)
{
    struct emitter *emitter = site->emitter;
    struct job *job = site->job;
    uint32_t id = 0;
    if (site->fields == 0)
        return 0;
    if (emitter->minimum == 0) { /* all of it optimised out: a byte, so that there is something to record */
        struct place nothing = {.kind = PLACE_CONSTANT};
        emit_bytes(emitter, &nothing, 1);
        if (emitter->text.data)
            emitter->text.len--; /* the closing ) */
        buf_puts(&emitter->text, ",:y)");
    }
    if (!emitter_finish(emitter)) {
        tell(job, site->pc, "too many values for one record here");
        return 0;
    }
    int r = layout_id_of(job, emitter->text.data, &id);
    if (r == 0)
        job->output->site(job->output->ctx, site->kind, site->returns, id, emitter->code.data, emitter->code.len);
    return r;
}

/* ---- where variables are ---- */

/* Whether some instruction before the site wrote to the slot, or took its address. */
static bool was_written(const struct site *site, const struct place *place, uint64_t size)
{
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        if (access->writes && access->address < site->pc && access->base == place->base &&
            access->offset >= place->offset && access->offset < place->offset + (int64_t)(size ? size : 1))
            return true;
    }
    return false;
}

static struct location location_at(const struct site *site, struct emitter *emitter)
{
    return (struct location){.compiler = site->job->compiler,
                             .emitter = emitter,
                             .function = (Dwarf_Die *)&site->function,
                             .pc = site->pc,
                             .caller = site->kind == CAPTURE_CALL,
                             .entry = site->tracked ? &site->track : NULL};
}

/* What DWARF says, as far as it can be believed here. */
static void locate_by_dwarf(const struct site *site, struct emitter *emitter, Dwarf_Die *variable,
                            struct place *ret_place)
{
    struct location location = location_at(site, emitter);
    Dwarf_Die type;
    location_variable(&location, variable, ret_place);
    bool slot = ret_place->kind == PLACE_MEMORY && ret_place->frame && !location.is_list && !location.constant;
    /* when a function calls another its parameters have long been stored */
    bool checked =
        site->kind == CAPTURE_ENTRY || (site->kind == CAPTURE_CALL && dwarf_tag(variable) != DW_TAG_formal_parameter);
    if (slot && checked && !was_written(site, ret_place, type_of(variable, &type) ? type_size(&type) : 1))
        ret_place->kind = PLACE_NOT_AVAILABLE;
}

/* Code that was not optimised: the parameter is in one place from beginning to end. */
static bool has_slot(Dwarf_Die *parameter)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return dwarf_attr_integrate(parameter, DW_AT_location, &attribute) &&
           dwarf_getlocation(&attribute, &ops, &count) == 0 && count > 0 && ops[0].atom == DW_OP_fbreg;
}

/* LLVM lets callers pass anything for parameters that the function does not use. What is used after the hook is kept
 * where the hook leaves it alone; what is only in a register that calls destroy may be garbage. */
static bool is_unused(const struct site *site, Dwarf_Die *parameter, const struct abi_place *abi,
                      const struct place *place)
{
    if (!site->unused_are_garbage || has_slot(parameter))
        return false;
    if (!abi->in_memory)
        return !track_keeps(place);
    if (abi->size > 8)
        return false;
    for (size_t i = 0; i < site->code->access_count; i++) {
        const struct stack_access *access = &site->code->accesses[i];
        if (access->address > site->pc && access->base == place->base && access->offset == place->offset)
            return false;
    }
    return true;
}

/* A register's part of a value: its members, and padding that is nowhere. */
static void add_eightbyte(struct place *whole, const struct place *part, const struct abi_place *abi, unsigned index)
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

static struct place whole_of(const struct place *pieces)
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
        add_eightbyte(&whole, &part, abi, i);
    }
    *ret_place = abi->count == 1 && whole.piece_count == 1 ? whole_of(&whole) : whole;
    return true;
}

struct variable {
    struct site *site;
    Dwarf_Die *die;
    const struct abi_place *abi; /* NULL: only DWARF */
};

/* Objects with destructors have been destroyed when the exit hook is called. */
static bool is_destroyed(const struct site *site, Dwarf_Die *variable)
{
    Dwarf_Die type;
    return site->kind == CAPTURE_EXIT && dwarf_tag(variable) == DW_TAG_variable && type_of(variable, &type) &&
           type_has_destructor(&type);
}

static void locate_variable(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct variable *variable = ctx;
    if (variable->site->nowhere || is_destroyed(variable->site, variable->die)) {
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
        return;
    }
    if (variable->abi && variable->site->tracked &&
        locate_by_abi(variable->site, emitter, variable->die, variable->abi, ret_place))
        return;
    locate_by_dwarf(variable->site, emitter, variable->die, ret_place);
}

static void emit_variable(struct site *site, Dwarf_Die *die, const struct abi_place *abi)
{
    Dwarf_Die type;
    const char *name = die_name(die);
    if (!name || !type_of(die, &type))
        return;
    struct variable variable = {site, die, abi};
    emit_field(site->emitter, name, &type, locate_variable, &variable);
    site->fields++;
}

/* ---- parameters ---- */

static void add_parameter(void *ctx, Dwarf_Die *parameter)
{
    struct site *site = ctx;
    const char *name = die_name(parameter);
    if (site->parameter_count == PARAMETERS_MAX || (name && strcmp(name, "__in_chrg") == 0))
        return; /* the latter is not really passed */
    site->parameters[site->parameter_count++] = *parameter;
}

/* Lists the parameters in scope and gives them their places by the ABI. */
static void find_parameters(struct site *site, bool by_abi)
{
    struct abi_arguments arguments = {0};
    struct abi_type type;
    Dwarf_Die die;
    scopes_parameters(&site->scope, add_parameter, site);
    site->by_abi = by_abi;
    if (type_of(&site->scope, &die)) {
        abi_classify(&die, &type);
        if (type.classes[0] == ABI_MEMORY || type.classes[0] == ABI_BY_ADDRESS)
            arguments.integers++; /* where the result goes */
    }
    for (unsigned i = 0; i < site->parameter_count; i++) {
        if (!type_of(&site->parameters[i], &die)) {
            site->by_abi = false;
            return;
        }
        abi_classify(&die, &type);
        abi_next(&arguments, &type, &site->places[i]);
    }
}

/* ---- locals ---- */

bool variable_is_static(Dwarf_Die *variable)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return dwarf_attr_integrate(variable, DW_AT_location, &attribute) &&
           dwarf_getlocation(&attribute, &ops, &count) == 0 && count > 0 &&
           (ops[0].atom == DW_OP_addr || ops[0].atom == DW_OP_addrx || ops[0].atom == DW_OP_GNU_addr_index ||
            ops[count - 1].atom == DW_OP_form_tls_address || ops[count - 1].atom == DW_OP_GNU_push_tls_address);
}

static void emit_local(void *ctx, Dwarf_Die *variable)
{
    if (!variable_is_static(variable))
        emit_variable(ctx, variable, NULL);
}

/* ---- results ---- */

static bool tracked_place(const struct tracked *value, unsigned size, bool truth, struct emitter *emitter,
                          struct place *ret_place)
{
    if (value->kind == TRACK_UNKNOWN || (value->masked && !truth) || value->size < size || value->base > 15)
        return false;
    if (value->kind == TRACK_CONSTANT)
        *ret_place = (struct place){.kind = PLACE_CONSTANT, .constant = (uint64_t)value->add, .size = 8};
    else if (value->kind == TRACK_MEMORY)
        *ret_place = (struct place){.kind = PLACE_MEMORY, .base = value->base, .frame = true, .offset = value->add};
    else if (value->add == 0)
        *ret_place = (struct place){.kind = PLACE_REGISTER, .base = value->base, .size = value->size};
    else {
        unsigned temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, value->base, value->add);
        *ret_place = (struct place){.kind = PLACE_REGISTER, .base = (uint8_t)temp, .size = 8};
    }
    return true;
}

static void locate_result(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct site *site = ctx;
    struct abi_type type;
    struct abi_place abi;
    Dwarf_Die die;
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (!site->tracked || !type_of(&site->scope, &die))
        return;
    abi_classify(&die, &type);
    bool truth = type_strip(&die, &die) && type_kind_of(&die) == TYPE_BOOL;
    if (!abi_result(&type, &abi)) {
        tracked_place(&site->track.values[TRACK_X87], 10, false, emitter, ret_place);
        return;
    }
    struct place whole = {.kind = PLACE_PIECES};
    for (unsigned i = 0; i < abi.count; i++) {
        struct place part;
        unsigned size = abi.by_address ? 8 : abi.wide ? 16 : abi.used[i];
        if (!tracked_place(&site->track.values[abi.registers[i]], size, truth, emitter, &part))
            return;
        if (abi.by_address) {
            int value = emit_load(emitter, &part, 8);
            if (value >= 0)
                *ret_place = (struct place){.kind = PLACE_MEMORY, .base = (uint8_t)value};
            return;
        }
        add_eightbyte(&whole, &part, &abi, i);
    }
    if (abi.count > 0)
        *ret_place = abi.count == 1 && whole.piece_count == 1 ? whole_of(&whole) : whole;
}

static void emit_result(struct site *site, bool own)
{
    Dwarf_Die type;
    if (!type_of(&site->scope, &type))
        return; /* void */
    buf_puts(&site->emitter->text, site->emitter->text.len > 0 ? " result(" : "result(");
    if (!own)
        site->tracked = false;
    emit_field(site->emitter, "", &type, locate_result, site);
    buf_putc(&site->emitter->text, ')');
    site->fields++;
}

/* ---- numbers for conditions ---- */

struct lookup {
    struct site *site;
    const char *name;
    size_t length;
    Dwarf_Die *ret_die;
    bool found;
};

static void match_local(void *ctx, Dwarf_Die *variable)
{
    struct lookup *lookup = ctx;
    const char *name = die_name(variable);
    if (name && strlen(name) == lookup->length && memcmp(name, lookup->name, lookup->length) == 0) {
        *lookup->ret_die = *variable;
        lookup->found = true;
    }
}

static bool find_number(void *ctx, struct emitter *emitter, const char *name, size_t length, Dwarf_Die *ret_type,
                        struct place *ret_place)
{
    struct site *site = ctx;
    Dwarf_Die die;
    struct lookup lookup = {site, name, length, &die, false};
    struct variable variable = {site, &die, NULL};
    if (site->kind == CAPTURE_EXIT)
        scopes_locals(site->job->compiler, &site->scope, site->pc, match_local, &lookup);
    for (unsigned i = 0; i < site->parameter_count && !lookup.found; i++) {
        match_local(&lookup, &site->parameters[i]);
        if (lookup.found && site->by_abi && site->kind == CAPTURE_ENTRY)
            variable.abi = &site->places[i];
    }
    if (!lookup.found && site->kind == CAPTURE_EXIT && length == 6 && memcmp(name, "result", 6) == 0 &&
        type_of(&site->scope, ret_type)) {
        locate_result(site, emitter, ret_place);
        return true;
    }
    if (!lookup.found || !type_of(&die, ret_type))
        return false;
    locate_variable(&variable, emitter, ret_place);
    return true;
}

static void emit_params(struct site *site)
{
    struct job *job = site->job;
    struct emitter emitter;
    struct err err = {0};
    emitter_init(&emitter, &job->compiler->options, &job->compiler->types, true);
    emitter.text_limit = emitter.code_limit = SIZE_MAX;
    for (unsigned i = 0; i < job->param_count; i++)
        if (!numbers_emit(&emitter, job->params[i], find_number, site, &err))
            tell(job, site->pc, err.text);
    if (emitter_finish(&emitter))
        job->output->params(job->output->ctx, site->kind, site->returns, emitter.code.data, emitter.code.len);
    emitter_done(&emitter);
}

/* ---- sites ---- */

static int emit_entry(struct site *site)
{
    if (site->job->compiler->options.args) {
        buf_puts(&site->emitter->text, "args(");
        for (unsigned i = 0; i < site->parameter_count; i++)
            emit_variable(site, &site->parameters[i], site->by_abi ? &site->places[i] : NULL);
        buf_putc(&site->emitter->text, ')');
    }
    return hand_over(site);
}

static int emit_unwind(struct site *site)
{
    struct emitter emitter;
    struct job *job = site->job;
    emitter_init(&emitter, &job->compiler->options, NULL, true);
    if (location_unwind(job->compiler, site->pc, &emitter) && emitter_finish(&emitter))
        job->output->site(job->output->ctx, CAPTURE_UNWIND, site->returns, 0, emitter.code.data, emitter.code.len);
    else
        tell(job, site->pc, "the call frame information does not tell the caller's registers");
    emitter_done(&emitter);
    return 0;
}

static int emit_exit(struct site *site, bool own)
{
    const struct capture_options *options = &site->job->compiler->options;
    if (options->locals) {
        buf_puts(&site->emitter->text, "locals(");
        scopes_locals(site->job->compiler, &site->scope, site->pc, emit_local, site);
        buf_putc(&site->emitter->text, ')');
    }
    if (options->result)
        emit_result(site, own);
    return hand_over(site);
}

static bool made_by_clang(Dwarf_Die *function)
{
    Dwarf_Die unit;
    Dwarf_Attribute attribute;
    if (!dwarf_diecu(function, &unit, NULL, NULL))
        return false;
    const char *producer = dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attribute));
    return !producer || strstr(producer, "clang") || strstr(producer, "LLVM");
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
    *ret_own = !hook->function || hook->function == scopes_entry(compiler, &job->function);
    site->scope = *ret_own ? job->function : known ? named : job->function;
    site->nowhere = !*ret_own;
}

static int compile_hook(struct job *job, const struct hook_site *hook)
{
    struct capture_compiler *compiler = job->compiler;
    struct emitter emitter;
    bool own;
    if (hook->jump) {
        tell(job, hook->address,
             "an exit hook is a tail call (-fno-optimize-sibling-calls keeps the frame): "
             "no locals and no result there");
        return 0;
    }
    struct site *site = calloc(1, sizeof *site);
    if (!site)
        return -ENOMEM;
    *site = (struct site){.job = job,
                          .kind = hook->exit ? CAPTURE_EXIT : CAPTURE_ENTRY,
                          .pc = hook->address,
                          .returns = hook->returns,
                          .function = job->function,
                          .code = &job->code,
                          .emitter = &emitter};
    scope_of_hook(site, hook, &own);
    uint64_t entry = scopes_entry(compiler, &job->function);
    if (own)
        site->tracked = hook->exit ? track_exit(&site->track, &compiler->code, hook->returns)
                                   : track_entry(&site->track, &compiler->code, entry, hook->address);
    site->unused_are_garbage = made_by_clang(&job->function);
    emitter_init(&emitter, &compiler->options, &compiler->types, true);
    find_parameters(site, own && !elf_code_is_clone(&compiler->code, entry));
    if (job->param_count > 0)
        emit_params(site);
    int r = hook->exit ? emit_exit(site, own) : emit_entry(site);
    if (r == 0 && !hook->exit && compiler->options.caller)
        r = emit_unwind(site);
    emitter_done(&emitter);
    free(site);
    return r;
}

/* ---- callers ---- */

static bool read_caller(struct capture_compiler *compiler, Dwarf_Die *function)
{
    struct address_range ranges[RANGES_MAX];
    if (compiler->caller == dwarf_dieoffset(function) && compiler->caller_known)
        return true;
    function_code_done(&compiler->caller_code);
    compiler->caller = dwarf_dieoffset(function);
    size_t count = scopes_ranges(compiler, function, ranges, RANGES_MAX);
    compiler->caller_known = function_code_read(&compiler->caller_code, &compiler->code, ranges, count) == 0;
    return compiler->caller_known;
}

static void emit_caller_variable(void *ctx, Dwarf_Die *variable)
{
    if (!variable_is_static(variable))
        emit_variable(ctx, variable, NULL);
}

static int compile_call(struct job *job, uint64_t returns)
{
    struct capture_compiler *compiler = job->compiler;
    struct site_entry *known;
    struct emitter emitter;
    HASH_FIND(hh, compiler->call_sites, &returns, sizeof returns, known);
    if (known)
        return 0;
    known = calloc(1, sizeof *known);
    struct site *site = calloc(1, sizeof *site);
    if (!known || !site) {
        free(known);
        free(site);
        return -ENOMEM;
    }
    known->address = returns;
    HASH_ADD(hh, compiler->call_sites, address, sizeof known->address, known);
    *site = (struct site){.job = job, .kind = CAPTURE_CALL, .pc = returns - 1, .returns = returns, .emitter = &emitter};
    int r = 0;
    if (scopes_function(compiler, returns - 1, &site->function) && read_caller(compiler, &site->function)) {
        site->code = &compiler->caller_code;
        if (!scopes_inlined(compiler, &site->function, returns - 1, NULL, &site->scope))
            site->scope = site->function;
        emitter_init(&emitter, &compiler->options, &compiler->types, true);
        buf_puts(&emitter.text, "caller(");
        scopes_parameters(&site->scope, emit_caller_variable, site);
        scopes_locals(compiler, &site->scope, returns - 1, emit_caller_variable, site);
        buf_putc(&emitter.text, ')');
        r = hand_over(site);
        emitter_done(&emitter);
    }
    free(site);
    return r;
}

static int compile_callers(struct job *job)
{
    const struct call_site *calls;
    size_t count = elf_code_calls(&job->compiler->code, job->address, &calls);
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = compile_call(job, calls[i].returns);
    for (size_t i = 0; i < job->code.indirect_count && r == 0; i++)
        r = compile_call(job, job->code.indirect[i]);
    return r;
}

int capture_compile_function(struct capture_compiler *compiler, uint64_t address, const char *const *params,
                             unsigned param_count, uint32_t *layout_id, const struct capture_output *output,
                             struct err *err)
{
    struct job job = {.compiler = compiler,
                      .output = output,
                      .layout_id = layout_id,
                      .address = address,
                      .params = params,
                      .param_count = param_count};
    struct address_range ranges[RANGES_MAX];
    if (compiler->code.slot_count == 0 && !compiler->code.enter) {
        tell(&job, address, "nothing in this file calls hooks: compile it with -finstrument-functions");
        return 0;
    }
    if (!scopes_function(compiler, address, &job.function)) {
        tell(&job, address, "no debug information about this function: compile its file with -g");
        return 0;
    }
    size_t count = scopes_ranges(compiler, &job.function, ranges, RANGES_MAX);
    int r = function_code_read(&job.code, &compiler->code, ranges, count);
    if (r == 0 && job.code.hook_count == 0) {
        tell(&job, address, "the function calls no hooks: compile its file with -finstrument-functions");
        function_code_done(&job.code);
        return 0;
    }
    for (size_t i = 0; i < job.code.hook_count && r == 0; i++)
        r = compile_hook(&job, &job.code.hooks[i]);
    if (r == 0 && compiler->options.caller)
        r = compile_callers(&job);
    function_code_done(&job.code);
    return r < 0 ? err_errno(err, r, "values of the function at 0x%llx", (unsigned long long)address) : 0;
}
