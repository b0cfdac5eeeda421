/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-tasks, the runner of one user's tasks: takes them out of the queue, one after the other, and follows them. It is
 * started when there is something to do (task/start.h), and ends when there is nothing. Where several are started, one
 * holds the lock, and the others end at once.
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
#include "base/system/log.h"
#include "base/system/loop.h"
#include "task/advance.h"
#include "task/spec.h"

static const uint64_t LOOK_NS = 250000000, IDLE_NS = UINT64_C(10) * NS_PER_SECOND;

struct runner {
    struct task_store store;
    struct loop *loop;
    struct loop_source *timer;
    int lock, watch;
    uint64_t at_once, idle_since_ns;
};

struct queued {
    char *id;
    uint64_t queued_ns;
    bool batch; /* Slurm has a queue of its own */
};

static int by_turn(const void *a, const void *b)
{
    const struct queued *one = a, *other = b;
    if (one->queued_ns != other->queued_ns)
        return one->queued_ns < other->queued_ns ? -1 : 1;
    return strcmp(one->id, other->id);
}

/* Starts what may start: `busy` are under way here. */
static void start_queued(struct runner *runner, struct queued *queued, size_t count, uint64_t busy)
{
    qsort(queued, count, sizeof *queued, by_turn);
    for (size_t i = 0; i < count; i++) {
        if (!queued[i].batch && busy >= runner->at_once)
            continue;
        if (task_begin(&runner->store, queued[i].id) == 0 && !queued[i].batch)
            busy++;
    }
}

static int leave_over(struct task *task, void *ctx, struct err *err)
{
    (void)ctx, (void)err;
    return task_is_active(task->state);
}

/* A mark of what is not active: whoever made it was killed, or is just about to write the state. Under the lock it is plain
 * which; a task that is damaged or gone cannot be changed. */
static void remove_mark(const struct runner *runner, const char *id)
{
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    snprintf(path, sizeof path, "%s/.active/%s", runner->store.dir, id);
    if (task_change(&runner->store, id, leave_over, NULL, NULL) < 0)
        unlink(path);
}

/* All tasks a step. Returns how many are queued or under way. */
static size_t step(struct runner *runner)
{
    char **ids;
    size_t count, waiting = 0, left = 0;
    uint64_t busy = 0;
    if (task_list_active(&runner->store, &ids, &count, NULL) < 0)
        return 0;
    struct queued *queued = calloc(count + 1, sizeof *queued);
    for (size_t i = 0; i < count && queued; i++) {
        struct task task;
        task_advance(&runner->store, ids[i]);
        if (task_load(&runner->store, ids[i], &task, NULL) < 0 || !task_is_active(task.state)) {
            remove_mark(runner, ids[i]);
        } else {
            bool batch = strcmp(task_text(task.spec, "launch.by"), "slurm") == 0;
            left++;
            if (strcmp(task_state_name(task.state), "queued") == 0)
                queued[waiting++] = (struct queued){
                    ids[i], (uint64_t)json_integer_value(json_object_get(task.state, "queued_ns")), batch};
            else
                busy += !batch;
        }
        task_done(&task);
    }
    if (queued)
        start_queued(runner, queued, waiting, busy);
    free(queued);
    jobdir_list_free(ids, count);
    return left;
}

static bool take_lock(struct runner *runner)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/.runner", runner->store.dir);
    runner->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return runner->lock >= 0 && flock(runner->lock, LOCK_EX | LOCK_NB) == 0;
}

static void look(struct runner *runner)
{
    uint64_t now = clock_now_ns();
    size_t active = step(runner);
    loop_set_timer(runner->timer, active ? LOOK_NS : 4 * LOOK_NS, 0);
    if (active)
        runner->idle_since_ns = now;
    if (now - runner->idle_since_ns < IDLE_NS)
        return;
    /* Who queues something looks for the lock afterwards. So once it is free, nothing new is left to nobody: */
    close(runner->lock);
    char **ids;
    size_t count = 0;
    if (task_list_active(&runner->store, &ids, &count, NULL) == 0)
        jobdir_list_free(ids, count);
    runner->idle_since_ns = now;
    if (!count || !take_lock(runner))
        loop_stop(runner->loop);
}

static void on_timer(void *ctx)
{
    look(ctx);
}

static void on_change(void *ctx, int fd, uint32_t events)
{
    struct runner *runner = ctx;
    char changes[4096];
    (void)events;
    while (read(fd, changes, sizeof changes) > 0)
        continue;
    loop_set_timer(runner->timer, LOOK_NS / 25, 0); /* our own are among them */
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

static int begin(struct runner *runner)
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
    int code = begin(&runner);
    if (code == 0)
        loop_run(runner.loop);
    return code < 0;
}
