/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_INDEX_CFI_H
#define SCRY_SYMBOLS_INDEX_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "symbols/index/lines.h"

/*
 * The call frame information of one ELF file (.eh_frame, else .debug_frame): for an address, where the caller's registers
 * are. Elfutils reads it; what it says of an address is kept, so that a second look costs some 50 ns. For stacks that are
 * looked at again and again; lines_unwind is for single ones. One thread at a time.
 */
struct cfi;

/* Of an open file, which it closes; -1: the vdso, that of this process. NULL: it is no ELF file, or nothing in it is executed,
 * or there is no memory. A file without such information is fine: nothing is known of its frames then. */
struct cfi *cfi_open(int fd);
void cfi_free(struct cfi *cfi); /* NULL is fine */

/* The address of what lies at this offset of the file. false: it is not executed. */
bool cfi_address(const struct cfi *cfi, uint64_t offset, uint64_t *ret_address);

/* Reads a word of the thread's stack. false: it cannot be read. */
typedef bool cfi_read_fn(void *ctx, uint64_t address, uint64_t *ret_word);

enum cfi_step {
    CFI_CALLER,    /* the registers are the caller's now */
    CFI_OUTERMOST, /* nobody called it */
    CFI_UNKNOWN,   /* there is no information, or it asks for what is not known */
};

/* From a frame to its caller. address: of the instruction, in the file; of a return address that minus 1. bias: what is
 * added to the file's addresses in memory. *ret_interrupted: the caller's program counter is where a signal interrupted it,
 * and no return address. */
enum cfi_step cfi_step(struct cfi *cfi, uint64_t address, uint64_t bias, struct lines_registers *inout_registers,
                       cfi_read_fn *read, void *ctx, bool *ret_interrupted);

#endif
