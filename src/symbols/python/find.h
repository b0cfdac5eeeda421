/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_PYTHON_FIND_H
#define SCRY_SYMBOLS_PYTHON_FIND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Inside symbols/python, and for its tests: memory of another process, read in parts. */

struct python_part {
    uint64_t address;
    void *bytes;
    size_t size;
};

enum { PYTHON_PARTS = 64 }; /* of one read */

struct python_memory {
    /* All parts, or -EFAULT: not all can be read; -ESRCH, -EACCES. */
    int (*read)(void *ctx, const struct python_part *parts, size_t count);
    void *ctx;
};

/* That of a process; *pid is borrowed. */
struct python_memory python_memory_of(const pid_t *pid);

int python_get(const struct python_memory *memory, uint64_t address, void *ret_bytes, size_t size);

/* Inside symbols/python: what a mapped program or library exports (elf(5): DT_GNU_HASH), from its memory alone. */

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
