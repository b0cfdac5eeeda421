/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/lines.h"

#include "base/data/grow.h"
#include "base/data/hash.h"
#include "symbols/index/names.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A function, inlined or not, or a unit. */
struct scope {
    Dwarf_Die die;
    int32_t parent; /* the function around it; -1: none */
    bool nested;    /* in a function, a type or a namespace */
};

static bool scope_is_function(Dwarf_Die *die);
static void scopes_free(struct scopes **all);
static const struct scope *scope_find(struct scopes **all, Dwarf_Die *unit, uint64_t addr,
                                      const struct scopes **ret_scopes, uint64_t *ret_low, uint64_t *ret_high);
static const struct scope *scope_parent(const struct scopes *scopes, const struct scope *scope);
static Dwarf_Die *scope_unit(struct scopes **all, Dwfl_Module *module, uint64_t addr, Dwarf_Addr *ret_bias);

bool unit_content(Dwarf_Die *unit, Dwarf_Die *ret_content)
{
    uint8_t type;
    Dwarf_Die content = {0};
    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &content, NULL, NULL, NULL) != 0)
        return false;
    if (type != DW_UT_skeleton)
        content = *unit;
    if (content.addr)
        *ret_content = content;
    return content.addr;
}

static const char *text_of(Dwarf_Die *die, unsigned number)
{
    Dwarf_Attribute attribute;
    const char *text = dwarf_formstring(dwarf_attr(die, number, &attribute));
    return text ? text : "";
}

void unit_put_file(Dwarf_Die *skeleton, struct buf *out)
{
    const char *name = text_of(skeleton, DW_AT_dwo_name), *directory = text_of(skeleton, DW_AT_comp_dir);
    if (!*name)
        name = text_of(skeleton, DW_AT_GNU_dwo_name);
    if (*name && *name != '/' && *directory)
        buf_printf(out, "%s/", directory);
    buf_puts(out, name);
}

void unit_put_missing(Dwarf_Die *skeleton, const char *program, struct buf *out)
{
    char package[PATH_MAX];
    struct buf file = BUF_INIT;
    unit_put_file(skeleton, &file);
    const char *path = file.data ? file.data : "";
    bool there = access(path, F_OK) == 0;
    bool packed =
        snprintf(package, sizeof package, "%s.dwp", program) < (int)sizeof package && access(package, F_OK) == 0;
    buf_printf(out, "its debug information is in %s, which is %s", path,
               there ? "of another build, damaged, or compiled with -fdebug-types-section, too" : "missing");
    if (packed && !there)
        buf_puts(out, " (a .dwp file is read with elfutils 0.191 and newer)");
    buf_done(&file);
}

/* Addresses to functions and lines by libdwfl. */

enum { FRAMES_MAX = 128 }; /* inlined into each other */

void symbols_stay_local(void)
{
    unsetenv("DEBUGINFOD_URLS");
}

/* ---- opening ---- */

enum { NOTHING, SOME_FILE, NO_FILE }; /* no file: to open a pipe waits for who writes to it */

static int look_at(const char *root, const char *folder, size_t len, const char *below, const char *name,
                   const char *end)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s%.*s%s%s%s", root, (int)len, folder, below, name, end) >= (int)sizeof path)
        return NO_FILE;
    return stat(path, &st) != 0 ? NOTHING : S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? SOME_FILE : NO_FILE;
}

/* By the name in its link; without a link, by its own one with and without an end. Beside the program the latter is itself. */
static int look_for(const char *root, const char *folder, size_t len, const char *below, const char *own,
                    const char *link)
{
    int found = look_at(root, folder, len, below, link ? link : own, link ? "" : ".debug");
    int plain = link || !(*root || *below) ? NOTHING : look_at(root, folder, len, below, own, "");
    return found > plain ? found : plain;
}

/* The most that lies where libdwfl looks by name: beside the file, and where debug files are kept, in directories that are called
 * as the file's, or as an end of that. */
static int look_by_name(const char *file, const char *link)
{
    char container[64] = "";
    const char *slash = strrchr(file, '/'), *own = slash ? slash + 1 : file, *roots[] = {DEBUG_ROOT, container};
    int pid, beside = look_for("", file, (size_t)(own - file), "", own, link);
    int found = look_for("", file, (size_t)(own - file), ".debug/", own, link);
    found = found > beside ? found : beside;
    if (sscanf(file, "/proc/%d/root/", &pid) == 1)
        snprintf(container, sizeof container, "/proc/%d/root%s", pid, DEBUG_ROOT);
    for (size_t i = 0; i < 2 && *roots[i] && *file == '/'; i++)
        for (const char *from = file; from && found == NOTHING; from = strchr(from + 1, '/'))
            found = look_for(roots[i], from, (size_t)(own - from), "", own, link);
    return found;
}

int debuginfo_find(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
                   const char *link, GElf_Word crc, char **ret_path)
{
    char real[PATH_MAX];
    const unsigned char *id;
    GElf_Addr at;
    if (link && strchr(link, '/'))
        return -1;
    int found = file ? look_by_name(file, link) : NOTHING;
    if (found == NOTHING && file && realpath(file, real))
        found = look_by_name(real, link);
    if (found == SOME_FILE)
        return dwfl_standard_find_debuginfo(module, user, name, base, file, link, crc, ret_path);
    /* Where that finds nothing it asks debuginfod: for each process it loads curl and thirty libraries, and all to no end. */
    errno = 0;
    if (found == NO_FILE || dwfl_module_build_id(module, &id, &at) <= 0)
        return -1;
    return dwfl_build_id_find_debuginfo(module, user, name, base, file, link, crc, ret_path);
}

static const Dwfl_Callbacks process_callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = debuginfo_find,
};
static const Dwfl_Callbacks file_callbacks = {
    .find_elf = dwfl_build_id_find_elf, /* never called: the files are given */
    .find_debuginfo = debuginfo_find,
    .section_address = dwfl_offline_section_address,
};

static int lines_new(struct lines **ret_lines, const Dwfl_Callbacks *callbacks, struct err *err)
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
    int r = lines_new(&lines, &process_callbacks, err);
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
    int r = lines_new(&lines, &file_callbacks, err);
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
    lines_forget(lines);
    dwfl_end(lines->dwfl);
    free(lines);
}

/* ---- finding ---- */
/* The C++ library demangles; we do not link it, but where C++ programs run it is there. */
static char *readable_name(const char *name)
{
    struct buf plain = BUF_INIT;
    if (fortran_name_put(&plain, name) || rust_name_put(&plain, name))
        return plain.data;
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

static const char *linkage_name(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    return name ? name : dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
}

/* The compiler's directory and file; without detours like "/build/../src" where the source is still there. */
static char *path_make(const char *directory, const char *file)
{
    char *path = NULL;
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

static char *full_path(struct lines *lines, const char *directory, const char *file)
{
    struct line_path *path, key = {.directory = directory, .file = file};
    const size_t size = offsetof(struct line_path, path);
    if (!file)
        return NULL;
    HASH_FIND(hh, lines->paths, &key, size, path);
    if (!path) {
        key.path = path_make(directory, file);
        path = key.path ? malloc(sizeof *path) : NULL;
        if (!path)
            return key.path;
        *path = key;
        HASH_ADD(hh, lines->paths, directory, size, path);
    }
    return strdup(path->path);
}

/* Where the inlined function `die` was called: its caller's place. */
static void set_call_place(struct lines *lines, struct line_frame *frame, Dwarf_Die *die)
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
        frame->file = full_path(lines, directory, dwarf_filesrc(files, number, NULL, NULL));
    }
}

static void set_line(struct lines *lines, Dwarf_Die *unit, uint64_t addr, struct line_frame *frame)
{
    Dwarf_Attribute attr;
    Dwarf_Line *line = dwarf_getsrc_die(unit, addr);
    int number = 0, column = 0;
    if (!line)
        return;
    dwarf_lineno(line, &number);
    dwarf_linecol(line, &column);
    frame->file =
        full_path(lines, dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attr)), dwarf_linesrc(line, NULL, NULL));
    frame->line = (unsigned)number;
    frame->column = (unsigned)column;
}

/* The address from the start of the function, or of the part of it that lies apart. */
static uint64_t offset_in(Dwarf_Die *die, uint64_t addr)
{
    Dwarf_Addr base, low, high;
    for (ptrdiff_t at = dwarf_ranges(die, 0, &base, &low, &high); at > 0;
         at = dwarf_ranges(die, at, &base, &low, &high))
        if (addr >= low && addr < high)
            return addr - low;
    return 0;
}

/* The name of the symbol at the address, NULL: there is none. libdwfl looks through all symbols for each address, so the last
 * one is kept. */
static const char *symbol_find(struct lines *lines, Dwfl_Module *module, uint64_t addr)
{
    GElf_Off offset = 0;
    GElf_Sym symbol;
    if (addr < lines->symbol.start || addr >= lines->symbol.end) {
        const char *name = dwfl_module_addrinfo(module, addr, &offset, &symbol, NULL, NULL, NULL);
        free(lines->symbol.name);
        lines->symbol.name = name ? readable_name(name) : NULL;
        lines->symbol.start = addr - offset;
        lines->symbol.end = lines->symbol.name ? addr + 1 : lines->symbol.start;
        if (lines->symbol.name && symbol.st_size > offset)
            lines->symbol.end = lines->symbol.start + symbol.st_size;
    }
    return lines->symbol.name;
}

/* addr 0: the function is inlined and has no symbol. */
static char *function_name(struct lines *lines, Dwfl_Module *module, const struct scope *scope, uint64_t addr)
{
    Dwarf_Die die = scope->die;
    const char *name = linkage_name(&die), *short_name = dwarf_diename(&die);
    if (name || !short_name)
        return name ? readable_name(name) : NULL;
    /* A lambda is "operator()", and its symbol says of what. */
    if (scope->nested && addr && strncmp(short_name, "operator", 8) == 0) {
        const char *symbol = symbol_find(lines, module, addr);
        if (symbol)
            return strdup(symbol);
    }
    return readable_name(short_name);
}

/* The functions around the address by DWARF, innermost first, into frames whose first has its place already. */
static size_t add_functions(struct lines *lines, Dwfl_Module *module, Dwarf_Die *unit, uint64_t addr, uint64_t bias,
                            struct line_frame *frames)
{
    const struct scopes *scopes;
    uint64_t low, high;
    const struct scope *scope = scope_find(&lines->scopes, unit, addr, &scopes, &low, &high);
    size_t found = 0;
    for (; scope && found < FRAMES_MAX; scope = scope_parent(scopes, scope)) {
        Dwarf_Die die = scope->die;
        struct line_frame *frame = &frames[found++];
        frame->inlined = dwarf_tag(&die) == DW_TAG_inlined_subroutine;
        frame->function = function_name(lines, module, scope, frame->inlined ? 0 : addr + bias);
        if (!frame->inlined) {
            frame->offset = offset_in(&die, addr);
            break;
        }
        if (found < FRAMES_MAX)
            set_call_place(lines, &frames[found], &die);
    }
    return found;
}

int lines_find(struct lines *lines, uint64_t addr, struct line_location *ret_location)
{
    *ret_location = (struct line_location){0};
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, addr);
    if (!module)
        return 0;
    struct line_frame *frames = calloc(FRAMES_MAX + 1, sizeof *frames);
    if (!frames)
        return -ENOMEM;
    Dwarf_Addr bias;
    Dwarf_Die *unit = scope_unit(&lines->scopes, module, addr, &bias);
    size_t count = 0;
    if (unit) {
        set_line(lines, unit, addr - bias, &frames[0]);
        count = add_functions(lines, module, unit, addr - bias, bias, frames);
    }
    struct line_frame *outer = &frames[count ? count - 1 : 0];
    const char *symbol = outer->function ? NULL : symbol_find(lines, module, addr);
    if (symbol) {
        outer->function = strdup(symbol);
        outer->offset = addr - lines->symbol.start;
    }
    const char *main_file = NULL, *name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &main_file, NULL);
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

const char *lines_declared_in(Dwarf_Die *function)
{
    Dwarf_Attribute attr;
    Dwarf_Word number;
    Dwarf_Die unit;
    Dwarf_Files *files;
    if (!dwarf_attr_integrate(function, DW_AT_decl_file, &attr) || dwarf_formudata(&attr, &number) != 0 ||
        dwarf_cu_info(attr.cu, NULL, NULL, &unit, NULL, NULL, NULL, NULL) != 0 ||
        dwarf_getsrcfiles(&unit, &files, NULL) != 0)
        return NULL;
    return dwarf_filesrc(files, number, NULL, NULL);
}

static uint32_t line_in(Dwarf_Die *function, const char *file, int64_t line)
{
    const char *own = file && line > 0 && line <= UINT32_MAX ? lines_declared_in(function) : NULL;
    return own && strcmp(own, file) == 0 ? (uint32_t)line : 0;
}

/* The line of an address in its innermost function; takes the ends to those of its row. */
static uint32_t line_at(Dwarf_Die *unit, uint64_t addr, Dwarf_Die *function, uint64_t *inout_low, uint64_t *inout_high)
{
    Dwarf_Lines *rows;
    size_t count;
    Dwarf_Addr low, next, address;
    bool ends = true;
    int number = 0;
    if (dwarf_getsrclines(unit, &rows, &count) != 0)
        return 0;
    size_t behind = COUNT_BEFORE(count, i, dwarf_lineaddr(dwarf_onesrcline(rows, i), &address) == 0 && address <= addr);
    Dwarf_Line *row = behind ? dwarf_onesrcline(rows, behind - 1) : NULL;
    if (!row || dwarf_lineendsequence(row, &ends) != 0 || ends || dwarf_lineaddr(row, &low) != 0)
        return 0;
    if (behind == count || dwarf_lineaddr(dwarf_onesrcline(rows, behind), &next) != 0)
        next = addr + 1;
    *inout_low = low > *inout_low ? low : *inout_low;
    *inout_high = next < *inout_high ? next : *inout_high;
    dwarf_lineno(row, &number);
    return line_in(function, dwarf_linesrc(row, NULL, NULL), number);
}

/* The line in `outer` at which the code of the inlined `die` stands. */
static uint32_t call_line(Dwarf_Die *die, Dwarf_Die *outer)
{
    Dwarf_Attribute attr;
    Dwarf_Word line, number;
    Dwarf_Die unit;
    Dwarf_Files *files;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &line) != 0 ||
        dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &number) != 0 ||
        !dwarf_diecu(die, &unit, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, NULL) != 0)
        return 0;
    return line_in(outer, dwarf_filesrc(files, number, NULL, NULL), (int64_t)line);
}

size_t lines_around(struct lines *lines, uint64_t addr, struct line_function *ret_functions, size_t most,
                    uint64_t *ret_low, uint64_t *ret_high)
{
    Dwarf_Addr bias;
    const struct scopes *scopes;
    size_t count = 0;
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, addr);
    Dwarf_Die *unit = module ? scope_unit(&lines->scopes, module, addr, &bias) : NULL;
    const struct scope *scope = unit ? scope_find(&lines->scopes, unit, addr - bias, &scopes, ret_low, ret_high) : NULL;
    for (bool inlined = true; scope && inlined && count < most; scope = scope_parent(scopes, scope)) {
        struct line_function *function = &ret_functions[count++];
        *function = (struct line_function){.die = scope->die};
        function->line = count == 1 ? line_at(unit, addr - bias, &function->die, ret_low, ret_high)
                                    : call_line(&function[-1].die, &function->die);
        inlined = dwarf_tag(&function->die) == DW_TAG_inlined_subroutine;
    }
    *ret_low = count ? *ret_low + bias : addr;
    *ret_high = count ? *ret_high + bias : addr + 1;
    return count;
}

void lines_forget(struct lines *lines)
{
    HASH_FREE_ALL(lines->paths, free(each->path));
    free(lines->symbol.name);
    scopes_free(&lines->scopes);
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

/*
 * Which unit, and which functions of it, lie around an address. libdw walks a whole unit for each address
 * (dwarf_getscopes); a trace has tens of thousands. Here each unit is walked once, and its ranges are cut into spans
 * that do not overlap.
 */

enum { DEPTH_MOST = 256 };

struct scope_span {
    uint64_t low, high; /* high: the first behind it */
    uint32_t depth;     /* how deep in other spans, until they are cut */
    uint32_t scope;     /* whose: an index */
};

/* A unit's functions, or a module's units. */
struct scopes {
    const void *key; /* the unit's address in the debug information, or the module */
    struct scope *list;
    size_t count, room;
    struct scope_span *spans;
    size_t span_count, span_room;
    bool failed; /* out of memory */
    UT_hash_handle hh;
};

/* ---- spans ---- */

static int by_start(const void *left, const void *right)
{
    const struct scope_span *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static void span_add(struct scopes *scopes, struct scope_span span)
{
    if (span.low >= span.high)
        return;
    if (GROW(scopes->spans, scopes->span_count, scopes->span_room))
        scopes->spans[scopes->span_count++] = span;
    else
        scopes->failed = true;
}

/* Cuts spans that lie in each other so that each address belongs to the innermost: a span ends where one in it begins,
 * and goes on behind that. */
static void spans_cut(struct scopes *scopes)
{
    struct scope_span *nested = scopes->spans, *open = calloc(scopes->span_count + 1, sizeof *open);
    size_t count = scopes->span_count, depth = 0;
    uint64_t at = 0;
    scopes->spans = NULL;
    scopes->span_count = scopes->span_room = 0;
    if (!open) {
        scopes->failed = true;
        count = 0;
    }
    if (count)
        qsort(nested, count, sizeof *nested, by_start);
    for (size_t i = 0; i <= count && open; i++) {
        uint64_t next = i < count ? nested[i].low : UINT64_MAX;
        while (depth && open[depth - 1].high <= next) {
            const struct scope_span *top = &open[--depth];
            span_add(scopes, (struct scope_span){.low = at, .high = top->high, .scope = top->scope});
            at = top->high > at ? top->high : at;
        }
        if (depth)
            span_add(scopes, (struct scope_span){.low = at, .high = next, .scope = open[depth - 1].scope});
        at = next;
        if (i < count)
            open[depth++] = nested[i];
    }
    free(open);
    free(nested);
}

static const struct scope_span *span_find(const struct scopes *scopes, uint64_t addr)
{
    size_t low = COUNT_BEFORE(scopes->span_count, i, scopes->spans[i].high <= addr);
    return low < scopes->span_count && scopes->spans[low].low <= addr ? &scopes->spans[low] : NULL;
}

/* ---- scopes ---- */

/* Adds a scope with its ranges; its index. -1: it has no code, or there is no memory. */
static int32_t scope_add(struct scopes *scopes, Dwarf_Die *die, int32_t parent, uint32_t depth)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t offset = dwarf_ranges(die, 0, &base, &low, &high);
    if (offset <= 0)
        return -1;
    if (scopes->count >= INT32_MAX || !GROW(scopes->list, scopes->count, scopes->room)) {
        scopes->failed = true;
        return -1;
    }
    int32_t index = (int32_t)scopes->count++;
    scopes->list[index] = (struct scope){.die = *die, .parent = parent, .nested = depth > 0};
    for (; offset > 0; offset = dwarf_ranges(die, offset, &base, &low, &high))
        span_add(scopes, (struct scope_span){.low = low, .high = high, .depth = depth, .scope = (uint32_t)index});
    return index;
}

/* Whether there may be functions with code in it. */
static bool may_hold_functions(int tag)
{
    switch (tag) {
    case DW_TAG_module:
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_lexical_block:
    case DW_TAG_with_stmt:
    case DW_TAG_catch_block:
    case DW_TAG_try_block:
        return true;
    default:
        return false;
    }
}

static void functions_add(struct scopes *scopes, Dwarf_Die *around, int32_t parent, uint32_t depth)
{
    Dwarf_Die die, child;
    if (depth == DEPTH_MOST || dwarf_child(around, &child) != 0)
        return;
    do {
        die = child;
        int32_t inside = parent;
        if (scope_is_function(&die))
            inside = scope_add(scopes, &die, parent, depth);
        else if (!may_hold_functions(dwarf_tag(&die)))
            continue;
        /* A function without code is a declaration, or what is inlined elsewhere. */
        if (inside >= 0 || !scope_is_function(&die))
            functions_add(scopes, &die, inside, depth + 1);
    } while (dwarf_siblingof(&die, &child) == 0);
}

static struct scopes *scopes_of(struct scopes **all, const void *key, bool *ret_new)
{
    struct scopes *scopes;
    HASH_FIND_PTR(*all, &key, scopes);
    *ret_new = !scopes;
    if (scopes || !(scopes = calloc(1, sizeof *scopes)))
        return scopes;
    scopes->key = key;
    HASH_ADD_PTR(*all, key, scopes);
    return scopes;
}

static bool scope_is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

/* The function around a function. */
static const struct scope *scope_parent(const struct scopes *scopes, const struct scope *scope)
{
    return scope->parent < 0 ? NULL : &scopes->list[scope->parent];
}

/* The innermost function at an address of the unit (without the bias), and how far it reaches there; NULL: none. */
static const struct scope *scope_find(struct scopes **all, Dwarf_Die *unit, uint64_t addr,
                                      const struct scopes **ret_scopes, uint64_t *ret_low, uint64_t *ret_high)
{
    bool is_new;
    Dwarf_Die content;
    struct scopes *scopes = scopes_of(all, unit->addr, &is_new);
    if (!scopes)
        return NULL;
    if (is_new && unit_content(unit, &content)) {
        functions_add(scopes, &content, -1, 0);
        spans_cut(scopes);
    }
    const struct scope_span *span = span_find(scopes, addr);
    if (!span)
        return NULL;
    *ret_scopes = scopes;
    *ret_low = span->low;
    *ret_high = span->high;
    return &scopes->list[span->scope];
}

/* The unit of an address, NULL: there is none. *all begins as NULL, and is freed by scopes_free. */
static Dwarf_Die *scope_unit(struct scopes **all, Dwfl_Module *module, uint64_t addr, Dwarf_Addr *ret_bias)
{
    bool is_new;
    Dwarf_Die *unit = dwfl_module_addrdie(module, addr, ret_bias);
    struct scopes *units = unit ? NULL : scopes_of(all, module, &is_new);
    if (!units)
        return unit;
    /* There is no .debug_aranges (clang), or not of this unit. */
    while (is_new && (unit = dwfl_module_nextcu(module, unit, ret_bias)))
        scope_add(units, unit, -1, 0);
    if (is_new)
        spans_cut(units);
    if (!dwfl_module_getdwarf(module, ret_bias))
        return NULL;
    const struct scope_span *span = span_find(units, addr - *ret_bias);
    return span ? &units->list[span->scope].die : NULL;
}

static void scopes_free(struct scopes **all)
{
    HASH_FREE_ALL(*all, free(each->list); free(each->spans));
}
