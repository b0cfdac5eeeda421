/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a task: looks how its run stands, and does what is next. All that is known is in the store and in job
 * directories, so it does not matter who started a run: a runner that was killed is followed by another one, which goes on.
 *
 * A process is executed only when it is written down that it runs (task_hold): nothing runs unknown to the store, and nothing twice.
 * A run is ended by SIGTERM to its scry run, then SIGKILL to the command and all below it, but not to scry run, which records
 * that end; why is written before. By Slurm, `sbatch --wait` stands for the run here. Limits need no control group: a session that
 * ssh or a desktop began is not delegated to its user.
 */
#ifndef SCRY_TASK_ADVANCE_H
#define SCRY_TASK_ADVANCE_H

#include "base/data/buf.h"
#include "jobdir/record/info.h"
#include "task/launch.h"
#include "task/store.h"

/* Starts a queued task: its build, or its first run. 0, or -errno: it has failed, and says so. */
int task_begin(const struct task_store *store, const char *id);
/* A step of one that is under way. True: it is over, or another one began. */
bool task_advance(const struct task_store *store, const char *id);

/* ---- what a step is made of ---- */

/* A process that waits to be executed, in a session of its own. */
struct task_held {
    pid_t pid;
    int go;
};
int task_hold(const struct task_launch *launch, struct task_held *ret_held);
void task_release(struct task_held *held, bool go);

/* The processes of a run: those of its session, its command, what says by its environment that it is of the task
 * (SCRY_TASK), and what descends from these. */
struct task_kin {
    pid_t session, command; /* -1: it is not known */
    const char *task;       /* NULL: nothing here says that it is of the task */
    uint64_t since_ticks;   /* when the first of them began: older ones are not looked at closely */
};
/* Do they have more memory resident together, without scry itself? What they share counts once. */
bool task_takes_more(const struct task_kin *kin, uint64_t most_bytes);
/* What of them is not scry's own (process.c), each of which gets the signal; 0: none. A new reference. */
json_t *task_look_left(const struct task_kin *kin, int signal);
/* SIGKILL for all of them, but for those by which scry run records how they end. */
void task_kill_command(const struct task_kin *kin, pid_t supervisor);

/*
 * What a build or a run has left behind: processes that say they are of the task (SCRY_TASK) and went on when its command had
 * ended. They are ended, as a batch system does it: nobody would hold them to the task's limits, and the next run is to be alone. A
 * phase of the state says so, `left_behind`: how many they were, and the names of their programs.
 */

uint64_t task_left_count(const json_t *left);

/* What a run on another machine says of it (far.sh), to the phase of that run. Nothing, if it has left nothing. */
void task_left_note_far(const struct task *task, uint64_t run);

/* Why that step of the run was no success, though nobody stopped it: of its job `info` and `state`, if code is 0. Nothing in `out` if it
 * was one. Returns the kind of the error. */
const char *task_why_failed(const struct task *task, enum task_step step, uint64_t run, const struct job_info *info,
                            enum job_state state, int code, struct buf *out);

/* Of the job that a run was: its ranks, how many of them have statistics and a trace, and how many processes were let go untraced: members
 * of the run (answer.c), and what may keep them from being faster. Reads all its statistics. A new reference. */
json_t *task_ranks(const char *jobdir, const struct job_info *info);

/* The space that a directory takes; UINT64_MAX: it has more files than these. */
uint64_t task_space_sum(const char *dir, uint64_t most_files);
/* The same, looked at by a child: a directory may have a million files. One look at a time for
 * each task. -EAGAIN: the first one is not over. */
int task_space_look(const char *id, const char *dir, uint64_t *ret_bytes);
void task_space_forget(const char *id);

/* Why Slurm has not begun that run, its job `job`: asked by a child, seldom. True: there is an answer, once; "": it does not say. */
enum { TASK_REASON_SIZE = 200 };
bool task_waits_look(const struct task *task, uint64_t run, const char *job, char ret_reason[TASK_REASON_SIZE]);

#endif
