/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inlined instances and the variables of a function. What stands in a scope is read once: it is looked at for each
 * call that the function makes, and most of it are descriptions of these calls.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "symbols/capture/internal.h"

enum { NEST_LIMIT = 128, LOCALS_MAX = 512, CONTENTS_LIMIT = 64 << 20 /* bytes */ };

struct item { /* a parameter, pack of them, variable, block or inlined instance */
    Dwarf_Die die;
    int tag;
    bool scattered;     /* in more than one range */
    bool elsewhere;     /* a variable of which this is only a declaration */
    uint64_t low, high; /* addresses in DWARF; none: 0 */
    const void *origin; /* the root of what it is an instance of */
    const char *name;   /* NULL: none */
};

struct content_entry {
    const void *scope; /* its DIE's address */
    size_t count;
    UT_hash_handle hh;
    struct item items[];
};

/* The root of what a DIE is an instance of. */
static const void *origin_of(Dwarf_Die *die)
{
    Dwarf_Die at = *die;
    for (int i = 0; i < 16; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if ((!dwarf_attr(&at, DW_AT_abstract_origin, &attribute)) || !dwarf_formref_die(&attribute, &next))
            break;
        at = next;
    }
    return at.addr;
}

bool scopes_same(Dwarf_Die *a, Dwarf_Die *b)
{
    return origin_of(a) == origin_of(b);
}

/* ---- what stands in a scope ---- */

static bool is_code(int tag)
{
    return tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine;
}

static bool is_item(int tag)
{
    return is_code(tag) || tag == DW_TAG_variable || tag == DW_TAG_formal_parameter ||
           tag == DW_TAG_GNU_formal_parameter_pack;
}

static struct item item_of(Dwarf_Die *die, int tag)
{
    struct item item = {.die = *die, .tag = tag};
    if (is_code(tag)) {
        Dwarf_Addr base, low, high;
        ptrdiff_t at = dwarf_ranges(die, 0, &base, &item.low, &item.high);
        item.scattered = at > 0 && dwarf_ranges(die, at, &base, &low, &high) > 0;
    } else
        item.name = die_name(die);
    if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_formal_parameter)
        item.origin = origin_of(die);
    if (tag == DW_TAG_variable)
        item.elsewhere = die_flag(die, DW_AT_declaration) || die_flag(die, DW_AT_external);
    return item;
}

static const struct content_entry *content_of(struct capture_compiler *compiler, Dwarf_Die *scope)
{
    static const struct content_entry nothing;
    struct content_entry *entry, *grown;
    Dwarf_Die child;
    HASH_FIND(hh, compiler->contents, &scope->addr, sizeof scope->addr, entry);
    if (entry)
        return entry;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return &nothing;
    if (dwarf_child(scope, &child) == 0)
        do {
            int tag = dwarf_tag(&child);
            if (!is_item(tag))
                continue;
            if ((entry->count & (entry->count - 1)) == 0) {
                size_t room = entry->count ? 2 * entry->count : 1;
                if (!(grown = realloc(entry, sizeof *entry + room * sizeof *entry->items)))
                    break;
                entry = grown;
            }
            entry->items[entry->count++] = item_of(&child, tag);
        } while (dwarf_siblingof(&child, &child) == 0);
    entry->scope = scope->addr;
    compiler->contents_size += sizeof *entry + entry->count * sizeof *entry->items;
    HASH_ADD(hh, compiler->contents, scope, sizeof entry->scope, entry);
    return entry;
}

void variables_done(struct capture_compiler *compiler)
{
    struct content_entry *entry, *next;
    HASH_ITER(hh, compiler->contents, entry, next)
    {
        HASH_DEL(compiler->contents, entry);
        free(entry);
    }
    compiler->contents_size = 0;
}

void variables_limit(struct capture_compiler *compiler)
{
    if (compiler->contents_size > CONTENTS_LIMIT)
        variables_done(compiler);
}

static bool holds(struct capture_compiler *compiler, const struct item *item, uint64_t pc)
{
    Dwarf_Die die = item->die;
    pc -= compiler->dwarf_bias;
    return is_code(item->tag) && (item->scattered ? dwarf_haspc(&die, pc) == 1 : pc >= item->low && pc < item->high);
}

/* ---- inlined instances ---- */

static bool find_inlined(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, const void *origin,
                         unsigned nest, Dwarf_Die *ret_inlined)
{
    const struct content_entry *content = content_of(compiler, scope);
    bool found = false;
    for (size_t i = 0; i < content->count && nest <= NEST_LIMIT; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (!holds(compiler, item, pc))
            continue;
        if (item->tag == DW_TAG_inlined_subroutine && (!origin || item->origin == origin)) {
            *ret_inlined = die;
            found = true;
        }
        found |= find_inlined(compiler, &die, pc, origin, nest + 1, ret_inlined);
    }
    return found;
}

bool scopes_inlined(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *origin,
                    Dwarf_Die *ret_inlined)
{
    return find_inlined(compiler, function, pc, origin ? origin_of(origin) : NULL, 0, ret_inlined);
}

static bool find_around(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, const void *inlined,
                        unsigned nest, Dwarf_Die *ret_around)
{
    const struct content_entry *content = content_of(compiler, scope);
    Dwarf_Die around = *ret_around;
    for (size_t i = 0; i < content->count && nest <= NEST_LIMIT; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (!holds(compiler, item, pc))
            continue;
        *ret_around = around;
        if (die.addr == inlined)
            return true;
        if (item->tag == DW_TAG_inlined_subroutine)
            *ret_around = die;
        if (find_around(compiler, &die, pc, inlined, nest + 1, ret_around))
            return true;
    }
    return false;
}

void scopes_around(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *inlined,
                   Dwarf_Die *ret_around)
{
    *ret_around = *function;
    if (!find_around(compiler, function, pc, inlined->addr, 0, ret_around))
        *ret_around = *function;
}

/* ---- parameters ---- */

struct parameters {
    struct capture_compiler *compiler;
    Dwarf_Die *scope; /* NULL: the list is its own */
    scopes_variable_fn *fn;
    void *ctx;
};

/* The parameter that is an instance of `abstract`; in a pack, too. */
static const struct item *find_instance(struct capture_compiler *compiler, Dwarf_Die *scope, const void *abstract,
                                        bool in_pack)
{
    const struct content_entry *content = content_of(compiler, scope);
    const struct item *found = NULL;
    for (size_t i = 0; i < content->count && !found; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die pack = item->die;
        if (item->tag == DW_TAG_formal_parameter && item->origin == abstract)
            found = item;
        else if (item->tag == DW_TAG_GNU_formal_parameter_pack && !in_pack)
            found = find_instance(compiler, &pack, abstract, true);
    }
    return found;
}

/* What gfortran adds: the lengths of texts, and where a result is to be written. Arrays with a descriptor are marked,
 * too, but have names that one can write. */
static bool is_added(const struct item *parameter)
{
    Dwarf_Die die = parameter->die;
    const char *name = parameter->name;
    return die_flag(&die, DW_AT_artificial) && (!name || *name == '_' || *name == '.');
}

static void list_parameters(const struct parameters *parameters, Dwarf_Die *list, const char *pack)
{
    const struct content_entry *content = content_of(parameters->compiler, list);
    bool fortran = die_is_fortran(list);
    for (size_t i = 0; i < content->count; i++) {
        const struct item *item = &content->items[i];
        Dwarf_Die die = item->die;
        if (item->tag == DW_TAG_GNU_formal_parameter_pack && !pack)
            list_parameters(parameters, &die, item->name ? item->name : "...");
        if (item->tag != DW_TAG_formal_parameter || (fortran && is_added(item)))
            continue;
        const struct item *instance =
            parameters->scope ? find_instance(parameters->compiler, parameters->scope, die.addr, false) : NULL;
        if (instance)
            die = instance->die;
        parameters->fn(parameters->ctx, &die, item->name ? item->name : pack);
    }
}

void scopes_parameters(struct capture_compiler *compiler, Dwarf_Die *scope, scopes_variable_fn *fn, void *ctx)
{
    Dwarf_Die list = *scope;
    Dwarf_Attribute attribute;
    /* an instance may lack parameters that were not needed; the abstract function has them all */
    for (int i = 0; i < 16 && dwarf_attr(&list, DW_AT_abstract_origin, &attribute); i++)
        if (!dwarf_formref_die(&attribute, &list))
            return;
    const struct parameters parameters = {compiler, list.addr == scope->addr ? NULL : scope, fn, ctx};
    list_parameters(&parameters, &list, NULL);
}

/* ---- local variables ---- */

struct locals {
    const struct item *variables[LOCALS_MAX];
    size_t count;
};

static void collect(struct capture_compiler *compiler, struct locals *locals, Dwarf_Die *scope, uint64_t pc,
                    unsigned nest)
{
    const struct content_entry *content = content_of(compiler, scope);
    if (nest > NEST_LIMIT)
        return;
    for (size_t i = 0; i < content->count; i++)
        if (content->items[i].tag == DW_TAG_variable && locals->count < LOCALS_MAX && !content->items[i].elsewhere)
            locals->variables[locals->count++] = &content->items[i];
    for (size_t i = 0; i < content->count; i++) {
        Dwarf_Die block = content->items[i].die;
        if (content->items[i].tag == DW_TAG_lexical_block && holds(compiler, &content->items[i], pc))
            collect(compiler, locals, &block, pc, nest + 1);
    }
}

void scopes_locals(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, scopes_variable_fn *fn, void *ctx)
{
    struct locals locals;
    locals.count = 0;
    collect(compiler, &locals, scope, pc, 0);
    for (size_t i = 0; i < locals.count; i++) {
        Dwarf_Die die = locals.variables[i]->die;
        const char *name = locals.variables[i]->name;
        bool hidden = !name || die_flag(&die, DW_AT_artificial);
        for (size_t k = i + 1; k < locals.count && !hidden; k++)
            hidden = locals.variables[k]->name && strcmp(locals.variables[k]->name, name) == 0;
        if (!hidden)
            fn(ctx, &die, name);
    }
}
