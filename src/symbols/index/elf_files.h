/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_INDEX_ELF_FILES_H
#define SCRY_SYMBOLS_INDEX_ELF_FILES_H

#include "symbols/index/index_build.h"

#include <elfutils/libdw.h>
#include <stdint.h>

/*
 * Inside symbols: the names of source files by the headers of .debug_line (DWARF 2 to 5, section 6.2.4), without
 * decoding the line programs behind them as elfutils does, which takes ten times as long as all the rest.
 */

struct elf_files;

struct elf_files *elf_files_new(void); /* NULL: out of memory */
void elf_files_free(struct elf_files *files);
/* The file (a string of the builder's) that a unit's DW_AT_decl_file number means; 0: not known. */
uint32_t elf_files_find(struct elf_files *files, struct builder *builder, Dwarf_CU *unit, uint64_t number);

struct elf_line {
    uint64_t address;    /* wanted */
    size_t function;     /* the caller's */
    uint32_t file, line; /* 0: not known */
};
/* Looks for lines of a unit that begin at these addresses; sorts them by address. */
void elf_files_lines(struct elf_files *files, struct builder *builder, Dwarf_CU *unit, struct elf_line *lines,
                     size_t count);

#endif
