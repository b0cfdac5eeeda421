/* SPDX-License-Identifier: Apache-2.0 */

#include "lang/value.h"
#include "lang/results.h"
#include "monitor/engine/event.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "probe/switches.h"
#include "service/omis/service.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Reading and writing the memory of processes (specification 8.1.2): blocks of bytes, `stride` apart. */

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

enum {
    PROC_INFO_BITS = 25,
    PROC_INFO_PRIVATE = 1 << 1 | 1 << 4 | 1 << 5, /* arguments and environment */
};

bool priority_check(struct scry_call *call)
{
    return call_check_range(call, 1, -20, 19);
}

void priority_set(struct scry_call *call, struct scry_object *object, pid_t pid, pid_t tid)
{
    int code = proc_set_nice(pid, tid, (int)call_integer(call, 1));
    if (code == -EACCES || code == -EPERM)
        call_fail(call, object, OMIS_NO_PERMISSION,
                  "only a privileged monitor may lower the nice value (raise the priority) again");
    else
        call_done(call, object, code, NULL);
}

/* The members of proc_get_info: one row each, in the order of their bits. */

/* What the members need from /proc. Each file is read at most once. */
enum { NEED_STAT = 1, NEED_STATUS = 2, NEED_IO = 4, NEED_SWITCHES = 8 };

struct info {
    struct process *process;
    struct proc_stat stat;
    struct proc_status status;
    struct proc_io io;
    bool io_known; /* the kernel shows it to the owner and root only */
    uint64_t voluntary, involuntary;
};

/* The programming library's name for a process: its MPI rank if its environment has one. A process without such a
 * library has only its pid. */
static long global_id(const struct info *info)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    struct buf env = BUF_INIT;
    long id = info->process->pid;
    if (proc_environ(info->process->pid, &env) == 0)
        for (size_t at = 0; at < env.len; at += strnlen(env.data + at, env.len - at) + 1)
            for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
                if (strncmp(env.data + at, ranks[i], strlen(ranks[i])) == 0) {
                    id = strtol(env.data + at + strlen(ranks[i]), NULL, 10);
                    at = env.len;
                    break;
                }
    buf_done(&env);
    return id;
}

static void put_strings_of(const struct info *info, int (*read)(pid_t pid, struct buf *ret), struct buf *out)
{
    struct buf bytes = BUF_INIT;
    bool known = read(info->process->pid, &bytes) == 0;
    put_strings(out, span_of(bytes.data ? bytes.data : "", known ? bytes.len : 0), 0);
    buf_done(&bytes);
}

static void put_token(struct buf *out, const struct scry_object *object)
{
    PUT(out, value_token(span_str(object ? object->token : TOKEN_UNDEFINED)));
}

/* Message queues exist where a message passing library is watched: of MPI processes. */
static const struct scry_object *queue_of(const struct info *info)
{
    struct message_queue *queue = message_has_queue(info->process) ? message_queue_of(info->process) : NULL;
    return queue ? &queue->object : NULL;
}

static const struct scry_object *parent_of(const struct info *info)
{
    struct process *parent =
        info->stat.ppid > 0 ? process_get(info->process->object.monitor, info->stat.ppid, NULL) : NULL;
    return parent ? &parent->object : NULL;
}

static int state_of(const struct info *info)
{
    struct proc_stat whole = info->stat;
    whole.state = proc_process_state(&info->stat);
    return info->process->threads && info->process->all_stopped ? PROC_STOPPED : proc_state_of(&whole);
}

/* Blocks of 512 bytes that came from or went to storage, as getrusage counts inputs and outputs. */
static int64_t blocks_of(const struct info *info, uint64_t bytes)
{
    enum { IO_BLOCK = 512 };
    return info->io_known ? (int64_t)(bytes / IO_BLOCK) : -1;
}

static const unsigned char needs_of[PROC_INFO_BITS] = {
    [2] = NEED_STATUS, [3] = NEED_STATUS, [6] = NEED_STAT,      [10] = NEED_STAT,    [11] = NEED_STAT, [12] = NEED_STAT,
    [13] = NEED_STAT,  [14] = NEED_STAT,  [15] = NEED_STAT,     [16] = NEED_STATUS,  [18] = NEED_STAT, [19] = NEED_STAT,
    [21] = NEED_IO,    [22] = NEED_IO,    [23] = NEED_SWITCHES, [24] = NEED_SWITCHES};

static void put_member(const struct info *info, int bit, struct buf *out)
{
    const struct proc_stat *stat = &info->stat;
    switch (bit) {
    case 0:
        PUT(out, global_id(info));
        break;
    case 1:
    case 4: /* user_argv: nothing between the user and the program changes it */
        put_strings_of(info, proc_cmdline, out);
        break;
    case 2:
        PUT(out, info->status.uid);
        break;
    case 3:
        PUT(out, info->status.gid);
        break;
    case 5:
        put_strings_of(info, proc_environ, out);
        break;
    case 6:
        put_token(out, parent_of(info));
        break;
    case 7:
        put_token(out, queue_of(info));
        break;
    case 8:
        put_token(out, &info->process->object.monitor->node->object);
        break;
    case 9:
        PUT(out, info->process->pid);
        break;
    case 10:
        PUT(out, state_of(info));
        break;
    case 11:
        PUT(out, (double)(stat->user_ns + stat->system_ns) / 1e9);
        break;
    case 12:
        PUT(out, stat->nice);
        break;
    case 13:
        PUT(out, (double)stat->system_ns / 1e9);
        break;
    case 14:
        PUT(out, stat->memory_bytes);
        break;
    case 15:
        PUT(out, stat->resident_bytes);
        break;
    case 16:
        PUT(out, info->status.peak_resident_bytes);
        break;
    case 17: /* since scry attached; sampled once a second */
        process_sample(info->process);
        PUT(out, (uint64_t)info->process->resident_byte_seconds);
        break;
    case 18:
        PUT(out, stat->minor_faults);
        break;
    case 19:
        PUT(out, stat->major_faults);
        break;
    case 20: /* Linux swaps pages, never whole processes, and does not count */
        PUT(out, -1);
        break;
    case 21:
        PUT(out, blocks_of(info, info->io.read_bytes));
        break;
    case 22:
        PUT(out, blocks_of(info, info->io.written_bytes));
        break;
    case 23:
        PUT(out, info->voluntary);
        break;
    default:
        PUT(out, info->involuntary);
    }
}

static int processes_gather(struct info *info, int needs)
{
    pid_t pid = info->process->pid;
    int code = 0;
    if (needs & NEED_STAT)
        code = proc_stat_read(pid, 0, &info->stat);
    if (code == 0 && (needs & NEED_STATUS))
        code = proc_status_read(pid, 0, &info->status);
    if (code == 0 && (needs & NEED_IO))
        info->io_known = proc_io_read(pid, &info->io) == 0;
    if (code == 0 && (needs & NEED_SWITCHES))
        code = proc_switches(pid, &info->voluntary, &info->involuntary);
    return code;
}

/* Appends the members that flags select, comma-separated. 0 or -errno (-ESRCH: it is gone). */
static int proc_info_print(struct process *process, uint64_t flags, struct buf *out)
{
    struct info info = {.process = process};
    int needs = 0;
    for (int bit = 0; bit < PROC_INFO_BITS; bit++)
        if (flags >> bit & 1)
            needs |= needs_of[bit];
    int code = processes_gather(&info, needs);
    if (code < 0)
        return code;
    for (int bit = 0; bit < PROC_INFO_BITS; bit++)
        if (flags >> bit & 1)
            put_member(&info, bit, out);
    return 0;
}

/* Services that create, attach and manipulate processes (specification 8.1.2). */

/* ---- creating and attaching ---- */

/* A list of strings as a NULL-terminated vector, `first` before it if not NULL. NULL: failed and answered. */
static const char **string_vector(struct scry_call *call, size_t index, const char *first)
{
    const struct value *list = &call->args[index];
    const char **vector = arena_alloc(call->arena, (list->list.count + 2) * sizeof *vector);
    size_t count = 0;
    if (vector && first)
        vector[count++] = first;
    for (size_t i = 0; vector && i < list->list.count; i++) {
        struct span text = list->list.items[i].text;
        if (text.len && memchr(text.ptr, 0, text.len)) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%.*s: a NUL byte cannot be part of a string here",
                      SPAN_ARG(call->service->signature.params[index].name));
            return NULL;
        }
        vector[count] = arena_dup(call->arena, text.ptr, text.len);
        if (!vector[count++])
            vector = NULL;
    }
    if (!vector) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return NULL;
    }
    vector[count] = NULL;
    return vector;
}

static void answer_token(struct scry_call *call, struct scry_object *of, const struct scry_object *object)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, object->token);
    call_text(call, of, &text);
    buf_done(&text);
}

/* The new process is stopped: every thread counts as stopped by this tool. */
static int adopt_stopped(struct scry_call *call, struct process *process)
{
    int code = process_refresh(process, 0);
    for (struct thread *thread = process->threads; thread && code == 0; thread = thread->hh.next) {
        struct thread_claim *claim = thread_claim(thread, call->tool, true);
        if (!claim)
            code = -ENOMEM;
        else
            claim->stopped = thread->stopped = true;
    }
    process->all_stopped = true;
    return code;
}

/* Starts the program and attaches to it; on failure nothing is left of it. */
static int create_one(struct scry_call *call, const struct tracer_spawn *spawn, struct process **ret_process,
                      struct err *err)
{
    pid_t pid;
    int code = tracing_need_tracer(call->monitor, err);
    if (code == 0)
        code = tracer_spawn(call->monitor->tracer, spawn, &pid, err);
    if (code < 0)
        return code;
    struct process *process = process_get(call->monitor, pid, err);
    code = process ? 0 : -ESRCH;
    if (process) {
        process->trace.seized = true;
        code = adopt_stopped(call, process);
        if (code == 0)
            code = process_attach(call->session, process, err);
        *ret_process = process;
    }
    if (code < 0) { /* it has not executed an instruction: nothing is lost */
        kill(pid, SIGKILL);
        tracer_release(call->monitor->tracer, pid);
        if (process)
            process_terminated(process);
    }
    return code;
}

static void proc_create(struct scry_call *call)
{
    const char *path = call_string(call, 1);
    const char **argv = path ? string_vector(call, 2, path) : NULL;
    const char **envp = argv ? string_vector(call, 3, NULL) : NULL;
    const char **io = envp ? string_vector(call, 4, NULL) : NULL;
    if (!io)
        return;
    if (call->args[4].list.count > 3) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR,
                  "io: at most three streams (standard input, output, error) can be redirected");
        return;
    }
    struct tracer_spawn spawn = {.path = path, .argv = argv, .envp = call->args[3].list.count ? envp : NULL};
    for (size_t i = 0; i < call->args[4].list.count; i++)
        spawn.io[i] = io[i];
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct process *process;
        int code = create_one(call, &spawn, &process, &err);
        if (code < 0)
            call_fail_errno(call, call->objects[i], code, &err);
        else
            answer_token(call, call->objects[i], &process->object);
    }
}

static void attach_one(struct scry_call *call, struct scry_object *answer_for, struct process *process,
                       bool answer_with_token)
{
    struct err err = {0};
    int code = process_attach(call->session, process, &err);
    if (code < 0)
        call_fail_errno(call, answer_for, code, &err);
    else if (answer_with_token)
        answer_token(call, answer_for, &process->object);
    else
        call_ok(call, answer_for);
}

static void proc_attach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        call->tool->node_attached = true; /* "may include attaching to new nodes" */
        attach_one(call, call->objects[i], call_process(call, i), false);
    }
}

static bool same_file(const char *wanted, pid_t pid)
{
    char exe[PATH_MAX], real[PATH_MAX];
    if (proc_exe(pid, exe, sizeof exe) < 0)
        return true; /* we may not look at it: the kernel will refuse what matters */
    return strcmp(exe, wanted) == 0 || (realpath(wanted, real) && strcmp(exe, real) == 0);
}

static void proc_attach3(struct scry_call *call)
{
    const char *exec = call_string(call, 2);
    if (!exec || !call_check_range(call, 1, 1, INT32_MAX))
        return;
    pid_t pid = (pid_t)call_integer(call, 1);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        Omis_status confined;
        struct process *process = process_get(call->monitor, pid, &err);
        if (!process)
            call_fail(call, call->objects[i], OMIS_UNKNOWN_OBJECT, "%s", err.text);
        else if ((confined = confine_process(call->tool, pid, &err)) != OMIS_OK)
            call_fail(call, call->objects[i], confined, "%s", err.text);
        else if (*exec && !same_file(exec, pid))
            call_fail(call, call->objects[i], OMIS_PARAMETER_ERROR, "exec: process %d does not run %s", pid, exec);
        else
            attach_one(call, call->objects[i], process, true);
    }
}

static void proc_detach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        process_detach(call->tool, call_process(call, i));
        call_ok(call, call->objects[i]);
    }
}

/* ---- manipulation ---- */

static int send_signal(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    return proc_signal(call_process(call, index)->pidfd, (int)call_integer(call, 1));
}

static void proc_send_signal(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, SIGRTMAX))
        call_each(call, send_signal);
}

static void proc_set_priority(struct scry_call *call)
{
    if (!priority_check(call))
        return;
    for (size_t i = 0; i < call->object_count; i++)
        priority_set(call, call->objects[i], call_process(call, i)->pid, 0);
}

/* ---- information ---- */

static int get_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    return proc_info_print(call_process(call, index), call_unsigned(call, 1), text);
}

static void proc_get_info(struct scry_call *call)
{
    struct err err;
    Omis_status confined = OMIS_OK;
    if (!call_check_range(call, 1, 0, (1 << PROC_INFO_BITS) - 1))
        return;
    if (call_unsigned(call, 1) & PROC_INFO_PRIVATE) /* where many keep secrets; records have them without */
        confined = confine_right(call->tool, RIGHT_MEMORY, "flags: arguments and environment of processes", &err);
    if (confined != OMIS_OK)
        call_fail(call, NULL, confined, "%s", err.text);
    else
        call_each(call, get_info);
}

static int get_loader_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct proc_module *modules = NULL;
    size_t count = 0;
    int code = proc_modules(call_process(call, index)->pid, &modules, &count);
    PUT(text, count);
    put_list(text);
    for (size_t i = 0; i < count; i++) {
        const struct proc_module *m = &modules[i];
        PUT(text, m->path, "", m->code_start, m->code_len, m->data_start, m->data_len, m->bss_start, m->bss_len);
    }
    put_end(text);
    proc_modules_free(modules, count);
    return code;
}

static void proc_get_loader_info(struct scry_call *call)
{
    call_each(call, get_loader_info);
}

/* ---- what Linux cannot do by itself ---- */

static const char *no_checkpoint(void)
{
    return "checkpoints need CRIU, which this version of scry does not drive";
}

static const char *no_migration(void)
{
    return "processes cannot be moved: this monitor knows only its own node";
}

const struct scry_service proc_services[] = {
    {"proc_create", SCRY_MANIPULATION,
     "token<n>* node_list, string exec, string* argv, string* envp, string* io -> token", SCRY_OPTIONAL | SCRY_LOCAL,
     proc_create, "Start a program, stopped, on each node, and attach to it."},
    {"proc_attach", SCRY_MANIPULATION, "token<p>* proc_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, proc_attach,
     "Attach to processes known by their tokens."},
    {"proc_attach3", SCRY_MANIPULATION, "token<n>* node_list, integer pid, string exec -> token",
     SCRY_OPTIONAL | SCRY_OBSERVE, proc_attach3, "Attach to a process by its pid; exec may be \"\"."},
    {"proc_detach", SCRY_MANIPULATION, "token<p>* proc_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, proc_detach,
     "Detach from processes."},
    {"proc_send_signal", SCRY_MANIPULATION, "token<p>* proc_list, integer sig -> void", SCRY_OPTIONAL, proc_send_signal,
     "Send a signal to each process."},
    {"proc_set_priority", SCRY_MANIPULATION, "token<p>* proc_list, integer val -> void", SCRY_OPTIONAL,
     proc_set_priority, "Set the nice value (-20 .. 19) of each process."},
    {"proc_migrate", SCRY_MANIPULATION, "token<p>* proc_list, token<n> node -> void", SCRY_OPTIONAL | SCRY_LOCAL, NULL,
     "Move processes to another node.", .missing = no_migration},
    {"proc_checkpoint", SCRY_MANIPULATION, "token<p>* proc_list, string name -> void", SCRY_OPTIONAL | SCRY_LOCAL, NULL,
     "Save a checkpoint of processes.", .missing = no_checkpoint},
    {"proc_restore", SCRY_MANIPULATION, "string name -> { token* procs; integer num_procs }",
     SCRY_OPTIONAL | SCRY_LOCAL, NULL, "Restore processes from a checkpoint.", .missing = no_checkpoint},
    {"proc_get_info", SCRY_INFORMATION, "token<p>* proc_list, integer flags -> " PROC_INFO_RESULT,
     SCRY_PARTIAL | SCRY_PARTLY, proc_get_info,
     "Static (bits 0-7 of flags) and dynamic (bits 8-24) information on processes; -1 is what Linux does not count."},
    {"proc_get_loader_info", SCRY_INFORMATION, "token<p>* proc_list -> " LOADER_INFO_RESULT, SCRY_PARTIAL,
     proc_get_loader_info, "The load modules of processes: paths, code, data and bss segments."},
    SERVICE_END,
};

/* Event services on processes (specification 8.1.2). */

/* A traced process is reported while its memory can still be read, others by their pidfd. The event alone does not
 * start tracing. */
static void wish_thread_exit(struct trace_need *need)
{
    need->watch.thread_exit = true;
}

static const struct event_ops terminated_ops = {.object_class = "p", .wish = wish_thread_exit};

/* Raised by monitor/tracing/runstate.c, which decides run states. */
static const struct event_ops runstate_ops = {.object_class = "p"};

static const struct event_ops switching_ops = {
    .object_class = "p", .arm = switching_arm, .disarm = switching_disarm, .wish = switching_wish};

const struct scry_service proc_event_services[] = {
    {"proc_has_terminated", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL, "A process has terminated.",
     .event = &terminated_ops},
    {"proc_has_been_stopped", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL,
     "All threads of a process have been stopped by the monitoring system.", .event = &runstate_ops},
    {"proc_has_been_continued", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL,
     "All threads of a process that was stopped have been continued by the monitoring system.", .event = &runstate_ops},
    {"proc_has_been_scheduled", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process got a processor (reported afterwards).", .missing = switches_missing, .event = &switching_ops},
    {"proc_has_been_descheduled", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process lost its processor (reported afterwards).", .missing = switches_missing, .event = &switching_ops},
    {"proc_will_be_migrated", SCRY_EVENT, "token<p>* proc_list -> { integer dest_node }", SCRY_OPTIONAL, NULL,
     "A process is going to be migrated.", .missing = no_migration},
    {"proc_has_been_migrated", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process has been migrated to another node.", .missing = no_migration},
    SERVICE_END,
};

/* The files that processes have open. */

enum { FILES_MOST = 4096 };

static void put_file(void *ctx, const struct proc_open_file *file)
{
    PUT(ctx, file->fd, file->kind, file->path, file->flags, file->offset, file->size);
}

static int get_files(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    put_list(text);
    ssize_t count = proc_files_each(call_process(call, index)->pid, FILES_MOST, put_file, text, err);
    put_end(text);
    PUT(text, count > FILES_MOST ? count - FILES_MOST : 0);
    return count < 0 ? (int)count : 0;
}

static void proc_get_files(struct scry_call *call)
{
    call_each(call, get_files);
}

const struct scry_service scry_process_services[] = {
    {"scry_proc_get_files", SCRY_INFORMATION, "token<p>* proc_list -> " PROC_FILES_RESULT, SCRY_OPTIONAL,
     proc_get_files,
     "The files that processes have open. kind: file, directory, device, pipe, socket, memory (of memfd_create), or "
     "other: then path is what the kernel calls it (eventpoll). flags: words of read, write, append, nonblock, direct, "
     "sync. offset: where it is read or written next; -1: it has none. size: as the node knows it without asking a "
     "file system; -1: not known. more: files behind the first 4096."},
    SERVICE_END,
};
