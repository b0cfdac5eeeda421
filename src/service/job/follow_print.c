/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a job's processes: job_follow_print. */
#include "lang/value.h"
#include "base/clock.h"
#include "service/job/follow_internal.h"

struct job_counts {
    uint64_t started, peak_processes, peak_threads;
};

static void put(struct buf *out, uint64_t number)
{
    value_print_uint(out, number);
    buf_putc(out, ',');
}

static const char *const sources[] = {
    [JOB_ENDED_NOT_KNOWN] = ",\"\",", [JOB_ENDED_BY_EVENT] = ",\"event\",", [JOB_ENDED_BY_PIDFD] = ",\"pidfd\","};

/* That of whoever started a process, which has executed nothing else since. What it told was perhaps read after the
 * process came. */
static struct job_command *of_parent(struct job_follow *follow, pid_t parent, uint64_t start_ns)
{
    const struct tracked *process = job_follow_find(follow, parent);
    const struct job_ended *ended = process ? NULL : job_ended_find(&follow->ended, parent, start_ns);
    struct job_command *command = process ? process->command : ended ? ended->command : NULL;
    return command && command->time_ns <= start_ns ? command : NULL;
}

static void print_ended(struct job_follow *follow, struct buf *out, const struct job_ended *ended)
{
    put(out, (uint64_t)ended->pid);
    put(out, (uint64_t)ended->ppid);
    put(out, ended->start_ns);
    put(out, ended->end_ns);
    put(out, ended->cpu_ns);
    value_print_int(out, ended->status);
    buf_putc(out, ',');
    put(out, ended->threads);
    put(out, ended->peak_rss);
    value_print_string(out, span_str(ended->name));
    buf_puts(out, sources[ended->source]);
    value_print_string(out, span_str(ended->source ? "" : job_exits_why(&follow->exits, ended->end_ns)));
    buf_putc(out, ',');
    const struct job_command *command = ended->command;
    if (!command && !ended->exec_ns)
        command = of_parent(follow, ended->parent, ended->start_ns);
    job_command_print(command, out);
}

/* What no agent told of: a static program, or the agent found no room. */
static void look_for_command(struct job_follow *follow, struct tracked *process)
{
    if (!process->command && !process->exec_ns)
        process->command = job_command_share(of_parent(follow, process->parent, process->start_ns));
    if (!process->command && !process->command_sought)
        process->command = job_command_read(process->pid);
    process->command_sought = true;
}

/* The command only once. */
static void print_alive(struct job_follow *follow, struct buf *out, struct tracked *process)
{
    put(out, (uint64_t)process->pid);
    put(out, (uint64_t)process->ppid);
    put(out, process->start_ns);
    put(out, max_count(process->cpu_ns, process->seen_cpu_ns));
    put(out, process->rss);
    put(out, process->peak_rss);
    put(out, process->threads);
    value_print_string(out, span_of(&process->state, 1));
    buf_putc(out, ',');
    value_print_string(out, span_str(process->name));
    buf_putc(out, ',');
    look_for_command(follow, process);
    job_command_print(process->command_told ? NULL : process->command, out);
    process->command_told = process->command;
}

static bool is_alive(const struct tracked *process)
{
    return !process->over && process->state && process->state != 'Z' && process->state != 'X';
}

/* The figures without the processes that may yet turn out to be none of the job's. */
static void count_settled(const struct job_follow *follow, struct job_counts *ret_counts)
{
    *ret_counts = (struct job_counts){follow->started, follow->peak_processes, follow->peak_threads};
    for (const struct tracked *process = follow->alive; process; process = process->hh.next) {
        if (process->settled || process->over)
            continue;
        ret_counts->started--;
        if (process->most_processes < ret_counts->peak_processes)
            ret_counts->peak_processes = process->most_processes;
        if (process->most_threads < ret_counts->peak_threads)
            ret_counts->peak_threads = process->most_threads;
    }
}

/* The CPU time that the kernel counted for the job beyond that of the processes told: both are exact when all have
 * ended. */
static uint64_t unclocked_ns(const struct job_follow *follow)
{
    uint64_t all_ns, told_ns = follow->finished_cpu_ns + follow->aside_cpu_ns;
    if (!follow->perf || follow->polled || follow->alive || follow->aside || follow_cpu(follow->perf, &all_ns) < 0)
        return 0;
    return all_ns > told_ns ? all_ns - told_ns : 0;
}

void job_follow_print(struct job_follow *follow, uint64_t cursor, struct buf *out)
{
    struct job_counts settled;
    job_ended_forget(&follow->ended, cursor);
    count_settled(follow, &settled);
    uint64_t beyond_ns = unclocked_ns(follow);
    const struct job_ended_list *ended = &follow->ended;
    uint64_t known = job_ended_known(&follow->ended);
    put(out, known);
    put(out, clock_now_ns());
    put(out, follow->perf && !follow->polled);
    value_print_string(out, span_str(follow->reason));
    buf_putc(out, ',');
    put(out, follow->lost);
    put(out, settled.started);
    put(out, follow->finished);
    put(out, follow->finished_cpu_ns + beyond_ns);
    put(out, settled.peak_processes);
    put(out, settled.peak_threads);
    put(out, ended->forgotten);
    put(out, known - ended->first);
    buf_putc(out, '[');
    for (uint64_t seq = ended->first; seq < known; seq++) {
        if (seq > ended->first)
            buf_putc(out, ',');
        print_ended(follow, out, job_ended_at(ended, seq));
    }
    buf_puts(out, "],");
    struct buf list = BUF_INIT;
    uint64_t alive = 0;
    for (struct tracked *process = follow->alive; process; process = process->hh.next) {
        if (!is_alive(process))
            continue;
        if (alive++)
            buf_putc(&list, ',');
        print_alive(follow, &list, process);
    }
    put(out, alive);
    buf_putc(out, '[');
    buf_append(out, list.data ? list.data : "", list.len);
    buf_puts(out, "],");
    put(out, follow->started - follow->finished - alive + (ended->next - known));
    put(out, follow->unseen);
    value_print_uint(out, beyond_ns);
    out->failed = out->failed || list.failed;
    buf_done(&list);
}
