/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a job, for the commands that show them. */
#ifndef SCRY_CLI_TRACES_H
#define SCRY_CLI_TRACES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "jobdir/record/model.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/record/spool.h"
#include "jobdir/trace/trace.h"

struct job_traces {
    char job[PATH_MAX];  /* its directory */
    uint64_t start_ns;   /* wall time at which the job started; of a directory without job.json its first trace */
    struct trace **list; /* one a process: traces that follow each other are one */
    size_t count;
    bool is_running;
    char **paths; /* all that are there; those of other processes are not opened */
    size_t path_count;
    struct arena names;     /* of places */
    size_t named;           /* so many places there were when they were named */
    struct mpi_report *mpi; /* after job_traces_ranks; NULL: it ran no MPI program */
};

/* Opens the traces of a job: of one process, or of all (0). What cannot be read is logged. 0, or an exit status after
 * the reason was logged. There may be none. */
int job_traces_open(struct job_traces *ret_traces, const char *command, const char *job, pid_t process);
/* Looks for more (follow mode). How many came, or -errno. */
int job_traces_again(struct job_traces *traces, pid_t process);
/* Reads what is known of the ranks of its MPI programs, and puts their traces in the order of ranks. 0, or an exit
 * status after the reason was logged. */
int job_traces_ranks(struct job_traces *traces);
/* Finds out where calls come from (trace_place), of what is new since the last time. What has no name has none. */
void job_traces_places(struct job_traces *traces);
const struct mpi_stats_set *job_traces_stats(const struct job_traces *traces); /* of its ranks; NULL: there are none */
void job_traces_close(struct job_traces *traces);

/* What the job's records say of the time in which calls were recorded. Wall times. */
struct job_history {
    struct spool_reader reader;
    struct job_model model;
    uint64_t start_ns;
    bool open;
};
void job_history_open(struct job_history *ret_history, const struct job_traces *traces);
void job_history_again(struct job_history *history); /* takes in what is new */
void job_history_close(struct job_history *history);
/* The pause `index`, in which scry set had switched recording off; *ret_to_ns UINT64_MAX: it still is off, or was at
 * the end. false: there is none. */
bool job_history_pause(const struct job_history *history, size_t index, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
/* When a process ended; UINT64_MAX: not yet, or it is not known. */
uint64_t job_history_end(const struct job_history *history, pid_t pid);

/* Says on standard error why there is nothing to show, and what to do. */
void job_traces_explain(const struct job_traces *traces, pid_t process);

#endif
