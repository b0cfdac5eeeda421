/* SPDX-License-Identifier: Apache-2.0 */
/* A job, as scry run holds it (supervise.c), and how it ends (finish.c, crash.c). */
#ifndef SCRY_JOB_RUN_JOB_H
#define SCRY_JOB_RUN_JOB_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "job/launch/launch.h"
#include "job/watch/options.h"
#include "job/launch/preload.h"
#include "job/observe/observe.h"
#include "job/observe/observer.h"
#include "job/output/relay.h"
#include "job/run/publish.h"
#include "job/run/reason.h"
#include "job/record/writer.h"
#include "job/launch/signals.h"
#include "job/health/node.h"
#include "job/watch/watch.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"

enum { JOB_KILLED = 8 };

struct job {
    struct run_options *options;         /* borrowed; scry set changes them */
    char id[JOB_ID_SIZE], dir[PATH_MAX]; /* dir "": it could not be made */
    char host[256], user[256], cwd[PATH_MAX], boot_id[64];
    char batch_name[256]; /* of the job in the batch system; "" */
    struct job_info info;
    struct signals signals;
    struct preload preload;
    struct err untraced;  /* why nothing is traced though it was requested */
    struct err agentless; /* why the agent is not loaded, until that is said */
    struct launch launch;
    struct relay relay; /* of its output, with --tee */
    struct recorder recorder;
    struct watch watch;
    struct observer_link observer;
    struct publish_link publish;
    struct files *files;                     /* what its processes count, with --files (shm/files.h); NULL: nothing */
    struct syscalls *syscalls;               /* what counts its system calls, with --syscalls; NULL: nothing */
    struct oom_counts oom_before, oom_after; /* the command */
    pid_t killed[JOB_KILLED];                /* the last processes that SIGKILL has ended */
    size_t killed_count;
    uint64_t sample_ns;   /* when the next sample is due */
    uint64_t fork_rss;    /* scry run's peak at the fork: the kernel counts it for the child */
    uint64_t cpu_ns;      /* of all processes that were waited for */
    uint64_t largest_rss; /* of the same processes */
    struct job_io io;     /* the same */
    uint64_t end_ns;
    bool joined;    /* a part: its monitor goes to the job's, which has it brought there */
    bool has_parts; /* it has parts on other nodes, seen here */
    char *by_srun;  /* nodes to which Open MPI's mpirun went by srun, as Slurm lists them; NULL: none */
    int parts_fd;   /* scry-parts, which ends after this; -1: it does not run */
    pid_t parts_pid;
    bool parts_failed;           /* it could not be started */
    bool ended, seen_to_end;     /* the last sample was taken after the end */
    int status;                  /* the command's wait status */
    struct reason_limits limits; /* at the command's end */
    char reason[1024];           /* why it got its signal, or could not be started; "" */
    int exec_code;               /* -errno of execvp */
    bool refused;                /* an option cannot be fulfilled: the command is not started */
    /* does main wait for long? */
    bool wait_asked, wait_told;
};

/* What the observer of a job looks at (job/observe/observe.h), which ends with NULL. */
extern const struct observe_source *const observe_sources[];

/* Takes the last sample, with the processes that ended since the one before, and has all traces brought to disk. It
 * waits for both, but not for a monitor that does not answer. */
void finish_watch(struct job *job);
/* Appends to `text` the summary; of a quiet job only that no calls were recorded, where they were to be. */
void finish_job(struct job *job, int exit_code, struct buf *text);
/* The job was not started: removes its directory. */
void finish_failed(struct job *job);
/* Hands the current job.json to the process that writes it; now: which waits until it is on disk. */
void finish_put_info(struct job *job, bool now);
void finish_done(struct job *job);

/* With --files: what the processes find to count files in, before the command is started; and what they have counted. */
void files_share(struct job *job);
void files_put(struct job *job);

/* With --syscalls: before the command goes on, and when all have ended. */
void syscalls_start(struct job *job);
void syscalls_put(struct job *job);

/* Completes the crashes of the model, before they are written. */
void crash_explain(struct job *job);
/* Whether any process has a trace; true where that is not known. */
bool crash_any_traced(const struct job *job);

#endif
