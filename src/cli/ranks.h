/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a job's MPI programs are in, for scry ps and scry top: asked of this node's monitor, which looks
 * into their memory (mpi_get_activity); of ranks on other nodes what those have last written to the job directory.
 */
#ifndef SCRY_CLI_RANKS_H
#define SCRY_CLI_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <scry/omis.h>

#include "base/arena.h"
#include "base/buf.h"
#include "jobdir/text/fields.h"

struct rank_now {
    const char *job, *mpi_job, *host, *library, *fault;
    int32_t rank, size, pid;
    bool spawned, elsewhere; /* elsewhere: on another node, as it was old_seconds ago */
    const char *state;       /* starting, computing, in_call, ended, died, aborted, off */
    const char *call;        /* "": in none */
    const char *text;        /* the call with its peer and so on */
    uint64_t since_ns;       /* for how long it computes or is in the call */
    int32_t peer, tag;
    uint64_t compute_ns, communicate_ns; /* since MPI_Init */
    double old_seconds;
    double recent; /* share of communication since the last time that it was asked; < 0: unknown */
};

struct rank_list {
    struct rank_now *list; /* by (job, mpi_job, rank) */
    size_t count;
    struct arena arena;
};

/* Takes over the list that mpi_get_activity answers, in place of what is there of this node. */
void ranks_take(struct rank_list *ranks, const struct omis_value *rows);
/* Of all jobs, from the monitor that runs here, if one does; waits for the answer. */
void ranks_ask(struct rank_list *ranks);
/* Reads those of a job (its directory) that are on other nodes. */
void ranks_add_elsewhere(struct rank_list *ranks, const char *path);
void ranks_done(struct rank_list *ranks);

/* Those of a job: *ret_count of them. */
const struct rank_now *ranks_of(const struct rank_list *ranks, const char *path, size_t *ret_count);
/* How many of an MPI job stand at the beginning of a list. */
size_t ranks_same(const struct rank_now *list, size_t count);

/* "computing for 0.3 s", "in MPI_Recv from rank 0, tag 7 on MPI_COMM_WORLD for 3.2 s" */
void ranks_state_text(struct buf *out, const struct rank_now *rank);
/* Of the ranks of one MPI job: "4 ranks under Open MPI: 3 computing, 1 in MPI_Recv". */
void ranks_summary(struct buf *out, const struct rank_now *list, size_t count, bool with_library);
/* Of the time since MPI_Init; < 0: not known. */
double ranks_share(const struct rank_now *rank);
extern const struct field ranks_fields[]; /* of a struct rank_now */
json_t *ranks_json(const struct rank_now *list, size_t count);

#endif
