/* SPDX-License-Identifier: Apache-2.0 */
#include "service/omis/proc_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/value.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/node.h"
#include "probe/proc.h"

/* What the members need from /proc; each source is read at most once. */
enum { NEED_STAT = 1, NEED_STATUS = 2, NEED_IO = 4, NEED_SWITCHES = 8 };

struct info {
    struct process *process;
    struct proc_stat stat;
    struct proc_status status;
    struct proc_io io;
    bool io_known; /* the kernel shows it to the owner and root only */
    uint64_t voluntary, involuntary;
};

/* A NUL-separated list as a list of strings. */
static void print_strings(struct buf *out, const struct buf *bytes)
{
    buf_putc(out, '[');
    size_t at = 0;
    while (at < bytes->len) {
        size_t len = strnlen(bytes->data + at, bytes->len - at);
        if (at)
            buf_putc(out, ',');
        value_print_string(out, span_of(bytes->data + at, len));
        at += len + 1;
    }
    buf_putc(out, ']');
}

/* The programming library's name for a process: its MPI rank if its environment has one. A process without such a
 * library has only its pid. */
static void print_global_id(struct info *info, struct buf *out)
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
    value_print_int(out, id);
}

static void print_argv(struct info *info, struct buf *out)
{
    struct buf bytes = BUF_INIT;
    if (proc_cmdline(info->process->pid, &bytes) == 0)
        print_strings(out, &bytes);
    else
        buf_puts(out, "[]");
    buf_done(&bytes);
}

static void print_envp(struct info *info, struct buf *out)
{
    struct buf bytes = BUF_INIT;
    if (proc_environ(info->process->pid, &bytes) == 0)
        print_strings(out, &bytes);
    else
        buf_puts(out, "[]");
    buf_done(&bytes);
}

static void print_parent(struct info *info, struct buf *out)
{
    struct process *parent =
        info->stat.ppid > 0 ? process_get(info->process->object.monitor, info->stat.ppid, NULL) : NULL;
    buf_puts(out, parent ? parent->object.token : TOKEN_UNDEFINED);
}

static void print_uid(struct info *info, struct buf *out)
{
    value_print_uint(out, info->status.uid);
}

static void print_gid(struct info *info, struct buf *out)
{
    value_print_uint(out, info->status.gid);
}

/* Message queues exist where a message passing library is watched: of MPI processes. */
static void print_queue(struct info *info, struct buf *out)
{
    struct message_queue *queue = message_has_queue(info->process) ? message_queue_of(info->process) : NULL;
    buf_puts(out, queue ? queue->object.token : TOKEN_UNDEFINED);
}

static void print_node(struct info *info, struct buf *out)
{
    buf_puts(out, info->process->object.monitor->node->object.token);
}

static void print_pid(struct info *info, struct buf *out)
{
    value_print_int(out, info->process->pid);
}

static void print_state(struct info *info, struct buf *out)
{
    bool stopped = info->process->threads && info->process->all_stopped;
    struct proc_stat whole = info->stat;
    whole.state = proc_process_state(&info->stat);
    value_print_int(out, stopped ? PROC_STOPPED : proc_state_of(&whole));
}

static void print_total_time(struct info *info, struct buf *out)
{
    value_print_floating(out, (double)(info->stat.user_ns + info->stat.system_ns) / 1e9);
}

static void print_priority(struct info *info, struct buf *out)
{
    value_print_int(out, info->stat.nice);
}

static void print_system_time(struct info *info, struct buf *out)
{
    value_print_floating(out, (double)info->stat.system_ns / 1e9);
}

static void print_memory(struct info *info, struct buf *out)
{
    value_print_uint(out, info->stat.memory_bytes);
}

static void print_resident(struct info *info, struct buf *out)
{
    value_print_uint(out, info->stat.resident_bytes);
}

static void print_max_resident(struct info *info, struct buf *out)
{
    value_print_uint(out, info->status.peak_resident_bytes);
}

/* Since scry attached; sampled once a second. */
static void print_resident_integral(struct info *info, struct buf *out)
{
    process_sample(info->process);
    value_print_uint(out, (uint64_t)info->process->resident_byte_seconds);
}

static void print_minor_faults(struct info *info, struct buf *out)
{
    value_print_uint(out, info->stat.minor_faults);
}

static void print_major_faults(struct info *info, struct buf *out)
{
    value_print_uint(out, info->stat.major_faults);
}

/* Linux swaps pages, never whole processes, and does not count. */
static void print_swaps(struct info *info, struct buf *out)
{
    (void)info;
    buf_puts(out, "-1");
}

/* Blocks of 512 bytes that came from or went to storage, as getrusage counts inputs and outputs. */
enum { IO_BLOCK = 512 };

static void print_io(const struct info *info, uint64_t bytes, struct buf *out)
{
    if (info->io_known)
        value_print_uint(out, bytes / IO_BLOCK);
    else
        buf_puts(out, "-1");
}

static void print_file_input(struct info *info, struct buf *out)
{
    print_io(info, info->io.read_bytes, out);
}

static void print_file_output(struct info *info, struct buf *out)
{
    print_io(info, info->io.written_bytes, out);
}

static void print_voluntary(struct info *info, struct buf *out)
{
    value_print_uint(out, info->voluntary);
}

static void print_involuntary(struct info *info, struct buf *out)
{
    value_print_uint(out, info->involuntary);
}

static const struct {
    void (*print)(struct info *info, struct buf *out);
    int needs;
} members[PROC_INFO_BITS] = {
    {print_global_id, 0},
    {print_argv, 0},
    {print_uid, NEED_STATUS},
    {print_gid, NEED_STATUS},
    {print_argv, 0}, /* user_argv: nothing between the user and the program changes it */
    {print_envp, 0},
    {print_parent, NEED_STAT},
    {print_queue, 0},
    {print_node, 0},
    {print_pid, 0},
    {print_state, NEED_STAT},
    {print_total_time, NEED_STAT},
    {print_priority, NEED_STAT},
    {print_system_time, NEED_STAT},
    {print_memory, NEED_STAT},
    {print_resident, NEED_STAT},
    {print_max_resident, NEED_STATUS},
    {print_resident_integral, 0},
    {print_minor_faults, NEED_STAT},
    {print_major_faults, NEED_STAT},
    {print_swaps, 0},
    {print_file_input, NEED_IO},
    {print_file_output, NEED_IO},
    {print_voluntary, NEED_SWITCHES},
    {print_involuntary, NEED_SWITCHES},
};

static int gather(struct info *info, int needs)
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

int proc_info_print(struct process *process, uint64_t flags, struct buf *out)
{
    struct info info = {.process = process};
    int needs = 0;
    for (int bit = 0; bit < PROC_INFO_BITS; bit++)
        if (flags >> bit & 1)
            needs |= members[bit].needs;
    int code = gather(&info, needs);
    if (code < 0)
        return code;
    size_t start = out->len;
    for (int bit = 0; bit < PROC_INFO_BITS; bit++) {
        if (!(flags >> bit & 1))
            continue;
        if (out->len > start)
            buf_putc(out, ',');
        members[bit].print(&info, out);
    }
    return 0;
}
