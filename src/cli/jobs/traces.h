/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a job, for the commands that show them. */
#ifndef SCRY_CLI_JOBS_TRACES_H
#define SCRY_CLI_JOBS_TRACES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "jobdir/record/model.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/record/spool.h"
#include "jobdir/trace/trace.h"

struct job_traces {
    char job[PATH_MAX];  /* its directory */
    uint64_t start_ns;   /* wall time of the job's start; without job.json, of its first trace */
    struct trace **list; /* one for each process: traces that follow each other are joined */
    size_t count;
    bool is_running;
    char **paths; /* of all traces; those of other processes are not opened */
    size_t path_count;
    struct arena names;     /* of places */
    size_t named;           /* the number of places that have been named */
    struct mpi_report *mpi; /* after job_traces_ranks; NULL: no MPI program */
};

/* Opens the traces of a job: of one process, or of all (0). Logs what cannot be read. 0, also if there are none, or an
 * exit status after logging the reason. */
int job_traces_open(struct job_traces *ret_traces, const char *command, const char *job, pid_t process);
/* Looks for new traces (follow mode). Returns their number, or -errno. */
int job_traces_again(struct job_traces *traces, pid_t process);
/* Reads what is known of the job's MPI ranks, and sorts their traces by rank. 0, or an exit status after logging the
 * reason. */
int job_traces_ranks(struct job_traces *traces);
/* Names the places that calls come from (trace_place), as far as they are new since the last call. */
void job_traces_places(struct job_traces *traces);
const struct mpi_stats_set *job_traces_stats(const struct job_traces *traces); /* NULL: it has no ranks */
void job_traces_close(struct job_traces *traces);

/* What the job's records say about when calls were recorded. Wall times. */
struct job_history {
    struct spool_reader reader;
    struct job_model model;
    uint64_t start_ns;
    bool open;
};
void job_history_open(struct job_history *ret_history, const struct job_traces *traces);
void job_history_again(struct job_history *history); /* reads what is new */
void job_history_close(struct job_history *history);
/* The pause with this index, in which scry set had switched recording off. *ret_to_ns is UINT64_MAX if it lasts, or
 * lasted to the end. false: there is none. */
bool job_history_pause(const struct job_history *history, size_t index, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
/* When a process ended; UINT64_MAX: not yet, or not known. */
uint64_t job_history_end(const struct job_history *history, pid_t pid);

/* Prints on standard error why there is nothing to show, and what to do. */
void job_traces_explain(const struct job_traces *traces, pid_t process);

#endif
