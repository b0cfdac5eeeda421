/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols/python, and for its tests: memory of another process, read in parts. */
#ifndef SCRY_SYMBOLS_PYTHON_MEMORY_H
#define SCRY_SYMBOLS_PYTHON_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

#endif
