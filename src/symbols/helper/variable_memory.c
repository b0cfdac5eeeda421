/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the process whose variables are asked for, and programs that are run on it from outside. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "symbols/helper/variable_internal.h"

enum { SHOWN_LIMIT = 16384 };

static const struct capture_frame no_registers;

/* A program's reads have no context (capture_read_fn): one process at a time. */
static pid_t process;
static struct {
    uint64_t address;
    const char *bytes; /* NULL: the process is read */
    size_t size;
} copy;

void variable_read_process(pid_t pid)
{
    process = pid;
    copy.bytes = NULL;
}

void variable_read_copy(uint64_t address, const void *bytes, size_t size)
{
    copy.address = address;
    copy.bytes = bytes;
    copy.size = size;
}

bool variable_reads_copy(void)
{
    return copy.bytes != NULL;
}

int variable_read(void *dst, uint64_t address, size_t size)
{
    uint64_t at = address - copy.address;
    if (copy.bytes) {
        if (at >= copy.size || copy.size - at < size)
            return -1;
        memcpy(dst, copy.bytes + at, size);
        return 0;
    }
    struct iovec to = {dst, size}, from = {(void *)(uintptr_t)address, size};
    return process_vm_readv(process, &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -1;
}

int variable_write(uint64_t address, const void *bytes, size_t size)
{
    struct iovec from = {(void *)(uintptr_t)bytes, size}, to = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_writev(process, &from, 1, &to, 1, 0);
    return n < 0 ? -errno : (size_t)n == size ? 0 : -EFAULT;
}

static struct variable_module *module_at(struct variable_job *job, uint64_t address, Dwarf_Die *ret_function)
{
    for (size_t i = 0; i < job->module_count; i++) {
        struct capture_compiler *compiler = variable_compiler(job, &job->modules[i]);
        if (compiler && scopes_function(compiler, address - job->modules[i].bias, ret_function) &&
            scopes_entry(compiler, ret_function) == address - job->modules[i].bias)
            return &job->modules[i];
    }
    return NULL;
}

static bool name_address(void *ctx, uint64_t address, struct buf *out)
{
    Dwarf_Die function;
    if (!module_at(ctx, address, &function) || !die_name(&function))
        return false;
    buf_puts(out, die_name(&function));
    return true;
}

bool variable_show(struct variable_job *job, struct emitter *emitter, const struct variable_frame *frame,
                   struct buf *ret_text)
{
    const struct layout_style style = {.name_address = name_address, .ctx = job};
    uint8_t bytes[SHOWN_LIMIT];
    struct layout *layout;
    bool empty = emitter->minimum == 0;
    if (!emitter_finish(emitter) || layout_parse(&layout, emitter->text.data, NULL) < 0)
        return false;
    size_t size = capture_run(emitter->code.data, emitter->code.len, frame ? &frame->registers : &no_registers,
                              variable_read, bytes, sizeof bytes);
    if (size > 0 || empty)
        layout_format(layout, LAYOUT_RESULT, bytes, size, &style, ret_text);
    layout_free(layout);
    return size > 0 || empty;
}

bool variable_number(struct emitter *emitter, const struct variable_frame *frame, uint64_t *ret_number)
{
    return emitter_finish(emitter) &&
           capture_run(emitter->code.data, emitter->code.len, frame ? &frame->registers : &no_registers, variable_read,
                       ret_number, 8) == 8;
}
