/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of tasks: one at a time for each. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/record/info.h"
#include "task/internal.h"
#include "task/launch.h"
#include "task/spec.h"

const char *task_state_name(const json_t *state)
{
    const char *name = json_string_value(json_object_get(state, "state"));
    return name ? name : "failed";
}

bool task_is_over(const json_t *state)
{
    const char *name = task_state_name(state);
    return strcmp(name, "done") == 0 || strcmp(name, "failed") == 0 || strcmp(name, "cancelled") == 0;
}

bool task_is_active(const json_t *state)
{
    return !task_is_over(state) && strcmp(task_state_name(state), "draft") != 0;
}

const char *task_elsewhere(const struct task_store *store, const json_t *state)
{
    const char *host = json_string_value(json_object_get(state, "host"));
    return host && *host && *host != '.' && !strchr(host, '/') && strcmp(host, store->host) != 0 ? host : NULL;
}

int task_lock(const char *dir, const char *lock, bool wait)
{
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    snprintf(path, sizeof path, "%s/%s", dir, lock);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0)
        if (errno != EINTR) {
            int code = -errno;
            close(fd);
            return code;
        }
    return fd;
}

/* The mark comes before the state that needs it, and goes after: whoever finds one too many removes it. */
static int set_mark(const struct task_store *store, const struct task *task, bool active)
{
    char path[TASK_HOST_PATH_SIZE];
    const char *elsewhere = task_elsewhere(store, task->state);
    task_host_path(store, elsewhere ? elsewhere : "", task->id, path);
    if (!active)
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int task_change(const struct task_store *store, const char *id, task_change_fn *fn, void *ctx, struct err *err)
{
    struct task task;
    char dir[PATH_MAX + TASK_ID_SIZE + 2];
    if (!task_id_is(id))
        return err_set(err, -ENOENT, "'%.100s' is no id of a task", id);
    snprintf(dir, sizeof dir, "%s/%s", store->dir, id);
    _cleanup_(closep) int lock = task_lock(dir, TASK_STATE_LOCK, true);
    if (lock < 0)
        return err_errno(err, lock, "there is no task %s that can be changed", id);
    int code = task_load(store, id, &task, err);
    if (code == 0)
        code = fn(&task, ctx, err);
    if (code == 0 && task_is_active(task.state) && (code = set_mark(store, &task, true)) < 0)
        err_errno(err, code, "cannot mark %s", id);
    if (code == 0)
        code = task_write_json(task.dir, "state.json", task.state, err);
    if (code == 0 && !task_is_active(task.state))
        set_mark(store, &task, false);
    if (code == 0)
        task_store_touch(store, id);
    task_done(&task);
    return code;
}

/* ---- what people and pages ask for ---- */

/* What would be refused when it is started, and is to be said by whoever submits it: that a program of root's is meant. */
static int check_allowed(const struct task *task, struct err *err)
{
    struct task_launch launch;
    struct err why = {0};
    int code = strcmp(task_text(task->spec, "launch.by"), "mpirun") == 0
                   ? task_launch_make(&launch, task, TASK_RUN, 1, &why)
                   : 1;
    if (code != 1)
        task_launch_done(&launch);
    if (code != -EPERM)
        return 0;
    return err_set(err, code, "%s", why.text);
}

/* Is a program of that name there to be executed: among the files, or by the path? What has a build is made first. */
static int check_ready(const struct task *task, struct err *err)
{
    char path[PATH_MAX * 2];
    json_t *files = task_member(task->spec, "files"), *each;
    const char *program = task_text(task->spec, "program"), *cwd = task_text(task->spec, "directory");
    size_t i;
    json_array_foreach(files, i, each)
    {
        snprintf(path, sizeof path, "%s/files/%s", task->dir, json_string_value(each));
        if (access(path, F_OK) < 0)
            return err_set(err, -ENOENT, "the file %.200s of the task is not there yet", json_string_value(each));
    }
    if (cwd && access(cwd, X_OK) < 0)
        return err_errno(err, -errno, "the directory %s", cwd);
    if (task_text(task->spec, "build") || strcmp(task_text(task->spec, "launch.by"), "ssh") == 0)
        return 0;
    if (!strchr(program, '/'))
        return check_allowed(task, err); /* among the files, or in the PATH of the task: the run says which */
    snprintf(path, sizeof path, "%s%s%s",
             *program == '/' ? ""
             : cwd           ? cwd
                             : task->dir,
             *program == '/' ? ""
             : cwd           ? "/"
                             : "/files/",
             program);
    if (access(path, X_OK) == 0)
        return check_allowed(task, err);
    if (errno == EACCES && access(path, R_OK) == 0)
        return err_set(
            err, -EACCES,
            "the program %s may not be executed: chmod +x it, or put before it what executes it (python3 %s)", path,
            program);
    return err_errno(err, -errno, "the program %s", path);
}

struct queueing {
    const char *host;
    bool again;
};

static int queue(struct task *task, void *ctx, struct err *err)
{
    const struct queueing *queueing = ctx;
    bool again = queueing->again;
    if (task_is_active(task->state))
        return err_set(err, -EBUSY, "task %s is %s already", task->id, task_state_name(task->state));
    if (task_is_over(task->state) != again)
        return err_set(err, -EBUSY, again ? "task %s has not run yet: queue it" : "task %s was queued before: rerun it",
                       task->id);
    int code = check_ready(task, err);
    if (code < 0)
        return code;
    json_int_t runs = (json_int_t)json_array_size(json_object_get(task->state, "runs"));
    json_t *now = json_integer((json_int_t)clock_wall_ns());
    const char *kind = json_string_value(json_object_get(json_object_get(task->state, "error"), "kind"));
    bool stays = again && kind && strcmp(kind, "gather") == 0 && /* once: that machine may be gone for good */
                 !json_object_get(task->state, "gathered_again");
    json_object_set_new(task->state, "state", json_string("queued"));
    json_object_set_new(task->state, "host", json_string(queueing->host));
    json_object_set_new(task->state, "queued_ns", now);
    json_object_set_new(task->state, "began_ns", json_null());
    json_object_set_new(task->state, "ended_ns", json_null());
    json_object_set_new(task->state, "error", json_null());
    json_object_set_new(task->state, "cancel", json_false());
    json_object_set_new(task->state, "phases", json_array());
    if (stays) { /* what is still on another machine comes first; then the runs that were wanted before */
        json_object_set_new(task->state, "gathered_again", json_true());
        return 0;
    }
    json_object_del(task->state, "gathered_again");
    json_object_set_new(task->state, "target", json_integer(runs + (json_int_t)task_number(task->spec, "repeat")));
    return 0;
}

int task_queue(const struct task_store *store, const char *id, struct err *err)
{
    struct queueing queueing = {.host = store->host, .again = false};
    char dir[PATH_MAX + TASK_ID_SIZE + 2];
    snprintf(dir, sizeof dir, "%s/%s", store->dir, id);
    _cleanup_(closep) int lock = task_id_is(id) ? task_lock(dir, TASK_FILES_LOCK, false) : -ENOENT;
    if (lock == -EWOULDBLOCK)
        return err_set(err, -EBUSY, "a file of task %s is just coming in: queue it then", id);
    return task_change(store, id, queue, &queueing, err);
}

int task_rerun(const struct task_store *store, const char *id, struct err *err)
{
    struct queueing queueing = {.host = store->host, .again = true};
    return task_change(store, id, queue, &queueing, err);
}

/* The last of a list of what has an end. */
static void end_last(json_t *list)
{
    json_t *last = json_array_size(list) ? json_array_get(list, json_array_size(list) - 1) : NULL;
    if (last && json_is_null(json_object_get(last, "ended_ns")))
        json_object_set_new(last, "ended_ns", json_integer((json_int_t)clock_wall_ns()));
}

/* Is there a sign of life of its run, on another machine? What runs writes all the time. */
static bool is_heard(const struct task *task)
{
    char dir[PATH_MAX];
    struct job_info info = {0};
    enum job_state state = JOB_LOST;
    snprintf(dir, sizeof dir, "%.*s/runs/%zu", PATH_MAX - 64, task->dir,
             json_array_size(json_object_get(task->state, "runs")));
    bool heard = job_info_read_state(dir, &info, &state, NULL) == 0 && state == JOB_RUNNING;
    job_info_done(&info);
    return heard;
}

/* On another machine its runner ends it. Only where that has been asked for before, and nothing is heard of the run, is it over
 * without: containers and machines come and go with their names, and homes stay. */
static int cancel(struct task *task, void *ctx, struct err *err)
{
    if (task_is_over(task->state))
        return err_set(err, -EALREADY, "task %s is over: it is %s", task->id, task_state_name(task->state));
    bool again = json_is_true(json_object_get(task->state, "cancel"));
    bool gone = again && task_elsewhere(ctx, task->state) && !is_heard(task);
    json_object_set_new(task->state, "cancel", json_true());
    const char *state = task_state_name(task->state);
    if (gone || strcmp(state, "draft") == 0 || strcmp(state, "queued") == 0) { /* nothing of it runs */
        json_t *runs = json_object_get(task->state, "runs");
        json_t *run = gone && strcmp(state, "running") == 0 ? json_array_get(runs, json_array_size(runs) - 1) : NULL;
        if (run)
            json_object_set_new(run, "state", json_string("cancelled"));
        json_object_del(task->state, "step");
        end_last(runs);
        end_last(json_object_get(task->state, "phases"));
        json_object_set_new(task->state, "state", json_string("cancelled"));
        json_object_set_new(task->state, "ended_ns", json_integer((json_int_t)clock_wall_ns()));
    }
    return 0;
}

int task_cancel(const struct task_store *store, const char *id, struct err *err)
{
    return task_change(store, id, cancel, (void *)store, err);
}

/* ---- removing ---- */

int task_remove_tree(const char *dir)
{
    char *paths[] = {(char *)dir, NULL};
    int code = 0;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));) {
        if (entry->fts_info == FTS_D)
            continue;
        if (remove(entry->fts_accpath) < 0 && errno != ENOENT)
            code = -errno;
    }
    if (tree)
        fts_close(tree);
    return tree ? code : -errno;
}

void task_unlink_job(const struct task *task, const char *job)
{
    char jobs[PATH_MAX], path[PATH_MAX + JOB_ID_SIZE + 2], to[PATH_MAX];
    if (!job || strchr(job, '/') || dirs_jobs_find(jobs, sizeof jobs, NULL) < 0)
        return;
    snprintf(path, sizeof path, "%s/%s", jobs, job);
    ssize_t len = readlink(path, to, sizeof to - 1);
    if (len > 0 && (to[len] = 0, strstr(to, task->id)))
        unlink(path);
}

static void unlink_jobs(const struct task *task)
{
    json_t *run;
    size_t i;
    json_array_foreach(json_object_get(task->state, "runs"), i, run)
        task_unlink_job(task, json_string_value(json_object_get(run, "job")));
}

/* In a process that nobody waits for: it may take long. */
static void remove_later(const char *dir)
{
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            setsid();
            close_range(0, ~0U,
                        0); /* whoever asked is not to be kept by it: a server's connections, a command's pipe */
            task_remove_tree(dir);
        }
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int task_remove(const struct task_store *store, const char *id, bool wait, struct err *err)
{
    struct task task;
    char gone[PATH_MAX + TASK_ID_SIZE + 16];
    int code = task_load(store, id, &task, err);
    if (code == -EBADMSG || code == -EINVAL) /* damaged: it may go all the same */
        code = 0;
    _cleanup_(closep) int lock = code == 0 ? task_lock(task.dir, TASK_STATE_LOCK, true) : -1;
    if (code == 0 && lock < 0)
        code = err_errno(err, lock, "cannot lock task %s", id);
    if (code == 0 && lock >= 0 && task.state) {
        task_done(&task); /* it may have changed until the lock was ours */
        task_load(store, id, &task, NULL);
    }
    const char *elsewhere = task_elsewhere(store, task.state);
    if (code == 0 && task.state && task_is_active(task.state) && elsewhere)
        code = err_set(err, -EBUSY, "task %s is %s on %s: cancel it first", id, task_state_name(task.state), elsewhere);
    else if (code == 0 && task.state && task_is_active(task.state))
        code = err_set(err, -EBUSY, "task %s is %s: cancel it first", id, task_state_name(task.state));
    snprintf(gone, sizeof gone, "%s/.gone-%s", store->dir, id);
    if (code == 0 && rename(task.dir, gone) < 0)
        code = err_errno(err, -errno, "cannot remove task %s", id);
    if (code == 0) {
        unlink_jobs(&task);
        set_mark(store, &task, false);
        int left = wait ? task_remove_tree(gone) : 0;
        if (!wait)
            remove_later(gone);
        code = left < 0 ? err_errno(err, left, "some files of task %s could not be removed from %s", id, gone) : 0;
        task_store_touch(store, id);
    }
    task_done(&task);
    return code;
}
