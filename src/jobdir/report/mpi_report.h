/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the MPI programs of a job did, added up from the statistics of their ranks (jobdir/mpi/stats.h): the sections of
 * `scry report`. Definitions are those of J. Fernandez et al., "Monitoring and Debugging Parallel Software with
 * BCS-MPI" (Table 2), and both of communication: inside any outermost call, and inside blocking calls only.
 */
#ifndef SCRY_JOBDIR_REPORT_MPI_REPORT_H
#define SCRY_JOBDIR_REPORT_MPI_REPORT_H

#include <jansson.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/mpi/text.h"

struct mpi_report_site_rank {
    size_t index; /* in the set */
    int32_t rank;
    uint64_t count, total_ns, open_ns;
};

struct mpi_report_site {
    struct mpi_report_site_rank *by_rank; /* so many as `ranks` */
    const struct mpi_stats_site *site;    /* its names; borrowed of the first rank that has it */
    uint32_t call;
    size_t ranks; /* how many ranks called from there */
    uint64_t count, total_ns, min_ns, max_ns, args_bytes;
    uint64_t others_count, others_ns; /* of that, in threads that are not the rank */
    uint64_t open, open_ns;           /* as of a row */
};

struct mpi_report_comm {           /* one over all ranks that have it */
    const struct mpi_stats *stats; /* the first rank that has it, and its index there */
    uint32_t index, ranks;
    uint64_t collectives; /* begun on it, by the rank with the most */
    struct mpi_report_moved {
        uint64_t messages, bytes;                /* of the user, sent on it */
        uint64_t coll_sent, coll_got, coll_args; /* bytes of collectives */
        uint64_t one_sided;                      /* bytes of one-sided operations, put or got */
    } moved, *measured;                          /* NULL: nobody counted that */
};

struct mpi_report {
    struct mpi_stats_set set;
    struct arena arena;
    struct err unreadable; /* code 0: all files could be read */
    size_t unreadable_count;
    char unnamed[ERR_TEXT_SIZE];                               /* why some call sites have no names; "" */
    uint32_t worlds;                                           /* how many MPI_COMM_WORLDs */
    uint32_t *world_of;                                        /* by rank of the set, from 0 */
    struct mpi_stats_row calls[CALL_COUNT], spans[CALL_COUNT]; /* over all ranks */
    struct mpi_stats_clock outermost, blocking;                /* sums over the ranks' own threads */
    uint64_t others_count, others_ns; /* calls of threads that are not the rank, whose clocks these are not in */
    bool clocks_off, peers_off, requests_off; /* nothing of that was measured, on any rank (jobdir/mpi/stats.h) */
    uint64_t finalized;            /* ranks that called MPI_Finalize: each computed once more than it communicated */
    struct mpi_report_site *sites; /* by total time */
    size_t site_count;
    struct mpi_report_comm *comms;
    size_t comm_count;
    struct mpi_matrix matrix;
};

/* Reads the ranks' files. 0; -ENOENT: it ran no MPI program; -ENOMEM. Then mpi_names_find() may name the sites. */
int mpi_report_read(struct mpi_report **ret_report, const char *jobdir, struct err *err);
/* Adds up. 0 or -ENOMEM. */
int mpi_report_add_up(struct mpi_report *report);
/* After it was added up: leaves only the processes that are this rank (of one program each). -ENOENT: there is none. */
int mpi_report_only(struct mpi_report *report, int32_t rank);
void mpi_report_free(struct mpi_report *report); /* NULL is fine */

/* The thread that is the rank; NULL: it never called MPI. */
const struct mpi_stats_thread *mpi_report_main(const struct mpi_stats *stats);
/* Calls of MPI of a process's threads that are not the rank: they are in the rows, but in none of its clocks. */
void mpi_report_others(const struct mpi_stats *stats, uint64_t *ret_count, uint64_t *ret_ns);
/* Calls that are in no clock, MPI_Init and MPI_Finalize, as its time is between them. */
bool mpi_report_is_outside(uint32_t call);
/* "", or what became of a rank: "died", "aborted", "running", "never called MPI_Init" ... */
const char *mpi_report_fate(const struct mpi_stats *stats);

/* How evenly something is spread over ranks: a line of a table. */
struct mpi_spread {
    const char *name;
    enum { MPI_SPREAD_NS, MPI_SPREAD_COUNT, MPI_SPREAD_BYTES } kind;
    size_t count;
    double sum, least, most;
    struct mpi_who low, high;
};
void mpi_spread_add(struct mpi_spread *spread, struct mpi_who who, double value);
/* The line; `title`: the table begins with it. */
void mpi_spread_put(struct buf *out, const struct mpi_spread *spread, const char *title, bool programs);

/* The line of the summary; nothing where there are no ranks. `report` may be NULL. */
void mpi_report_summary(struct buf *out, const struct mpi_report *report);
/* All sections; `rank` >= 0: those of this one. */
void mpi_report_text(struct buf *out, const struct mpi_report *report, int rank);
/* Adds the member "mpi" (null: no MPI). */
void mpi_report_json(json_t *json, const struct mpi_report *report);

#endif
