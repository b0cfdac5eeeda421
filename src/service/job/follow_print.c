/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a job's processes: job_follow_print. */
#include "lang/put.h"
#include "base/system/clock.h"
#include "service/job/follow_internal.h"

struct job_counts {
    uint64_t started, peak_processes, peak_threads;
};

static const char *const sources[] = {
    [JOB_ENDED_NOT_KNOWN] = "", [JOB_ENDED_BY_EVENT] = "event", [JOB_ENDED_BY_PIDFD] = "pidfd"};

/* The command of the process that started this one, which has executed nothing else since. The parent's report may have
 * been read after the process came. */
static struct job_command *of_parent(struct job_follow *follow, pid_t parent, uint64_t start_ns)
{
    const struct tracked *process = job_follow_find(follow, parent);
    const struct job_ended *ended = process ? NULL : job_ended_find(&follow->ended, parent, start_ns);
    struct job_command *command = process ? process->command : ended ? ended->command : NULL;
    return command && command->time_ns <= start_ns ? command : NULL;
}

static void print_ended(struct job_follow *follow, struct buf *out, const struct job_ended *ended)
{
    PUT(out, ended->pid, ended->ppid, ended->start_ns, ended->end_ns, ended->cpu_ns, ended->status, ended->threads,
        ended->peak_rss, ended->name, sources[ended->source],
        ended->source ? "" : job_exits_why(&follow->exits, ended->end_ns));
    const struct job_command *command = ended->command;
    if (!command && !ended->exec_ns)
        command = of_parent(follow, ended->parent, ended->start_ns);
    job_command_print(command, out);
}

/* Looks up a command that no agent reported: a static program, or the agent found no room. */
static void look_for_command(struct job_follow *follow, struct tracked *process)
{
    if (!process->command && !process->exec_ns)
        process->command = job_command_share(of_parent(follow, process->parent, process->start_ns));
    if (!process->command && !process->command_sought)
        process->command = job_command_read(process->pid);
    process->command_sought = true;
}

/* Prints the command only once. */
static void print_alive(struct job_follow *follow, struct buf *out, struct tracked *process)
{
    PUT(out, process->pid, process->ppid, process->start_ns, max_count(process->cpu_ns, process->seen_cpu_ns),
        process->rss, process->peak_rss, process->threads, value_string(span_of(&process->state, 1)), process->name);
    look_for_command(follow, process);
    job_command_print(process->command_told ? NULL : process->command, out);
    process->command_told = process->command;
}

static bool is_alive(const struct tracked *process)
{
    return !process->over && process->state && process->state != 'Z' && process->state != 'X';
}

void job_follow_each(const struct job_follow *follow, void (*fn)(void *ctx, pid_t pid, pid_t ppid, const char *name),
                     void *ctx)
{
    for (const struct tracked *process = follow->alive; process; process = process->hh.next)
        if (is_alive(process))
            fn(ctx, process->pid, process->ppid, process->name);
}

/* The figures without processes that may yet turn out not to belong to the job. */
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

/* The CPU time that the kernel counted for the job beyond that of the listed processes. Both are exact when all have
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
    PUT(out, known, clock_now_ns(), follow->perf && !follow->polled, follow->reason, follow->lost, settled.started,
        follow->finished, follow->finished_cpu_ns + beyond_ns, settled.peak_processes, settled.peak_threads,
        ended->forgotten, known - ended->first);
    put_list(out);
    for (uint64_t seq = ended->first; seq < known; seq++)
        print_ended(follow, out, job_ended_at(ended, seq));
    put_end(out);
    struct buf list = BUF_INIT;
    uint64_t alive = 0;
    for (struct tracked *process = follow->alive; process; process = process->hh.next)
        if (is_alive(process)) {
            alive++;
            print_alive(follow, &list, process);
        }
    PUT(out, alive);
    put_list(out);
    buf_append(out, list.data ? list.data : "", list.len);
    put_end(out);
    PUT(out, follow->started - follow->finished - alive + (ended->next - known), follow->unseen, beyond_ns);
    out->failed = out->failed || list.failed;
    buf_done(&list);
}
