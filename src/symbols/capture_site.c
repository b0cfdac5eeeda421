/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be known of a place in a function before its variables are looked for. */
#include <dwarf.h>
#include <string.h>

#include "symbols/capture_site.h"

enum { RSP = 7 };

static bool made_by_clang(Dwarf_Die *function)
{
    Dwarf_Die unit;
    Dwarf_Attribute attribute;
    if (!dwarf_diecu(function, &unit, NULL, NULL))
        return false;
    const char *producer = dwarf_formstring(dwarf_attr(&unit, DW_AT_producer, &attribute));
    return !producer || strstr(producer, "clang") || strstr(producer, "LLVM");
}

/* Calls are described in optimised code only. */
static bool is_optimised(Dwarf_Die *function)
{
    return die_flag(function, DW_AT_call_all_calls) || die_flag(function, DW_AT_GNU_all_call_sites) ||
           die_flag(function, DW_AT_call_all_tail_calls) || die_flag(function, DW_AT_GNU_all_tail_call_sites);
}

void site_judge(struct site *site)
{
    site->by_clang = made_by_clang(&site->function);
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

void site_at_hook(struct site *site, const struct hook_site *hook)
{
    struct capture_compiler *compiler = site->job->compiler;
    uint64_t entry = scopes_entry(compiler, &site->function);
    bool own;
    scope_of_hook(site, hook, &own);
    if (hook->exit ? site->is_left : own)
        site->tracked = hook->exit ? track_exit(&site->track, &site->nodes, &compiler->code, hook->returns)
                                   : track_entry(&site->track, &compiler->code, entry, hook->address);
    site_judge(site);
    site_find_parameters(site, own && !elf_code_is_clone(&compiler->code, entry));
}

int site_read_ranges(struct capture_compiler *compiler, struct function_code *function,
                     const struct address_range *ranges, size_t count)
{
    int r = function_code_read(function, &compiler->code, ranges, count);
    if (r == 0)
        location_depths(compiler, function);
    return r;
}

bool site_read_code(struct capture_compiler *compiler, Dwarf_Die *function)
{
    struct address_range ranges[RANGES_MAX];
    if (compiler->caller == function->addr && compiler->caller_known)
        return true;
    function_code_done(&compiler->caller_code);
    compiler->caller = function->addr;
    size_t count = scopes_ranges(compiler, function, ranges, RANGES_MAX);
    compiler->caller_known = site_read_ranges(compiler, &compiler->caller_code, ranges, count) == 0;
    return compiler->caller_known;
}

void site_in_frame(struct site *site, struct job *job, uint64_t pc, bool innermost)
{
    struct capture_compiler *compiler = job->compiler;
    *site = (struct site){.job = job,
                          .kind = CAPTURE_CALL,
                          .pc = pc,
                          .returns = innermost ? pc : pc + 1,
                          .function = job->function,
                          .scope = job->function,
                          .code = &compiler->caller_code,
                          .emitter = site->emitter,
                          .frame = true,
                          .innermost = innermost};
    site_read_code(compiler, &site->function);
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
