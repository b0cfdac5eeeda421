/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of what is noted: the wrappers are called as if this program's slots had been redirected to them, and note
 * into an area that lies in this program. Each rank checks its own; the exit status tells.
 */
#ifndef SCRY_MPI_TEST_COUNT_H
#define SCRY_MPI_TEST_COUNT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi/wrap/wrap.h"
#include "shm/mpi_area.h"

/* The wrapper of a call, to be called in its place. */
#define W(name) ((__typeof__(name) *)mpi_entries[CALL_##name].wrapper[MPI_KIND_PLAIN])

extern struct mpi_area *area;
extern int count_failures;

/* Makes the area and all that is behind it; before MPI_Init. */
void count_start(void);
/* What is said of failures begins with the rank; returns the exit status. */
int count_end(void);

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            count_failed(__FILE__, __LINE__, #condition, 0, 0); \
    } while (0)
#define CHECK_EQUAL(got, expected) \
    do { \
        long long got_ = (long long)(got), expected_ = (long long)(expected); \
        if (got_ != expected_) \
            count_failed(__FILE__, __LINE__, #got " is not " #expected, got_, expected_); \
    } while (0)
void count_failed(const char *file, int line, const char *what, long long got, long long expected);

/* Sums over the threads. */
struct mpi_row count_row(uint32_t call);
struct mpi_row count_span(uint32_t call);
/* One peer's row, of any communicator if comm is UINT32_MAX; zeros if there is none. */
struct mpi_peer count_peer(uint32_t comm, int32_t peer, uint32_t call);
/* How many operations are pending, and those of one call. */
uint32_t count_pending(void);
const struct mpi_comm *count_comm(const char *name);
uint32_t count_comm_number(const char *name);
uint64_t count_histogram(uint32_t at, uint64_t *ret_total);
/* Ticks of all calls of the first thread that its clocks have; only of those that block. */
uint64_t count_rows(bool blocking);

/* All counts start again. */
void count_reset(void);

#define ROW(name) count_row(CALL_##name)
#define SPAN(name) count_span(CALL_##name)

#endif
