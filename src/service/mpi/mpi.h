/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_MPI_MPI_H
#define SCRY_SERVICE_MPI_MPI_H

#include "base/data/buf.h"
#include "jobdir/analysis/why.h"
#include "jobdir/mpi/stats.h"

/*
 * The built-in extension `mpi`: ranks, communicators and statistics of MPI programs (monitor/mpi/mpi.h), as tools see
 * them. mpi.c has the table and the services but for messages (message.c), and why ranks wait, with the event of a stall
 * (why.c).
 */

struct event_ops;
struct monitor;
struct scry_call;
struct scry_object;

void mpi_get_wait_graph(struct scry_call *call);
void mpi_look(struct scry_call *call);
extern const struct event_ops mpi_stalled_ops;

/* As mpi_job_part, of the first argument; "" for all. NULL: there is none, and the call has failed. */
const char *mpi_job_named(struct scry_call *call);
/* The directory on this node of the job that is named, else of its part here; NULL: nobody follows such a job here. */
const char *mpi_job_part(struct monitor *monitor, struct span name);
/* The job that is in `dir`, and its parts on this node: a batch system starts tasks beside the script. NULL: all jobs, once. */
void mpi_job_each(struct monitor *monitor, const char *dir, void (*fn)(void *ctx, const char *dir), void *ctx);

#endif
