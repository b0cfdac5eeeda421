/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of an MPI process beside its statistics (jobdir/mpi/stats.h): which rank it is, and from which line of the
 * source each of its calls of MPI came. Calls in a trace have the offset of their return address only, as the file of
 * the program or library has it; the statistics have the names.
 */
#ifndef SCRY_JOBDIR_MPI_TRACE_H
#define SCRY_JOBDIR_MPI_TRACE_H

#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/trace/trace.h"

/* Those of its process; NULL: there are none. */
const struct mpi_stats *mpi_trace_stats(const struct mpi_stats_set *set, const struct trace *trace);
/* As it says itself, or its statistics (NULL is fine) do. -1: it is none, or it is not known (yet). */
int32_t mpi_trace_rank(const struct trace *trace, const struct mpi_stats *stats);
/* The call site among the values of an entry (shm/mpi_told.h); 0: it is not there. *sites, NULL at first, remembers
 * where each layout has it. */
struct mpi_layout_site;
uint64_t mpi_layout_site_of(struct mpi_layout_site **sites, const struct trace_event *event);
void mpi_layout_sites_free(struct mpi_layout_site **sites);

/* Which program it is a rank of, as its launcher calls it; "". */
const char *mpi_trace_world(const struct trace *trace, const struct mpi_stats *stats);

/* The MPI programs of a job by these names, counted from 0: those of the statistics as in the report, then as met. */
struct mpi_programs {
    char *names[256]; /* more are taken for the last */
    uint32_t count;
};
void mpi_programs_init(struct mpi_programs *programs, const struct mpi_stats_set *set); /* set may be NULL */
uint32_t mpi_programs_number(struct mpi_programs *programs, const char *name);
void mpi_programs_done(struct mpi_programs *programs);

/* Puts them in the order of their ranks, those of a program at the place of its first one; others stay where they are.
 * 0 or -ENOMEM. */
int mpi_trace_order(struct trace **traces, size_t count, const struct mpi_stats_set *set);

/* What is known of one trace. */
struct mpi_trace;
int mpi_trace_new(struct mpi_trace **ret_mpi, const struct trace *trace,
                  const struct mpi_stats *stats); /* 0 or -ENOMEM; both are borrowed, stats may be NULL */
void mpi_trace_free(struct mpi_trace *mpi);       /* NULL is fine, here and below */

int32_t mpi_trace_number(const struct mpi_trace *mpi);  /* its rank; -1 */
uint32_t mpi_trace_thread(const struct mpi_trace *mpi); /* the thread that is the rank; 0: it is not known */
/* Where a call of MPI, whose beginning `event` is, came from. NULL: it is no such call, or that is not known, also
 * where it could be several places. */
const struct mpi_stats_site *mpi_trace_site(struct mpi_trace *mpi, const struct trace_event *event);
/* For people, of the values of a call of MPI that begin at `from`: the names of what is no rank or no tag, and without
 * the bare address, `site = 0x1234`, if `sited`. */
void mpi_trace_show_values(struct buf *text, size_t from, bool sited);
bool mpi_trace_is_call(const struct mpi_trace *mpi, uint32_t function);
/* The name of the communicator of a message (struct record_message.comm); nothing if it is not known. */
void mpi_trace_comm(struct buf *out, const struct mpi_trace *mpi, uint64_t identity);

#endif
