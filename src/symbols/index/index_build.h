/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_INDEX_INDEX_BUILD_H
#define SCRY_SYMBOLS_INDEX_INDEX_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "symbols/index/index.h"
#include "symbols/index/index_format.h"

/*
 * Inside symbols: building the index of an ELF file, from its symbol tables first and then its DWARF, as far as they
 * are there and can be read (elfutils). Linked into the helper only. What cannot be read is left out, and the index's
 * problem says so; only a file that is no ELF file at all is an error. One thread.
 */

/* The whole index file as bytes in *image, and its key. -ENOEXEC, -ENOMEM, -E2BIG, -errno of opening. */
int index_build(const char *elf_path, struct buf *image, char ret_key[INDEX_KEY_SIZE], struct err *err);

/* Puts an image into the cache; also throws out what was not used for long when there is much. 0 or -errno. */
int index_store(const struct buf *image, const char *key, struct err *err);
/* Waits until a stored one is on the disk, and notes that in it; before, it is of no use after a crash of the machine.
 */
void index_settle(const char *key);

/* ---- what is being collected ---- */
struct built_function {
    uint64_t address, size, die;
    const char *linkage;  /* borrowed from elfutils or of `texts`; "": none */
    const char *die_name; /* with scopes; NULL: none */
    uint32_t file, line;  /* file: in strings */
    bool global, in_symtab;
};

struct built_alias {
    uint64_t address;
    const char *name;
};

struct interned;

struct builder {
    unsigned flags;
    struct built_function *functions; /* by address, each once, when the symbol tables are read */
    size_t count, room;
    size_t sorted; /* the first ones are; found ones behind */
    struct built_alias *aliases;
    size_t alias_count, alias_room;
    struct buf strings; /* of the index */
    struct interned *interned, *paths;
    struct text *texts;
    struct buf problems;
    char debug_paths[INDEX_DEBUG_PATHS][4096];
    uint64_t debug_state[INDEX_DEBUG_PATHS];
    bool failed; /* out of memory */
};
struct built_function *builder_add(struct builder *builder); /* NULL: out of memory */
/* The same of a path, made free of "." and ".." first. */
uint32_t builder_intern_path(struct builder *builder, const char *path);
/* Takes out "/./", "//" and "/x/..", by the text alone: to ask the file system could wait for a dead server. */
void path_clean(char *path);
/* A copy that lives as long as the builder. */
const char *builder_text(struct builder *builder, const char *text, size_t len);
/* Each problem is reported once. */
void builder_problem(struct builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where debug information would lie that is not there (the parts of a path): if it comes, the index is built again. */
void builder_debug_path(struct builder *builder, const char *directory, const char *middle, const char *name);
/* Among the sorted ones; NULL: none begins there. */
struct built_function *builder_find(struct builder *builder, uint64_t address);
/* Sorts all, joins those at one address. */
void builder_sort(struct builder *builder);

/* ---- the parts of the building that elfutils is needed for ---- */
struct Dwarf;
struct Dwarf_CU;
struct Dwfl_Module;
/* Functions of .symtab, .dynsym and .gnu_debugdata; flags. */
void build_symbols(struct builder *builder, struct Dwfl_Module *module);
/* Places in the source. path: of the file with the symbols. */
void build_dwarf(struct builder *builder, struct Dwarf *dwarf, uint64_t bias, const char *path);

/* ---- names ---- */
/* Of C++ (Itanium ABI) demangled, of others as they are. name: without parameters and result; full: with parameters.
 * Buffers are overwritten. */
void readable_name(const char *linkage, struct buf *ret_name, struct buf *ret_full);
/* Takes a demangled function apart, in place of a demangler's own knowledge; for tests. */
void split_demangled(const char *demangled, struct buf *ret_name, struct buf *ret_full);

/* ---- names of source files ---- */
/*
 * By the headers of .debug_line (DWARF 2 to 5, section 6.2.4), without
 * decoding the line programs behind them as elfutils does, which takes ten times as long as all the rest.
 */

struct elf_files;

struct elf_files *elf_files_new(void); /* NULL: out of memory */
void elf_files_free(struct elf_files *files);
/* The file (a string of the builder's) that a unit's DW_AT_decl_file number means; 0: not known. */
uint32_t elf_files_find(struct elf_files *files, struct builder *builder, struct Dwarf_CU *unit, uint64_t number);

struct elf_line {
    uint64_t address;    /* wanted */
    size_t function;     /* the caller's */
    uint32_t file, line; /* 0: not known */
};
/* Looks for lines of a unit that begin at these addresses; sorts them by address. */
void elf_files_lines(struct elf_files *files, struct builder *builder, struct Dwarf_CU *unit, struct elf_line *lines,
                     size_t count);

#endif
