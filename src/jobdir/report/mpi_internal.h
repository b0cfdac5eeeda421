/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of jobdir: between the files of the report of MPI for people (report/mpi_text.c: all sections, how it begins, and what went
 * wrong; mpi_calls.c: calls, call sites and communicators; mpi_ranks.c).
 */
#ifndef SCRY_JOBDIR_REPORT_MPI_INTERNAL_H
#define SCRY_JOBDIR_REPORT_MPI_INTERNAL_H

#include "jobdir/text/fields.h"
#include "jobdir/report/mpi_report.h"

double mpi_report_percent(uint64_t part, uint64_t whole);
/* That of the thread that is the rank: of any outermost call, or of blocking calls only. Never NULL. */
const struct mpi_stats_clock *mpi_report_clock(const struct mpi_stats *stats, bool blocking);
double mpi_report_share(const struct mpi_stats *stats); /* percent of its run time in MPI */

/* One of the set's. */
struct mpi_who mpi_report_who(const struct mpi_report *report, const struct mpi_stats *stats);

/* report/mpi_ranks.c: the ranks; one of them alone, and its threads. */
extern const struct field mpi_rank_fields[];
json_t *mpi_report_ranks_json(const void *row, const void *all);
void mpi_report_put_ranks(struct buf *out, const struct mpi_report *report);
void mpi_report_put_balance(struct buf *out, const struct mpi_report *report);
/* "rank 1 computed for 60.0 s, the 3 others for 0.10 s on average; they waited in MPI_Allreduce for 59.9 s". false: there is nothing
 * to say, for it costs little, or was not measured. */
bool mpi_report_put_imbalance(struct buf *out, const struct mpi_report *report);
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

/* report/mpi_calls.c: the communicators, of which each is a struct mpi_report_comm of a struct mpi_report. */
extern const struct field mpi_comm_fields[];
void mpi_report_put_comms(struct buf *out, const struct mpi_report *report);

#endif
