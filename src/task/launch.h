/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_TASK_LAUNCH_H
#define SCRY_TASK_LAUNCH_H

#include "base/data/arena.h"
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

#endif
