/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_TASK_STORE_H
#define SCRY_TASK_STORE_H

#include "base/data/err.h"
#include "jobdir/record/dir.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The tasks of a user, in the state directory: tasks/ID/ with task.json (task/spec.h), files/ (uploads), state.json, and
 * runs/1, runs/2 ..., which are job directories; beside one that was stopped stands why (runs/1.stop). All of it is the user's
 * alone (0700).
 *
 * Any number of programs use a store at the same time: `scry submit`, servers, the runner. state.json is changed only under
 * the lock of its task (flock) and replaced whole, so no change is lost and readers need no lock. A task appears and goes
 * by a rename. What is queued or under way has a mark in .active/HOST/, so that nobody has to look at all tasks; .changed gets
 * a line at each change, for those who wait (inotify).
 *
 * Where machines share a home, they share its store. A task belongs to the machine that queued it last (`host` in
 * state.json), for its processes are there; only the runner there begins and ends it.
 */

enum { TASK_ID_SIZE = JOB_ID_SIZE, TASKS_MOST = 100000, TASK_MOST_FILES = 1000 };

struct task_store {
    char dir[PATH_MAX];
    char host[256]; /* this machine */
};

struct task {
    char id[TASK_ID_SIZE];
    char dir[PATH_MAX];
    json_t *spec, *state; /* owned */
};

/* That of the user who runs this; it is made where there is none. -EPERM: it is another's, or open to others. */
int task_store_open(struct task_store *ret_store, struct err *err);

/* Creates a draft: checked, not queued. 0; -EINVAL for what task_spec_check_new refuses; -ENOSPC: too many. */
int task_create(const struct task_store *store, const json_t *given, char ret_id[TASK_ID_SIZE], struct err *err);
/* Reads one. -ENOENT; -EPROTO: a newer scry made it; -EBADMSG, -EINVAL: it is damaged. Pass *ret_task to task_done in any case. */
int task_load(const struct task_store *store, const char *id, struct task *ret_task, struct err *err);
void task_done(struct task *task);
/* The job directory of a run of it. */
void task_run_dir(const struct task *task, uint64_t run, char ret_path[PATH_MAX]);

/* What a task is in, also of others' tasks: any text may come from outside. */
bool task_id_is(const char *text);
/* The ids, oldest first (of many, those of one second in any order but for the latest); jobdir_list_free frees them. */
int task_list(const struct task_store *store, char ***ret_ids, size_t *ret_count, struct err *err);
/* Those of this machine with a mark. */
int task_list_active(const struct task_store *store, char ***ret_ids, size_t *ret_count, struct err *err);
/* The task that a person means: an id, @last, a name (of several the newest), a unique beginning of an id. -ENOENT,
 * -ENOTUNIQ. */
int task_find(const struct task_store *store, const char *word, char ret_id[TASK_ID_SIZE], struct err *err);

/* Changes the state under the lock: fn changes task->state, and returns 0, 1 (leave it as it is) or -errno with err, which
 * task_change returns. */
typedef int task_change_fn(struct task *task, void *ctx, struct err *err);
int task_change(const struct task_store *store, const char *id, task_change_fn *fn, void *ctx, struct err *err);

/* A draft becomes queued, if its program and all its files are there; one that is over is queued again, for `repeat` more
 * runs. -EBUSY: it is queued or under way already. */
int task_queue(const struct task_store *store, const char *id, struct err *err);
int task_rerun(const struct task_store *store, const char *id, struct err *err);
/* Asks for its end; the runner ends its processes. Of what is on another machine and asked for again, it is over at once if
 * nothing is heard of it. -EALREADY: it is over. */
int task_cancel(const struct task_store *store, const char *id, struct err *err);
/* Removes it with its runs and files; !wait: it is gone at once, and the disk is freed later. -EBUSY: it is under way. */
int task_remove(const struct task_store *store, const char *id, bool wait, struct err *err);

/* The machine that it belongs to, or NULL: this one. */
const char *task_elsewhere(const struct task_store *store, const json_t *state);
/* Is it queued or under way? Has it ended, one way or the other? */
bool task_is_active(const json_t *state);
bool task_is_over(const json_t *state);
const char *task_state_name(const json_t *state);

/* ---- files of a draft ---- */

/* A file on its way in: it has its name only when it is whole, so half of one is never run. */
struct task_upload {
    int fd, lock; /* of the file; of the task: it cannot be queued meanwhile */
    uint64_t bytes, most;
    char name[256], part[64], dir[PATH_MAX];
};
/* -EINVAL: no such name may be; -EBUSY: the task is no draft, or another file is just coming in; -ENOSPC: too many. */
int task_upload_begin(const struct task_store *store, const char *id, const char *name, struct task_upload *ret_upload,
                      struct err *err);
/* -EFBIG: all files of the task together take more than its limit of space; -errno. */
int task_upload_write(struct task_upload *upload, const void *bytes, size_t size, struct err *err);
/* Gives it its name, in place of one that was there; or, if !whole, drops it. */
int task_upload_end(struct task_upload *upload, bool whole, struct err *err);
/* A whole file from the disk. */
int task_upload_copy(const struct task_store *store, const char *id, const char *path, struct err *err);

/* Says to those who wait that a task has changed: its id is a line more of .changed. NULL: nothing did, but look. The file
 * begins anew when it has become long. */
void task_store_touch(const struct task_store *store, const char *id);

/* ---- the runner (start.c) ---- */

/*
 * Starts the runner of a user's tasks (scry-tasks), unless one runs. It gets a session, an environment and a umask of its
 * own, so it outlives whoever starts it, and a task runs alike whoever submits it.
 */

/* That of the user who calls, to be called after a change of the store. 0 or -errno with err. */
int task_runner_wake(const struct task_store *store, struct err *err);

/* The same, if something is queued or under way: after the runner was killed, or the machine started again. */
void task_runner_look(const struct task_store *store);

/* ---- what the files of the store share ---- */

/* A path in the directory that a machine has in the store: with the marks of its tasks, and its runner's lock. "" for
 * `host`: this one. */
enum { TASK_HOST_PATH_SIZE = PATH_MAX + 512 };
void task_host_path(const struct task_store *store, const char *host, const char *name,
                    char ret_path[TASK_HOST_PATH_SIZE]);
#define TASK_RUNNER_LOCK ".runner"
/* The job directories of a task are linked into the directory of jobs: removes the link of that one. */
void task_unlink_job(const struct task *task, const char *job);
/* Removes a directory with all that is in it, without following links. 0 or -errno. */
int task_remove_tree(const char *dir);

#endif
