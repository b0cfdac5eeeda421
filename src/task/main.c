/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-tasks, the runner of one user's tasks: takes them out of the queue, one after the other, and follows them. It is
 * started when there is something to do (start.c), and ends when there is nothing. Where several are started on a machine,
 * one holds the lock, and the others end at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "shm/waits.h"
#include "task/advance.h"
#include "task/store.h"
#include "task/spec.h"

struct runner {
    struct task_store store;
    struct loop *loop;
    struct loop_source *timer;
    int lock, watch;
    uint64_t at_once, idle_since_ns;
    struct queued *queued; /* those that waited at the last look, by their ids */
    size_t waiting;
    size_t newer; /* tasks of a newer scry, that are left alone */
};

/* A task that waits, and the file that says so: while that is the same one, it waits still. */
struct queued {
    char id[TASK_ID_SIZE];
    ino_t inode;
    struct timespec changed;
    uint64_t queued_ns;
    bool batch; /* Slurm has a queue of its own */
};

static int by_turn(const void *a, const void *b)
{
    const struct queued *one = *(struct queued *const *)a, *other = *(struct queued *const *)b;
    if (one->queued_ns != other->queued_ns)
        return one->queued_ns < other->queued_ns ? -1 : 1;
    return strcmp(one->id, other->id);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct queued *)a)->id, ((const struct queued *)b)->id);
}

/* Starts what may start: `busy` are under way here. */
static void start_queued(struct runner *runner, uint64_t busy)
{
    struct queued **turns = calloc(runner->waiting + 1, sizeof *turns);
    for (size_t i = 0; turns && i < runner->waiting; i++)
        turns[i] = &runner->queued[i];
    if (turns)
        qsort(turns, runner->waiting, sizeof *turns, by_turn);
    for (size_t i = 0; turns && i < runner->waiting; i++) {
        if (!turns[i]->batch && busy >= runner->at_once)
            continue;
        if (task_begin(&runner->store, turns[i]->id) == 0 && !turns[i]->batch)
            busy++;
    }
    free(turns);
}

/* Fills in what is known of the file of its state. Does the task wait, as it did at the last look? */
static bool waits_still(const struct runner *runner, struct queued *task)
{
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    struct stat st = {0};
    snprintf(path, sizeof path, "%s/%s/state.json", runner->store.dir, task->id);
    const struct queued *known =
        runner->queued ? bsearch(task, runner->queued, runner->waiting, sizeof *task, by_id) : NULL;
    if (stat(path, &st) < 0)
        return false;
    task->inode = st.st_ino;
    task->changed = st.st_mtim;
    if (!known || known->inode != st.st_ino || known->changed.tv_sec != st.st_mtim.tv_sec ||
        known->changed.tv_nsec != st.st_mtim.tv_nsec)
        return false;
    *task = *known;
    return true;
}

static int leave_over(struct task *task, void *ctx, struct err *err)
{
    (void)err;
    return task_elsewhere(ctx, task->state) ? -ENOENT : task_is_active(task->state);
}

/* A mark of what is not active: whoever made it was killed, or is just about to write the state. Under the lock it is plain
 * which; a task that is damaged or gone cannot be changed, and that of another machine has its mark there. What a newer
 * scry has made is left to that: false. */
static bool remove_mark(const struct runner *runner, const char *id)
{
    char path[TASK_HOST_PATH_SIZE];
    task_host_path(&runner->store, "", id, path);
    int code = task_change(&runner->store, id, leave_over, (void *)&runner->store, NULL);
    if (code < 0 && code != -EPROTO)
        unlink(path);
    return code != -EPROTO;
}

/* One task a step. What it is then: queued, or under way (*busy is more, but for a batch system's); false: it is over. */
static bool step_one(struct runner *runner, struct queued *task, bool *ret_waits, uint64_t *busy)
{
    struct task loaded;
    *ret_waits = waits_still(runner, task);
    if (*ret_waits)
        return true;
    task_advance(&runner->store, task->id);
    bool active = task_load(&runner->store, task->id, &loaded, NULL) == 0 && task_is_active(loaded.state) &&
                  !task_elsewhere(&runner->store, loaded.state);
    if (active) {
        task->batch = strcmp(task_text(loaded.spec, "launch.by"), "slurm") == 0;
        task->queued_ns = (uint64_t)json_integer_value(json_object_get(loaded.state, "queued_ns"));
        *ret_waits = strcmp(task_state_name(loaded.state), "queued") == 0;
        *busy += !*ret_waits && !task->batch;
    }
    task_done(&loaded);
    return active;
}

/* All tasks a step. Returns how many are queued or under way. */
static size_t runner_step(struct runner *runner)
{
    char **ids;
    size_t count, waiting = 0, left = 0, newer = 0;
    uint64_t busy = 0;
    if (task_list_active(&runner->store, &ids, &count, NULL) < 0)
        return 0;
    struct queued *queued = calloc(count + 1, sizeof *queued);
    for (size_t i = 0; i < count && queued; i++) { /* in the order of ids */
        bool waits;
        snprintf(queued[waiting].id, sizeof queued->id, "%s", ids[i]);
        if (step_one(runner, &queued[waiting], &waits, &busy)) {
            waiting += waits;
            left++;
        } else if (!remove_mark(runner, ids[i])) {
            newer++;
        }
    }
    jobdir_list_free(ids, count);
    free(runner->queued);
    runner->queued = queued;
    runner->waiting = queued ? waiting : 0;
    runner->newer = newer;
    start_queued(runner, busy);
    return left;
}

static bool take_lock(struct runner *runner)
{
    char path[TASK_HOST_PATH_SIZE];
    task_host_path(&runner->store, "", TASK_RUNNER_LOCK, path);
    runner->lock = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    return runner->lock >= 0 && flock(runner->lock, LOCK_EX | LOCK_NB) == 0;
}

static void runner_look(struct runner *runner)
{
    uint64_t now = clock_now_ns();
    size_t active = runner_step(runner);
    loop_set_timer(runner->timer, active ? TASK_LOOK_NS : 4 * TASK_LOOK_NS, 0);
    if (active)
        runner->idle_since_ns = now;
    if (now - runner->idle_since_ns < time_hasten(TASK_IDLE_NS))
        return;
    /* Who queues something looks for the lock afterwards. So once it is free, nothing new is left to nobody: */
    close(runner->lock);
    char **ids;
    size_t count = 0;
    if (task_list_active(&runner->store, &ids, &count, NULL) == 0)
        jobdir_list_free(ids, count);
    runner->idle_since_ns = now;
    if (count <= runner->newer || !take_lock(runner))
        loop_stop(runner->loop);
}

static void on_timer(void *ctx)
{
    runner_look(ctx);
}

static void on_change(void *ctx, int fd, uint32_t events)
{
    struct runner *runner = ctx;
    char changes[4096];
    (void)events;
    while (read(fd, changes, sizeof changes) > 0)
        continue;
    loop_set_timer(runner->timer, TASK_LOOK_NS / 25, 0); /* our own are among them */
}

static void on_child(void *ctx, int fd, uint32_t events)
{
    (void)fd, (void)events;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    loop_set_timer(((struct runner *)ctx)->timer, 1, 0);
}

static void on_end(void *ctx, int fd, uint32_t events)
{
    (void)fd, (void)events;
    loop_stop(((struct runner *)ctx)->loop); /* runs go on; the next runner follows them */
}

static int runner_begin(struct runner *runner)
{
    struct err err;
    const char *at_once = getenv("SCRY_TASKS_AT_ONCE");
    runner->at_once = at_once && atoi(at_once) > 0 ? (uint64_t)atoi(at_once) : 1;
    if (task_store_open(&runner->store, &err) < 0) {
        log_error("%s", err.text);
        return -1;
    }
    if (!take_lock(runner))
        return 1;
    runner->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (loop_new(&runner->loop) < 0)
        return -1;
    char changed[PATH_MAX + 16];
    task_store_touch(&runner->store, NULL);
    snprintf(changed, sizeof changed, "%s/.changed", runner->store.dir);
    if (runner->watch >= 0 && inotify_add_watch(runner->watch, changed, IN_CLOSE_WRITE) >= 0)
        loop_add_fd(runner->loop, runner->watch, 1 /* EPOLLIN */, on_change, runner);
    runner->timer = loop_add_timer(runner->loop, 1, 0, on_timer, runner);
    loop_add_signal(runner->loop, SIGCHLD, on_child, runner);
    loop_add_signal(runner->loop, SIGTERM, on_end, runner);
    runner->idle_since_ns = clock_now_ns();
    return runner->timer ? 0 : -1;
}

int main(void)
{
    struct runner runner = {.lock = -1, .watch = -1};
    log_open("scry-tasks", 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    umask(077);
    int code = runner_begin(&runner);
    if (code == 0)
        loop_run(runner.loop);
    free(runner.queued);
    return code < 0;
}
