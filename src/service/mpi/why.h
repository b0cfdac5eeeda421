/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_get_wait_graph: why the ranks of a job do not move (jobdir/analysis/why.h). why.c looks at those of this node,
 * why_nodes.c has all nodes of the tool look at theirs (mpi_look), and joins what they saw.
 */
#ifndef SCRY_SERVICE_MPI_WHY_H
#define SCRY_SERVICE_MPI_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/span.h"
#include "jobdir/analysis/why.h"

struct scry_call;

/* A node that was to look at its ranks. Texts are the caller's. */
struct why_node {
    const char *token, *name;
    uint64_t ranks, taken_ns; /* that run there; when the last one was looked at, by the node's wall clock */
    const char *problem;      /* it has not answered; "" */
};

/* The result of mpi_get_wait_graph; `note`: for people, what is missing; "". */
void why_put(struct buf *text, const struct mpi_why *why, const char *note, const struct why_node *nodes, size_t count);

/* Answers later, of all nodes that the tool has. `job`: as mpi_look takes it. record: each node writes what it sees. */
void why_over_nodes(struct scry_call *call, struct span job, bool record);

#endif
