/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static variables of chosen source files, which are captured at the returns of the functions of these files: static
 * locals of the function, and what the compilation unit defines outside of functions: globals, static members of
 * classes, variables of namespaces and of Fortran modules.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "symbols/capture/internal.h"
#include "symbols/capture/site.h"
#include "symbols/index/selection_glob.h"

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

static void found(struct statics *statics, Dwarf_Die *variable)
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

static void walk(struct statics *statics, Dwarf_Die *around, unsigned nest)
{
    Dwarf_Die child;
    if (nest > NEST_MOST || dwarf_child(around, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_variable && !dwarf_hasattr(&child, DW_AT_declaration)) /* nor what it specifies */
            found(statics, &child);
        else if (tag == DW_TAG_namespace || tag == DW_TAG_module)
            walk(statics, &child, nest + 1);
    } while (statics->count < STATICS_MAX && dwarf_siblingof(&child, &child) == 0);
}

static void local(void *ctx, Dwarf_Die *variable, const char *name)
{
    found(ctx, variable);
}

void statics_each(struct site *site, statics_fn *fn)
{
    struct statics statics = {.site = site, .fn = fn};
    Dwarf_Die unit;
    if (!is_chosen(site, &site->scope))
        return;
    scopes_locals(site->job->compiler, &site->scope, site->pc, local, &statics);
    if (dwarf_diecu(&site->scope, &unit, NULL, NULL))
        walk(&statics, &unit, 0);
}
