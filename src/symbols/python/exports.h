/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols/python: what a mapped program or library exports (elf(5): DT_GNU_HASH), from its memory alone. */
#ifndef SCRY_SYMBOLS_PYTHON_EXPORTS_H
#define SCRY_SYMBOLS_PYTHON_EXPORTS_H

#include "symbols/python/memory.h"

struct exports {
    const struct python_memory *memory; /* borrowed */
    uint64_t bias, symbols, names, buckets, chains;
    uint32_t bucket_count, first;
};

/* `base`: where the file's first byte is mapped. 0, -ENOEXEC, or as reading memory. */
int exports_open(struct exports *ret_exports, const struct python_memory *memory, uint64_t base);
/* Address of a symbol that is defined there; 0: none. */
uint64_t exports_find(const struct exports *exports, const char *name);

#endif
