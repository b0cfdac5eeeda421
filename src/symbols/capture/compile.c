/* SPDX-License-Identifier: Apache-2.0 */
/* A file is opened, and the hook sites of a function become programs. Where its variables are at each: capture/site.c. */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/capture/site.h"
#include "symbols/index/index_build.h"
#include "symbols/index/lines.h"

/* ---- the file whose functions are compiled ---- */

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
    .find_debuginfo = debuginfo_find,
    .section_address = dwfl_offline_section_address,
};

static int open_file(struct capture_compiler *compiler, const char *path, struct err *err)
{
    symbols_stay_local();
    compiler->dwfl = dwfl_begin(&callbacks);
    if (!compiler->dwfl)
        return err_set(err, -ENOMEM, "out of memory for symbols");
    compiler->module = dwfl_report_elf(compiler->dwfl, path, path, -1, 0, true);
    dwfl_report_end(compiler->dwfl, NULL, NULL);
    GElf_Addr bias;
    Elf *elf = compiler->module ? dwfl_module_getelf(compiler->module, &bias) : NULL;
    if (!elf)
        return err_set(err, -ENOEXEC, "%s: %s", path, dwfl_errmsg(-1));
    compiler->code.want_globals = compiler->options.patched;
    int r = elf_code_read(&compiler->code, elf, err);
    if (r < 0)
        return r;
    compiler->dwarf = dwfl_module_getdwarf(compiler->module, &compiler->dwarf_bias);
    compiler->types.dwarf = compiler->dwarf;
    Elf *debug = compiler->dwarf ? dwarf_getelf(compiler->dwarf) : NULL;
    if (debug && debug != elf)
        elf_code_read_symbols(&compiler->code, debug);
    compiler->cfi[0] = dwfl_module_eh_cfi(compiler->module, &compiler->cfi_bias[0]);
    compiler->cfi[1] = dwfl_module_dwarf_cfi(compiler->module, &compiler->cfi_bias[1]);
    return 0;
}

int capture_compiler_new(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                         const struct capture_options *options, struct err *err)
{
    struct capture_compiler *compiler;
    int r = capture_compiler_open(&compiler, elf_path, bias, options, err);
    if (r < 0)
        return r;
    if (!compiler->dwarf) {
        capture_compiler_free(compiler);
        return err_set(err, -ENODATA, "%s has no debug information: compile with -g", elf_path);
    }
    *ret_compiler = compiler;
    return 0;
}

int capture_compiler_open(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                          const struct capture_options *options, struct err *err)
{
    struct capture_compiler *compiler = calloc(1, sizeof *compiler);
    if (!compiler)
        return err_set(err, -ENOMEM, "out of memory for symbols");
    compiler->bias = bias;
    compiler->options = *options;
    int r = open_file(compiler, elf_path, err);
    if (r < 0) {
        capture_compiler_free(compiler);
        return r;
    }
    *ret_compiler = compiler;
    return 0;
}

void capture_compiler_free(struct capture_compiler *compiler)
{
    if (!compiler)
        return;
    HASH_FREE_ALL(compiler->layouts, free(each->text));
    HASH_FREE_ALL(compiler->call_sites);
    site_codes_done(compiler);
    variables_done(compiler);
    scopes_done(compiler);
    statics_done(compiler);
    memo_done(&compiler->memo);
    share_done(&compiler->shared);
    type_index_done(&compiler->types);
    elf_code_done(&compiler->code);
    if (compiler->dwfl)
        dwfl_end(compiler->dwfl);
    free(compiler);
}

/* ---- a function ---- */

static void say_problem(const struct job *job, uint64_t address, const char *text)
{
    job->output->problem(job->output->ctx, address, text);
}

/* The number of a text; *ret_new: nobody has it yet. */
static int text_id(struct job *job, const char *text, size_t size, uint32_t *ret_id, bool *ret_new)
{
    struct layout_entry *entry;
    HASH_FIND(hh, job->compiler->layouts, text, size, entry);
    *ret_new = !entry;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry || !(entry->text = strndup(text, size))) {
            free(entry);
            return -ENOMEM;
        }
        entry->id = (*job->layout_id)++;
        HASH_ADD_KEYPTR(hh, job->compiler->layouts, entry->text, size, entry);
    }
    *ret_id = entry->id;
    return 0;
}

static int part_id(void *ctx, const char *text, size_t size, uint32_t *ret_id)
{
    struct job *job = ctx;
    bool is_new;
    int r = text_id(job, text, size, ret_id, &is_new);
    if (r < 0 || !is_new)
        return r;
    char *part = strndup(text, size);
    if (part)
        job->output->layout(job->output->ctx, *ret_id, part);
    free(part);
    return part ? 0 : -ENOMEM;
}

/* Of a text with its parts by their numbers: the same whatever the layout's is. */
static int layout_id_of(struct job *job, const struct buf *text, uint32_t *ret_id)
{
    bool is_new;
    int r = text_id(job, text->data, text->len, ret_id, &is_new);
    if (r < 0 || !is_new)
        return r;
    _cleanup_(buf_done) struct buf numbered = BUF_INIT;
    r = share_number(text->data, *ret_id, &numbered);
    if (r == 0)
        job->output->layout(job->output->ctx, *ret_id, numbered.data);
    return r;
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
        say_problem(job, site->pc, "too many values for one record here");
        return 0;
    }
    int r = layout_id_of(job, &emitter->text, &id);
    if (r == 0 && job->output->block)
        r = share_blocks(&job->compiler->shared, &emitter->code, job->output);
    if (r == 0)
        job->output->site(job->output->ctx, site->kind, site->returns, id, emitter->code.data, emitter->code.len);
    return r;
}

/* ---- variables ---- */

/* Parameters of a pack have one name, and blocks in a function may use one again: `name`, `name#1`, `name#2`. */
static void put_unique_name(struct site *site, const char *name, struct buf *out)
{
    unsigned before = 0;
    for (size_t at = 0; at < site->used_names.len; at += strlen(site->used_names.data + at) + 1)
        before += strcmp(site->used_names.data + at, name) == 0;
    buf_append(&site->used_names, name, strlen(name) + 1);
    buf_puts(out, name);
    if (before > 0)
        buf_printf(out, "#%u", before);
}

static void emit_variable(struct site *site, Dwarf_Die *die, const char *name, const struct abi_place *abi)
{
    Dwarf_Die type;
    if (!name || !type_of(die, &type))
        return;
    struct variable variable = {site, die, abi};
    struct buf unique = BUF_INIT;
    put_unique_name(site, name, &unique);
    if (!unique.failed)
        emit_field(site->emitter, unique.data, &type, site_locate_variable, &variable);
    buf_done(&unique);
    site->fields++;
}

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

static void emit_local(void *ctx, Dwarf_Die *variable, const char *name)
{
    if (!variable_is_static(variable))
        emit_variable(ctx, variable, name, NULL);
}

static void emit_static(void *ctx, Dwarf_Die *variable, const char *name)
{
    emit_variable(ctx, variable, name, NULL);
}

static void emit_statics(struct site *site)
{
    struct buf *text = &site->emitter->text;
    size_t before = text->len;
    buf_clear(&site->used_names);
    buf_puts(text, before > 0 ? " statics(" : "statics(");
    size_t begin = text->len;
    statics_each(site, emit_static);
    if (text->len > begin) {
        buf_putc(text, ')');
    } else if (text->data) {
        text->len = before;
        text->data[before] = 0;
    }
}

/* ---- results ---- */

static void emit_result(struct site *site)
{
    Dwarf_Die type;
    if (!type_of(&site->scope, &type))
        return; /* void */
    buf_puts(&site->emitter->text, site->emitter->text.len > 0 ? " result(" : "result(");
    emit_field(site->emitter, "", &type, site_locate_result, site);
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

static void match_local(void *ctx, Dwarf_Die *variable, const char *name)
{
    struct lookup *lookup = ctx;
    if (name && strlen(name) == lookup->length && memcmp(name, lookup->name, lookup->length) == 0) {
        *lookup->ret_die = *variable;
        lookup->found = true;
    }
}

/* A static variable or an enumerator: in the function, in its unit, anywhere in the file. */
static bool find_static(struct site *site, struct emitter *emitter, const char *name, size_t length,
                        Dwarf_Die *ret_type, struct place *ret_place)
{
    static const int tags[] = {DW_TAG_variable, DW_TAG_enumeration_type};
    struct capture_compiler *compiler = site->job->compiler;
    Dwarf_Die unit, die;
    bool has_unit = dwarf_diecu(&site->function, &unit, NULL, NULL);
    for (unsigned i = 0; i < 6; i++) {
        int tag = tags[i % 2];
        if (i < 2   ? !statics_find_in(&site->scope, tag, name, length, &die)
            : i < 4 ? !has_unit || !statics_find(compiler, &unit, tag, name, length, &die)
                    : !statics_find(compiler, NULL, tag, name, length, &die))
            continue;
        if (tag == DW_TAG_enumeration_type) {
            size_t scope = length;
            while (scope > 0 && name[scope - 1] != ':')
                scope--;
            *ret_type = die;
            *ret_place = (struct place){.kind = PLACE_CONSTANT};
            return type_enumerator(&die, name + scope, length - scope, &ret_place->constant);
        }
        struct variable variable = {site, &die, NULL};
        site_locate_variable(&variable, emitter, ret_place);
        return type_of(&die, ret_type);
    }
    return false;
}

static bool find_number(void *ctx, struct emitter *emitter, const char *name, size_t length, Dwarf_Die *ret_type,
                        struct place *ret_place)
{
    struct site *site = ctx;
    Dwarf_Die die;
    struct lookup lookup = {site, name, length, &die, false};
    struct variable variable = {site, &die, NULL};
    if (site->kind == CAPTURE_EXIT && !site->patched)
        scopes_locals(site->job->compiler, &site->scope, site->pc, match_local, &lookup);
    for (unsigned i = 0; i < site->parameter_count && !lookup.found; i++) {
        match_local(&lookup, &site->parameters[i], site->names[i]);
        if (lookup.found && site->by_abi && site->kind == CAPTURE_ENTRY)
            variable.abi = &site->places[i];
    }
    if (!lookup.found && site->kind == CAPTURE_EXIT && length == 6 && memcmp(name, "result", 6) == 0 &&
        type_of(&site->scope, ret_type)) {
        site_locate_result(site, emitter, ret_place);
        return true;
    }
    if (!lookup.found)
        return find_static(site, emitter, name, length, ret_type, ret_place);
    if (!type_of(&die, ret_type))
        return false;
    site_locate_variable(&variable, emitter, ret_place);
    return true;
}

static void emit_params(struct site *site)
{
    struct job *job = site->job;
    struct emitter emitter;
    struct number_problem problem = {0};
    emitter_init(&emitter, &job->compiler->options, &job->compiler->types, true);
    emitter.text_limit = emitter.code_limit = SIZE_MAX;
    emitter.here = site->returns;
    for (unsigned i = 0; i < job->param_count; i++)
        if (!numbers_emit(&emitter, job->params[i], find_number, site, &problem))
            job->output->param_problem(job->output->ctx, site->kind, site->pc, job->params[i], &problem);
    if (emitter_finish(&emitter))
        job->output->params(job->output->ctx, site->kind, site->returns, emitter.code.data, emitter.code.len);
    emitter_done(&emitter);
}

/* ---- sites ---- */

static void emit_args(struct site *site)
{
    bool by_abi = site->by_abi && site->kind == CAPTURE_ENTRY;
    buf_puts(&site->emitter->text, "args(");
    for (unsigned i = 0; i < site->parameter_count; i++)
        emit_variable(site, &site->parameters[i], site->names[i], by_abi ? &site->places[i] : NULL);
    buf_putc(&site->emitter->text, ')');
}

/* An emitter for what is recorded at a hook or call; `here` is where in the file it runs. */
static void begin_record(struct job *job, struct emitter *emitter, uint64_t here)
{
    emitter_init(emitter, &job->compiler->options, &job->compiler->types, true);
    emitter->memo = &job->compiler->memo;
    emitter->part_id = part_id;
    emitter->part_ctx = job;
    emitter->here = here;
}

static int emit_unwind(struct site *site)
{
    struct emitter emitter;
    struct job *job = site->job;
    emitter_init(&emitter, &job->compiler->options, NULL, true);
    if (location_unwind(job->compiler, site->pc, &emitter) && emitter_finish(&emitter))
        job->output->site(job->output->ctx, CAPTURE_UNWIND, site->returns, 0, emitter.code.data, emitter.code.len);
    else
        say_problem(job, site->pc, "the call frame information does not tell the caller's registers");
    emitter_done(&emitter);
    return 0;
}

static int emit_exit(struct site *site)
{
    const struct capture_options *options = &site->job->compiler->options;
    if (options->exit_args)
        emit_args(site);
    if (options->locals && !site->patched) {
        buf_puts(&site->emitter->text, site->emitter->text.len > 0 ? " locals(" : "locals(");
        scopes_locals(site->job->compiler, &site->scope, site->pc, emit_local, site);
        buf_putc(&site->emitter->text, ')');
    }
    if (options->result)
        emit_result(site);
    if (options->statics)
        emit_statics(site);
    return hand_over(site);
}

static int compile_inlined_caller(struct job *job, struct site *inlined);

static int compile_hook(struct job *job, const struct hook_site *hook)
{
    struct capture_compiler *compiler = job->compiler;
    struct emitter emitter;
    if (hook->jump) {
        say_problem(job, hook->address,
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
                          .code = job->code,
                          .emitter = &emitter};
    begin_record(job, &emitter, site->returns);
    site_at_hook(site, hook);
    if (job->param_count > 0)
        emit_params(site);
    if (!hook->exit && compiler->options.args)
        emit_args(site);
    int r = hook->exit ? emit_exit(site) : hand_over(site);
    if (r == 0 && !hook->exit && !hook->patched && compiler->options.caller)
        r = dwarf_tag(&site->scope) == DW_TAG_inlined_subroutine ? compile_inlined_caller(job, site)
                                                                 : emit_unwind(site);
    emitter_done(&emitter);
    buf_done(&site->used_names);
    free(site);
    return r;
}

/* ---- callers ---- */

/* The name of a function, or of one that was inlined, as the trace has those of functions: demangled. */
static void put_function_name(struct buf *text, Dwarf_Die *function)
{
    enum { LIMIT = 1000 };
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(function, DW_AT_linkage_name, &attribute));
    if (!name)
        name = die_name(function);
    struct buf readable = BUF_INIT, full = BUF_INIT;
    if (name)
        readable_name(name, &readable, &full);
    if (readable.data && !readable.failed) {
        if (readable.len > LIMIT)
            memcpy(readable.data + LIMIT - 3, "...", 4);
        emit_quoted(text, readable.data);
    }
    buf_done(&readable);
    buf_done(&full);
}

/* The values of site->scope, whose function's code is read; `here` is where the caller goes on. */
static int emit_caller(struct site *site, uint64_t here)
{
    struct capture_compiler *compiler = site->job->compiler;
    struct emitter emitter;
    site->emitter = &emitter;
    site_judge(site);
    begin_record(site->job, &emitter, here);
    buf_puts(&emitter.text, "caller");
    put_function_name(&emitter.text, &site->scope);
    buf_putc(&emitter.text, '(');
    scopes_parameters(compiler, &site->scope, emit_local, site);
    scopes_locals(compiler, &site->scope, site->pc, emit_local, site);
    buf_putc(&emitter.text, ')');
    int r = hand_over(site);
    emitter_done(&emitter);
    buf_done(&site->used_names);
    return r;
}

/* Caller and called are in one frame: the hook's registers are the caller's. */
static int compile_inlined_caller(struct job *job, struct site *inlined)
{
    enum { REGISTERS = sizeof((struct capture_frame *)NULL)->gpr / sizeof(uint64_t) };
    struct capture_compiler *compiler = job->compiler;
    struct emitter emitter;
    struct site *site = calloc(1, sizeof *site);
    if (!site)
        return -ENOMEM;
    *site = (struct site){.job = job,
                          .kind = CAPTURE_CALL,
                          .pc = inlined->returns - 1,
                          .returns = inlined->returns - 1,
                          .function = job->function,
                          .code = site_code(compiler, &job->function)};
    scopes_around(compiler, &job->function, inlined->pc, &inlined->scope, &site->scope);
    int r = site->code ? emit_caller(site, inlined->returns) : -ENOENT;
    if (r == 0) {
        emitter_init(&emitter, &compiler->options, NULL, true);
        emit(&emitter, CAPTURE_REGS, 0, REGISTERS, 0);
        emitter.minimum += sizeof((struct capture_frame *)NULL)->gpr;
        if (emitter_finish(&emitter))
            job->output->site(job->output->ctx, CAPTURE_UNWIND, inlined->returns, 0, emitter.code.data,
                              emitter.code.len);
        emitter_done(&emitter);
    }
    free(site);
    return r == -ENOENT ? 0 : r;
}

static int compile_call(struct job *job, uint64_t returns)
{
    struct capture_compiler *compiler = job->compiler;
    struct site_entry *known;
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
    *site = (struct site){.job = job, .kind = CAPTURE_CALL, .pc = returns - 1, .returns = returns};
    int r = 0;
    if (scopes_function(compiler, returns - 1, &site->function) &&
        (site->code = site_code(compiler, &site->function))) {
        if (!scopes_inlined(compiler, &site->function, returns - 1, NULL, &site->scope))
            site->scope = site->function;
        r = emit_caller(site, returns);
    }
    free(site);
    return r;
}

static int compile_callers(struct job *job)
{
    const struct code_site *calls;
    size_t count = elf_code_calls(&job->compiler->code, job->address, &calls);
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = compile_call(job, calls[i].behind);
    for (size_t i = 0; i < job->code->indirect_count && r == 0; i++)
        r = compile_call(job, job->code->indirect[i]);
    return r;
}

/* ---- functions ---- */

static bool is_in(const struct address_range *ranges, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (address >= ranges[i].low && address < ranges[i].high)
            return true;
    return false;
}

static bool is_other_function(struct capture_compiler *compiler, uint64_t address)
{
    Dwarf_Die function;
    return scopes_function(compiler, address, &function) && scopes_entry(compiler, &function) == address;
}

/* The hooks of the function in others that it was inlined in: they get its address. */
static int compile_inlined(const struct job *function, const struct address_range *own, size_t own_count)
{
    struct capture_compiler *compiler = function->compiler;
    const struct code_site *sites;
    size_t count = elf_code_addresses(&compiler->code, function->address, &sites);
    struct address_range ranges[RANGES_MAX];
    size_t range_count = 0;
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        struct job job = *function;
        uint64_t at = sites[i].behind - 1;
        if (is_in(own, own_count, at) || is_in(ranges, range_count, at) ||
            !scopes_function(compiler, at, &job.function))
            continue; /* its own, or of the function that was just done */
        range_count = scopes_ranges(compiler, &job.function, ranges, RANGES_MAX);
        job.code = site_code(compiler, &job.function);
        r = job.code ? 0 : -ENOMEM;
        for (size_t k = 0; r == 0 && k < job.code->hook_count; k++)
            if (job.code->hooks[k].function == job.address)
                r = compile_hook(&job, &job.code->hooks[k]);
    }
    return r;
}

/* Whether the function tells the agent itself that it is called; a clone tells the function that it is made of. */
static bool has_own_hooks(const struct job *job)
{
    struct capture_compiler *compiler = job->compiler;
    for (size_t i = 0; i < job->code->hook_count; i++) {
        uint64_t hooked = job->code->hooks[i].function;
        Dwarf_Die named, function = job->function;
        if (!hooked || hooked == job->address || !is_other_function(compiler, hooked) ||
            (scopes_function(compiler, hooked, &named) && scopes_same(&named, &function)))
            return true;
    }
    return false;
}

/* A function that a jump at its beginning leads to the agent, and its return address. */
static int compile_patched(struct job *job)
{
    if (scopes_entry(job->compiler, &job->function) != job->address) {
        say_problem(job, job->address, "debug information has no function that begins here");
        return 0;
    }
    int r = 0;
    for (unsigned exit = 0; exit < 2 && r == 0; exit++)
        r = compile_hook(job, &(struct hook_site){.address = job->address,
                                                  .returns = job->address + exit,
                                                  .function = job->address,
                                                  .exit = exit,
                                                  .patched = true});
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
    site_codes_limit(compiler);
    variables_limit(compiler);
    bool hooks = compiler->code.slot_count > 0 || compiler->code.enter;
    if (!hooks && !compiler->options.patched) {
        say_problem(&job, address, "nothing in this file calls hooks: compile it with -finstrument-functions");
        return 0;
    }
    if (!scopes_function(compiler, address, &job.function)) {
        _cleanup_(buf_done) struct buf missing = BUF_INIT;
        if (scopes_put_missing(compiler, address, &missing))
            output->missing(output->ctx, address, missing.data ? missing.data : "");
        else if (scopes_lines_only(compiler, address, NULL))
            output->lines_only(output->ctx, address);
        else
            say_problem(&job, address, "no debug information about this function: compile its file with -g");
        return 0;
    }
    if (scopes_lines_only(compiler, address, &job.function))
        output->lines_only(output->ctx, address);
    size_t count = scopes_ranges(compiler, &job.function, ranges, RANGES_MAX);
    job.code = site_code(compiler, &job.function);
    int r = job.code ? 0 : -ENOMEM;
    bool patched = r == 0 && compiler->options.patched && !has_own_hooks(&job);
    if (r == 0 && job.code->hook_count == 0 && !patched) {
        say_problem(&job, address, "the function calls no hooks: compile its file with -finstrument-functions");
        return 0;
    }
    for (size_t i = 0; r == 0 && i < job.code->hook_count; i++) {
        uint64_t hooked =
            job.code->hooks[i].function; /* others were inlined, and are compiled with their own function */
        if (!hooked || hooked == address || !is_other_function(compiler, hooked))
            r = compile_hook(&job, &job.code->hooks[i]);
    }
    if (r == 0 && patched)
        r = compile_patched(&job);
    if (r == 0 && hooks)
        r = compile_inlined(&job, ranges, count);
    if (r == 0 && compiler->options.caller && !patched)
        r = compile_callers(&job);
    return r < 0 ? err_errno(err, r, "values of the function at 0x%llx", (unsigned long long)address) : 0;
}
