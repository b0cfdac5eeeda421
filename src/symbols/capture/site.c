/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be known of a place in a function before its variables are looked for. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "symbols/capture/site.h"

enum { RSP = 7, CODES_LIMIT = 64 << 20 /* bytes */ };

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

/* Most functions are looked at for each of their calls, and not one after the other. */
struct code_entry {
    const void *function; /* its DIE's address */
    struct function_code code;
    UT_hash_handle hh;
};

void site_codes_done(struct capture_compiler *compiler)
{
    struct code_entry *entry, *next;
    HASH_ITER(hh, compiler->codes, entry, next)
    {
        HASH_DEL(compiler->codes, entry);
        function_code_done(&entry->code);
        free(entry);
    }
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
