/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of jobdir: which fields of statistics of MPI stand in the JSON, by what name: one list for writing and
 * reading.
 */
#ifndef SCRY_JOBDIR_MPI_STATS_FIELDS_H
#define SCRY_JOBDIR_MPI_STATS_FIELDS_H

#include "jobdir/mpi_stats.h"

enum mpi_field_kind {
    FIELD_U32,
    FIELD_INDEX, /* uint32_t; UINT32_MAX is null */
    FIELD_I32,
    FIELD_U64,   /* above INT64_MAX as that: readers of JSON stop there */
    FIELD_STATE, /* enum mpi_state as a word */
    FIELD_KIND,  /* enum mpi_comm_kind as a word */
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_CALL,         /* its name; CALL_NONE is null */
    FIELD_RANKS,        /* of a struct mpi_stats_comm: `size` numbers, or null */
    FIELD_REMOTE_RANKS, /* `remote_size` */
    FIELD_WAITS,        /* uint64_t[MPIA_WAITS]; only those that are not 0 */
};

struct mpi_field {
    const char *name; /* NULL: the end of the list */
    enum mpi_field_kind kind;
    size_t offset;
};

/* Objects. */
extern const struct mpi_field mpi_stats_fields[], mpi_clock_fields[], mpi_now_fields[], mpi_thread_fields[];

/* The words of FIELD_STATE and FIELD_KIND, by number, ended by NULL. */
const char *const *mpi_field_words(enum mpi_field_kind kind);

/* Tables: rows of one kind. */
struct mpi_table {
    const char *name;
    const struct mpi_field *fields;
    size_t size;              /* of a row */
    size_t rows_at, count_at; /* in struct mpi_stats */
};
enum { MPI_TABLES = 6 };
extern const struct mpi_table mpi_tables[MPI_TABLES];

#endif
