/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to functions and lines by libdwfl. */
#include "symbols/index/lines.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/index/cxx_names.h"
#include "symbols/index/dwarf_units.h"
#include "symbols/index/lines_internal.h"

enum { FRAMES_MAX = 128 }; /* inlined into each other */

void symbols_stay_local(void)
{
    unsetenv("DEBUGINFOD_URLS");
}

/* ---- opening ---- */
static const Dwfl_Callbacks process_callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
};
static const Dwfl_Callbacks file_callbacks = {
    .find_elf = dwfl_build_id_find_elf, /* never called: the files are given */
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static int begin(struct lines **ret_lines, const Dwfl_Callbacks *callbacks, struct err *err)
{
    symbols_stay_local();
    struct lines *lines = calloc(1, sizeof *lines);
    if (lines)
        lines->dwfl = dwfl_begin(callbacks);
    if (!lines || !lines->dwfl) {
        free(lines);
        return err_set(err, -ENOMEM, "out of memory for symbols");
    }
    *ret_lines = lines;
    return 0;
}

int lines_open_process(struct lines **ret_lines, pid_t pid, struct err *err)
{
    struct lines *lines;
    int r = begin(&lines, &process_callbacks, err);
    if (r < 0)
        return r;
    int failed = dwfl_linux_proc_report(lines->dwfl, pid); /* an errno, or -1 with dwfl_errmsg */
    if (failed == 0 && dwfl_report_end(lines->dwfl, NULL, NULL) == 0) {
        lines->pid = pid;
        *ret_lines = lines;
        return 0;
    }
    if (failed > 0)
        r = err_errno(err,
                      failed == ENOENT  ? -ESRCH
                      : failed == EPERM ? -EACCES
                                        : -failed,
                      "the load modules of process %d", (int)pid);
    else
        r = err_set(err, -EIO, "the load modules of process %d: %s", (int)pid, dwfl_errmsg(-1));
    lines_close(lines);
    return r;
}

int lines_open_modules(struct lines **ret_lines, const struct lines_module *modules, size_t count, struct err *err)
{
    struct lines *lines;
    int r = begin(&lines, &file_callbacks, err);
    if (r < 0)
        return r;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (dwfl_report_elf(lines->dwfl, modules[i].path, modules[i].path, -1, modules[i].bias, true))
            found++;
        else
            err_set(err, -ENOENT, "%s: %s", modules[i].path, dwfl_errmsg(-1));
    dwfl_report_end(lines->dwfl, NULL, NULL);
    if (found == 0 && count > 0) {
        lines_close(lines);
        return -ENOENT;
    }
    *ret_lines = lines;
    return 0;
}

void lines_close(struct lines *lines)
{
    if (!lines)
        return;
    dwfl_end(lines->dwfl);
    free(lines);
}

/* ---- finding ---- */
/* The C++ library demangles; we do not link it, but where C++ programs run it is there. */
static char *readable_name(const char *name)
{
    struct buf fortran = BUF_INIT;
    if (fortran_name_put(&fortran, name))
        return fortran.data;
    typedef char *demangle_fn(const char *mangled, char *buffer, size_t *length, int *status);
    static demangle_fn *demangle;
    static bool looked;
    if (strncmp(name, "_Z", 2) == 0) {
        if (!looked) {
            void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
            if (library)
                demangle = (demangle_fn *)dlsym(library, "__cxa_demangle");
            looked = true;
        }
        char *readable = demangle ? demangle(name, NULL, NULL, NULL) : NULL;
        struct buf tidy = BUF_INIT;
        if (readable) {
            cxx_name_put(&tidy, readable);
            free(readable);
            return tidy.data;
        }
    }
    return strdup(name);
}

static const char *die_name(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
    return name ? name : dwarf_diename(die);
}

/* The compiler's directory and file; without detours like "/build/../src" where the source is still there. */
static char *full_path(const char *directory, const char *file)
{
    char *path = NULL;
    if (!file)
        return NULL;
    if (file[0] == '/' || !directory)
        path = strdup(file);
    else if (asprintf(&path, "%s/%s", directory, file) < 0)
        return NULL;
    char *real = path && path[0] == '/' ? realpath(path, NULL) : NULL;
    if (!real)
        return path;
    free(path);
    return real;
}

/* Where the inlined function `die` was called: its caller's place. */
static void set_call_place(struct line_frame *frame, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    Dwarf_Word number;
    Dwarf_Die unit;
    Dwarf_Files *files;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &number) == 0)
        frame->line = (unsigned)number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_column, &attr), &number) == 0)
        frame->column = (unsigned)number;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &number) == 0 && dwarf_diecu(die, &unit, NULL, NULL) &&
        dwarf_getsrcfiles(&unit, &files, NULL) == 0) {
        const char *directory = dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &attr));
        frame->file = full_path(directory, dwarf_filesrc(files, number, NULL, NULL));
    }
}

static bool is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

/* The compilation unit of an address; where there is no .debug_aranges (clang) it is looked for among all. */
static Dwarf_Die *unit_at(Dwfl_Module *module, uint64_t addr, Dwarf_Addr *ret_bias)
{
    Dwarf_Die *unit = dwfl_module_addrdie(module, addr, ret_bias);
    if (unit)
        return unit;
    while ((unit = dwfl_module_nextcu(module, unit, ret_bias)))
        if (dwarf_haspc(unit, addr - *ret_bias) == 1)
            return unit;
    return NULL;
}

static void set_line(Dwfl_Module *module, uint64_t addr, struct line_frame *frame)
{
    Dwfl_Line *line = dwfl_module_getsrc(module, addr);
    int number = 0, column = 0;
    if (line) {
        const char *file = dwfl_lineinfo(line, NULL, &number, &column, NULL, NULL);
        frame->file = full_path(dwfl_line_comp_dir(line), file);
    } else {
        Dwarf_Addr bias;
        Dwarf_Attribute attr;
        Dwarf_Die *unit = unit_at(module, addr, &bias);
        Dwarf_Line *found = unit ? dwarf_getsrc_die(unit, addr - bias) : NULL;
        if (!found)
            return;
        dwarf_lineno(found, &number);
        dwarf_linecol(found, &column);
        frame->file =
            full_path(dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attr)), dwarf_linesrc(found, NULL, NULL));
    }
    frame->line = (unsigned)number;
    frame->column = (unsigned)column;
}

/* The functions around the address by DWARF, innermost first, into frames whose first has its place already. */
static size_t add_functions(Dwfl_Module *module, uint64_t addr, struct line_frame *frames)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = unit_at(module, addr, &bias), *scopes = NULL, *around = NULL, content;
    int count = unit && unit_content(unit, &content) ? dwarf_getscopes(&content, addr - bias, &scopes) : 0, inner = 0;
    while (inner < count && !is_function(&scopes[inner]))
        inner++;
    size_t found = 0;
    if (inner < count) {
        /* dwarf_getscopes goes over to the abstract function at an inlined one; this stays with the real nesting. */
        count = dwarf_getscopes_die(&scopes[inner], &around);
        for (int i = 0; i < count && found < FRAMES_MAX; i++) {
            if (!is_function(&around[i]))
                continue;
            const char *name = die_name(&around[i]);
            frames[found].function = name ? readable_name(name) : NULL;
            frames[found++].inlined = dwarf_tag(&around[i]) == DW_TAG_inlined_subroutine;
            if (!frames[found - 1].inlined)
                break;
            if (found < FRAMES_MAX)
                set_call_place(&frames[found], &around[i]);
        }
    }
    free(scopes);
    free(around);
    return found;
}

int location_find(Dwfl *dwfl, uint64_t addr, struct line_location *ret_location)
{
    *ret_location = (struct line_location){0};
    Dwfl_Module *module = dwfl_addrmodule(dwfl, addr);
    if (!module)
        return 0;
    struct line_frame *frames = calloc(FRAMES_MAX + 1, sizeof *frames);
    if (!frames)
        return -ENOMEM;
    const char *main_file = NULL, *name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &main_file, NULL);
    set_line(module, addr, &frames[0]);
    size_t count = add_functions(module, addr, frames);
    struct line_frame *outer = &frames[count ? count - 1 : 0];
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char *symbol_name = dwfl_module_addrinfo(module, addr, &offset, &symbol, NULL, NULL, NULL);
    if (symbol_name) {
        outer->offset = offset;
        if (!outer->function)
            outer->function = readable_name(symbol_name);
    }
    char *path = strdup(main_file ? main_file : name ? name : "");
    if (!path) {
        ret_location->frames = frames;
        ret_location->count = count ? count : 1;
        line_location_done(ret_location);
        return -ENOMEM;
    }
    *ret_location = (struct line_location){.module = path, .frames = frames, .count = count ? count : 1};
    struct line_frame *fitting = realloc(frames, ret_location->count * sizeof *frames);
    if (fitting)
        ret_location->frames = fitting;
    return 0;
}

int lines_find(struct lines *lines, uint64_t addr, struct line_location *ret_location)
{
    return location_find(lines->dwfl, addr, ret_location);
}

const char *lines_module(struct lines *lines, uint64_t addr, uint64_t *ret_start)
{
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, addr);
    Dwarf_Addr start = 0;
    const char *main_file = NULL;
    const char *name = module ? dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, &main_file, NULL) : NULL;
    *ret_start = start;
    return main_file ? main_file : name;
}

bool lines_bias(struct lines *lines, uint64_t addr, uint64_t *ret_bias)
{
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, addr);
    return module && dwfl_module_getelf(module, ret_bias);
}

void line_location_done(struct line_location *location)
{
    for (size_t i = 0; i < location->count; i++) {
        free(location->frames[i].function);
        free(location->frames[i].file);
    }
    free(location->frames);
    free(location->module);
    *location = (struct line_location){0};
}
