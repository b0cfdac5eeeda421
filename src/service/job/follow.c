/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1 /* the default ends the program */
#include <uthash.h>

#include "service/job/follow.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/process.h"
#include "lang/value.h"
#include "shm/waits.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    JOB_FOLLOW_PIDFDS = 1024,  /* processes whose wait status will be known */
    JOB_FOLLOW_ALIVE = 100000, /* processes at once */
};

/* A process that lives, or whose end was not reported yet. */
struct tracked {
    pid_t pid, ppid, parent; /* parent: the process that started it, also when that has ended */
    uint64_t start_ns, found_ns;
    uint64_t start_ticks; /* 0: not read yet */
    uint64_t cpu_ns;      /* of its threads that ended, by perf */
    uint64_t seen_cpu_ns; /* in /proc */
    uint64_t rss, peak_rss;
    uint64_t threads, peak_threads;
    uint64_t counted_ns;                   /* when /proc counted the threads: perf's earlier reports are included */
    uint64_t most_processes, most_threads; /* of the job, before it was added */
    int pidfd;                             /* -1: none */
    char state;                            /* 0: not read in this sample */
    bool settled;                          /* it was reported, or it runs a program of its own */
    bool over;                             /* reported as ended; a zombie that nobody has waited for yet */
    bool in_proc;                          /* this sample found it */
    uint64_t exec_ns;                      /* of its program; 0: none of its own */
    uint64_t exit_ns;                      /* its last thread that ended, by the kernel's events; 0: none */
    int exit_status;
    struct job_command *command;
    bool command_told, command_sought;
    char name[64];
    UT_hash_handle hh;
};

struct job_follow {
    pid_t root;
    uint64_t root_ticks;
    char *dir;           /* of the job; NULL: none */
    struct follow *perf; /* NULL: refused */
    bool polled;         /* each sample searches the tree */
    char reason[256];
    struct job_exits exits;
    struct tracked *alive; /* hash by pid */
    size_t pidfds;
    struct job_ended_list ended;
    uint64_t started, finished, finished_cpu_ns, lost;
    uint64_t unseen;                                           /* counted at their end, and never listed */
    uint64_t aside, aside_cpu_ns;                              /* left out: living ones, and their CPU time */
    uint64_t processes, threads, peak_processes, peak_threads; /* now, and the most at once */
};

static inline uint64_t max_count(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

enum { MOST_ANCESTORS = 256 };

static int by_pid(const void *a, const void *b)
{
    const struct job_tree_process *left = a, *right = b;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

void job_tree_read(struct job_tree *ret_tree, const char *left_out)
{
    struct job_tree_process *list = NULL;
    size_t count = 0, room = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (!GROW(list, count, room))
            break;
        struct job_tree_process *process = &list[count];
        *process = (struct job_tree_process){.pid = atoi(entry->d_name)};
        if (proc_stat_read(process->pid, 0, &process->stat) < 0 || strcmp(process->stat.comm, left_out) == 0)
            continue;
        count++;
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(list, count, sizeof *list, by_pid);
    *ret_tree = (struct job_tree){list, count};
}

void job_tree_done(struct job_tree *tree)
{
    free(tree->list);
}

static const struct job_tree_process *process_of(const struct job_tree *tree, pid_t pid)
{
    struct job_tree_process key = {.pid = pid};
    return bsearch(&key, tree->list, tree->count, sizeof *tree->list, by_pid);
}

/* Orphans go to init or to an ancestor that takes them in its place (PR_SET_CHILD_SUBREAPER). */
static bool may_be_orphan(const struct job_tree *tree, const struct job_tree_process *process, pid_t root)
{
    const struct job_tree_process *ancestor = process_of(tree, root);
    for (unsigned level = 0; ancestor && level < MOST_ANCESTORS; level++) {
        if (process->stat.ppid == ancestor->stat.ppid)
            return true;
        ancestor = process_of(tree, ancestor->stat.ppid);
    }
    return process->stat.ppid <= 1;
}

static bool has_mark(pid_t pid, const char *dir)
{
    static const char name[] = "SCRY_JOB=";
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    if (proc_environ(pid, &list) < 0 || list.failed)
        return false;
    for (const char *at = list.data, *end = at ? at + list.len : NULL, *next; at < end; at = next) {
        size_t len = strnlen(at, (size_t)(end - at));
        next = at + len + 1;
        if (len == strlen(name) + strlen(dir) && strncmp(at, name, strlen(name)) == 0)
            return strncmp(at + strlen(name), dir, strlen(dir)) == 0;
    }
    return false;
}

static void mark_orphans(struct job_tree *tree, const struct job_tree_root *root)
{
    for (size_t i = 0; root->dir && *root->dir && i < tree->count; i++) {
        struct job_tree_process *process = &tree->list[i];
        if (!process->ours && process->stat.start_ticks >= root->ticks && may_be_orphan(tree, process, root->pid))
            process->ours = has_mark(process->pid, root->dir);
    }
}

void job_tree_mark(struct job_tree *tree, bool (*is_known)(const void *ctx, pid_t pid), const void *ctx,
                   const struct job_tree_root *root)
{
    for (size_t i = 0; i < tree->count; i++)
        tree->list[i].ours = is_known(ctx, tree->list[i].pid);
    mark_orphans(tree, root);
    for (bool again = tree->count > 0; again;) { /* children may have lower pids than their parents */
        again = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct job_tree_process *process = &tree->list[i];
            if (process->ours)
                continue;
            const struct job_tree_process *parent = process_of(tree, process->stat.ppid);
            process->ours = parent && parent->ours;
            again |= process->ours;
        }
    }
}

/* Events kept until their processes are looked up. With the kernel's buffer, fewer than there are process numbers (at
 * least 32768), so that no number is used twice among them. */
enum { HEARD_MOST = 8192 };

/* perf reports threads one by one. /proc is the second choice, because perf may report later what /proc has counted
 * already. */
static bool counts_by_proc(const struct job_follow *follow)
{
    return follow->polled || follow->lost;
}

/* Converts a start time in ticks since boot to the monotonic clock. */
static uint64_t ticks_to_ns(uint64_t ticks)
{
    uint64_t since_boot = ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t now = clock_now_ns(), booted = clock_ns(CLOCK_BOOTTIME); /* in this order, the result is never behind */
    uint64_t asleep = booted > now ? booted - now : 0;
    return since_boot > asleep ? since_boot - asleep : 0;
}

static struct tracked *job_follow_find(const struct job_follow *follow, pid_t pid)
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

static struct tracked *process_add(struct job_follow *follow, pid_t pid, pid_t ppid, uint64_t start_ns)
{
    if (HASH_COUNT(follow->alive) >= JOB_FOLLOW_ALIVE)
        return NULL;
    struct tracked *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    *process = (struct tracked){
        .pid = pid, .ppid = ppid, .parent = ppid, .start_ns = start_ns, .found_ns = clock_now_ns(), .pidfd = -1};
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

static void process_drop(struct job_follow *follow, struct tracked *process)
{
    if (process->pidfd >= 0) {
        close(process->pidfd);
        follow->pidfds--;
    }
    job_command_drop(process->command);
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

/* By the time of its fork, as perf reports it. */
static bool began_then(const struct tracked *process, const struct proc_stat *stat)
{
    uint64_t start_ns = ticks_to_ns(stat->start_ticks);
    return (start_ns > process->start_ns ? start_ns - process->start_ns : process->start_ns - start_ns) < SAME_START_NS;
}

/* The process was not held while it lived. Perhaps nobody has waited for it yet; else its number may be another's now.
 */
static void hold_late(struct job_follow *follow, struct tracked *process)
{
    struct proc_stat stat;
    hold_pidfd(follow, process);
    if (process->pidfd < 0)
        return;
    bool same = proc_stat_read(process->pid, 0, &stat) == 0;
    if (same) {
        same = began_then(process, &stat);
    }
    if (!same) {
        close(process->pidfd);
        process->pidfd = -1;
        follow->pidfds--;
    }
}

static bool hears_exits(const struct job_follow *follow)
{
    return follow->exits.fd >= 0 && !follow->exits.silent;
}

/* Events of its threads before this time do not belong to its end. perf reports the end before the event comes, by a
 * clock that may be a little ahead. Without perf the end is found only later. */
static uint64_t least_event_ns(const struct job_follow *follow, const struct tracked *process, uint64_t end_ns)
{
    return follow->polled ? process->start_ns : end_ns - EVENT_EARLY_NS;
}

/* What its threads' events tell until now; false: not yet its end. */
static bool event_told(const struct job_follow *follow, const struct tracked *process, uint64_t least_ns,
                       int *ret_status, uint64_t *ret_ns)
{
    const struct exit_event *event = job_exits_find(&follow->exits, process->pid);
    *ret_status = process->exit_status;
    *ret_ns = process->exit_ns;
    if (event && event->time_ns >= process->start_ns && event->time_ns >= process->exit_ns) {
        *ret_status = job_exits_status(process->exit_status, process->exit_ns, event);
        *ret_ns = event->time_ns;
    }
    return *ret_ns && *ret_ns >= least_ns;
}

static void tell_ended(struct job_follow *follow, struct tracked *process, uint64_t end_ns)
{
    uint64_t cpu_ns = max_count(process->cpu_ns, process->seen_cpu_ns);
    follow->finished++;
    follow->processes--;
    follow->threads -= process->threads;
    process->threads = 0;
    follow->finished_cpu_ns += cpu_ns;
    uint64_t event_ns = least_event_ns(follow, process, end_ns);
    int status;
    uint64_t told_ns;
    bool told = event_told(follow, process, event_ns, &status, &told_ns);
    if (process->pidfd < 0 && !told)
        hold_late(follow, process);
    struct job_ended ended = {.pid = process->pid,
                              .ppid = process->ppid,
                              .parent = process->parent,
                              .start_ns = process->start_ns,
                              .end_ns = end_ns,
                              .cpu_ns = cpu_ns,
                              .threads = process->peak_threads,
                              .peak_rss = process->peak_rss,
                              .status = status,
                              .source = told ? JOB_ENDED_BY_EVENT : JOB_ENDED_NOT_KNOWN,
                              .pidfd = process->pidfd,
                              .awaits = !told && hears_exits(follow),
                              .event_ns = event_ns,
                              .early_ns = told_ns,
                              .early_status = status,
                              .exec_ns = process->exec_ns,
                              .command = process->command};
    process->command = NULL;
    follow->pidfds -= process->pidfd >= 0;
    process->pidfd = -1;
    memcpy(ended.name, process->name, sizeof ended.name);
    job_ended_add(&follow->ended, &ended);
}

static void process_end(struct job_follow *follow, struct tracked *process, uint64_t end_ns)
{
    if (!process->over)
        tell_ended(follow, process, end_ns);
    process_drop(follow, process);
}

static void on_fork(struct job_follow *follow, const struct follow_record *record)
{
    struct tracked *process = job_follow_find(follow, record->pid), *parent = job_follow_find(follow, record->ppid);
    if (process && record->time_ns <= process->found_ns)
        return; /* /proc was faster than perf */
    if (process)
        process_end(follow, process, record->time_ns);
    process = process_add(follow, record->pid, record->ppid, record->time_ns);
    if (!process)
        follow->lost++;
    else if (parent) {
        memcpy(process->name, parent->name, sizeof process->name);
        process->command = job_command_share(parent->command);
    }
}

/* It runs another program: forgets what was known of the one before. */
static void drop_command(struct tracked *process)
{
    job_command_drop(process->command);
    process->command = NULL;
    process->command_told = process->command_sought = false;
}

static void on_exec(struct tracked *process, const struct follow_record *record)
{
    snprintf(process->name, sizeof process->name, "%s", record->comm);
    process->settled = true;
    process->exec_ns = record->time_ns;
    if (process->command && process->command->time_ns < record->time_ns)
        drop_command(process);
}

/* The end of a process that was not reported, or was left out. */
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
    struct tracked *process = job_follow_find(follow, record->pid);
    if (!process) {
        on_other_exit(follow, record);
        return;
    }
    if (process->over)
        return;
    process->cpu_ns += record->cpu_ns;
    if (record->kind == FOLLOW_EXIT)
        process_end(follow, process, record->time_ns);
    else if (process->threads > 1 && record->time_ns > process->counted_ns)
        count_threads(follow, process, process->threads - 1);
}

/* Processes of the agent (agent/safety/outside.c, agent/safety/read.c) belong to scry, not to the job. */
static const char AGENT_NAME[] = "scry-agent";

/* The peak without one of `count`, which was there since the peak was `before`. */
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
    process_drop(follow, process);
}

static void on_name(struct job_follow *follow, const struct follow_record *record)
{
    struct tracked *process = job_follow_find(follow, record->pid);
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
        process = job_follow_find(follow, record->pid);
        if (process && record->time_ns > process->counted_ns)
            count_threads(follow, process, process->threads + 1);
        break;
    case FOLLOW_EXEC:
        process = job_follow_find(follow, record->pid);
        if (process)
            on_exec(process, record);
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

/* Takes the events of living processes, as far as perf has reported: of a thread that is not the last, or of an end
 * that perf reports later; and the events of ends that perf reported first. All others belong to other jobs. */
static void take_exits(struct job_follow *follow)
{
    for (size_t i = 0; i < follow->exits.count; i++) {
        const struct exit_event *event = &follow->exits.list[i];
        struct tracked *process = job_follow_find(follow, event->pid);
        if (process && !process->over && event->time_ns >= process->start_ns) {
            process->exit_status = job_exits_status(process->exit_status, process->exit_ns, event);
            process->exit_ns = event->time_ns;
        } else {
            job_ended_event(&follow->ended, event);
        }
    }
    follow->exits.count = 0;
}

/* In this order: when an event reports an end, perf has done so, too. */
void job_follow_drain(struct job_follow *follow)
{
    job_exits_read(&follow->exits);
    follow->ended.lost_ns = follow->exits.lost_ns;
    if (follow->perf)
        follow_read(follow->perf, on_record, follow);
    take_exits(follow);
}

void job_follow_hear(struct job_follow *follow)
{
    job_exits_hear(&follow->exits);
    if (follow->exits.count > HEARD_MOST)
        job_follow_drain(follow);
}

void job_follow_seen(struct job_follow *follow, pid_t pid)
{
    job_follow_drain(follow);
    struct tracked *process = job_follow_find(follow, pid);
    if (process && !process->over)
        hold_pidfd(follow, process);
}

/* A process reports its command once for each program. */
static bool has_said(const struct job_command *command, uint64_t start_ns, uint64_t exec_ns)
{
    return command && command->said && command->time_ns >= max_count(start_ns, exec_ns);
}

/* Another process with its number, in another PID namespace, may report something, too. */
void job_follow_command(struct job_follow *follow, pid_t pid, struct job_command *command)
{
    struct tracked *process = job_follow_find(follow, pid);
    if (!process || has_said(process->command, process->start_ns, process->exec_ns)) {
        job_follow_drain(follow); /* the process or its program is new */
        process = job_follow_find(follow, pid);
    }
    struct job_ended *ended = process ? NULL : job_ended_find(&follow->ended, pid, command->time_ns);
    if (process && !process->over && !hears_exits(follow))
        hold_pidfd(follow, process); /* it may end at any moment */
    if (process && command->time_ns >= max_count(process->start_ns, process->exec_ns) &&
        (follow->polled || !has_said(process->command, process->start_ns, process->exec_ns))) {
        drop_command(process);
        process->command = command->whole ? NULL : job_command_read(pid); /* while it lives */
        if (process->command)
            process->command->said = true;
        else
            process->command = job_command_share(command);
    } else if (ended && command->time_ns >= ended->exec_ns &&
               !has_said(ended->command, ended->start_ns, ended->exec_ns)) {
        job_command_drop(ended->command);
        ended->command = job_command_share(command);
    }
}

int job_follow_exits_fd(const struct job_follow *follow)
{
    return follow->exits.fd;
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
    if (follow->polled && strcmp(process->name, stat->comm) != 0)
        drop_command(process); /* it seems to execute something else */
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
        there = false; /* another process has its pid now */
    if (!there) {
        /* perf will report its end, with exact figures */
        if (follow->polled)
            process_end(follow, process, now);
        else
            process->state = 0;
        return;
    }
    if (!process->over && strcmp(stat.comm, AGENT_NAME) == 0) { /* perf has not reported its name yet */
        leave_out(follow, process);
        return;
    }
    if (!follow->polled && !process->settled && !strchr("STt", stat.state) && now < process->start_ns + NEWBORN_NS) {
        process->state = 0; /* the next sample decides whose it is */
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
    return pid == follow->root || job_follow_find(follow, pid);
}

/* Adds what belongs to the job and is new. */
static size_t scan_tree(struct job_follow *follow)
{
    struct job_tree tree = {0};
    size_t found = 0;
    const struct job_tree_root root = {.pid = follow->root, .ticks = follow->root_ticks, .dir = follow->dir};
    job_tree_read(&tree, AGENT_NAME);
    job_tree_mark(&tree, is_known, follow, &root);
    for (size_t i = 0; i < tree.count; i++) {
        const struct job_tree_process *seen = &tree.list[i];
        if (!seen->ours || job_follow_find(follow, seen->pid))
            continue;
        struct tracked *process = process_add(follow, seen->pid, seen->stat.ppid, ticks_to_ns(seen->stat.start_ticks));
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

/* A command that is held has started nothing: there is nothing to find, in a machine's thousands of processes. */
static bool has_started_nothing(const struct proc_stat *root)
{
    char children[64];
    return root->never_executed && root->threads == 1 &&
           proc_file_read(root->pid, root->pid, "children", children, sizeof children, NULL) == 0 && !children[0];
}

void job_follow_sample(struct job_follow *follow)
{
    uint64_t now = clock_now_ns();
    job_follow_drain(follow);
    if (follow->polled)
        scan_tree(follow);
    struct tracked *process, *next;
    HASH_ITER(hh, follow->alive, process, next)
    sample_one(follow, process, now);
    if (follow->ended.in_vain && !follow->exits.heard) /* there was an end, and no event */
        follow->exits.silent = true;
}

bool job_follow_has(struct job_follow *follow, pid_t pid)
{
    struct proc_stat stat;
    job_follow_drain(follow);
    if (follow->polled && !job_follow_find(follow, pid))
        scan_tree(follow);
    const struct tracked *process = job_follow_find(follow, pid);
    return process && !process->over && proc_stat_read(pid, 0, &stat) == 0 &&
           (!process->start_ticks || process->start_ticks == stat.start_ticks);
}

bool job_follow_knows(const struct job_follow *follow, pid_t pid)
{
    return job_follow_find(follow, pid) != NULL;
}

/* To the process, if that is still the one that began then. */
static int signal_one(pid_t pid, uint64_t start_ticks, const struct tracked *process, int signo)
{
    struct proc_stat stat;
    _cleanup_(closep) int fd = proc_pidfd(pid);
    if (fd < 0)
        return fd;
    if (proc_stat_read(pid, 0, &stat) < 0 ||
        !(start_ticks ? stat.start_ticks == start_ticks : began_then(process, &stat)))
        return -ESRCH;
    return process && process_is_scrys(stat.comm) ? 0 : proc_signal(fd, signo);
}

int job_follow_signal(struct job_follow *follow, int signo)
{
    struct tracked *process, *next;
    int code = signal_one(follow->root, follow->root_ticks, NULL, signo);
    if (code < 0 || !process_signal_is_for_all(signo))
        return code;
    job_follow_drain(follow);
    if (follow->polled)
        scan_tree(follow);
    HASH_ITER(hh, follow->alive, process, next)
    if (process->pid != follow->root && !process->over)
        signal_one(process->pid, process->start_ticks, process, signo);
    return 0;
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
        job_exits_open(&follow->exits); /* before perf: every end that perf reports is reported here, too */
        process = process_add(follow, root, stat.ppid, ticks_to_ns(stat.start_ticks));
    }
    if (!process) {
        if (follow) {
            job_exits_close(&follow->exits);
            free(follow->dir);
        }
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
    process->rss = process->peak_rss = 0; /* held before its exec, it has the size of the process that forked it */
    if (!has_started_nothing(&stat) && (scan_tree(follow) || stat.threads > 1)) {
        follow->polled = true;
        snprintf(follow->reason, sizeof follow->reason, "the job was running already");
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
    process_drop(follow, process);
    follow_close(follow->perf);
    job_exits_close(&follow->exits);
    job_ended_done(&follow->ended);
    free(follow->dir);
    free(follow);
}

/* What is told of a job's processes: job_follow_print. */

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
