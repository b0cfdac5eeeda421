/* SPDX-License-Identifier: Apache-2.0 */
#include "task/advance.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "task/estimate.h"
#include "task/store.h"
#include "task/launch.h"
#include "task/spec.h"

enum {
    SUMMED_FILES = 20000, /* that are looked at when a task ends */
    GATHER_KILLS = 6,     /* so often, each after the grace, before what waits for another host is killed */
};

/* ---- what the state says ---- */

static void set_text(json_t *object, const char *member, const char *text)
{
    json_object_set_new(object, member, text_json(text));
}

static void set_ns(json_t *object, const char *member, uint64_t ns)
{
    json_object_set_new(object, member, json_integer((json_int_t)ns));
}

static uint64_t get_ns(const json_t *object, const char *member)
{
    return (uint64_t)json_integer_value(json_object_get(object, member));
}

/* What lasts is measured so: the time of day may be set. */
static uint64_t boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

/* How long ago a process of this machine began; 0: that was before the machine was started again. */
static uint64_t lasted_ns(const json_t *process)
{
    uint64_t began = get_ns(process, "ticks") * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK)), now = boot_ns();
    return now > began ? now - began : 0;
}

static bool task_is(const struct task *task, const char *state)
{
    return strcmp(task_state_name(task->state), state) == 0;
}

static bool is_slurms(const struct task *task)
{
    return strcmp(task_text(task->spec, "launch.by"), "slurm") == 0;
}

/* The run whose turn it is, or that was the last one. */
static json_t *last_run(const struct task *task)
{
    json_t *runs = json_object_get(task->state, "runs");
    return json_array_size(runs) ? json_array_get(runs, json_array_size(runs) - 1) : NULL;
}

/* What describes the process that is under way: a run, or a step beside it. */
static json_t *process_current(const struct task *task)
{
    return task_is(task, "running") ? last_run(task) : json_object_get(task->state, "step");
}

static uint64_t run_number(const struct task *task)
{
    return json_array_size(json_object_get(task->state, "runs"));
}

static void end_phase(const struct task *task)
{
    json_t *phases = json_object_get(task->state, "phases");
    json_t *last = json_array_size(phases) ? json_array_get(phases, json_array_size(phases) - 1) : NULL;
    if (last && json_is_null(json_object_get(last, "ended_ns"))) {
        set_ns(last, "ended_ns", clock_wall_ns());
        json_object_set_new(last, "progress", json_real(1));
    }
}

static void begin_phase(const struct task *task, const char *name, uint64_t run)
{
    end_phase(task);
    json_array_append_new(json_object_get(task->state, "phases"),
                          json_pack("{s:s, s:I, s:I, s:n, s:n}", "phase", name, "run", (json_int_t)run, "began_ns",
                                    (json_int_t)clock_wall_ns(), "ended_ns", "progress"));
}

static void end_task(const struct task *task, const char *state, const char *kind, const char *text)
{
    end_phase(task);
    set_text(task->state, "state", state);
    set_ns(task->state, "ended_ns", clock_wall_ns());
    if (text)
        json_object_set_new(task->state, "error", json_pack("{s:s, s:o}", "kind", kind, "text", text_json(text)));
    json_object_del(task->state, "step");
    uint64_t space = task_space_sum(task->dir, SUMMED_FILES);
    json_object_set_new(task->state, "space_bytes", space < INT64_MAX ? json_integer((json_int_t)space) : json_null());
}

static void run_dir(const struct task *task, char ret_path[PATH_MAX])
{
    bool build = task_is(task, "building");
    snprintf(ret_path, PATH_MAX, "%.*s/runs/%s%llu", PATH_MAX - 64, task->dir, build ? "build" : "",
             (unsigned long long)run_number(task) + build);
}

/* Where it stands why it is to end. */
static void stop_path(const struct task *task, char ret_path[PATH_MAX])
{
    char dir[PATH_MAX];
    run_dir(task, dir);
    snprintf(ret_path, PATH_MAX, "%.*s.stop", PATH_MAX - 16, dir);
}

/* ---- starting ---- */

struct starting {
    const struct task_store *store;
    json_t *known; /* of a task that begins, what is expected; of a run that has ended, which ranks are recorded */
    struct task_held held;
    bool holds;
};

static const char *const step_states[] = {
    [TASK_BUILD] = "building", [TASK_RUN] = "running", [TASK_GATHER] = "gathering"};
static const char *const step_phases[] = {[TASK_BUILD] = "build", [TASK_RUN] = "run", [TASK_GATHER] = "gather"};

static int start_step(struct task *task, enum task_step step, struct starting *starting, struct err *err);

/* Behind a step that went well. */
static int start_next(struct task *task, enum task_step done, struct starting *starting, struct err *err)
{
    if (done == TASK_BUILD)
        return start_step(task, TASK_RUN, starting, err);
    if (done == TASK_RUN)
        return start_step(task, TASK_GATHER, starting, err);
    if (run_number(task) < get_ns(task->state, "target"))
        return start_step(task, TASK_RUN, starting, err);
    end_task(task, "done", NULL, NULL);
    return 0;
}

static json_t *process_json(pid_t pid)
{
    char boot[64];
    job_boot_id(boot, sizeof boot);
    return json_pack("{s:i, s:I, s:s, s:I, s:n}", "pid", pid, "ticks", (json_int_t)job_process_ticks(pid), "boot", boot,
                     "began_ns", (json_int_t)clock_wall_ns(), "ended_ns");
}

/* What an earlier build with the number has left, which failed or was stopped. The one that begins waits meanwhile. */
static void forget_build(const struct task *task)
{
    char dir[PATH_MAX], path[PATH_MAX];
    struct job_info info = {0};
    run_dir(task, dir);
    if (job_info_read(dir, &info, NULL) == 0)
        task_unlink_job(task, info.id);
    job_info_done(&info);
    task_remove_tree(dir);
    stop_path(task, path);
    unlink(path);
}

/* What cannot be started ends the task: that is no error of ours. */
static int start_step(struct task *task, enum task_step step, struct starting *starting, struct err *err)
{
    struct task_launch launch;
    struct err why = {0};
    uint64_t run = run_number(task) + (step != TASK_GATHER);
    int code = task_launch_make(&launch, task, step, run, &why);
    if (code == 0 && (code = task_hold(&launch, &starting->held)) < 0)
        err_errno(&why, code, "cannot start a process");
    task_launch_done(&launch);
    if (code == 1 && step != TASK_RUN)
        return start_next(task, step, starting, err);
    if (code < 0) {
        end_task(task, "failed", "start", why.text);
        return 0;
    }
    starting->holds = true;
    json_t *process = process_json(starting->held.pid);
    begin_phase(task, step_phases[step], run);
    set_text(task->state, "state", step_states[step]);
    if (step == TASK_RUN) {
        set_ns(process, "run", run);
        set_text(process, "state", "running");
        json_array_append_new(json_object_get(task->state, "runs"), process);
        json_object_del(task->state, "step");
    } else {
        json_object_set_new(task->state, "step", process);
    }
    if (step == TASK_BUILD)
        forget_build(task);
    return 0;
}

static int task_begin_locked(struct task *task, void *ctx, struct err *err)
{
    const struct starting *starting = ctx;
    if (!task_is(task, "queued") || task_elsewhere(starting->store, task->state))
        return 1;
    set_ns(task->state, "began_ns", clock_wall_ns());
    json_object_set(task->state, "expected", starting->known);
    bool again = json_is_true(json_object_get(task->state, "gathered_again")); /* task_rerun */
    return start_step(task, again ? TASK_GATHER : TASK_BUILD, ctx, err);
}

/* The process is executed only when it is written down that it runs. */
static int change_and_start(const struct task_store *store, const char *id, task_change_fn *fn, json_t *known)
{
    struct starting starting = {.store = store, .known = known};
    struct err err = {0};
    int code = task_change(store, id, fn, &starting, &err);
    pause_at("task.written");
    if (starting.holds)
        task_release(&starting.held, code == 0);
    return code;
}

int task_begin(const struct task_store *store, const char *id)
{
    json_t *expected = task_expect(store, id); /* as late as can be: the others of its series may have been built */
    int code = change_and_start(store, id, task_begin_locked, expected);
    json_decref(expected);
    return code;
}

/* ---- its end ---- */

static bool is_alive(const json_t *process)
{
    char boot[64];
    const char *its = json_string_value(json_object_get(process, "boot"));
    pid_t pid = (pid_t)get_ns(process, "pid");
    uint64_t ticks = get_ns(process, "ticks");
    job_boot_id(boot, sizeof boot);
    return its && strcmp(its, boot) == 0 && ticks && job_process_ticks(pid) == ticks;
}

static const struct {
    const char *stop, *text;
} stops[] = {
    {"time", "stopped: it took longer than its limit of time (limits.seconds)"},
    {"memory", "stopped: its processes took more memory together than its limit (limits.memory_bytes)"},
    {"space", "stopped: it took more of the disk than its limit of space (limits.disk_bytes)"},
};

/* It was stopped: by somebody, or by a limit. */
static void end_stopped(const struct task *task, const char *stop)
{
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (strcmp(stops[i].stop, stop) == 0) {
            end_task(task, "failed", stop, stops[i].text);
            return;
        }
    end_task(task, "cancelled", NULL, NULL);
}

static void note_result(json_t *run, const struct job_info *info)
{
    const struct job_result *result = &info->result;
    set_text(run, "job", info->id);
    json_object_set_new(run, "seconds", json_real(result->wall_seconds));
    json_object_set_new(run, "exit_code", json_integer(result->exit_code));
    json_object_set_new(run, "signal", result->signal ? json_integer(result->signal) : json_null());
}

static enum task_step step_of(const struct task *task)
{
    return task_is(task, "building") ? TASK_BUILD : task_is(task, "gathering") ? TASK_GATHER : TASK_RUN;
}

/* Runs its command on another machine? Nothing here is of it then but what reaches there. */
static bool is_far(const struct task *task)
{
    return strcmp(task_text(task->spec, "launch.by"), "ssh") == 0 && !task_is(task, "building");
}

/* The process has ended: what it was, and what comes next. */
static int task_finish_locked(struct task *task, void *ctx, struct err *err)
{
    char dir[PATH_MAX];
    struct job_info info = {0};
    enum job_state state = JOB_LOST;
    json_t *process = process_current(task), *run = last_run(task);
    enum task_step step = step_of(task);
    bool brought = step == TASK_GATHER;
    _cleanup_(buf_done) struct buf why = BUF_INIT;
    if (task_is_over(task->state) || (process && is_alive(process)))
        return 1;
    if (!process) {
        end_task(task, "failed", "start", "nothing of it runs, though its state says so: rerun it");
        return 0;
    }
    set_ns(process, "ended_ns", clock_wall_ns());
    json_object_del(process, "waits_for");
    const char *stop = json_string_value(json_object_get(process, "stop"));
    if ((stop || get_ns(process, "left_boot_ns")) && !is_far(task)) /* what has hidden from the end of its parents */
        task_kill_command(&(struct task_kin){-1, -1, task->id, get_ns(process, "ticks")}, 0);
    if (is_far(task) && step == TASK_RUN) /* how it was is known when its directory is here */
        return start_next(task, step, ctx, err);
    if (brought)
        task_left_note_far(task, run_number(task));
    if (brought && json_object_get(run, "stop"))
        stop = json_string_value(json_object_get(run, "stop"));
    run_dir(task, dir);
    int code = job_info_read_state(dir, &info, &state, NULL);
    json_t *noted = step == TASK_BUILD ? process : run;
    if (code == 0 && state == JOB_ENDED)
        note_result(noted, &info);
    if (step != TASK_BUILD)
        json_object_update(run, ((const struct starting *)ctx)->known);
    const char *kind = task_why_failed(task, step, run_number(task) + (step == TASK_BUILD), &info, state, code, &why);
    job_info_done(&info);
    if (step != TASK_BUILD)
        set_text(run, "state", stop ? (strcmp(stop, "cancelled") == 0 ? stop : "failed") : why.len ? "failed" : "done");
    if (stop) {
        end_stopped(task, stop);
    } else if (why.len) {
        end_task(task, "failed", kind, why.data);
    } else if (json_is_true(json_object_get(task->state, "cancel"))) {
        end_task(task, "cancelled", NULL, NULL);
    } else {
        json_object_del(task->state, "gathered_again");
        task_note_took(task);
        return start_next(task, step, ctx, err);
    }
    return 0;
}

/* ---- while it runs ---- */

/* Slurm's number, from what sbatch printed. "": not yet. */
static void batch_job(const struct task *task, char ret_job[24])
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof path, "%.*s/runs/%llu.batch", PATH_MAX - 64, task->dir, (unsigned long long)run_number(task));
    *ret_job = 0;
    if (file_read_plain(path, &text, NULL) == 0)
        snprintf(ret_job, 24, "%.*s", (int)strspn(text, "0123456789"), text);
}

static void send_signal(const struct task *task, const char *name, const char *stop)
{
    char dir[PATH_MAX], job[24];
    struct task_launch launch;
    struct task_held held;
    struct job_info info = {0};
    json_t *process = process_current(task);
    pid_t pid = (pid_t)get_ns(process, "pid");
    bool last = strcmp(name, "KILL") == 0, run = step_of(task) != TASK_BUILD, alive = is_alive(process);
    batch_job(task, job);
    int code = run ? task_launch_signal(&launch, task, run_number(task), *job ? job : NULL, name, stop, NULL) : 1;
    if (code == 0 && task_hold(&launch, &held) == 0)
        task_release(&held, true);
    if (run)
        task_launch_done(&launch);
    /* what brings a run home ends with that run, which it waits for: unless the host does not answer */
    if (code == 0 && !(step_of(task) == TASK_GATHER && get_ns(process, "kills") > GATHER_KILLS))
        return;
    if (!last && alive) {
        kill(pid, SIGTERM); /* scry run hands it on */
        return;
    }
    run_dir(task, dir);
    bool known = job_info_read(dir, &info, NULL) == 0 && info.root && job_process_ticks(info.root) == info.root_ticks;
    if (alive || known)
        task_kill_command(&(struct task_kin){alive ? pid : -1, known ? info.root : -1, is_far(task) ? NULL : task->id,
                                             get_ns(process, "ticks")},
                          info.supervisor);
    job_info_done(&info);
}

/* What its directory takes, as far as that is known. */
static uint64_t space_of(const struct task *task)
{
    uint64_t bytes;
    return task_space_look(task->id, task->dir, &bytes) == 0 ? bytes : 0;
}

static bool is_over_space(const struct task *task)
{
    return space_of(task) > task_number(task->spec, "limits.disk_bytes");
}

/* It was asked to end, for it takes too much of the disk, and goes on taking more. */
static bool goes_on_filling(const struct task *task)
{
    json_t *process = process_current(task);
    const char *stop = json_string_value(json_object_get(process, "stop"));
    return stop && strcmp(stop, "space") == 0 && step_of(task) != TASK_GATHER && !get_ns(process, "kills") &&
           space_of(task) > get_ns(process, "stop_bytes") + task_number(task->spec, "limits.disk_bytes") / 8;
}

/* Why it is to end, for its scry run, which makes that a record of the job (reason_task_stopped). On another machine
 * far_put_signal says it. On a full disk it is left out. */
static void say_stop(const struct task *task, const char *stop)
{
    char path[PATH_MAX];
    stop_path(task, path);
    if (!is_far(task))
        file_replace_soon(path, stop, strlen(stop), 0600);
}

static int set_stop(struct task *task, void *ctx, struct err *err)
{
    json_t *process = process_current(task);
    (void)err;
    if (!process || task_is_over(task->state) || json_object_get(process, "stop"))
        return 1;
    say_stop(task, ctx);
    set_text(process, "stop", ctx);
    set_ns(process, "stop_bytes", space_of(task));
    set_ns(process, "stop_boot_ns", boot_ns());
    return 0;
}

static int set_killed(struct task *task, void *ctx, struct err *err)
{
    (void)ctx, (void)err;
    json_t *process = process_current(task);
    if (process) {
        set_ns(process, "stop_boot_ns", boot_ns());
        set_ns(process, "kills", get_ns(process, "kills") + 1);
    }
    return process ? 0 : 1;
}

/* The limit that it is over, or NULL. `job`: what is known of its job. */
static const char *over_limit(const struct task *task)
{
    uint64_t seconds = task_number(task->spec, "limits.seconds"), now = boot_ns();
    uint64_t memory = task_number(task->spec, "limits.memory_bytes");
    json_t *process = process_current(task);
    const char *by = task_text(task->spec, "launch.by");
    bool here = strcmp(by, "mpirun") == 0 || strcmp(by, "plain") == 0;
    uint64_t lasted = lasted_ns(process);
    if (is_slurms(task) && task_is(task, "running")) { /* not while it was queued: since it was seen to have begun */
        uint64_t seen = get_ns(process, "seen_boot_ns");
        lasted = seen && now > seen ? now - seen : 0;
    }
    if (seconds && lasted / NS_PER_SECOND >= seconds)
        return "time";
    if (is_over_space(task))
        return "space";
    struct task_kin kin = {(pid_t)get_ns(process, "pid"), -1, task->id, get_ns(process, "ticks")};
    if (memory && here && task_takes_more(&kin, memory))
        return "memory";
    return NULL;
}

/* Why a run is to be stopped now, or NULL. What is brought from elsewhere is brought also of a run that was stopped: it says how
 * that ended. */
static const char *why_stop(const struct task *task)
{
    bool cancelled = json_is_true(json_object_get(task->state, "cancel"));
    if (step_of(task) == TASK_GATHER) {
        /* a run whose connection was lost may still be under way */
        uint64_t seconds = task_number(task->spec, "limits.seconds"), gathers = lasted_ns(process_current(task));
        uint64_t runs = lasted_ns(last_run(task)) / NS_PER_SECOND, most = TASK_GATHER_SECONDS;
        if (seconds && gathers / NS_PER_SECOND >= most && runs >= seconds + most)
            return "time";
        if (is_over_space(task))
            return "space";
        return cancelled && !json_object_get(last_run(task), "stop") ? "cancelled" : NULL;
    }
    return cancelled ? "cancelled" : over_limit(task);
}

static int set_waits(struct task *task, void *ctx, struct err *err)
{
    json_t *run = last_run(task);
    const char *reason = ctx, *before = json_string_value(json_object_get(run, "waits_for"));
    (void)err;
    if (!task_is(task, "running") || strcmp(before ? before : "", reason) == 0)
        return 1;
    if (*reason)
        set_text(run, "waits_for", reason);
    else
        json_object_del(run, "waits_for");
    return 0;
}

/* While Slurm's queue has a run, only Slurm knows why: it may be for ever. */
static void look_why_it_waits(const struct task_store *store, const struct task *task, const struct job_info *job)
{
    char number[24], reason[TASK_REASON_SIZE] = "";
    if (!is_slurms(task) || !task_is(task, "running"))
        return;
    bool knew = json_object_get(last_run(task), "waits_for") != NULL;
    batch_job(task, number);
    if (job->started_ns ? knew : *number && task_waits_look(task, run_number(task), number, reason))
        task_change(store, task->id, set_waits, reason, NULL);
}

static int set_seen(struct task *task, void *ctx, struct err *err)
{
    json_t *run = last_run(task);
    uint64_t seen = get_ns(run, "seen_boot_ns");
    (void)ctx, (void)err;
    if (!task_is(task, "running") || (seen && seen <= boot_ns())) /* else the machine was started again */
        return 1;
    set_ns(run, "seen_boot_ns", boot_ns());
    return 0;
}

/* Notes when a job that Slurm began was first seen to run. What it says itself is by another machine's clock, and either may be
 * set meanwhile. */
static void look_if_begun(const struct task_store *store, const struct task *task, const struct job_info *job)
{
    uint64_t seen = get_ns(last_run(task), "seen_boot_ns");
    if (is_slurms(task) && task_is(task, "running") && job->started_ns && (!seen || seen > boot_ns()))
        task_change(store, task->id, set_seen, NULL, NULL);
}

/* Stops it if it is to be stopped. */
static void look_after(const struct task_store *store, const struct task *task)
{
    json_t *process = process_current(task);
    if (!json_object_get(process, "stop")) {
        const char *stop = why_stop(task);
        if (stop && task_change(store, task->id, set_stop, (void *)stop, NULL) == 0)
            send_signal(task, "TERM", stop);
    } else if (boot_ns() - get_ns(process, "stop_boot_ns") >=
                   time_hasten(TASK_GRACE_SECONDS * (uint64_t)NS_PER_SECOND) ||
               goes_on_filling(task)) {
        if (task_change(store, task->id, set_killed, NULL, NULL) == 0)
            send_signal(task, "KILL", json_string_value(json_object_get(process, "stop")));
    }
}

/* The process is gone. Does its job go on all the same, or may what another node wrote still come? */
static bool job_goes_on(const struct task *task, int code, enum job_state state)
{
    if (code == 0 && (state == JOB_RUNNING || state == JOB_UNWATCHED || state == JOB_UNREACHABLE))
        return true;
    if (!is_slurms(task) || (code == 0 && state == JOB_ENDED))
        return false;
    char number[24];
    batch_job(task, number);
    if (!*number ||
        (code < 0 && json_object_get(process_current(task), "stop"))) /* it was refused, or ended in the queue */
        return false;
    static struct {
        char id[TASK_ID_SIZE];
        uint64_t run, since_ns;
    } waits;
    if (strcmp(waits.id, task->id) != 0 || waits.run != run_number(task)) {
        snprintf(waits.id, sizeof waits.id, "%s", task->id);
        waits.run = run_number(task);
        waits.since_ns = clock_now_ns();
    }
    return clock_now_ns() - waits.since_ns < time_hasten(TASK_SHARED_SECONDS * (uint64_t)NS_PER_SECOND);
}

/* `ctx`: what goes on, which is asked to end now; NULL: it has a moment. */
static int set_left(struct task *task, void *ctx, struct err *err)
{
    json_t *process = process_current(task);
    (void)err;
    if (!process || task_is_over(task->state))
        return 1;
    set_ns(process, "left_boot_ns", boot_ns());
    if (ctx)
        json_object_set(task_phase(task->state), "left_behind", ctx);
    return 0;
}

/* Its process is gone. Does something of it go on, for which there is time yet (process.c)? By Slurm that is Slurm's to end, and by ssh
 * what gathers ends it. */
static bool left_goes_on(const struct task_store *store, const struct task *task)
{
    json_t *process = process_current(task);
    bool here = !is_far(task) && (task_is(task, "building") || !is_slurms(task));
    if (!process || !here || step_of(task) == TASK_GATHER || json_object_get(process, "stop") ||
        json_is_true(json_object_get(task->state, "cancel")))
        return false;
    struct task_kin kin = {-1, -1, task->id, get_ns(process, "ticks")};
    json_t *left = task_look_left(&kin, 0);
    uint64_t since = get_ns(process, "left_boot_ns"), waited = boot_ns() - since;
    bool asked = json_object_get(task_phase(task->state), "left_behind"), goes_on = task_left_count(left) > 0;
    if (goes_on && !since)
        task_change(store, task->id, set_left, NULL, NULL);
    else if (goes_on && !asked && waited >= time_hasten(TASK_LEAVE_SECONDS * (uint64_t)NS_PER_SECOND) &&
             task_change(store, task->id, set_left, left, NULL) == 0)
        json_decref(task_look_left(&kin, SIGTERM));
    else if (asked && waited >= time_hasten(TASK_GRACE_SECONDS * (uint64_t)NS_PER_SECOND))
        goes_on = false;
    json_decref(left);
    return goes_on;
}

bool task_advance(const struct task_store *store, const char *id)
{
    struct task task;
    struct job_info job = {0};
    enum job_state state = JOB_LOST;
    char dir[PATH_MAX];
    bool over =
             task_load(store, id, &task, NULL) < 0 || !task_is_active(task.state) || task_elsewhere(store, task.state),
         ended = false;
    json_t *known = NULL;
    if (!over && !task_is(&task, "queued")) {
        json_t *process = process_current(&task);
        bool alive = process && is_alive(process);
        run_dir(&task, dir);
        int code = job_info_read_state(dir, &job, &state, NULL);
        if (alive && code == 0 && state == JOB_ENDED && step_of(&task) == TASK_RUN && is_slurms(&task))
            kill((pid_t)get_ns(process, "pid"), SIGTERM); /* sbatch, which would see it up to 10 s later */
        ended = !alive && (step_of(&task) == TASK_GATHER || !job_goes_on(&task, code, state)) &&
                !left_goes_on(store, &task);
        if (process && !ended) {
            look_why_it_waits(store, &task, &job);
            look_if_begun(store, &task, &job);
            look_after(store, &task);
        }
        if (ended && code == 0 && step_of(&task) != TASK_BUILD)
            known = task_ranks(dir, &job);
        job_info_done(&job);
    }
    task_done(&task);
    if (ended)
        change_and_start(store, id, task_finish_locked, known);
    json_decref(known);
    if (over)
        task_space_forget(id);
    return over || ended;
}
