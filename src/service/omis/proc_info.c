/* SPDX-License-Identifier: Apache-2.0 */
#include "service/omis/proc_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/put.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/node.h"
#include "probe/proc.h"

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

/* Since scry attached; sampled once a second. */
static uint64_t resident_integral(const struct info *info)
{
    process_sample(info->process);
    return (uint64_t)info->process->resident_byte_seconds;
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
    case 17:
        PUT(out, resident_integral(info));
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
            needs |= needs_of[bit];
    int code = gather(&info, needs);
    if (code < 0)
        return code;
    for (int bit = 0; bit < PROC_INFO_BITS; bit++)
        if (flags >> bit & 1)
            put_member(&info, bit, out);
    return 0;
}
