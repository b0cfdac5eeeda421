/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/pids.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "cli/common/cli.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"

enum { PIDS_MOST = 4 << 20 }; /* of the kernel, PID_MAX_LIMIT */

/* The number of a process: 0, if a directory or a job has that name, or there is no such process and an id of a job begins so. */
static pid_t word_pid(const char *word)
{
    struct job_info info = {0};
    struct err err = {0};
    enum job_state state;
    struct stat dir;
    char path[PATH_MAX];
    long number = strtol(word, NULL, 10);
    if (strspn(word, "0123456789") != strlen(word) || number <= 0 || number > PIDS_MOST || stat(word, &dir) == 0)
        return 0;
    bool is_job = jobdir_find(word, path, sizeof path, &err) == 0 &&
                  job_info_read_state(path, &info, &state, &err) == 0 &&
                  ((info.name && strcmp(info.name, word) == 0) || !proc_letter((pid_t)number, 0));
    job_info_done(&info);
    return is_job ? 0 : (pid_t)number;
}

bool pids_are_meant(const struct options *options)
{
    return options->word_count > 1 || word_pid(options->words[0]);
}

static bool is_over(const struct proc_stat *stat)
{
    return stat->state == 'X' ||
           (stat->state == 'Z' && stat->threads <= 1); /* the first thread may end before others */
}

int pid_check(pid_t pid, struct err *err)
{
    char text[256], path[PROC_PATH_SIZE], parent[64];
    struct stat owner;
    struct proc_stat seen;
    size_t len;
    proc_path(path, pid, 0, "");
    int code = proc_stat_of(pid, 0, &seen);
    if (code < 0 || stat(path, &owner) < 0)
        return err_set(err, -ESRCH, "there is no process %d on this node, nor a job of that name", (int)pid);
    if (seen.kernels_own)
        return err_set(err, -EINVAL,
                       "process %d (%s) is a thread of the kernel: it runs no program that could be shown", (int)pid,
                       seen.comm);
    if (is_over(&seen)) {
        proc_comm(seen.ppid, 0, parent, sizeof parent);
        return err_set(err, -ESRCH, "process %d (%s) has ended, and is there only until its parent %d (%s) asks how",
                       (int)pid, seen.comm, (int)seen.ppid, parent);
    }
    code = proc_file_read(pid, 0, "syscall", text, sizeof text, &len);
    if (code != -EACCES && code != -EPERM)
        return 0;
    if (owner.st_uid != geteuid())
        return err_set(err, -EACCES,
                       "process %d: it belongs to another user (uid %u), so it may not be looked at: ask as that user",
                       (int)pid, (unsigned)owner.st_uid);
    return err_set(err, -EACCES,
                   "process %d: the kernel does not let you look at it (scry doctor says what it allows): Yama's "
                   "ptrace_scope is above 0, a container forbids it, or the program has more rights than you; an "
                   "administrator sets sysctl kernel.yama.ptrace_scope=0, or asks",
                   (int)pid);
}

static bool has_pid(const pid_t *list, size_t count, pid_t pid)
{
    while (count && list[count - 1] != pid)
        count--;
    return count > 0;
}

/* Adds what these processes have started. 0 or -ENOMEM. */
static int add_children(pid_t **list, size_t *count, size_t *room)
{
    _cleanup_(freep) struct proc_stat *stats = NULL;
    size_t stat_count = 0, stat_room = 0;
    DIR *dir = opendir("/proc");
    int code = 0;
    for (struct dirent *entry; code == 0 && dir && (entry = readdir(dir));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (!GROW(stats, stat_count, stat_room))
            code = -ENOMEM;
        else if (pid > 0 && proc_stat_of(pid, 0, &stats[stat_count]) == 0 && !is_over(&stats[stat_count]))
            stat_count++;
    }
    if (dir)
        closedir(dir);
    for (size_t at = 0; code == 0 && at < *count; at++)
        for (size_t i = 0; code == 0 && i < stat_count; i++) {
            if (stats[i].ppid != (*list)[at] || has_pid(*list, *count, stats[i].pid))
                continue;
            if (!GROW(*list, *count, *room))
                code = -ENOMEM;
            else
                (*list)[(*count)++] = stats[i].pid;
        }
    return code;
}

int pids_take(const struct options *options, pid_t **ret_list, size_t *ret_count)
{
    size_t room = 0;
    int status = 0;
    *ret_list = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < options->word_count; i++) {
        struct err err = {0};
        pid_t pid = word_pid(options->words[i]);
        if (!pid) {
            *ret_count = 0;
            return cli_usage_error(options, "one job, or numbers of processes: %s is none", options->words[i]);
        }
        if (pid_check(pid, &err) == 0 && !has_pid(*ret_list, *ret_count, pid)) {
            if (!GROW(*ret_list, *ret_count, room))
                err_set(&err, -ENOMEM, "out of memory");
            else
                (*ret_list)[(*ret_count)++] = pid;
        }
        if (err.code) {
            cli_log_error(&err);
            status = EXIT_ERRORS;
        }
    }
    if (*ret_count && add_children(ret_list, ret_count, &room) < 0) {
        log_error("out of memory");
        *ret_count = 0;
        status = EXIT_ERRORS;
    }
    return status;
}

void pids_living(const struct options *options, pid_t **ret_list, size_t *ret_count)
{
    size_t room = 0;
    *ret_list = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < options->word_count; i++) {
        pid_t pid = (pid_t)strtol(options->words[i], NULL, 10);
        if (pid_check(pid, NULL) == 0 && !has_pid(*ret_list, *ret_count, pid) && GROW(*ret_list, *ret_count, room))
            (*ret_list)[(*ret_count)++] = pid;
    }
    if (*ret_count)
        add_children(ret_list, ret_count, &room); /* without memory: those that there are */
}
