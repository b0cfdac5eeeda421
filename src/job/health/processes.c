/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/processes.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "shm/waits.h"

enum {
    IDLE_EVERY = 4,    /* looks at one that has not used a clock tick of time: it may have read and written */
    STACK_EVERY = 8,   /* looks at the stack */
    LIMITS_EVERY = 32, /* setrlimit */
    MANY_ZOMBIES = 50,
};
#define NEAR 0.9 /* of a limit */
#define FAR 0.7
#define CPU_SOON 0.1 /* of the limit is left */

/* ---- which there are ---- */

static struct process_health *process_find(struct processes *processes, pid_t pid)
{
    struct process_health *process;
    HASH_FIND_INT(processes->all, &pid, process);
    return process;
}

static void drop(struct processes *processes, struct process_health *process)
{
    if (processes->next == process)
        processes->next = process->hh.next;
    processes->ended -= process->ended;
    HASH_DEL(processes->all, process);
    free(process);
}

static void moved(struct processes *processes, const struct process_health *process)
{
    processes->motion.pid = process->pid;
    memcpy(processes->motion.name, process->name, sizeof processes->motion.name);
}

void processes_add(struct processes *processes, pid_t pid, pid_t ppid, const char *name)
{
    struct process_health *process = process_find(processes, pid);
    if (process && process->ended) { /* the number was given to another one */
        drop(processes, process);
        process = NULL;
    }
    if (!process) {
        process = calloc(1, sizeof *process);
        if (!process)
            return;
        process->pid = pid;
        process->read_bytes = process->written_bytes = process->open_files = -1;
        process->files_limit = process->cpu_limit_seconds = process->stack_limit = INT64_MAX;
        HASH_ADD_INT(processes->all, pid, process);
    }
    process->ppid = ppid;
    process->looks = 0; /* limits may be others */
    process->slow = false;
    snprintf(process->name, sizeof process->name, "%s", name);
    processes->motion.changes++;
    processes->motion.ended = false;
    moved(processes, process);
}

static bool read_stat(const struct look *look, pid_t pid, struct proc_stat *ret_stat)
{
    char text[1200];
    return look_read(look->root, text, sizeof text, "/proc/%d/stat", (int)pid) == 0 &&
           proc_stat_parse(text, ret_stat) == 0;
}

void processes_ended(struct processes *processes, const struct look *look, pid_t pid, pid_t ppid, const char *name)
{
    struct process_health *process = process_find(processes, pid);
    struct proc_stat stat;
    if (!process) {
        processes_add(processes, pid, ppid, name);
        process = process_find(processes, pid);
    } else {
        processes->motion.changes++;
        moved(processes, process);
    }
    processes->motion.ended = true;
    if (!process)
        return;
    if (processes->ended < PROCESSES_ENDED && !process->ended && read_stat(look, pid, &stat) && stat.state == 'Z') {
        process->ended = true;
        process->rss = 0;
        process->state = 'Z';
        processes->ended++;
    } else {
        drop(processes, process);
    }
}

void processes_done(struct processes *processes)
{
    HASH_FREE_ALL(processes->all);
    processes->next = NULL;
}

/* ---- what they do ---- */

static void read_bytes(struct processes *processes, struct process_health *process, const struct look *look)
{
    char text[512];
    if (look_read(look->root, text, sizeof text, "/proc/%d/io", (int)process->pid) < 0)
        return;
    int64_t read = look_find(text, "rchar"), written = look_find(text, "wchar");
    if (read == process->read_bytes && written == process->written_bytes)
        return;
    process->listed = true;
    if (process->read_bytes >= 0 && read >= process->read_bytes && written >= process->written_bytes) {
        processes->motion.bytes +=
            (uint64_t)(read - process->read_bytes) + (uint64_t)(written - process->written_bytes);
        moved(processes, process);
    }
    process->read_bytes = read;
    process->written_bytes = written;
}

/* Its time on processors, and without one: see the kernel's Documentation/scheduler/sched-stats.rst. */
static void read_waits(struct processes *processes, struct process_health *process, const struct look *look)
{
    char text[128], *end = text;
    if (look_read(look->root, text, sizeof text, "/proc/%d/schedstat", (int)process->pid) < 0)
        return;
    strtoull(text, &end, 10);
    uint64_t waited_ns = strtoull(end, NULL, 10);
    uint64_t more_ns = process->looks && waited_ns > process->waited_ns ? waited_ns - process->waited_ns : 0;
    cpu_set_t its;
    processes->motion.waited_ns += more_ns;
    if (more_ns > (look->now_ns - processes->looked_ns) / 10 && sched_getaffinity(process->pid, sizeof its, &its) == 0)
        CPU_OR(&processes->lacking, &processes->lacking, &its);
    process->waited_ns = waited_ns;
}

/* Linux says it as the size of the folder since 6.2. */
static int64_t count_files(const struct look *look, pid_t pid)
{
    char path[PATH_MAX];
    struct stat info;
    int len = snprintf(path, sizeof path, "%s/proc/%d/fd", look->root, (int)pid);
    if (len < 0 || (size_t)len >= sizeof path)
        return -1;
    if (!look->root[0] && stat(path, &info) == 0 && info.st_size > 0)
        return info.st_size;
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static int64_t soft_limit(pid_t pid, int which)
{
    struct rlimit limit;
    return prlimit(pid, which, NULL, &limit) < 0 || limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

/* ---- what comes near a limit ---- */

static void judge_files(struct process_health *process, const struct look *look)
{
    int64_t open = count_files(look, process->pid), limit = process->files_limit;
    if (open < 0)
        return;
    process->listed |= open != process->open_files;
    process->open_files = open;
    double share = limit > 0 ? (double)open / (double)limit : 0;
    if (alarm_rings(&process->files, look, share >= NEAR, share < FAR, share))
        look->say(look->ctx, NOTE(open_files, .pid = (uint64_t)process->pid, .program = process->name,
                                  .open = (uint64_t)open, .limit = (uint64_t)limit));
}

static void judge_cpu(struct process_health *process, const struct look *look)
{
    double limit = (double)process->cpu_limit_seconds, left = limit - (double)process->cpu_ns / NS_PER_SECOND;
    if (process->cpu_limit_seconds == INT64_MAX)
        return;
    double soon = CPU_SOON * limit < CPU_SOON_SECONDS ? CPU_SOON * limit : CPU_SOON_SECONDS;
    if (alarm_rings(&process->cpu, look, left <= (soon > 1 ? soon : 1), left > 2 * soon + 1, 1))
        look->say(look->ctx, NOTE(cpu_limit, .pid = (uint64_t)process->pid, .program = process->name,
                                  .limit_seconds = limit, .left_seconds = left > 0 ? left : 0));
}

static void judge_stack(struct process_health *process, const struct look *look)
{
    char text[8192];
    if (process->stack_limit == INT64_MAX || !process->stack_limit ||
        look_read(look->root, text, sizeof text, "/proc/%d/status", (int)process->pid) < 0)
        return;
    int64_t used_kb = look_find(text, "VmStk");
    double share = used_kb < 0 ? 0 : (double)used_kb * 1024 / (double)process->stack_limit;
    if (alarm_rings(&process->stack, look, share >= NEAR, share < FAR, share))
        look->say(look->ctx, NOTE(stack_limit, .pid = (uint64_t)process->pid, .program = process->name,
                                  .used_kb = (uint64_t)used_kb, .limit_kb = (uint64_t)process->stack_limit / 1024));
}

/* false: it is gone. */
static bool look_at(struct processes *processes, struct process_health *process, const struct look *look)
{
    struct proc_stat stat;
    if (!read_stat(look, process->pid, &stat) || (process->ended && stat.state != 'Z'))
        return false;
    uint64_t cpu_ns = stat.user_ns + stat.system_ns;
    bool worked = cpu_ns != process->cpu_ns;
    if (!*process->name)
        snprintf(process->name, sizeof process->name, "%s", stat.comm);
    if (process->looks && cpu_ns > process->cpu_ns) {
        processes->motion.cpu_ns += cpu_ns - process->cpu_ns;
        moved(processes, process);
    }
    if (process->looks && cpu_ns + stat.children_ns > process->spent_ns)
        processes->motion.spent_ns += cpu_ns + stat.children_ns - process->spent_ns;
    if (worked || !process->looks || stat.state == 'R')
        read_waits(processes, process, look);
    process->cpu_ns = cpu_ns;
    process->spent_ns = cpu_ns + stat.children_ns;
    process->state = stat.state;
    process->rss = stat.state == 'Z' ? 0 : stat.resident_bytes;
    process->ppid = stat.ppid;
    unsigned look_number = process->looks++;
    if (stat.state == 'Z')
        return true;
    if (look_number % LIMITS_EVERY == 0) {
        process->files_limit = soft_limit(process->pid, RLIMIT_NOFILE);
        process->cpu_limit_seconds = soft_limit(process->pid, RLIMIT_CPU);
        process->stack_limit = soft_limit(process->pid, RLIMIT_STACK);
    }
    if (worked || look_number % IDLE_EVERY == 0) {
        read_bytes(processes, process, look);
        judge_files(process, look);
        judge_cpu(process, look);
    }
    if (look_number % STACK_EVERY == 1)
        judge_stack(process, look);
    return true;
}

/* ---- all together ---- */

/* Said with the parent of most of them. */
static void judge_zombies(struct processes *processes, const struct look *look)
{
    size_t count = 0;
    const struct process_health *last = NULL;
    if (look->now_ns < processes->zombies_looked_ns + PROCESSES_ZOMBIES_NS)
        return;
    processes->zombies_looked_ns = look->now_ns;
    for (const struct process_health *process = processes->all; process; process = process->hh.next)
        if (process->state == 'Z') {
            count++;
            last = process;
        }
    if (!alarm_rings(&processes->zombies, look, count >= MANY_ZOMBIES, count < MANY_ZOMBIES / 2, (double)count))
        return;
    struct proc_stat parent;
    bool known = read_stat(look, last->ppid, &parent);
    look->say(look->ctx, NOTE(zombies, .processes = count, .pid = (uint64_t)last->ppid,
                              .program = known ? parent.comm : "its parent"));
}

/* Threads of this user on the node. */
static int64_t count_user_tasks(const struct look *look)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/proc", look->root);
    DIR *folder = len > 0 && (size_t)len < sizeof path ? opendir(path) : NULL;
    int64_t count = 0;
    if (!folder)
        return -1;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct stat info;
        struct proc_stat stat;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || fstatat(dirfd(folder), entry->d_name, &info, 0) < 0 ||
            info.st_uid != geteuid() || !read_stat(look, (pid_t)strtol(entry->d_name, NULL, 10), &stat))
            continue;
        count += stat.threads > 0 ? stat.threads : 1;
    }
    closedir(folder);
    return count;
}

/* RLIMIT_NPROC counts threads of the user on the whole node. Those are counted only if all there are come near it. */
static void judge_user_tasks(struct processes *processes, const struct look *look)
{
    char text[128];
    if (!processes->all || geteuid() == 0 || look->now_ns < processes->user_looked_ns + PROCESSES_USER_NS)
        return;
    processes->user_looked_ns = look->now_ns;
    int64_t limit = soft_limit(processes->all->pid, RLIMIT_NPROC);
    if (limit == INT64_MAX || limit <= 0 || look_read(look->root, text, sizeof text, "/proc/loadavg") < 0)
        return;
    const char *slash = strchr(text, '/'); /* "0.20 0.18 0.12 1/80 11206": running and all tasks */
    double all = slash ? strtod(slash + 1, NULL) : 0;
    int64_t count = all >= FAR * (double)limit ? count_user_tasks(look) : 0;
    double share = (double)count / (double)limit;
    if (alarm_rings(&processes->user_tasks, look, share >= NEAR, share < FAR, share))
        look->say(look->ctx, NOTE(user_tasks, .tasks = (uint64_t)count, .limit = (uint64_t)limit));
}

void processes_look(struct processes *processes, const struct look *look)
{
    size_t count = HASH_COUNT(processes->all), living = 0, stopped = 0;
    CPU_ZERO(&processes->lacking);
    for (size_t i = 0; i < count && i < PROCESSES_AT_ONCE; i++) {
        struct process_health *process = processes->next ? processes->next : processes->all;
        processes->next = process->hh.next;
        bool there = look_at(processes, process, look);
        living += there && process->state != 'Z';
        stopped += there && (process->state == 'T' || process->state == 't');
        if (!there)
            drop(processes, process);
    }
    processes->motion.stopped = living && stopped == living;
    processes->looked_ns = look->now_ns;
    processes->motion.lacking = (unsigned)CPU_COUNT(&processes->lacking);
    processes->motion.whole = count <= PROCESSES_AT_ONCE;
    judge_zombies(processes, look);
    judge_user_tasks(processes, look);
}

json_t *processes_json(struct processes *processes)
{
    json_t *list = NULL;
    for (struct process_health *process = processes->all; process; process = process->hh.next) {
        if (!process->listed)
            continue;
        if (!list)
            list = json_array();
        if (json_array_size(list) == PROCESSES_LISTED)
            break;
        process->listed = false;
        json_array_append_new(
            list, json_pack("[i, I, I, I, o]", (int)process->pid, (json_int_t)process->read_bytes,
                            (json_int_t)process->written_bytes, (json_int_t)process->open_files,
                            process->files_limit == INT64_MAX ? json_null() : json_integer(process->files_limit)));
    }
    return list;
}
