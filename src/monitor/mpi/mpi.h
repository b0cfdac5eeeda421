/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI processes of this monitor. The interposer (src/mpi) says hello on the agents' socket and gets an area
 * (shm/mpi_area.h), in which it counts; here are the switches of that area, what the monitor reads from it, and the
 * files of the job directory that are written from it (jobdir/mpi/stats.h): at the end of the process, however that
 * came, when asked, and now and then while it runs, for nodes that die. Areas are found again after a restart of the
 * monitor.
 */
#ifndef SCRY_MONITOR_MPI_MPI_H
#define SCRY_MONITOR_MPI_MPI_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/mpi/stats.h"

struct monitor;
struct mpi_process;
struct process;
struct mpi_registry; /* monitor->mpi; NULL: there are no agents */
struct agents_mpi;

extern const struct agents_mpi agents_mpi; /* for agents_new() */

/* ---- living processes ---- */

struct mpi_process *mpi_process_find(struct mpi_registry *registry, pid_t pid); /* NULL */
/* Those of a job (its directory; NULL: all), in the order in which they came. */
void mpi_process_each(struct mpi_registry *registry, const char *dir,
                      void (*fn)(void *ctx, struct mpi_process *process), void *ctx);

pid_t mpi_process_pid(const struct mpi_process *process);
const char *mpi_process_job(const struct mpi_process *process); /* directory; "" */
const char *mpi_process_exe(const struct mpi_process *process);
/* The first page of its area, which the program may write over at any time. */
const struct mpi_area *mpi_process_head(const struct mpi_process *process);

/* All that is known of it now. 0 or -errno. */
int mpi_process_snapshot(struct mpi_process *process, struct mpi_stats *ret_stats, struct arena *arena,
                         struct err *err);
/* Only what it is in (mpi_stats_take_now). */
int mpi_process_snapshot_now(struct mpi_process *process, struct mpi_stats *ret_stats, struct arena *arena,
                             struct err *err);
/* Writes what was taken of it last. 0 or -errno with err; of no job: -ENOENT. */
int mpi_process_record(struct mpi_process *process, const struct mpi_stats *stats, struct err *err);
/* Takes and writes. Likewise. */
int mpi_process_flush(struct mpi_process *process, struct err *err);
/* Its counts begin anew, each thread's with its next call. */
void mpi_process_reset(struct mpi_process *process);

/* Who wants what of a process: `bit` (MPIA_METRIC_TELL, MPIA_METRIC_MESSAGES) of its area's metrics is set while the
 * changes (+1, -1) sum to more than 0, or the settings of its job want it. */
void mpi_process_want(struct mpi_process *process, uint32_t bit, int change);
/* MPIA_METRIC_TELL of some calls only: bits by enum call_id, MPI_CALL_WORDS. 0 or -ENOMEM (never with -1). */
int mpi_process_want_calls(struct mpi_process *process, const uint64_t *calls, int change);

/* A number that changes whenever one of its threads begins or ends a call, and whether one is in a call now. */
uint64_t mpi_process_mark(const struct mpi_process *process, bool *ret_in_call);
/* Calls fn every so often until it returns false; again called, only the shortest time stays. */
int mpi_watch(struct mpi_registry *registry, uint64_t period_ns, bool (*fn)(void *ctx), void *ctx);

/* Writes the files of all processes of a job (NULL: of all jobs): those that live, if these are wanted, and those that
 * have ended just now. 0, or -errno of the first that failed, with err. */
int mpi_job_flush(struct mpi_registry *registry, const char *dir, bool living, struct err *err);

/* Ranks of a job that have ended; remembered while it lasts. */
struct mpi_past {
    char *job;
    struct mpi_past *next;
    pid_t pid;
    int32_t rank, size;
    uint32_t state; /* enum mpi_state at its end */
    bool aborted, status_known;
    int32_t abort_code, status; /* status: as in struct mpi_stats */
    char namespace[128];
};
void mpi_past_each(struct mpi_registry *registry, const char *dir, void (*fn)(void *ctx, const struct mpi_past *past),
                   void *ctx);

/* Called when one came (not yet initialised), and when MPI_Init has returned in it. */
enum mpi_change { MPI_CAME, MPI_STARTED };
void mpi_on_change(struct mpi_registry *registry,
                   void (*fn)(void *ctx, struct mpi_process *process, enum mpi_change change), void *ctx);

/* ---- ranks that are found from outside ---- */

/* One process of an MPI job, from what its launcher left in its environment, or from the table of the launcher (the
 * MPIR process acquisition interface). Nothing is stopped. */
struct mpi_found {
    pid_t pid; /* on its host */
    int32_t rank, size;
    enum mpi_library library; /* 0: not known */
    bool here;                /* on this node */
    char namespace[128];      /* distinguishes jobs */
    char host[256];
    char job[256]; /* its SCRY_JOB; "" */
    char exe[512];
};
/* Of this user, on this node and, where a launcher runs here, on others. `ret_found` is malloc'ed. What could not be
 * read is in `note` (of any size; ""). 0 or -errno. */
int mpi_find_ranks(struct mpi_found **ret_found, size_t *ret_count, char *note, size_t note_size);

/* ---- the interposer is brought into a process later ---- */

/*
 * Bringing the interposer into an MPI process that was not started by scry and is attached (monitor/tracing/tracing.h):
 * asked for by mpi_load, or needed by an event of library calls. A second request while it is under way waits for
 * the same end.
 *
 * MPI runs already there, so neither the number of a rank's calls nor the origin of its communicators can be compared with
 * others: communicators have no identity, queues have doubts, and mpi_why draws no conclusions (mpi_stats.late).
 */

/* The end; code 0: its calls are caught from here on; -errno: err says why not. `process` NULL: it is gone. From the
 * loop, never from inside one of these functions. */
typedef void mpi_late_fn(void *ctx, struct process *process, int code, const struct err *err);

/* 0: begun, and fn is called once, if nobody forgets it. -errno: it cannot be done here, err says why. */
int mpi_late_begin(struct process *process, mpi_late_fn *fn, void *ctx, struct err *err);
/* fn of this ctx is not called any more for this process. What nobody waits for is not begun. true: it was still
 * to be called. */
bool mpi_late_forget(struct process *process, const void *ctx);
/* Of all processes; NULL: of all. */
void mpi_late_forget_all(struct mpi_registry *registry, const void *ctx);

#endif
