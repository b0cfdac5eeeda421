/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the memory of processes (specification 8.1.2): blocks of bytes, `stride` apart. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/engine/call.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "service/omis/service.h"

/* Limits of one call, because the monitor serves nobody else meanwhile. A separate block costs a system call to read,
 * and a message to the tracer to write. */
enum { MEMORY_BYTES_LIMIT = 16 << 20, MEMORY_BLOCKS_LIMIT = 1 << 16 };

struct blocks {
    uint64_t addr, block, stride, count, total;
};

/* Checks addr, blocklength, stride and the number of bytes. Answers the call and returns false if they are wrong. */
static bool check_blocks(struct scry_call *call, struct blocks *blocks)
{
    uint64_t span;
    if (blocks->stride < blocks->block) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "stride (%llu) must not be smaller than blocklength (%llu)",
                  (unsigned long long)blocks->stride, (unsigned long long)blocks->block);
        return false;
    }
    if (__builtin_mul_overflow(blocks->block, blocks->count, &blocks->total) || blocks->total > MEMORY_BYTES_LIMIT) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "at most %d bytes can be transferred at once", MEMORY_BYTES_LIMIT);
        return false;
    }
    if (__builtin_mul_overflow(blocks->stride, blocks->count, &span) || blocks->addr + span < blocks->addr) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "the blocks reach beyond the end of the address space");
        return false;
    }
    if (blocks->stride == blocks->block) { /* one piece */
        blocks->block = blocks->stride = blocks->total;
        blocks->count = blocks->total != 0;
    }
    if (blocks->total && blocks->count > MEMORY_BLOCKS_LIMIT) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "at most %d separate blocks can be transferred at once",
                  MEMORY_BLOCKS_LIMIT);
        return false;
    }
    return true;
}

static void fail_memory(struct scry_call *call, struct process *process, const char *what, uint64_t addr, int code,
                        bool fatal)
{
    struct scry_object *object = &process->object;
    int flag = fatal ? OMIS_FATAL : 0;
    if (code == -EIO || code == -EFAULT)
        call_fail(call, object, OMIS_OS_ERROR | flag, "cannot %s address %#llx of process %d: not mapped, or protected",
                  what, (unsigned long long)addr, process->pid);
    else
        call_fail(call, object, status_of_errno(code) | flag, "cannot %s the memory of process %d: %s", what,
                  process->pid, strerrordesc_np(-code));
}

/* ---- reading ---- */

/* Reads all blocks of a process. *ret_at is where it failed. */
static int read_blocks(struct process *process, const struct blocks *blocks, char *bytes, uint64_t *ret_at)
{
    for (uint64_t i = 0; i < blocks->count; i++) {
        uint64_t addr = blocks->addr + i * blocks->stride, len = blocks->block;
        size_t done = 0;
        int code = proc_memory_read(process->pid, addr, bytes, len, &done);
        if (code < 0) {
            *ret_at = addr + done;
            return code;
        }
        tracing_hide_breaks(process, addr, bytes, len);
        bytes += len;
    }
    return 0;
}

static void print_bytes(struct buf *text, const char *bytes, size_t len)
{
    buf_putc(text, '[');
    char *to = buf_reserve(text, len * 4 + 2);
    char *at = to;
    for (size_t i = 0; to && i < len; i++) {
        unsigned byte = (unsigned char)bytes[i];
        if (i)
            *at++ = ',';
        if (byte >= 100)
            *at++ = (char)('0' + byte / 100);
        if (byte >= 10)
            *at++ = (char)('0' + byte / 10 % 10);
        *at++ = (char)('0' + byte % 10);
    }
    if (to)
        text->len += (size_t)(at - to);
    buf_putc(text, ']');
}

static void read_memory(struct scry_call *call, bool binary)
{
    struct blocks blocks = {call_unsigned(call, 1), call_unsigned(call, 2), call_unsigned(call, 3),
                            call_unsigned(call, 4), 0};
    if (!check_blocks(call, &blocks))
        return;
    char *bytes = malloc(blocks.total + 1);
    if (!bytes) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    struct buf text = BUF_INIT;
    for (size_t i = 0; i < call->object_count; i++) {
        struct process *process = call_process(call, i);
        uint64_t at = blocks.addr;
        int code = blocks.total ? read_blocks(process, &blocks, bytes, &at) : 0;
        if (code < 0) {
            fail_memory(call, process, "read", at, code, false);
            continue;
        }
        buf_clear(&text);
        if (binary)
            value_print_binary(&text, span_of(bytes, blocks.total));
        else
            print_bytes(&text, bytes, blocks.total);
        call_text(call, call->objects[i], &text);
    }
    buf_done(&text);
    free(bytes);
}

static void proc_read_memory(struct scry_call *call)
{
    read_memory(call, false);
}

static void proc_read_memory_bin(struct scry_call *call)
{
    read_memory(call, true);
}

/* ---- writing ---- */

/* The tracer writes to traced processes: it knows where its breakpoints are. */
static int write_piece(struct process *process, uint64_t addr, const char *bytes, size_t len)
{
    if (process->trace.seized)
        return tracing_write(process, addr, bytes, len);
    return proc_memory_write(process->pid, addr, bytes, len, NULL);
}

/* Writes all blocks, or restores what was there: one service on one object is a transaction (7.2.3). */
static void write_process(struct scry_call *call, struct process *process, const struct blocks *blocks,
                          const char *bytes, char *saved)
{
    uint64_t at = blocks->addr;
    int code = read_blocks(process, blocks, saved, &at);
    if (code < 0) {
        fail_memory(call, process, "write to", at, code, false);
        return;
    }
    uint64_t written = 0;
    for (; written < blocks->count && code == 0; written++) {
        at = blocks->addr + written * blocks->stride;
        code = write_piece(process, at, bytes + written * blocks->block, blocks->block);
    }
    if (code == 0) {
        call_ok(call, &process->object);
        return;
    }
    bool undone = true;
    for (uint64_t i = 0; i < written; i++)
        undone &=
            write_piece(process, blocks->addr + i * blocks->stride, saved + i * blocks->block, blocks->block) == 0 ||
            i + 1 == written; /* the failed block did not change; restore those before it */
    fail_memory(call, process, "write to", at, code, !undone);
}

static void write_memory(struct scry_call *call, const char *bytes, size_t len)
{
    struct blocks blocks = {call_unsigned(call, 1), call_unsigned(call, 2), call_unsigned(call, 3), 0, 0};
    if (len && (blocks.block == 0 || len % blocks.block != 0)) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "val has %zu bytes, which is no multiple of blocklength (%llu)",
                  len, (unsigned long long)blocks.block);
        return;
    }
    blocks.count = len ? len / blocks.block : 0;
    if (!check_blocks(call, &blocks))
        return;
    char *saved = malloc(len + 1);
    if (!saved) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < call->object_count; i++) {
        if (len)
            write_process(call, call_process(call, i), &blocks, bytes, saved);
        else
            call_ok(call, call->objects[i]);
    }
    free(saved);
}

static void proc_write_memory(struct scry_call *call)
{
    const struct value *list = &call->args[4];
    char *bytes = arena_alloc(call->arena, list->list.count + 1);
    if (!bytes) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < list->list.count; i++) {
        const struct value *item = &list->list.items[i];
        if (item->integer.negative || item->integer.bits > 255) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR, "val: element %zu is no byte (0 .. 255)", i + 1);
            return;
        }
        bytes[i] = (char)item->integer.bits;
    }
    write_memory(call, bytes, list->list.count);
}

static void proc_write_memory_bin(struct scry_call *call)
{
    write_memory(call, call->args[4].text.ptr, call->args[4].text.len);
}

const struct scry_service proc_memory_services[] = {
    {"proc_write_memory", SCRY_MANIPULATION,
     "token<p>* proc_list, integer addr, integer<bytes> blocklength, integer<bytes> stride, integer* val -> void",
     SCRY_REQUIRED | SCRY_MEMORY, proc_write_memory, "Write bytes into the memory of processes, in blocks."},
    {"proc_write_memory_bin", SCRY_MANIPULATION,
     "token<p>* proc_list, integer addr, integer<bytes> blocklength, integer<bytes> stride, binary val -> void",
     SCRY_OPTIONAL | SCRY_MEMORY, proc_write_memory_bin, "Write binary data into the memory of processes, in blocks."},
    {"proc_read_memory", SCRY_INFORMATION,
     "token<p>* proc_list, integer addr, integer<bytes> blocklength, integer<bytes> stride, integer count -> integer*",
     SCRY_REQUIRED | SCRY_MEMORY, proc_read_memory, "Read blocks of bytes from the memory of processes."},
    {"proc_read_memory_bin", SCRY_INFORMATION,
     "token<p>* proc_list, integer addr, integer<bytes> blocklength, integer<bytes> stride, integer count -> binary",
     SCRY_OPTIONAL | SCRY_MEMORY, proc_read_memory_bin, "Read blocks of the memory of processes as binary data."},
    SERVICE_END,
};
