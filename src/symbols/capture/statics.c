/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/capture/site.h"
#include "symbols/index/lines.h"
#include "symbols/index/names.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What has one value in all of a file, by name: static variables (globals, those of one source file (file.c:name),
 * static ones in functions (function:name), static members of classes), and enumerators.
 */

enum { NEST_LIMIT = 32 };

/* One search through the file's debug information, which takes long, serves all functions. */
struct static_entry {
    char *key; /* the tag, the unit's address (NULL: all), and the name */
    Dwarf_Die die;
    bool found;
    UT_hash_handle hh;
};

struct search {
    int tag; /* DW_TAG_variable; DW_TAG_enumeration_type: that of an enumerator */
    const char *name;
    size_t length;
    Dwarf_Die *ret_die;
};

bool die_is_named(Dwarf_Die *die, const char *name, size_t length)
{
    const char *there = die_name(die);
    return there && strlen(there) == length && memcmp(there, name, length) == 0;
}

/* What is meant inside of a scope: its name may be in front. */
static struct search search_inside(const struct search *search, Dwarf_Die *scope)
{
    struct search inner = *search;
    const char *own = dwarf_diename(scope);
    size_t n = own ? strlen(own) : 0;
    if (n && search->length > n + 2 && memcmp(search->name, own, n) == 0 && memcmp(search->name + n, "::", 2) == 0) {
        inner.name += n + 2;
        inner.length -= n + 2;
    }
    return inner;
}

static bool is_it(const struct search *search, Dwarf_Die *die)
{
    if (dwarf_tag(die) != search->tag)
        return false;
    if (search->tag == DW_TAG_enumeration_type) {
        struct search inner = search_inside(search, die);
        uint64_t value;
        bool named = inner.name != search->name || !die_flag(die, DW_AT_enum_class);
        *search->ret_die = *die;
        return named && type_enumerator(die, inner.name, inner.length, &value);
    }
    if (!die_is_named(die, search->name, search->length) || !variable_is_static(die))
        return false;
    *search->ret_die = *die;
    return true;
}

static bool search_blocks(const struct search *search, Dwarf_Die *scope, unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_LIMIT || dwarf_child(scope, &child) != 0)
        return false;
    do {
        if (is_it(search, &child) ||
            (dwarf_tag(&child) == DW_TAG_lexical_block && search_blocks(search, &child, nest + 1)))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool statics_find_in(Dwarf_Die *function, int wanted, const char *name, size_t length, Dwarf_Die *ret_die)
{
    struct search search = {wanted, name, length, ret_die};
    Dwarf_Attribute attribute;
    Dwarf_Die origin; /* of a function that was inlined somewhere else: gcc lists its static variables there */
    return search_blocks(&search, function, 0) ||
           (dwarf_formref_die(dwarf_attr(function, DW_AT_abstract_origin, &attribute), &origin) &&
            search_blocks(&search, &origin, 0));
}

/* Whether what is in it is searched, too. */
static bool is_scope(const struct search *search, int tag)
{
    return tag == DW_TAG_namespace ||
           (search->tag == DW_TAG_enumeration_type &&
            (tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type));
}

/* Outside of functions, or (function != "") in functions of that name only. */
static bool search_scope(struct search search, Dwarf_Die *scope, const char *function, size_t function_length,
                         unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_LIMIT || dwarf_child(scope, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        if (function_length ? tag == DW_TAG_subprogram && die_is_named(&child, function, function_length) &&
                                  search_blocks(&search, &child, 0)
                            : is_it(&search, &child))
            return true;
        if (is_scope(&search, tag) &&
            search_scope(search_inside(&search, &child), &child, function, function_length, nest + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static bool unit_is_of_file(Dwarf_Die *unit, const char *file, size_t length)
{
    const char *name = dwarf_diename(unit);
    size_t n = name ? strlen(name) : 0;
    return n >= length && memcmp(name + n - length, file, length) == 0 && (n == length || name[n - length - 1] == '/');
}

/* Of the unit, or of all; `within` is a file, a function, or "". */
static bool search_units(struct capture_compiler *compiler, Dwarf_Die *unit, struct search search, const char *within,
                         size_t within_length)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    if (unit)
        return search_scope(search, unit, within, within_length, 0);
    while (compiler->dwarf && dwarf_get_units(compiler->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
        if (!unit_content(&die, &die))
            continue;
        bool in_file = within_length && unit_is_of_file(&die, within, within_length);
        if (search_scope(search, &die, within, in_file ? 0 : within_length, 0))
            return true;
    }
    return false;
}

static bool search_anew(struct capture_compiler *compiler, Dwarf_Die *unit, int tag, const char *name, size_t length,
                        Dwarf_Die *ret_die)
{
    size_t within = 0;
    for (size_t i = 1; i + 1 < length; i++)
        if (name[i] == ':' && name[i - 1] != ':' && name[i + 1] != ':')
            within = i;
    struct search search = {tag, name, length, ret_die};
    if (within) {
        search.name += within + 1;
        search.length -= within + 1;
    }
    if (search_units(compiler, unit, search, name, within))
        return true;
    for (size_t i = length; i > 2 && !within && tag == DW_TAG_variable;
         i--) /* a class's static member is defined outside of it */
        if (name[i - 1] == ':' && name[i - 2] == ':') {
            search.name = name + i;
            search.length = length - i;
            return search_units(compiler, unit, search, name, 0);
        }
    return false;
}

bool statics_find(struct capture_compiler *compiler, Dwarf_Die *unit, int tag, const char *name, size_t length,
                  Dwarf_Die *ret_die)
{
    struct static_entry *entry;
    char *key;
    if (asprintf(&key, "%x %p %.*s", (unsigned)tag, unit ? unit->addr : NULL, (int)length, name) < 0)
        return false;
    HASH_FIND_STR(compiler->statics, key, entry);
    if (entry) {
        free(key);
        if (entry->found)
            *ret_die = entry->die;
        return entry->found;
    }
    bool found = search_anew(compiler, unit, tag, name, length, ret_die);
    entry = calloc(1, sizeof *entry);
    if (!entry) {
        free(key);
        return found;
    }
    *entry = (struct static_entry){.key = key, .found = found, .die = found ? *ret_die : (Dwarf_Die){0}};
    HASH_ADD_KEYPTR(hh, compiler->statics, entry->key, strlen(entry->key), entry);
    return found;
}

void statics_done(struct capture_compiler *compiler)
{
    HASH_FREE_ALL(compiler->statics, free(each->key));
}

/*
 * Static variables of chosen source files, which are captured at the returns of the functions of these files: static
 * locals of the function, and what the compilation unit defines outside of functions: globals, static members of
 * classes, variables of namespaces and of Fortran modules.
 */

enum { STATICS_MAX = 64, NEST_MOST = 16 };

/* By one of the globs with commas between them: the whole path, or its end after any slash. */
static bool file_matches(const char *globs, const char *path)
{
    bool system = strncmp(path, "/usr/", 5) == 0;
    for (const char *at = globs; *at;) {
        size_t len = strcspn(at, ",");
        char glob[256];
        if (len > 0 && len < sizeof glob) {
            memcpy(glob, at, len);
            glob[len] = 0;
            if (strcmp(glob, "*") == 0 ? !system : glob_matches(glob, (struct span){path, strlen(path)}))
                return true;
            for (const char *slash = path; (slash = strchr(slash, '/')) && strcmp(glob, "*") != 0;)
                if (glob_matches(glob, span_str(++slash)))
                    return true;
        }
        at += len + (at[len] == ',');
    }
    return false;
}

static bool is_chosen(const struct site *site, Dwarf_Die *die)
{
    const char *globs = site->job->compiler->options.statics;
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Die unit;
    Dwarf_Files *files;
    /* clang says no file of a static member's definition, only of what it defines */
    if (dwarf_tag(die) == DW_TAG_variable && dwarf_hasattr(die, DW_AT_specification) &&
        !dwarf_hasattr(die, DW_AT_decl_file)) {
        const char *own = dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_diename(&unit) : NULL;
        return own && file_matches(globs, own);
    }
    /* dwarf_decl_file takes number 0 for none: in DWARF 5 it is the unit's own */
    if (dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_file, &attribute), &number) != 0 ||
        !dwarf_cu_die(attribute.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
        dwarf_getsrcfiles(&unit, &files, NULL) != 0)
        return false;
    const char *file = dwarf_filesrc(files, number, NULL, NULL);
    return file && file_matches(globs, file);
}

struct statics {
    struct site *site;
    statics_fn *fn;
    unsigned count;
};

static bool is_named_scope(Dwarf_Die *scope)
{
    int tag = dwarf_tag(scope);
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
           tag == DW_TAG_namespace;
}

/* As C++ has it: with the classes and namespaces around it. */
static void put_name(Dwarf_Die *variable, const char *name, struct buf *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Die declared = *variable, *scopes = NULL;
    if (dwarf_attr(variable, DW_AT_specification, &attribute))
        dwarf_formref_die(&attribute, &declared);
    int count = dwarf_getscopes_die(&declared, &scopes), end = 1;
    while (end < count && is_named_scope(&scopes[end]))
        end++;
    while (--end > 0) {
        const char *around = dwarf_diename(&scopes[end]);
        if (around)
            buf_printf(out, "%s::", around);
    }
    buf_puts(out, name);
    free(scopes);
}

static void statics_found(struct statics *statics, Dwarf_Die *variable)
{
    const char *name = dwarf_diename(variable);
    if (!name || statics->count >= STATICS_MAX || die_flag(variable, DW_AT_artificial) ||
        !variable_is_static(variable) || !is_chosen(statics->site, variable))
        return;
    _cleanup_(buf_done) struct buf full = BUF_INIT;
    put_name(variable, name, &full);
    if (full.failed)
        return;
    statics->count++;
    statics->fn(statics->site, variable, full.data);
}

static void statics_walk(struct statics *statics, Dwarf_Die *around, unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_MOST || dwarf_child(around, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_variable && !dwarf_hasattr(&child, DW_AT_declaration)) /* nor what it specifies */
            statics_found(statics, &child);
        else if (tag == DW_TAG_namespace || tag == DW_TAG_module)
            statics_walk(statics, &child, nest + 1);
    } while (statics->count < STATICS_MAX && dwarf_siblingof(&child, &child) == 0);
}

static void statics_local(void *ctx, Dwarf_Die *variable, const char *name)
{
    statics_found(ctx, variable);
}

void statics_each(struct site *site, statics_fn *fn)
{
    struct statics statics = {.site = site, .fn = fn};
    Dwarf_Die unit;
    if (!is_chosen(site, &site->scope))
        return;
    scopes_locals(site->job->compiler, &site->scope, site->pc, statics_local, &statics);
    if (dwarf_diecu(&site->scope, &unit, NULL, NULL))
        statics_walk(&statics, &unit, 0);
}
