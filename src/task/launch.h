/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_TASK_LAUNCH_H
#define SCRY_TASK_LAUNCH_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "task/store.h"

#include <limits.h>
#include <stdbool.h>

/*
 * The command lines of a task's processes. Each run is a `scry run`, wherever it is: so its end, its processes and what was
 * collected are in a job directory, and whoever reads that needs no part in starting it.
 *
 * The order is that of RPPA's figure 4: the collecting processes are there first, and hold each process of the program
 * until its functions are hooked. Here `scry run` starts mpirun only when it watches, and the library in each rank waits
 * before main until the monitor has answered; MPI_Init joins the ranks, so none goes on before the last one is ready.
 */

struct task_launch {
    struct arena memory;
    char **argv, **environment; /* NULL-terminated; the arena's */
    size_t argc;
    char directory[PATH_MAX];
    char out[PATH_MAX], err[PATH_MAX]; /* files for its output */
    uint64_t file_bytes, data_bytes;   /* limits of a process; 0: none */
};

enum task_step {
    TASK_BUILD,  /* the job directory is build/ */
    TASK_RUN,    /* that of `run` is runs/N */
    TASK_GATHER, /* brings that from another machine */
};

/* 0; 1: there is nothing to do for this step; -ENOENT, -EINVAL ... with err: it cannot be started. task_launch_done in any
 * case. */
int task_launch_make(struct task_launch *ret_launch, const struct task *task, enum task_step step, uint64_t run,
                     struct err *err);
void task_launch_done(struct task_launch *launch);

/* What sends a signal (TERM, KILL) to a run that is not on this machine; 1: it is here. `batch_job`: Slurm's number, or
 * NULL; `stop`: why, as the state of the run has it. */
int task_launch_signal(struct task_launch *ret_launch, const struct task *task, uint64_t run, const char *batch_job,
                       const char *signal, const char *stop, struct err *err);

/* What prints in a word why Slurm has not begun that job. -ENOENT: there is no squeue. */
int task_launch_ask(struct task_launch *ret_launch, const struct task *task, const char *batch_job, struct err *err);

/* Has this machine what a task is launched by (task.json's launch.by)? For people who choose: a task may have a PATH of its own.
 * *ret_root: variables that its environment needs before it starts something for this user, root, with a NULL behind them; or NULL. */
bool task_launch_has(const char *by, const char *const **ret_root);

/* Which MPI a program was linked with, as far as its file says it. */
enum task_mpi { TASK_MPI_UNKNOWN, TASK_MPI_OPENMPI, TASK_MPI_MPICH };
enum task_mpi task_mpi_of(const char *path);

/* ---- by ssh ---- */

/*
 * Runs on the host of another machine, reached by ssh, that shares no files with this one. Its files go to
 * ~/.cache/scry/tasks/ID there; `scry run` takes the place of the shell that sshd began, and writes all it has there. So a
 * connection that is lost ends nothing: what brings the run home first waits for its end, and removes it there only when it
 * is here, whole.
 *
 * All put a script for a shell of this machine into `out`: near.sh, and a call. Of what is executed there, far.sh, it has lines. Which host it
 * is says the task.
 */

/* Brings the task's files there and starts a run. `line`: words for a shell, behind `scry run --output=DIR`. */
void far_put_start(struct buf *out, const struct task *task, uint64_t run, const char *line);
/* Waits for the end of the run, and brings it and what it wrote among the task's files, if there is room for it. What did not come
 * whole stays there, and may be brought again. */
void far_put_gather(struct buf *out, const struct task *task, uint64_t run);
/* What came of a run that was gathered: all; a part; not a word, though it was sent there; nothing, and nothing is there. */
enum far_came { FAR_WHOLE, FAR_PART, FAR_SILENT, FAR_NOTHING };
enum far_came far_came(const struct task *task, uint64_t run);
/* TERM for its scry run; KILL: for the command and all below it. `stop`: why, one word. */
void far_put_signal(struct buf *out, const struct task *task, uint64_t run, const char *signal, const char *stop);

/* Limits of a shell for each process and file, as task_launch has them for processes of this machine. */
void far_put_limits(struct buf *out, const struct task *task);
/* Is it a log (collect.logs) of what the program prints? Where its expression begins, or NULL. */
const char *far_log_of_output(const char *log, bool *ret_is_err);

#endif
