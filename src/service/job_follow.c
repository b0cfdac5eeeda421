/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job_follow.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/clock.h"
#include "lang/value.h"
#include "probe/follow.h"
#include "probe/proc.h"
#include "service/job_ended.h"
#include "service/job_tree.h"

/* A process of the agent's names itself before anything else: one that is so old, or sleeps, has done so. */
static const uint64_t NEWBORN_NS = NS_PER_SECOND / 5;
/* Its start is known to a tick of /proc, and by perf: numbers are not given again within so short a time. */
static const uint64_t SAME_START_NS = NS_PER_SECOND / 25;

struct tracked {
    pid_t pid, ppid;
    uint64_t start_ns, found_ns;
    uint64_t start_ticks; /* 0: not looked at yet */
    uint64_t cpu_ns;      /* of its threads that ended, by perf */
    uint64_t seen_cpu_ns; /* in /proc */
    uint64_t rss, peak_rss;
    uint64_t threads, peak_threads;
    uint64_t counted_ns; /* when /proc said how many threads: what perf tells of before is among them */
    uint64_t most_processes, most_threads; /* of the job, before it was added */
    int pidfd;                             /* -1: none */
    char state;                            /* 0: not looked at in this sample */
    bool settled;                          /* it was told, or it runs a program of its own */
    bool over;                             /* told as ended; a zombie that nobody has waited for yet */
    bool in_proc;                          /* this sample found it */
    char name[64];
    UT_hash_handle hh;
};

struct job_follow {
    pid_t root;
    uint64_t root_ticks;
    char *dir;           /* of the job; NULL: none */
    struct follow *perf; /* NULL: refused */
    bool polled;         /* the tree is looked up at each sample */
    char reason[256];
    struct tracked *alive; /* hash by pid */
    size_t pidfds;
    struct job_ended_list ended;
    uint64_t started, finished, finished_cpu_ns, lost;
    uint64_t unseen;              /* counted at their end, of which only counts were told */
    uint64_t aside, aside_cpu_ns; /* left out: those that live, and what they needed */
    uint64_t processes, threads, peak_processes, peak_threads; /* now, and the most at once */
};

static uint64_t max_count(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* With perf, threads come and go one by one. What /proc counts beside it may be told by perf only later, and would be
 * counted twice: it is the second choice. */
static bool counts_by_proc(const struct job_follow *follow)
{
    return follow->polled || follow->lost;
}

/* A start time in ticks since boot, on the monotonic clock. */
static uint64_t ticks_to_ns(uint64_t ticks)
{
    uint64_t since_boot = ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t now = clock_now_ns(), booted = clock_ns(CLOCK_BOOTTIME); /* in this order: it is never behind */
    uint64_t asleep = booted > now ? booted - now : 0;
    return since_boot > asleep ? since_boot - asleep : 0;
}

static struct tracked *find(const struct job_follow *follow, pid_t pid)
{
    struct tracked *process;
    HASH_FIND_INT(follow->alive, &pid, process);
    return process;
}

static void count_threads(struct job_follow *follow, struct tracked *process, uint64_t threads)
{
    follow->threads += threads - process->threads;
    process->threads = threads;
    process->peak_threads = max_count(process->peak_threads, threads);
    follow->peak_threads = max_count(follow->peak_threads, follow->threads);
}

static struct tracked *add(struct job_follow *follow, pid_t pid, pid_t ppid, uint64_t start_ns)
{
    if (HASH_COUNT(follow->alive) >= JOB_FOLLOW_ALIVE)
        return NULL;
    struct tracked *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    *process =
        (struct tracked){.pid = pid, .ppid = ppid, .start_ns = start_ns, .found_ns = clock_now_ns(), .pidfd = -1};
    process->most_processes = follow->peak_processes;
    process->most_threads = follow->peak_threads;
    HASH_ADD_INT(follow->alive, pid, process);
    if (!process->hh.tbl) {
        free(process);
        return NULL;
    }
    follow->started++;
    follow->peak_processes = max_count(follow->peak_processes, ++follow->processes);
    count_threads(follow, process, 1);
    return process;
}

static void drop(struct job_follow *follow, struct tracked *process)
{
    if (process->pidfd >= 0) {
        close(process->pidfd);
        follow->pidfds--;
    }
    HASH_DEL(follow->alive, process);
    free(process);
}

static void hold_pidfd(struct job_follow *follow, struct tracked *process)
{
    if (process->pidfd >= 0 || follow->pidfds + follow->ended.pidfds >= JOB_FOLLOW_PIDFDS)
        return;
    process->pidfd = proc_pidfd(process->pid);
    follow->pidfds += process->pidfd >= 0;
}

/* Nobody held it while it lived. What has its number now may be another; perhaps nobody has waited for it yet. */
static void hold_late(struct job_follow *follow, struct tracked *process)
{
    struct proc_stat stat;
    hold_pidfd(follow, process);
    if (process->pidfd < 0)
        return;
    bool same = proc_stat_read(process->pid, 0, &stat) == 0;
    if (same) {
        uint64_t start_ns = ticks_to_ns(stat.start_ticks);
        uint64_t apart = start_ns > process->start_ns ? start_ns - process->start_ns : process->start_ns - start_ns;
        same = apart < SAME_START_NS;
    }
    if (!same) {
        close(process->pidfd);
        process->pidfd = -1;
        follow->pidfds--;
    }
}

static void tell_ended(struct job_follow *follow, struct tracked *process, uint64_t end_ns)
{
    uint64_t cpu_ns = max_count(process->cpu_ns, process->seen_cpu_ns);
    follow->finished++;
    follow->processes--;
    follow->threads -= process->threads;
    process->threads = 0;
    follow->finished_cpu_ns += cpu_ns;
    if (process->pidfd < 0)
        hold_late(follow, process);
    struct job_ended ended = {.pid = process->pid,
                              .ppid = process->ppid,
                              .start_ns = process->start_ns,
                              .end_ns = end_ns,
                              .cpu_ns = cpu_ns,
                              .threads = process->peak_threads,
                              .peak_rss = process->peak_rss,
                              .pidfd = process->pidfd};
    follow->pidfds -= process->pidfd >= 0;
    process->pidfd = -1;
    memcpy(ended.name, process->name, sizeof ended.name);
    job_ended_add(&follow->ended, &ended);
}

static void end(struct job_follow *follow, struct tracked *process, uint64_t end_ns)
{
    if (!process->over)
        tell_ended(follow, process, end_ns);
    drop(follow, process);
}

static void on_fork(struct job_follow *follow, const struct follow_record *record)
{
    struct tracked *process = find(follow, record->pid), *parent = find(follow, record->ppid);
    if (process && record->time_ns <= process->found_ns)
        return; /* /proc was faster than perf's buffers */
    if (process)
        end(follow, process, record->time_ns);
    process = add(follow, record->pid, record->ppid, record->time_ns);
    if (!process)
        follow->lost++;
    else if (parent)
        memcpy(process->name, parent->name, sizeof process->name);
}

/* The end of a process that nobody told of, or of one that was left out. */
static void on_other_exit(struct job_follow *follow, const struct follow_record *record)
{
    if (record->unborn && !follow->polled) {
        follow->unseen++;
        follow->started++;
        follow->finished++;
        follow->finished_cpu_ns += record->cpu_ns;
    } else {
        follow->aside -= record->kind == FOLLOW_EXIT && follow->aside > 0;
        follow->aside_cpu_ns += record->cpu_ns;
    }
}

static void on_exit_record(struct job_follow *follow, const struct follow_record *record)
{
    struct tracked *process = find(follow, record->pid);
    if (!process) {
        on_other_exit(follow, record);
        return;
    }
    if (process->over)
        return;
    process->cpu_ns += record->cpu_ns;
    if (record->kind == FOLLOW_EXIT)
        end(follow, process, record->time_ns);
    else if (process->threads > 1 && record->time_ns > process->counted_ns)
        count_threads(follow, process, process->threads - 1);
}

/* Processes of the agent that traces functions (agent/outside.c, agent/victim.c): they are scry's, not the job's. */
static const char AGENT_NAME[] = "scry-agent";

/* What the most at once was without one of `count` that was there since the most was `before`. */
static uint64_t most_without(uint64_t most, uint64_t before, uint64_t count)
{
    return most > before ? max_count(before, most > count ? most - count : 0) : most;
}

static void leave_out(struct job_follow *follow, struct tracked *process)
{
    struct tracked *other, *next;
    HASH_ITER(hh, follow->alive, other, next)
    {
        other->most_processes = most_without(other->most_processes, process->most_processes, 1);
        other->most_threads = most_without(other->most_threads, process->most_threads, process->threads);
    }
    follow->aside++;
    follow->aside_cpu_ns += process->cpu_ns;
    follow->started--;
    follow->processes--;
    follow->threads -= process->threads;
    follow->peak_processes = most_without(follow->peak_processes, process->most_processes, 1);
    follow->peak_threads = most_without(follow->peak_threads, process->most_threads, process->threads);
    drop(follow, process);
}

static void on_name(struct job_follow *follow, const struct follow_record *record)
{
    struct tracked *process = find(follow, record->pid);
    if (process && !process->over && record->pid == record->tid && strcmp(record->comm, AGENT_NAME) == 0)
        leave_out(follow, process);
}

static void on_record(void *ctx, const struct follow_record *record)
{
    struct job_follow *follow = ctx;
    struct tracked *process;
    switch (record->kind) {
    case FOLLOW_FORK:
        on_fork(follow, record);
        break;
    case FOLLOW_THREAD:
        process = find(follow, record->pid);
        if (process && record->time_ns > process->counted_ns)
            count_threads(follow, process, process->threads + 1);
        break;
    case FOLLOW_EXEC:
        process = find(follow, record->pid);
        if (process) {
            snprintf(process->name, sizeof process->name, "%s", record->comm);
            process->settled = true;
        }
        break;
    case FOLLOW_NAME:
        on_name(follow, record);
        break;
    case FOLLOW_THREAD_EXIT:
    case FOLLOW_EXIT:
        on_exit_record(follow, record);
        break;
    case FOLLOW_LOST:
        follow->lost += record->lost;
        break;
    }
}

void job_follow_drain(struct job_follow *follow)
{
    if (follow->perf)
        follow_read(follow->perf, on_record, follow);
}

void job_follow_seen(struct job_follow *follow, pid_t pid)
{
    job_follow_drain(follow);
    struct tracked *process = find(follow, pid);
    if (process && !process->over)
        hold_pidfd(follow, process);
}

int job_follow_fd(const struct job_follow *follow)
{
    return follow->perf ? follow_fd(follow->perf) : -1;
}

/* ---- looking into /proc ---- */

static void apply_stat(struct job_follow *follow, struct tracked *process, const struct proc_stat *stat)
{
    struct proc_status status;
    process->in_proc = true;
    process->ppid = stat->ppid;
    process->state = stat->state;
    process->seen_cpu_ns = max_count(process->seen_cpu_ns, stat->user_ns + stat->system_ns);
    process->rss = stat->resident_bytes;
    if (!process->over && counts_by_proc(follow)) {
        count_threads(follow, process, stat->threads > 0 ? (uint64_t)stat->threads : 1);
        process->counted_ns = clock_now_ns();
    }
    snprintf(process->name, sizeof process->name, "%s", stat->comm);
    if (!process->start_ticks)
        process->start_ticks = stat->start_ticks;
    if (stat->state == 'Z' || stat->state == 'X')
        return;
    process->peak_rss = max_count(process->peak_rss, process->rss);
    if (proc_status_read(process->pid, 0, &status) == 0)
        process->peak_rss = max_count(process->peak_rss, status.peak_resident_bytes);
    hold_pidfd(follow, process);
}

static void sample_one(struct job_follow *follow, struct tracked *process, uint64_t now)
{
    struct proc_stat stat;
    bool there = proc_stat_read(process->pid, 0, &stat) == 0;
    if (there && process->start_ticks && process->start_ticks != stat.start_ticks)
        there = false; /* its pid is another's now */
    if (!there) {
        /* with perf, the record of its end is on its way, with the exact figures */
        if (follow->polled)
            end(follow, process, now);
        else
            process->state = 0;
        return;
    }
    if (!process->over && strcmp(stat.comm, AGENT_NAME) == 0) { /* perf has not told its name yet */
        leave_out(follow, process);
        return;
    }
    if (!follow->polled && !process->settled && !strchr("STt", stat.state) && now < process->start_ns + NEWBORN_NS) {
        process->state = 0; /* the next sample knows better whose it is */
        return;
    }
    process->settled = true;
    apply_stat(follow, process, &stat);
    if (follow->polled && stat.state == 'Z' && !process->over) {
        tell_ended(follow, process, now);
        process->over = true;
    }
}

static bool is_known(const void *ctx, pid_t pid)
{
    const struct job_follow *follow = ctx;
    return pid == follow->root || find(follow, pid);
}

/* Adds what belongs to the job and is not known yet. */
static size_t scan_tree(struct job_follow *follow)
{
    struct job_tree tree = {0};
    size_t found = 0;
    const struct job_tree_root root = {.pid = follow->root, .ticks = follow->root_ticks, .dir = follow->dir};
    job_tree_read(&tree, AGENT_NAME);
    job_tree_mark(&tree, is_known, follow, &root);
    for (size_t i = 0; i < tree.count; i++) {
        const struct job_tree_process *seen = &tree.list[i];
        if (!seen->ours || find(follow, seen->pid))
            continue;
        struct tracked *process = add(follow, seen->pid, seen->stat.ppid, ticks_to_ns(seen->stat.start_ticks));
        if (process) {
            process->settled = true;
            apply_stat(follow, process, &seen->stat);
        } else {
            follow->lost++;
        }
        found++;
    }
    job_tree_done(&tree);
    return found;
}

static void sample(struct job_follow *follow)
{
    uint64_t now = clock_now_ns();
    job_follow_drain(follow);
    if (follow->polled)
        scan_tree(follow);
    struct tracked *process, *next;
    HASH_ITER(hh, follow->alive, process, next)
    sample_one(follow, process, now);
}

/* ---- making ---- */

int job_follow_new(struct job_follow **ret_follow, pid_t root, const char *dir, struct err *err)
{
    struct err why = {0};
    struct proc_stat stat;
    int code = proc_stat_read(root, 0, &stat);
    if (code < 0)
        return err_errno(err, code, "cannot follow process %d", root);
    struct job_follow *follow = calloc(1, sizeof *follow);
    struct tracked *process = NULL;
    if (follow) {
        follow->root = root;
        follow->root_ticks = stat.start_ticks;
        follow->dir = dir ? strdup(dir) : NULL;
        process = add(follow, root, stat.ppid, ticks_to_ns(stat.start_ticks));
    }
    if (!process) {
        if (follow)
            free(follow->dir);
        free(follow);
        return err_set(err, -ENOMEM, "out of memory");
    }
    if (follow_open(&follow->perf, root, &why) < 0) {
        follow->perf = NULL;
        follow->polled = true;
        snprintf(follow->reason, sizeof follow->reason, "%.255s", why.text);
    }
    process->settled = true;
    apply_stat(follow, process, &stat);
    process->rss = process->peak_rss = 0; /* held before its exec, it still has the size of who forked it */
    if (scan_tree(follow) || stat.threads > 1) {
        follow->polled = true;
        snprintf(follow->reason, sizeof follow->reason, "the job ran already when it came to be followed");
    }
    *ret_follow = follow;
    return 0;
}

void job_follow_free(struct job_follow *follow)
{
    if (!follow)
        return;
    struct tracked *process, *next;
    HASH_ITER(hh, follow->alive, process, next)
    drop(follow, process);
    follow_close(follow->perf);
    job_ended_done(&follow->ended);
    free(follow->dir);
    free(follow);
}

/* ---- telling ---- */

struct job_counts {
    uint64_t started, peak_processes, peak_threads;
};

static void put(struct buf *out, uint64_t number)
{
    value_print_uint(out, number);
    buf_putc(out, ',');
}

static void print_ended(struct buf *out, const struct job_ended *ended)
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
}

static void print_alive(struct buf *out, const struct tracked *process)
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
    sample(follow);
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
        print_ended(out, job_ended_at(ended, seq));
    }
    buf_puts(out, "],");
    struct buf list = BUF_INIT;
    uint64_t alive = 0;
    for (const struct tracked *process = follow->alive; process; process = process->hh.next) {
        if (!is_alive(process))
            continue;
        if (alive++)
            buf_putc(&list, ',');
        print_alive(&list, process);
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
