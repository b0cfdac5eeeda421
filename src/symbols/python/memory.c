/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/memory.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/system/proc_file.h"

static int read_process(void *ctx, const struct python_part *parts, size_t count)
{
    const pid_t *pid = ctx;
    struct iovec here[PYTHON_PARTS], there[PYTHON_PARTS];
    size_t size = 0;
    if (count > PYTHON_PARTS)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        here[i] = (struct iovec){parts[i].bytes, parts[i].size};
        there[i] = (struct iovec){(void *)(uintptr_t)parts[i].address, parts[i].size}; /* NOLINT: over there */
        size += parts[i].size;
    }
    ssize_t got = process_vm_readv(*pid, here, count, there, count, 0);
    if (got < 0 && errno != EFAULT)
        return proc_errno(*pid, errno);
    return got == (ssize_t)size ? 0 : -EFAULT;
}

struct python_memory python_memory_of(const pid_t *pid)
{
    return (struct python_memory){read_process, (void *)pid};
}

int python_get(const struct python_memory *memory, uint64_t address, void *ret_bytes, size_t size)
{
    return memory->read(memory->ctx, &(struct python_part){address, ret_bytes, size}, 1);
}
