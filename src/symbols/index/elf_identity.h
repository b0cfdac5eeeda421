/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside symbols: which ELF file is this? Its headers and build-id, from the file or from a process that has it mapped,
 * read with plain code. 32-bit files are converted to the 64-bit form.
 */
#ifndef SCRY_SYMBOLS_INDEX_ELF_IDENTITY_H
#define SCRY_SYMBOLS_INDEX_ELF_IDENTITY_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "symbols/index/index.h"

enum { ELF_PHDRS = 128, ELF_BUILD_ID = 40 /* longer ones are cut */ };

struct elf_identity {
    Elf64_Ehdr header;
    Elf64_Phdr phdrs[ELF_PHDRS];
    size_t phdr_count;
    uint8_t build_id[ELF_BUILD_ID];
    size_t build_id_size; /* 0: has none */
};

/* -ENOEXEC: no ELF file; -EBADMSG: one that cannot be used. */
int elf_identity_file(struct elf_identity *ret_identity, int fd);
/* Of a process, by the address at which the beginning of the file is mapped. -EACCES: its memory may not be read (Yama
 * forbids it for any but descendants on many systems); -ESRCH: it has ended. */
int elf_identity_process(struct elf_identity *ret_identity, pid_t pid, uint64_t start);
/* What is added to its addresses where its beginning is mapped at `start`; false: it cannot be there. */
bool elf_identity_bias(const struct elf_identity *identity, uint64_t start, uint64_t *ret_bias);

/* The addresses that it spans, as linked; false: nothing is loaded of it. */
bool elf_identity_span(const struct elf_identity *identity, uint64_t *ret_low, uint64_t *ret_high);

/* The build-id in hexadecimal digits; "": it has none. */
void elf_identity_id(const struct elf_identity *identity, char ret_id[INDEX_KEY_SIZE]);
void elf_identity_key(const struct elf_identity *identity, int fd, const struct stat *st, char ret_key[INDEX_KEY_SIZE]);

#endif
