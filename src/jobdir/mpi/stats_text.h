/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_MPI_STATS_TEXT_H
#define SCRY_JOBDIR_MPI_STATS_TEXT_H

#include "jobdir/mpi/stats.h"

/*
 * Inside of jobdir: which fields of statistics of MPI stand in the JSON, by what name: one list for writing and
 * reading.
 */

enum mpi_field_kind {
    FIELD_U32,
    FIELD_INDEX, /* uint32_t; UINT32_MAX is null */
    FIELD_I32,
    FIELD_U64,     /* above INT64_MAX as that: readers of JSON stop there */
    FIELD_STATE,   /* enum mpi_state as a word */
    FIELD_KIND,    /* enum mpi_comm_kind as a word */
    FIELD_ATTENDS, /* enum mpi_attends, likewise */
    FIELD_WAIT,    /* enum thread_wait_kind, likewise */
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_CALL,         /* its name; CALL_NONE is null */
    FIELD_RANKS,        /* of a struct mpi_stats_comm: `size` numbers, or null */
    FIELD_REMOTE_RANKS, /* `remote_size` */
    FIELD_WAITS,        /* uint64_t[MPIA_WAITS]; only those that are not 0 */
    FIELD_REAL,         /* double, to the third digit */
    FIELD_CHARS,        /* char[MPI_FIELD_CHARS] */
};

struct mpi_field {
    const char *name; /* NULL: the end of the list */
    enum mpi_field_kind kind;
    size_t offset;
};

/* Objects. */
extern const struct mpi_field mpi_stats_fields[], mpi_clock_fields[], mpi_now_fields[], mpi_thread_fields[],
    mpi_look_fields[];

#endif
