/* SPDX-License-Identifier: Apache-2.0 */
/* Finding variables by name: in the frames of a thread, innermost first, then among those at fixed addresses. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/capture_site.h"
#include "symbols/variable_internal.h"

enum { NEST_LIMIT = 32 };

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

static bool is_named(Dwarf_Die *die, const char *name, size_t length)
{
    const char *there = die_name(die);
    return there && strlen(there) == length && memcmp(there, name, length) == 0;
}

static void match(void *ctx, Dwarf_Die *die, const char *name)
{
    (void)name;
    struct lookup *lookup = ctx;
    if (!is_named(die, lookup->name, lookup->length))
        return;
    *lookup->ret_die = *die;
    lookup->found = true;
}

static bool find_in_scope(struct variable_found *at, Dwarf_Die *scope, struct lookup *lookup)
{
    scopes_locals(at->module->compiler, scope, at->pc, match, lookup);
    if (!lookup->found)
        scopes_parameters(scope, match, lookup);
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

struct search {
    const char *name, *function; /* function: only static variables in it */
    size_t length, function_length;
    Dwarf_Die *ret_die;
};

static bool search_function(const struct search *search, Dwarf_Die *scope, unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_LIMIT || dwarf_child(scope, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_variable && is_named(&child, search->name, search->length) && variable_is_static(&child)) {
            *search->ret_die = child;
            return true;
        }
        if (tag == DW_TAG_lexical_block && search_function(search, &child, nest + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static bool search_scope(const struct search *search, Dwarf_Die *scope, const char *name, size_t length, unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_LIMIT || dwarf_child(scope, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        if (!search->function && tag == DW_TAG_variable && is_named(&child, name, length) &&
            variable_is_static(&child)) {
            *search->ret_die = child;
            return true;
        }
        if (search->function && tag == DW_TAG_subprogram &&
            is_named(&child, search->function, search->function_length) && search_function(search, &child, 0))
            return true;
        if (tag != DW_TAG_namespace)
            continue;
        const char *own = dwarf_diename(&child);
        size_t n = own ? strlen(own) : 0;
        bool prefix = n && length > n + 2 && memcmp(name, own, n) == 0 && memcmp(name + n, "::", 2) == 0;
        if (search_scope(search, &child, prefix ? name + n + 2 : name, prefix ? length - n - 2 : length, nest + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static bool file_matches(Dwarf_Die *unit, const char *file, size_t length)
{
    const char *name = dwarf_diename(unit);
    size_t n = name ? strlen(name) : 0;
    return n >= length && memcmp(name + n - length, file, length) == 0 && (n == length || name[n - length - 1] == '/');
}

static bool search_module(struct variable_job *job, struct variable_module *module, const struct search *search,
                          const char *file, size_t file_length)
{
    struct capture_compiler *compiler = module->agent ? NULL : variable_compiler(job, module);
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    while (compiler && compiler->dwarf && dwarf_get_units(compiler->dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
        if ((!file || file_matches(&unit, file, file_length)) &&
            search_scope(search, &unit, search->name, search->length, 0))
            return true;
    return false;
}

static bool search_modules(struct variable_job *job, const struct search *search, const char *file, size_t file_length,
                           struct variable_found *found)
{
    for (int program = 1; program >= 0; program--) /* the program's own first */
        for (size_t i = 0; i < job->module_count; i++)
            if (job->modules[i].program == program && search_module(job, &job->modules[i], search, file, file_length)) {
                found->module = &job->modules[i];
                found->frame = NULL;
                found->pc = 0;
                return true;
            }
    return false;
}

bool variable_find(struct variable_job *job, const char *name, size_t length, struct variable_found *ret_found)
{
    struct search search = {.name = name, .length = length, .ret_die = &ret_found->die};
    const char *colon = NULL;
    for (size_t i = 1; i + 1 < length; i++)
        if (name[i] == ':' && name[i - 1] != ':' && name[i + 1] != ':')
            colon = name + i;
    if (colon) {
        size_t before = (size_t)(colon - name);
        search.name = colon + 1;
        search.length = length - before - 1;
        if (search_modules(job, &search, name, before, ret_found))
            return true;
        search.function = name;
        search.function_length = before;
        return search_modules(job, &search, NULL, 0, ret_found);
    }
    if (find_in_frames(job, name, length, ret_found) || search_modules(job, &search, NULL, 0, ret_found))
        return true;
    for (size_t i = length; i > 2; i--) /* a class's static member is defined outside of it */
        if (name[i - 1] == ':' && name[i - 2] == ':') {
            search.name = name + i;
            search.length = length - i;
            return search_modules(job, &search, NULL, 0, ret_found);
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
    for (unsigned i = 0; i < site->parameter_count && site->by_abi; i++)
        if (dwarf_dieoffset(&site->parameters[i]) == dwarf_dieoffset(&die))
            variable.abi = &site->places[i];
    site_locate_variable(&variable, emitter, ret_place);
    emitter->attribute = NULL; /* whose context is gone */
    free(site);
}
