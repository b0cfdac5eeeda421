/* SPDX-License-Identifier: Apache-2.0 */
/* Finding variables by name: in the frames of a thread, innermost first, then among the static ones. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/capture/site.h"
#include "symbols/helper/variable_internal.h"

struct capture_compiler *variable_compiler(struct variable_job *job, struct variable_module *module)
{
    if (!module->tried) {
        module->tried = true;
        capture_compiler_open(&module->compiler, module->path, module->bias, &job->options, NULL);
    }
    return module->compiler;
}

/* ---- frames ---- */

bool variable_scope(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                    Dwarf_Die *ret_scope)
{
    uint64_t pc = frame->innermost ? frame->pc : frame->pc - 1;
    for (size_t i = 0; i < job->module_count; i++) {
        struct variable_module *module = &job->modules[i];
        if (pc < module->bias)
            continue;
        struct capture_compiler *compiler = module->agent ? NULL : variable_compiler(job, module);
        if (!compiler || !scopes_function(compiler, pc - module->bias, &ret_at->function))
            continue;
        ret_at->module = module;
        ret_at->frame = frame;
        ret_at->pc = pc - module->bias;
        if (!scopes_inlined(compiler, &ret_at->function, ret_at->pc, NULL, ret_scope))
            *ret_scope = ret_at->function;
        return true;
    }
    return false;
}

/* Any module's call frame information serves, with debug information or without. */
static bool unwind_program(struct variable_job *job, uint64_t pc, struct emitter *emitter)
{
    for (size_t i = 0; i < job->module_count; i++) {
        struct capture_compiler *compiler = variable_compiler(job, &job->modules[i]);
        if (!compiler || pc < job->modules[i].bias)
            continue;
        emitter_done(emitter);
        emitter_init(emitter, &job->options, NULL, false);
        if (location_unwind(compiler, pc - job->modules[i].bias, emitter) && emitter_finish(emitter))
            return true;
    }
    return false;
}

void variable_unwind(struct variable_job *job)
{
    for (size_t i = 0; i + 1 < job->frame_count && job->frames[i].known; i++) {
        const struct variable_frame *frame = &job->frames[i];
        struct variable_frame *caller = &job->frames[i + 1];
        struct emitter emitter;
        emitter_init(&emitter, &job->options, NULL, false);
        uint64_t pc = frame->innermost ? frame->pc : frame->pc - 1;
        if (unwind_program(job, pc, &emitter) &&
            capture_run(emitter.code.data, emitter.code.len, &frame->registers, variable_read, caller->registers.gpr,
                        sizeof caller->registers.gpr) == sizeof caller->registers.gpr)
            caller->known = caller->registers.gpr[16] == caller->pc; /* else it was about another place */
        emitter_done(&emitter);
    }
}

struct lookup {
    const char *name;
    size_t length;
    Dwarf_Die *ret_die;
    bool found;
};

static void match(void *ctx, Dwarf_Die *die, const char *name)
{
    (void)name;
    struct lookup *lookup = ctx;
    if (!die_is_named(die, lookup->name, lookup->length))
        return;
    *lookup->ret_die = *die;
    lookup->found = true;
}

static bool find_in_scope(struct variable_found *at, Dwarf_Die *scope, struct lookup *lookup)
{
    scopes_locals(at->module->compiler, scope, at->pc, match, lookup);
    if (!lookup->found)
        scopes_parameters(at->module->compiler, scope, match, lookup);
    return lookup->found;
}

static bool find_in_frames(struct variable_job *job, const char *name, size_t length, struct variable_found *found)
{
    struct lookup lookup = {name, length, &found->die, false};
    for (size_t i = 0; i < job->frame_count; i++) {
        Dwarf_Die scope;
        if (!variable_scope(job, &job->frames[i], found, &scope))
            continue;
        if (find_in_scope(found, &scope, &lookup) || find_in_scope(found, &found->function, &lookup))
            return true;
    }
    return false;
}

/* ---- at fixed addresses ---- */

bool variable_find(struct variable_job *job, const char *name, size_t length, struct variable_found *ret_found)
{
    if (find_in_frames(job, name, length, ret_found))
        return true;
    for (int program = 1; program >= 0; program--) /* the program's own first */
        for (size_t i = 0; i < job->module_count; i++) {
            struct variable_module *module = &job->modules[i];
            if (module->program != program || module->agent)
                continue;
            struct capture_compiler *compiler = variable_compiler(job, module);
            if (!compiler || !statics_find(compiler, NULL, DW_TAG_variable, name, length, &ret_found->die))
                continue;
            ret_found->module = module;
            ret_found->frame = NULL;
            ret_found->pc = 0;
            return true;
        }
    return false;
}

void variable_locate(const struct variable_found *found, struct emitter *emitter, struct place *ret_place)
{
    Dwarf_Die die = found->die, function = found->function;
    struct location location = {.compiler = found->module->compiler,
                                .emitter = emitter,
                                .function = &function,
                                .pc = found->pc,
                                .caller = found->frame && !found->frame->innermost,
                                .unknown = found->frame ? found->frame->unknown : 0,
                                .no_xmm = true};
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (!found->frame || found->frame->known || variable_is_static(&die))
        location_variable(&location, &die, ret_place);
}

void variable_locate_set(const struct variable_found *found, struct emitter *emitter, struct place *ret_place)
{
    Dwarf_Die die = found->die;
    struct job job = {.compiler = found->module->compiler, .function = found->function};
    struct site *site = found->frame && found->frame->known && !variable_is_static(&die) ? malloc(sizeof *site) : NULL;
    struct variable variable = {site, &die, NULL};
    if (!site) {
        variable_locate(found, emitter, ret_place);
        return;
    }
    site->emitter = emitter;
    site_in_frame(site, &job, found->pc, found->frame->innermost);
    site->unknown = found->frame->unknown;
    site->nowhere |= site->unknown && site->kind == CAPTURE_ENTRY; /* which is followed by all registers */
    for (unsigned i = 0; i < site->parameter_count && site->by_abi; i++)
        if (site->parameters[i].addr == die.addr)
            variable.abi = &site->places[i];
    site_locate_variable(&variable, emitter, ret_place);
    emitter->attribute = NULL; /* whose context is gone */
    free(site);
}
