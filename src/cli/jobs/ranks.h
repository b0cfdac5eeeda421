/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_JOBS_RANKS_H
#define SCRY_CLI_JOBS_RANKS_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "cli/common/nodes.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/mpi/waiting.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"

#include <jansson.h>
#include <scry/omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the ranks of a job's MPI programs are doing, for scry ps and scry top. The monitors of their nodes read it from their
 * memory (mpi_get_activity). Ranks of a node that does not answer are shown as they last were, with how long that is ago.
 */

/* How long ago what a file of another node says was so. Its time is of the wall clock, which may have been set since. */
struct rank_age {
    uint64_t taken_wall_ns, looked_ns; /* looked_ns: CLOCK_MONOTONIC; 0: never */
    double seconds;
};
/* A look: `by_clock` seconds by the wall clock, but not longer than since the look before, where the file is another one; before the
 * first look, than `most`: for which the job runs. */
void rank_age_look(struct rank_age *age, uint64_t taken_wall_ns, double by_clock, double most, uint64_t now_ns);

struct rank_now {
    const char *job, *mpi_job, *host, *library, *fault;
    int32_t rank, ranks, pid; /* ranks: of its world; -1: not known */
    bool spawned, elsewhere;  /* elsewhere: on another node, as it was old_seconds ago */
    uint64_t told_ns;         /* elsewhere: when its monitor said so, by this clock; 0: it is from the job directory */
    const char *state;        /* starting, computing, in_call, ended, died, aborted, off */
    const char *call;         /* "": in none */
    const char *text;         /* the call with its peer and so on */
    const char *details;      /* the same without the call */
    uint64_t since_ns;        /* time that it has computed or been in the call */
    struct thread_wait wait;  /* computing: what its first thread waits for */
    enum waiting_for outside; /* likewise, what of that comes from outside of its process; WAITING_NOT: nothing */
    int32_t peer, tag;
    uint64_t compute_ns, communicate_ns; /* since MPI_Init */
    double old_seconds;
    struct rank_age age; /* of what is from the job directory */
    double recent;       /* share of communication since the answer before; < 0: unknown */
};

struct rank_list {
    struct rank_now *list; /* by (job, mpi_job, rank) */
    size_t count;
    struct arena arena;
    uint64_t asks_until_ns; /* of ranks_ask_elsewhere for all jobs together; 0: none was asked yet */
};

/* The share of MPI in the time between two answers; < 0: not known. */
double ranks_recent(const struct rank_now *now, const struct rank_now *was);
/* Replaces the ranks of this node by the rows of an answer of mpi_get_activity. */
void ranks_take(struct rank_list *ranks, const struct omis_value *rows);
/* Asks this node's monitor, if one runs, for the ranks of all jobs, and waits for the answer. */
void ranks_ask(struct rank_list *ranks);
/* Adds a job's ranks on other nodes, from its directory: those that their monitors have not told, or longer ago. */
void ranks_add_elsewhere(struct rank_list *ranks, const char *path);
/* Appends the request for the ranks on the job's other nodes. false: none of them can be asked. */
bool ranks_put_elsewhere(struct buf *request, const char *path, const struct job_nodes *nodes);
/* Takes what they answered. Appends to `missing` which of them did not, and why, separated by "; ". */
void ranks_take_elsewhere(struct rank_list *ranks, const char *path, struct omis_reader *reader,
                          const struct job_nodes *nodes, struct buf *missing);
/* Both, with the monitor that runs here: waits for the answers. Nodes that cannot be asked are in `missing`, too; so are those of
 * further jobs, once all that were asked have taken as long as one job may. */
void ranks_ask_elsewhere(struct rank_list *ranks, const char *path, struct buf *missing);
/* Sets old_seconds of those that were told, for what is shown now. */
void ranks_age(struct rank_list *ranks);
void ranks_done(struct rank_list *ranks);

/* The ranks of a job: *ret_count of them. */
const struct rank_now *ranks_of(const struct rank_list *ranks, const char *path, size_t *ret_count);
/* The number of ranks at the start of a list that belong to one MPI program. */
size_t ranks_same(const struct rank_now *list, size_t count);
/* About the ranks of one MPI program: "4 ranks under Open MPI: 3 computing, 1 in MPI_Recv". */
void ranks_summary(struct buf *out, const struct rank_now *list, size_t count, bool with_library);
/* Of a struct rank_now; the table's columns belong to a struct ranks_view. */
extern const struct field ranks_fields[];
struct ranks_view {
    const struct job_report *report; /* of scry ps: the job's processes; NULL: of scry top */
    bool narrow;
    int host_width;
};
/* Columns that the hosts' names take, at most so many. */
int ranks_host_width(const struct rank_now *list, size_t count, size_t most);
json_t *ranks_json(const struct rank_now *list, size_t count);

#endif
