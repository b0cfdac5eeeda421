/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of runs: started, looked at, ended. */
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

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/proc_file.h"
#include "task/advance.h"
#include "task/launch.h"

/* ---- starting ---- */

static void take_stream(const char *path, int number)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        dup2(fd, number);
}

static void limit(int what, uint64_t bytes)
{
    if (bytes)
        setrlimit(what, &(struct rlimit){bytes, bytes});
}

/* In the child. What it gets to say of itself goes to the file for errors. */
static _Noreturn void become(const struct task_launch *launch, int wait)
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
    limit(RLIMIT_FSIZE, launch->file_bytes);
    limit(RLIMIT_DATA, launch->data_bytes);
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
        become(launch, ends[0]);
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

typedef void each_fn(const struct proc_stat *process, void *ctx);

/* Calls fn for the processes of the session, and for those below `command`, parents first as far as numbers grow. */
static void each_process(pid_t session, pid_t command, each_fn *fn, void *ctx)
{
    enum { MOST = 1 << 16 };
    DIR *proc = opendir("/proc");
    pid_t *found = calloc(MOST, sizeof *found);
    size_t count = 0;
    for (struct dirent *entry; proc && found && (entry = readdir(proc));) {
        struct proc_stat stat;
        if (!isdigit((unsigned char)*entry->d_name) || proc_stat_of(atoi(entry->d_name), 0, &stat) < 0)
            continue;
        bool ours = stat.session == session || stat.pid == command;
        for (size_t i = count; i-- > 0 && !ours;)
            ours = found[i] == stat.ppid;
        if (!ours)
            continue;
        if (count < MOST)
            found[count++] = stat.pid;
        fn(&stat, ctx);
    }
    free(found);
    if (proc)
        closedir(proc);
}

static void add_use(const struct proc_stat *process, void *ctx)
{
    struct task_use *use = ctx;
    use->processes++;
    use->memory_bytes += process->resident_bytes;
}

void task_use_look(pid_t session, struct task_use *ret_use)
{
    *ret_use = (struct task_use){0};
    each_process(session, session, add_use, ret_use);
}

struct killing {
    pid_t supervisor, command;
};

static void kill_one(const struct proc_stat *process, void *ctx)
{
    const struct killing *killing = ctx;
    bool helper = process->ppid == killing->supervisor && process->pid != killing->command;
    if (process->pid != killing->supervisor && !helper && process->pid != getpid())
        kill(process->pid, SIGKILL);
}

void task_kill_command(pid_t session, pid_t supervisor, pid_t command)
{
    struct killing killing = {supervisor, command};
    each_process(session, command, kill_one, &killing);
}

/* ---- those that went away ---- */

static bool has_variable(pid_t pid, const char *variable)
{
    char path[32];
    size_t size;
    _cleanup_(freep) char *environment = NULL;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    if (file_read(path, &environment, &size) < 0)
        return false;
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strcmp(at, variable) == 0)
            return true;
    return false;
}

void task_kill_left(const char *id)
{
    enum { ROUNDS = 3 }; /* they may have children meanwhile */
    char variable[TASK_ID_SIZE + 16];
    size_t killed = 1;
    snprintf(variable, sizeof variable, "SCRY_TASK=%s", id);
    for (int round = 0; round < ROUNDS && killed; round++) {
        DIR *proc = opendir("/proc");
        killed = 0;
        for (struct dirent *entry; proc && (entry = readdir(proc));) {
            pid_t pid = atoi(entry->d_name);
            struct proc_stat stat;
            if (pid <= 1 || pid == getpid() || proc_stat_of(pid, 0, &stat) < 0 || stat.state == 'Z' ||
                strncmp(stat.comm, "scry", 4) == 0 || !has_variable(pid, variable))
                continue;
            killed += kill(pid, SIGKILL) == 0;
        }
        if (proc)
            closedir(proc);
    }
}
