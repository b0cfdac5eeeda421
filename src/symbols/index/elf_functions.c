/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an index: by the symbol tables, and their places in the source by DWARF. That is a walk over the units' outer
 * entries only. Bodies are entered only in units that still hold functions without a place (nested functions). Functions that no
 * symbol table has are added.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "symbols/index/index_build.h"
#include "symbols/index/lines.h"

/* ---- symbol tables, and what kind of program it is (elf(5); the gABI's dynamic section) ---- */
static const char hook_name[] = "__cyg_profile_func_enter";

static bool section_has_code(Elf *elf, GElf_Word section)
{
    GElf_Shdr header;
    Elf_Scn *scn = section != SHN_UNDEF && section < SHN_LORESERVE ? elf_getscn(elf, section) : NULL;
    return scn && gelf_getshdr(scn, &header) && (header.sh_flags & SHF_EXECINSTR);
}

/* Symbols without a size (assembler) reach to the next one, or to the end of their section. */
static void symbols_give_sizes(struct builder *builder, Elf *elf)
{
    for (size_t i = 0; i < builder->count; i++) {
        struct built_function *function = &builder->functions[i];
        if (function->size)
            continue;
        uint64_t end = i + 1 < builder->count ? builder->functions[i + 1].address : UINT64_MAX;
        for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
            GElf_Shdr header;
            if (gelf_getshdr(scn, &header) && (header.sh_flags & SHF_ALLOC) &&
                function->address - header.sh_addr < header.sh_size) {
                uint64_t section_end = header.sh_addr + header.sh_size;
                function->size = (end < section_end ? end : section_end) - function->address;
                break;
            }
        }
    }
}

static void symbols_collect(struct builder *builder, Dwfl_Module *module)
{
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        Elf *elf;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, &elf, NULL);
        if (!name || !*name || section == SHN_UNDEF)
            continue;
        int type = GELF_ST_TYPE(symbol.st_info);
        if (type != STT_FUNC && type != STT_GNU_IFUNC)
            continue;
        if (strcmp(name, hook_name) == 0)
            builder->flags |= INDEX_OWN_HOOKS;
        if (!section_has_code(elf, section))
            continue;
        struct built_function *function = builder_add(builder);
        if (!function)
            return;
        function->address = address;
        function->size = symbol.st_size;
        function->linkage = name;
        function->global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL;
        function->in_symtab = true;
    }
}

static bool is_sanitizer(const char *name)
{
    return name && (strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libclang_rt.asan", 16) == 0);
}

static void read_dynamic(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, unsigned *flags, bool *pie)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    GElf_Dyn entry;
    for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
        if (entry.d_tag == DT_NEEDED && is_sanitizer(elf_strptr(elf, header->sh_link, entry.d_un.d_val)))
            *flags |= INDEX_NEEDS_ASAN;
        if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE))
            *pie = true;
    }
}

static void read_dynamic_symbols(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, unsigned *flags)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    GElf_Sym symbol;
    for (int i = 1; data && gelf_getsym(data, i, &symbol); i++) {
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name && strcmp(name, hook_name) == 0)
            *flags |= symbol.st_shndx == SHN_UNDEF ? INDEX_HAS_HOOKS : INDEX_OWN_HOOKS;
    }
}

static void program_kind_read(struct builder *builder, Elf *elf)
{
    size_t count = 0;
    bool interpreted = false, pie = false;
    GElf_Ehdr header;
    if (!gelf_getehdr(elf, &header))
        return;
    elf_getphdrnum(elf, &count);
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_INTERP)
            interpreted = true;
    }
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr section;
        if (!gelf_getshdr(scn, &section))
            continue;
        if (section.sh_type == SHT_DYNAMIC)
            read_dynamic(elf, scn, &section, &builder->flags, &pie);
        else if (section.sh_type == SHT_DYNSYM)
            read_dynamic_symbols(elf, scn, &section, &builder->flags);
    }
    if (!interpreted && (header.e_type == ET_EXEC || (header.e_type == ET_DYN && pie)))
        builder->flags |= INDEX_STATIC;
    /* a program that defines the hooks itself does it to be called; of a static one the C library's stands there */
    if ((builder->flags & INDEX_OWN_HOOKS) && (header.e_type == ET_EXEC || pie))
        builder->flags |= INDEX_HAS_HOOKS;
    if (builder->flags & INDEX_STATIC)
        builder->flags &= ~(unsigned)INDEX_OWN_HOOKS;
}

void build_symbols(struct builder *builder, Dwfl_Module *module)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(module, &bias);
    symbols_collect(builder, module);
    builder_sort(builder);
    if (elf) {
        program_kind_read(builder, elf);
        symbols_give_sizes(builder, elf);
    }
}

/* ---- debug information ---- */
enum { NESTING = 64, RANGES = 1 << 16, SCOPES = 512 };

struct walk {
    struct builder *builder;
    struct elf_files *files;
    uint64_t bias;
    const char *path; /* of the file with the symbols */
    bool deep;        /* also into functions and classes */
    bool damaged;
    char scopes[SCOPES]; /* "outer::inner::" */
    struct code_range {
        uint64_t start, end;
    } * code; /* sections with code of the file with the symbols */
    size_t code_count;
    Dwarf_CU *unit, *content; /* that is walked: the same, or a skeleton and what is in its file */
    struct buf missing;       /* the problem of the first skeleton without its file */
    size_t missing_count;
    struct elf_line *lines; /* wanted in this unit */
    size_t line_count, line_room;
};

/* What matters of a function's entry, taken in one pass over its attributes. */
struct attributes {
    Dwarf_Attribute low_pc, ranges;
    bool has_low_pc, has_ranges, is_declaration;
};

static int attribute_keep(Dwarf_Attribute *attr, void *ctx)
{
    struct attributes *attributes = ctx;
    switch (dwarf_whatattr(attr)) {
    case DW_AT_low_pc:
        attributes->low_pc = *attr;
        attributes->has_low_pc = true;
        break;
    case DW_AT_ranges:
        attributes->ranges = *attr;
        attributes->has_ranges = true;
        break;
    case DW_AT_declaration:
        attributes->is_declaration = true;
        break;
    }
    return DWARF_CB_OK;
}

/* Of a procedure that gfortran optimised, which is described outside of its module, the symbol has it:
 * __MODULE_MOD_NAME. */
static int module_of(const char *linkage, const char *name)
{
    const char *end = strncmp(linkage, "__", 2) == 0 ? strstr(linkage, "_MOD_") : NULL;
    return end && strcmp(end + strlen("_MOD_"), name) == 0 ? (int)(end - linkage - 2) : 0;
}

static const char *name_of(struct walk *walk, Dwarf_Die *die, const char *linkage)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attr));
    int module = name && !walk->scopes[0] ? module_of(linkage, name) : 0;
    if (!name || (!walk->scopes[0] && !module))
        return name;
    char text[SCOPES + 1024];
    int len = module ? snprintf(text, sizeof text, "%.*s::%s", module, linkage + 2, name)
                     : snprintf(text, sizeof text, "%s%s", walk->scopes, name);
    return len < (int)sizeof text ? builder_text(walk->builder, text, (size_t)len) : name;
}

/* Lambdas have no place of their own, and of what a header of the system declares, too (an own malloc), gcc says that
 * the place is there: theirs is that of their first instruction, looked for when the unit is done. */
static void place_by_line(struct walk *walk, const struct built_function *function)
{
    if (!GROW(walk->lines, walk->line_count, walk->line_room)) {
        walk->builder->failed = true;
        return;
    }
    walk->lines[walk->line_count++] = (struct elf_line){.address = function->address - walk->bias,
                                                        .function = (size_t)(function - walk->builder->functions)};
}

static void place_by_lines(struct walk *walk, Dwarf_CU *unit)
{
    elf_files_lines(walk->files, walk->builder, unit, walk->lines, walk->line_count);
    for (size_t i = 0; i < walk->line_count; i++)
        if (walk->lines[i].line && walk->lines[i].function < walk->builder->count) {
            struct built_function *function = &walk->builder->functions[walk->lines[i].function];
            if (function->line && function->file == walk->lines[i].file)
                continue; /* its name stands before its first instruction */
            function->line = walk->lines[i].line;
            function->file = walk->lines[i].file;
        }
    walk->line_count = 0;
}

static void set_place(struct walk *walk, struct built_function *function, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    Dwarf_Word number;
    if (function->die)
        return;
    function->die = dwarf_dieoffset(die);
    if (strncmp(function->linkage, "_Z", 2) != 0)
        function->die_name = name_of(walk, die, function->linkage);
    if (dwarf_attr_integrate(die, DW_AT_decl_line, &attr) && dwarf_formudata(&attr, &number) == 0 &&
        number <= UINT32_MAX)
        function->line = (uint32_t)number;
    bool elsewhere = false; /* not in the unit's own file, which is the first one */
    if (dwarf_attr_integrate(die, DW_AT_decl_file, &attr) && dwarf_formudata(&attr, &number) == 0) {
        /* a skeleton has the file names for its own unit */
        Dwarf_CU *unit = attr.cu == walk->content ? walk->unit : attr.cu;
        function->file = elf_files_find(walk->files, walk->builder, unit, number);
        elsewhere = number > 1;
    }
    if (!function->line || (elsewhere && function->die_name))
        place_by_line(walk, function);
}

static bool is_in_code(const struct walk *walk, uint64_t address)
{
    for (size_t i = 0; i < walk->code_count; i++)
        if (address >= walk->code[i].start && address < walk->code[i].end)
            return true;
    return false;
}

/* No symbol begins there. What the linker threw away has addresses without code. */
static void add_unknown(struct walk *walk, Dwarf_Die *die, uint64_t address, uint64_t end)
{
    Dwarf_Attribute attr;
    if (!is_in_code(walk, address))
        return;
    const char *linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    if (!linkage)
        linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
    struct built_function *function = builder_add(walk->builder);
    if (!function)
        return;
    function->address = address;
    function->size = end > address ? end - address : 0;
    function->linkage = linkage ? linkage : "";
    set_place(walk, function, die);
    if (!*function->linkage && function->die_name)
        function->linkage = function->die_name;
    if (!*function->linkage)
        walk->builder->count--; /* nobody could call it by anything */
}

static void function_read(struct walk *walk, Dwarf_Die *die)
{
    struct attributes attributes = {0};
    Dwarf_Addr base, start, end;
    if (dwarf_getattrs(die, attribute_keep, &attributes, 0) == -1) {
        walk->damaged = true;
        return;
    }
    if (attributes.is_declaration || (!attributes.has_low_pc && !attributes.has_ranges))
        return;
    if (!attributes.has_ranges) {
        if (dwarf_formaddr(&attributes.low_pc, &start) != 0)
            return;
        struct built_function *function = builder_find(walk->builder, start + walk->bias);
        if (function)
            set_place(walk, function, die);
        else if (dwarf_highpc(die, &end) == 0)
            add_unknown(walk, die, start + walk->bias, end + walk->bias);
        return;
    }
    ptrdiff_t at = 0;
    for (int i = 0; i < RANGES && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0; i++) {
        struct built_function *function = builder_find(walk->builder, start + walk->bias);
        if (function)
            set_place(walk, function, die);
        else if (i == 0)
            add_unknown(walk, die, start + walk->bias, end + walk->bias);
    }
    walk->damaged |= at < 0;
}

static void visit_children(struct walk *walk, Dwarf_Die *parent, int depth);

/* Into a namespace, a Fortran module, or in deep walks a class, whose name belongs to what is in it. */
static void visit_scope(struct walk *walk, Dwarf_Die *die, int depth)
{
    const char *name = dwarf_diename(die);
    size_t before = strlen(walk->scopes), len = name ? strlen(name) : 0;
    if (len && before + len + 3 <= sizeof walk->scopes) {
        memcpy(walk->scopes + before, name, len);
        memcpy(walk->scopes + before + len, "::", 3);
    }
    visit_children(walk, die, depth + 1);
    walk->scopes[before] = 0;
}

static void die_visit(struct walk *walk, Dwarf_Die *die, int depth)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
        function_read(walk, die);
        if (walk->deep)
            visit_children(walk, die, depth + 1);
        break;
    case DW_TAG_namespace:
    case DW_TAG_module:
        visit_scope(walk, die, depth);
        break;
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        if (walk->deep)
            visit_scope(walk, die, depth);
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_inlined_subroutine:
        if (walk->deep)
            visit_children(walk, die, depth + 1);
        break;
    }
}

static void visit_children(struct walk *walk, Dwarf_Die *parent, int depth)
{
    Dwarf_Die die, next;
    if (depth > NESTING || !dwarf_haschildren(parent))
        return;
    int r = dwarf_child(parent, &die);
    while (r == 0) {
        die_visit(walk, &die, depth);
        r = dwarf_siblingof(&die, &next);
        if (r == 0 && dwarf_dieoffset(&next) <= dwarf_dieoffset(&die)) /* or it would never end */
            r = -1;
        die = next;
    }
    walk->damaged |= r < 0;
}

/* ---- units ---- */
static bool lacks_places(struct walk *walk, Dwarf_Die *unit)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    for (int i = 0; i < RANGES && (at = dwarf_ranges(unit, at, &base, &start, &end)) > 0; i++) {
        struct builder *builder = walk->builder;
        start += walk->bias;
        end += walk->bias;
        size_t low = COUNT_BEFORE(builder->sorted, k, builder->functions[k].address < start);
        for (; low < builder->sorted && builder->functions[low].address < end; low++)
            if (!builder->functions[low].die)
                return true;
    }
    return false;
}

/* Of as many as there is room for it is remembered where they would be. */
static void skeleton_count_missing(struct walk *walk, Dwarf_Die *skeleton)
{
    struct buf path = BUF_INIT;
    if (!walk->missing_count++)
        unit_put_missing(skeleton, walk->path, &walk->missing);
    unit_put_file(skeleton, &path);
    builder_debug_path(walk->builder, path.data ? path.data : "", "", "");
    buf_done(&path);
}

static void skeletons_say_missing(struct walk *walk)
{
    if (walk->missing_count > 1)
        builder_problem(walk->builder, "%s (and that of %zu others)", walk->missing.data, walk->missing_count - 1);
    else if (walk->missing_count)
        builder_problem(walk->builder, "%s", walk->missing.data);
    buf_done(&walk->missing);
}

static void visit_units(struct walk *walk, Dwarf *dwarf)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, content;
    uint8_t type;
    int r;
    while ((r = dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL)) == 0) {
        if (walk->deep && !lacks_places(walk, &die))
            continue;
        if (!unit_content(&die, &content)) {
            if (!walk->deep)
                skeleton_count_missing(walk, &die);
            continue;
        }
        int language = type == DW_UT_partial ? -1 : dwarf_srclang(&content);
        if ((type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial) ||
            language == DW_LANG_Mips_Assembler)
            continue;
        walk->scopes[0] = 0;
        walk->unit = die.cu;
        walk->content = content.cu;
        visit_children(walk, &content, 0);
        place_by_lines(walk, die.cu);
    }
    walk->damaged |= r < 0;
}

static bool walk_find_code(struct walk *walk, Elf *elf)
{
    size_t count = 0;
    if (!elf || elf_getshdrnum(elf, &count) < 0 || !(walk->code = calloc(count + 1, sizeof *walk->code)))
        return false;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && walk->code_count < count;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) && (header.sh_flags & SHF_EXECINSTR) && (header.sh_flags & SHF_ALLOC))
            walk->code[walk->code_count++] =
                (struct code_range){header.sh_addr + walk->bias, header.sh_addr + header.sh_size + walk->bias};
    }
    return true;
}

void build_dwarf(struct builder *builder, Dwarf *dwarf, uint64_t bias, const char *path)
{
    struct walk walk = {.builder = builder, .bias = bias, .path = path, .files = elf_files_new()};
    if (!walk.files || !walk_find_code(&walk, dwarf_getelf(dwarf))) {
        builder->failed = true;
    } else {
        visit_units(&walk, dwarf);
        builder_sort(builder);
        walk.deep = true;
        visit_units(&walk, dwarf);
        builder->flags |= INDEX_HAS_DWARF;
        builder_sort(builder);
    }
    skeletons_say_missing(&walk);
    if (walk.damaged)
        builder_problem(builder, "its debug information is damaged: some places are not known");
    free(walk.code);
    free(walk.lines);
    elf_files_free(walk.files);
}
