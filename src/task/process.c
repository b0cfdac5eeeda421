/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a run: how they begin, what they take, how they are ended, and what they leave behind (task/advance.h). */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "jobdir/text/text.h"
#include "task/advance.h"
#include "task/launch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* {"processes": 0, "names": []}; a new reference. */
static json_t *task_left_new(void)
{
    return json_pack("{s:i, s:[]}", "processes", 0, "names");
}

uint64_t task_left_count(const json_t *left)
{
    return (uint64_t)json_integer_value(json_object_get(left, "processes"));
}

/* One process more. Each name is there once, and some of them are enough. */
static void task_left_add(json_t *left, const char *name)
{
    enum { NAMES = 8 };
    json_t *names = json_object_get(left, "names"), *text = text_json(name), *each;
    bool known = false;
    size_t i;
    json_object_set_new(left, "processes", json_integer((json_int_t)task_left_count(left) + 1));
    json_array_foreach(names, i, each) known = known || json_equal(each, text);
    if (known || json_array_size(names) >= NAMES)
        json_decref(text);
    else
        json_array_append_new(names, text);
}

/* Lines with a name each. Whoever is on that machine wrote them. */
static json_t *read_names(const char *path)
{
    enum { MOST = 100000 };
    char name[64];
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    json_t *left = task_left_new();
    while (file && task_left_count(left) < MOST && fgets(name, sizeof name, file)) {
        name[strcspn(name, "\n")] = 0;
        task_left_add(left, name);
    }
    return left;
}

void task_left_note_far(const struct task *task, uint64_t run)
{
    char path[PATH_MAX + 64];
    json_t *phases = json_object_get(task->state, "phases"), *phase, *of = NULL;
    size_t i;
    snprintf(path, sizeof path, "%s/runs/.%llu.left", task->dir, (unsigned long long)run);
    json_t *left = read_names(path);
    json_array_foreach(phases, i, phase)
    {
        const char *name = json_string_value(json_object_get(phase, "phase"));
        if (name && strcmp(name, "run") == 0 && (uint64_t)json_integer_value(json_object_get(phase, "run")) == run)
            of = phase;
    }
    if (of && task_left_count(left))
        json_object_set(of, "left_behind", left);
    json_decref(left);
}

/* Processes of runs: started, looked at, ended. */

/* ---- starting ---- */

static void take_stream(const char *path, int number)
{
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd >= 0)
        dup2(fd, number);
}

static void limit_set(int what, uint64_t bytes)
{
    if (bytes)
        setrlimit(what, &(struct rlimit){bytes, bytes});
}

/* In the child. What it gets to say of itself goes to the file for errors. */
static _Noreturn void held_become(const struct task_launch *launch, int wait)
{
    char go = 0;
    sigset_t none;
    setsid();
    umask(077);
    for (int signo = 1; signo < NSIG; signo++)
        signal(signo, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (read(wait, &go, 1) != 1) /* whoever was to write down that it runs is gone */
        _exit(0);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    take_stream(launch->out, STDOUT_FILENO);
    take_stream(launch->err, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    limit_set(RLIMIT_FSIZE, launch->file_bytes);
    limit_set(RLIMIT_DATA, launch->data_bytes);
    if (chdir(launch->directory) == 0)
        execve(launch->argv[0], launch->argv, launch->environment);
    dprintf(STDERR_FILENO, "cannot execute %s in %s: errno %d\n", launch->argv[0], launch->directory, errno);
    _exit(127);
}

int task_hold(const struct task_launch *launch, struct task_held *ret_held)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        held_become(launch, ends[0]);
    }
    int code = pid < 0 ? -errno : 0;
    close(ends[0]);
    *ret_held = (struct task_held){pid, ends[1]};
    if (code < 0)
        close(ends[1]);
    return code;
}

void task_release(struct task_held *held, bool go)
{
    if (go && write(held->go, "", 1) != 1)
        kill(held->pid, SIGKILL);
    close(held->go);
}

/* ---- looking ---- */

struct member {
    pid_t pid, ppid;
    uint64_t resident_bytes;
    bool ours, scrys;
    char name[16];
};

struct members {
    struct member *all;
    size_t count, room;
};

static bool put_member(struct members *members, const struct member *member)
{
    if (!GROW(members->all, members->count, members->room))
        return false;
    members->all[members->count++] = *member;
    return true;
}

/* Does it say that it is of this task? So what has left its session and its parents is found, too. What scry has for all
 * jobs may have been started by one. */
static bool says_it_is(const struct proc_stat *process, const char *task)
{
    char path[PROC_PATH_SIZE], variable[128];
    _cleanup_(freep) char *text = NULL;
    size_t size = 0;
    if (!task || process_is_scrys(process->comm))
        return false;
    int len = snprintf(variable, sizeof variable, "SCRY_TASK=%s", task);
    proc_path(path, process->pid, 0, "environ");
    if (file_read(path, &text, &size) < 0) /* another user's */
        return false;
    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        if (strlen(at) == (size_t)len && memcmp(at, variable, (size_t)len) == 0)
            return true;
    return false;
}

static int by_pid(const void *a, const void *b)
{
    pid_t one = ((const struct member *)a)->pid, other = ((const struct member *)b)->pid;
    return (one > other) - (one < other);
}

/* All processes; those are marked that are of the session, of the task, or below these. */
static void members_look(const struct task_kin *kin, struct members *ret_members)
{
    DIR *proc = opendir("/proc");
    *ret_members = (struct members){0};
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        struct proc_stat stat;
        if (!isdigit((unsigned char)*entry->d_name) || proc_stat_of(atoi(entry->d_name), 0, &stat) < 0)
            continue;
        struct member member = {stat.pid,
                                stat.ppid,
                                stat.resident_bytes,
                                stat.session == kin->session || stat.pid == kin->command ||
                                    (stat.start_ticks >= kin->since_ticks && says_it_is(&stat, kin->task)),
                                process_is_scrys(stat.comm),
                                ""};
        snprintf(member.name, sizeof member.name, "%.15s", stat.comm);
        if (stat.state != 'Z' && !put_member(ret_members, &member))
            break;
    }
    if (proc)
        closedir(proc);
    if (ret_members->count)
        qsort(ret_members->all, ret_members->count, sizeof *ret_members->all, by_pid);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < ret_members->count; i++) {
            struct member *each = &ret_members->all[i], parent = {.pid = each->ppid};
            const struct member *found =
                each->ours ? NULL : bsearch(&parent, ret_members->all, ret_members->count, sizeof parent, by_pid);
            if (found && found->ours)
                more = each->ours = true;
        }
    }
}

/* What a process has resident, of shared pages its part. The kernel goes through all of its pages for it. */
static uint64_t own_part(const struct member *process)
{
    char path[PROC_PATH_SIZE];
    _cleanup_(freep) char *text = NULL;
    proc_path(path, process->pid, 0, "smaps_rollup");
    const char *at = file_read(path, &text, NULL) == 0 ? strstr(text, "\nPss:") : NULL;
    return at ? strtoull(at + strlen("\nPss:"), NULL, 10) << 10 : process->resident_bytes;
}

static uint64_t members_memory(const struct members *members, bool parts)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < members->count; i++)
        if (members->all[i].ours && !members->all[i].scrys)
            bytes += parts ? own_part(&members->all[i]) : members->all[i].resident_bytes;
    return bytes;
}

bool task_takes_more(const struct task_kin *kin, uint64_t most)
{
    enum { REST = 50 };
    static uint64_t looked_ns,
        took_ns; /* of all tasks: those that share much memory are not kept busy with being looked at */
    struct members members;
    members_look(kin, &members);
    bool more = members_memory(&members, false) > most;
    uint64_t now = clock_now_ns();
    if (more && now - looked_ns >= REST * took_ns) { /* ranks that share memory count it once each: a closer look */
        more = members_memory(&members, true) > most;
        looked_ns = clock_now_ns();
        took_ns = looked_ns - now;
    } else {
        more = false;
    }
    free(members.all);
    return more;
}

/* Sends it to those that are to end. Returns how many. */
static size_t send_all(const struct members *members, pid_t supervisor, pid_t command, int signal)
{
    size_t sent = 0;
    for (size_t i = 0; i < members->count; i++) {
        const struct member *each = &members->all[i];
        bool helper = each->ppid == supervisor && each->pid != command;
        if (each->ours && each->pid != supervisor && !helper && each->pid != getpid())
            sent += kill(each->pid, signal) == 0;
    }
    return sent;
}

void task_kill_command(const struct task_kin *kin, pid_t supervisor)
{
    enum { ROUNDS = 20 };
    struct members members = {0};
    size_t before = 0, now = 0;
    /* stopped first: what has lost its parent would not be found, and what goes on starts others */
    for (int round = 0; round < ROUNDS && (round == 0 || now != before); round++) {
        free(members.all);
        before = now;
        members_look(kin, &members);
        now = send_all(&members, supervisor, kin->command, SIGSTOP);
    }
    send_all(&members, supervisor, kin->command, SIGKILL);
    free(members.all);
}

json_t *task_look_left(const struct task_kin *kin, int signal)
{
    struct members members;
    json_t *left = task_left_new();
    members_look(kin, &members);
    for (size_t i = 0; i < members.count; i++)
        if (members.all[i].ours && !members.all[i].scrys)
            task_left_add(left, members.all[i].name);
    if (signal)
        send_all(&members, 0, 0, signal);
    free(members.all);
    return left;
}
