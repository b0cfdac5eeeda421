/* SPDX-License-Identifier: Apache-2.0 */
/* Names of source files, and lines of functions, by .debug_line (DWARF 5, section 6.2). */
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "symbols/index/index_build.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum {
    UNITS = 256,     /* tables kept at a time */
    FILES = 1 << 20, /* of one unit */
    FORMATS = 16,
    DWARFS = 4, /* the file's, and those that it shares parts with */
};

struct entry {
    const char *name; /* "": unknown */
    uint64_t directory;
    uint32_t path; /* of the builder; 0: not asked for yet */
};

struct unit {
    UT_hash_handle hh;
    Dwarf_CU *key;
    unsigned first; /* number of the first file: 0 in DWARF 5, else 1 */
    const char *directory;
    struct entry *directories, *files;
    size_t directory_count, file_count;
    struct program {
        const uint8_t *start, *end; /* NULL: cannot be run */
        const uint8_t *lengths;     /* of the standard opcodes */
        unsigned step, range, opcodes;
        int base;
    } program;
};

struct sections {
    Dwarf *dwarf;
    Elf_Data *line, *line_str, *str;
};

struct elf_files {
    struct unit *units;
    size_t unit_count;
    struct sections sections[DWARFS];
    size_t section_count;
};

/* ---- bytes ---- */
struct reader {
    const uint8_t *at, *end;
    bool wide, swapped, failed; /* 64-bit DWARF */
    unsigned version;
    const struct sections *sections;
};

static uint64_t reader_number(struct reader *reader, size_t size)
{
    uint64_t value = 0;
    if (reader->failed || (size_t)(reader->end - reader->at) < size) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < size && i < 8; i++)
        value |= (uint64_t)reader->at[i] << 8 * i;
    reader->at += size;
    return value;
}

static uint64_t reader_leb(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; !reader->failed; shift += 7) {
        uint64_t byte = reader_number(reader, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static const char *reader_string(struct reader *reader)
{
    const uint8_t *nul = reader->failed ? NULL : memchr(reader->at, 0, (size_t)(reader->end - reader->at));
    if (!nul) {
        reader->failed = true;
        return "";
    }
    const char *string = (const char *)reader->at;
    reader->at = nul + 1;
    return string;
}

static const char *string_of(const Elf_Data *data, uint64_t at)
{
    if (!data || !data->d_buf || at >= data->d_size || !memchr((const char *)data->d_buf + at, 0, data->d_size - at))
        return "";
    return (const char *)data->d_buf + at;
}

/* ---- tables ---- */
static bool entry_add(struct entry **entries, size_t *count, const char *name, uint64_t directory)
{
    if (*count >= FILES)
        return false;
    if (*count == 0 || (*count >= 16 && (*count & (*count - 1)) == 0)) {
        struct entry *grown = realloc(*entries, (*count ? *count * 2 : 16) * sizeof *grown);
        if (!grown)
            return false;
        *entries = grown;
    }
    (*entries)[(*count)++] = (struct entry){name, directory, 0};
    return true;
}

static void read_old_table(struct reader *reader, struct unit *unit)
{
    const char *name;
    unit->first = 1;
    while (*(name = reader_string(reader)))
        if (!entry_add(&unit->directories, &unit->directory_count, name, 0))
            return;
    while (*(name = reader_string(reader))) {
        uint64_t directory = reader_leb(reader);
        reader_leb(reader); /* time of change, size */
        reader_leb(reader);
        if (reader->failed || !entry_add(&unit->files, &unit->file_count, name, directory))
            return;
    }
}

static bool reader_form(struct reader *reader, uint64_t form, uint64_t *ret_number, const char **ret_string)
{
    *ret_number = 0;
    *ret_string = "";
    switch (form) {
    case DW_FORM_string:
        *ret_string = reader_string(reader);
        break;
    case DW_FORM_line_strp:
        *ret_string = string_of(reader->sections->line_str, reader_number(reader, reader->wide ? 8 : 4));
        break;
    case DW_FORM_strp:
        *ret_string = string_of(reader->sections->str, reader_number(reader, reader->wide ? 8 : 4));
        break;
    case DW_FORM_udata:
        *ret_number = reader_leb(reader);
        break;
    case DW_FORM_data1:
        *ret_number = reader_number(reader, 1);
        break;
    case DW_FORM_data2:
        *ret_number = reader_number(reader, 2);
        break;
    case DW_FORM_data4:
        *ret_number = reader_number(reader, 4);
        break;
    case DW_FORM_data8:
        *ret_number = reader_number(reader, 8);
        break;
    case DW_FORM_data16:
        reader_number(reader, 16);
        break;
    case DW_FORM_block:
        reader_number(reader, reader_leb(reader));
        break;
    default: /* strings by index are for split units, whose places are not looked for */
        return false;
    }
    return !reader->failed;
}

static bool read_new_table(struct reader *reader, struct entry **entries, size_t *ret_count)
{
    uint64_t formats[FORMATS][2], format_count = reader_number(reader, 1);
    if (format_count > FORMATS)
        return false;
    for (uint64_t i = 0; i < format_count; i++) {
        formats[i][0] = reader_leb(reader);
        formats[i][1] = reader_leb(reader);
    }
    uint64_t count = reader_leb(reader);
    if (reader->failed || count > FILES || (count && !format_count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        const char *name = "";
        uint64_t directory = 0;
        for (uint64_t j = 0; j < format_count; j++) {
            uint64_t number;
            const char *string;
            if (!reader_form(reader, formats[j][1], &number, &string))
                return false;
            if (formats[j][0] == DW_LNCT_path)
                name = string;
            else if (formats[j][0] == DW_LNCT_directory_index)
                directory = number;
        }
        if (!entry_add(entries, ret_count, name, directory))
            return false;
    }
    return true;
}

static void read_header(struct reader *reader, struct unit *unit)
{
    struct program program = {0};
    uint64_t length = reader_number(reader, 4);
    if (length == 0xffffffff) {
        reader->wide = true;
        length = reader_number(reader, 8);
    }
    if (reader->failed || length > (uint64_t)(reader->end - reader->at))
        return;
    reader->end = program.end = reader->at + length;
    reader->version = (unsigned)reader_number(reader, 2);
    if (reader->version < 2 || reader->version > 5)
        return;
    if (reader->version >= 5)
        reader_number(reader, 2); /* sizes of addresses and segments */
    length = reader_number(reader, reader->wide ? 8 : 4);
    if (reader->failed || length > (uint64_t)(reader->end - reader->at))
        return;
    reader->end = program.start = reader->at + length;
    program.step = (unsigned)reader_number(reader, 1);
    bool wide_words = reader->version >= 4 && reader_number(reader, 1) > 1; /* not of any machine of ours */
    reader_number(reader, 1);                                               /* default_is_stmt */
    program.base = (int)(reader_number(reader, 1) ^ 0x80) - 0x80;           /* signed */
    program.range = (unsigned)reader_number(reader, 1);
    program.opcodes = (unsigned)reader_number(reader, 1);
    program.lengths = reader->at;
    reader_number(reader, program.opcodes ? program.opcodes - 1 : 0);
    if (reader->failed)
        return;
    if (program.range && program.opcodes >= 10 && !wide_words)
        unit->program = program;
    if (reader->version < 5)
        read_old_table(reader, unit);
    else if (read_new_table(reader, &unit->directories, &unit->directory_count))
        read_new_table(reader, &unit->files, &unit->file_count);
}

/* ---- units ---- */
static const struct sections *sections_of(struct elf_files *files, Dwarf *dwarf)
{
    size_t names = 0, i;
    for (i = 0; i < files->section_count; i++)
        if (files->sections[i].dwarf == dwarf)
            return &files->sections[i];
    Elf *elf = dwarf_getelf(dwarf);
    if (i == DWARFS || !elf || elf_getshdrstrndx(elf, &names) < 0)
        return NULL;
    struct sections *sections = &files->sections[files->section_count++];
    *sections = (struct sections){.dwarf = dwarf};
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        /* those that libdw would take are decompressed by now */
        if (!name || header.sh_type == SHT_NOBITS || (header.sh_flags & SHF_COMPRESSED))
            continue;
        name += strncmp(name, ".z", 2) == 0 ? 2 : 1;
        if (strcmp(name, "debug_line") == 0)
            sections->line = elf_getdata(scn, NULL);
        else if (strcmp(name, "debug_line_str") == 0)
            sections->line_str = elf_getdata(scn, NULL);
        else if (strcmp(name, "debug_str") == 0)
            sections->str = elf_getdata(scn, NULL);
    }
    return sections;
}

static void units_forget(struct elf_files *files)
{
    HASH_FREE_ALL(files->units, free(each->directories); free(each->files));
    files->unit_count = 0;
}

struct elf_files *elf_files_new(void)
{
    return calloc(1, sizeof(struct elf_files));
}

void elf_files_free(struct elf_files *files)
{
    if (!files)
        return;
    units_forget(files);
    free(files);
}

static struct unit *read_unit(struct elf_files *files, Dwarf_CU *key)
{
    Dwarf_Die die;
    Dwarf_Attribute attr;
    Dwarf_Word offset;
    if (files->unit_count >= UNITS)
        units_forget(files);
    struct unit *unit = calloc(1, sizeof *unit);
    if (!unit)
        return NULL;
    unit->key = key;
    HASH_ADD_PTR(files->units, key, unit);
    files->unit_count++;
    unit->directory = "";
    if (!dwarf_cu_die(key, &die, NULL, NULL, NULL, NULL, NULL, NULL))
        return unit;
    const char *directory = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &attr));
    unit->directory = directory ? directory : "";
    const struct sections *sections = sections_of(files, dwarf_cu_getdwarf(key));
    if (!sections || !sections->line || !sections->line->d_buf || !dwarf_attr(&die, DW_AT_stmt_list, &attr) ||
        dwarf_formudata(&attr, &offset) != 0 || offset >= sections->line->d_size)
        return unit;
    const uint8_t *bytes = sections->line->d_buf;
    struct reader reader = {.at = bytes + offset, .end = bytes + sections->line->d_size, .sections = sections};
    read_header(&reader, unit);
    return unit;
}

/* DWARF before 5: directory 0 is the compiler's own; since 5 it stands in the table. */
static uint32_t entry_path(struct builder *builder, const struct unit *unit, const struct entry *file)
{
    const char *directory = "", *base = unit->directory;
    if (!*file->name)
        return 0;
    if (file->directory >= unit->first && file->directory - unit->first < unit->directory_count)
        directory = unit->directories[file->directory - unit->first].name;
    struct buf path = BUF_INIT;
    if (file->name[0] != '/') {
        if (directory[0] != '/' && *base) {
            buf_puts(&path, base);
            buf_putc(&path, '/');
        }
        if (*directory) {
            buf_puts(&path, directory);
            buf_putc(&path, '/');
        }
    }
    buf_puts(&path, file->name);
    uint32_t at = path.failed ? 0 : builder_intern_path(builder, path.data);
    buf_done(&path);
    return at;
}

static struct unit *unit_of(struct elf_files *files, Dwarf_CU *key)
{
    struct unit *unit;
    HASH_FIND_PTR(files->units, &key, unit);
    return unit ? unit : read_unit(files, key);
}

uint32_t elf_files_find(struct elf_files *files, struct builder *builder, Dwarf_CU *key, uint64_t number)
{
    struct unit *unit = unit_of(files, key);
    if (!unit || number < unit->first || number - unit->first >= unit->file_count)
        return 0;
    struct entry *file = &unit->files[number - unit->first];
    if (!file->path)
        file->path = entry_path(builder, unit, file);
    return file->path;
}

/* ---- lines ---- */
struct row {
    uint64_t address, file;
    int64_t line;
};

static int compare_lines(const void *left, const void *right)
{
    const struct elf_line *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* The first row at a wanted address says where the function begins. */
static void lines_take_row(const struct row *row, struct elf_line *lines, size_t count)
{
    size_t low = COUNT_BEFORE(count, i, lines[i].address < row->address);
    for (; low < count && lines[low].address == row->address; low++)
        if (!lines[low].line && row->line > 0 && row->line <= UINT32_MAX && row->file <= UINT32_MAX) {
            lines[low].line = (uint32_t)row->line;
            lines[low].file = (uint32_t)row->file;
        }
}

static int64_t reader_signed_leb(struct reader *reader)
{
    uint64_t value = 0, byte = 0;
    unsigned shift = 0;
    do {
        byte = reader_number(reader, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && !reader->failed);
    return (int64_t)(shift < 64 && (byte & 0x40) ? value | ~(uint64_t)0 << shift : value);
}

static void run_extended(struct reader *reader, struct row *row)
{
    uint64_t length = reader_leb(reader), opcode = reader_number(reader, length ? 1 : 0);
    if (!length)
        return;
    if (opcode == DW_LNE_end_sequence)
        *row = (struct row){0, 1, 1};
    if (opcode == DW_LNE_set_address)
        row->address = reader_number(reader, length - 1);
    else
        reader_number(reader, length - 1);
}

/* Returns whether a row is complete. */
static bool run_standard(struct reader *reader, const struct program *program, uint64_t opcode, struct row *row)
{
    switch (opcode) {
    case DW_LNS_copy:
        return true;
    case DW_LNS_advance_pc:
        row->address += reader_leb(reader) * program->step;
        break;
    case DW_LNS_advance_line:
        row->line = (int64_t)((uint64_t)row->line + (uint64_t)reader_signed_leb(reader));
        break;
    case DW_LNS_set_file:
        row->file = reader_leb(reader);
        break;
    case DW_LNS_const_add_pc:
        row->address += (255 - program->opcodes) / program->range * program->step;
        break;
    case DW_LNS_fixed_advance_pc:
        row->address += reader_number(reader, 2);
        break;
    default:
        for (unsigned i = program->lengths[opcode - 1]; i > 0; i--)
            reader_leb(reader);
    }
    return false;
}

static void run_program(const struct program *program, struct elf_line *lines, size_t count)
{
    struct reader reader = {.at = program->start, .end = program->end};
    struct row row = {0, 1, 1};
    while (!reader.failed && reader.at < reader.end) {
        uint64_t opcode = reader_number(&reader, 1);
        bool complete = true;
        if (opcode >= program->opcodes) {
            unsigned special = (unsigned)opcode - program->opcodes;
            row.address += special / program->range * program->step;
            row.line = (int64_t)((uint64_t)row.line + (uint64_t)((int)(special % program->range) + program->base));
        } else if (opcode) {
            complete = run_standard(&reader, program, opcode, &row);
        } else {
            run_extended(&reader, &row);
            complete = false;
        }
        if (complete)
            lines_take_row(&row, lines, count);
    }
}

void elf_files_lines(struct elf_files *files, struct builder *builder, Dwarf_CU *key, struct elf_line *lines,
                     size_t count)
{
    struct unit *unit = count ? unit_of(files, key) : NULL;
    if (!unit || !unit->program.start)
        return;
    qsort(lines, count, sizeof *lines, compare_lines);
    run_program(&unit->program, lines, count);
    for (size_t i = 0; i < count; i++)
        lines[i].file = lines[i].line ? elf_files_find(files, builder, key, lines[i].file) : 0;
}
