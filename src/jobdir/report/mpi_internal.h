/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of jobdir: between the files of the report of MPI for people (report/mpi_head.c: how it begins, and what went
 * wrong; report/mpi_text.c: all sections; the others: one each).
 */
#ifndef SCRY_JOBDIR_REPORT_MPI_INTERNAL_H
#define SCRY_JOBDIR_REPORT_MPI_INTERNAL_H

#include "jobdir/text/fields.h"
#include "jobdir/report/mpi_report.h"

double mpi_report_percent(uint64_t part, uint64_t whole);
/* That of the thread that is the rank: of any outermost call, or of blocking calls only. Never NULL. */
const struct mpi_stats_clock *mpi_report_clock(const struct mpi_stats *stats, bool blocking);
double mpi_report_share(const struct mpi_stats *stats); /* percent of its run time in MPI */

/* Calls that were made inside of functions with names of MPI that the program itself has: a tool by MPI's profiling
 * interface that is linked into it. Its MPI_Send calls PMPI_Send, which is counted, but is itself called without the
 * dynamic linker. As a shared library it is seen through. By the function's name. */
void mpi_report_own(const struct mpi_report *report, uint64_t ret_calls[CALL_COUNT]);

/* One of the set's. */
struct mpi_who mpi_report_who(const struct mpi_report *report, const struct mpi_stats *stats);

void mpi_report_put_head(struct buf *out, const struct mpi_report *report);
void mpi_report_put_problems(struct buf *out, const struct mpi_report *report);

/* report/mpi_ranks.c: the ranks; one of them alone, and its threads. */
extern const struct field mpi_rank_fields[];
json_t *mpi_report_ranks_json(const void *row, const void *all);
void mpi_report_put_ranks(struct buf *out, const struct mpi_report *report);
void mpi_report_put_balance(struct buf *out, const struct mpi_report *report);
void mpi_report_put_rank(struct buf *out, const struct mpi_report *report, size_t index);
void mpi_report_put_threads(struct buf *out, const struct mpi_stats *stats);

/* report/mpi_calls.c: calls of MPI, struct mpi_stats_row and struct mpi_stats_clock, of all ranks or of one. */
struct mpi_report_calls {
    const struct mpi_stats_row *rows, *spans;
    size_t row_count, span_count;
    const struct mpi_stats_clock *outermost, *blocking;
    uint64_t finalized, others_count, others_ns;
};
extern const struct field mpi_call_fields[], mpi_time_fields[];
void mpi_report_put_received(struct buf *out, const struct mpi_stats_row *row);     /* also where it is not known */
json_t *mpi_report_time_json(const struct mpi_stats_clock *clock, const void *all); /* null: nothing was measured */
json_t *mpi_report_calls_json(const struct mpi_stats_row *rows, size_t count, const void *all);
void mpi_report_put_calls(struct buf *out, const struct mpi_report_calls *calls);

/* Call sites. */
extern const struct field mpi_site_fields[];
void mpi_report_put_sites(struct buf *out, const struct mpi_report *report);

/* report/mpi_comms.c: the communicators, of which each is a struct mpi_report_comm of a struct mpi_report. */
extern const struct field mpi_comm_fields[];
void mpi_report_put_comms(struct buf *out, const struct mpi_report *report);

#endif
