/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of jobdir: what the files that read an MPI area share (mpi/stats_places.c: call sites and peers;
 * mpi/stats_buckets.c: the distributions; mpi/stats_take.c: all else). Each number of the area is read once.
 */
#ifndef SCRY_JOBDIR_MPI_STATS_TAKE_H
#define SCRY_JOBDIR_MPI_STATS_TAKE_H

#include "jobdir/mpi/stats.h"

#define ORDERED(field) atomic_load_explicit(&(field), memory_order_acquire)
#define ONCE(field) (*(const volatile __typeof__(field) *)&(field))

struct take {
    const struct mpi_area *area; /* live */
    uint64_t now, latest, rate;  /* ticks; per second */
    bool ticking;                /* its clocks run: after MPI_Init, before MPI_Finalize */
    bool brief;                  /* no lists of ranks */
    struct arena *arena;
    struct mpi_module *modules; /* a copy */
    uint32_t module_count;
    struct mpi_site *sites; /* copies, by address */
    size_t site_count;
    uint32_t main;                       /* the thread that is the rank: its block; MPIA_THREADS: none has called MPI */
    uint32_t comm_index[MPIA_COMMS];     /* by number: index in stats.comms */
    uint32_t thread_index[MPIA_THREADS]; /* likewise, in stats.threads */
};

uint64_t take_ns(const struct take *take, uint64_t ticks);
/* NULL: not in use. The last one may be that of all threads that found no other: it has counts, but no clocks, and
 * is in no call. */
const struct mpi_thread *take_thread(const struct take *take, uint32_t index);
bool take_is_shared(const struct mpi_thread *thread);

/* Reads at most 128 bytes until they are the same twice: nothing wrote to them between, or only the last time of many.
 */
void take_stable(void *to, const void *from, size_t size);
const char *take_text(struct arena *arena, const char *from, size_t size); /* up to its first NUL; never NULL */
uint32_t take_comm(const struct take *take, uint32_t number);              /* its index; UINT32_MAX */

static inline uint64_t take_plus(uint64_t one, uint64_t other)
{
    uint64_t sum;
    return __builtin_add_overflow(one, other, &sum) ? UINT64_MAX : sum;
}

/* 0 or -ENOMEM. */
int take_modules(struct take *take);
int take_sites(struct take *take, struct mpi_stats *stats);
int take_peers(struct take *take, struct mpi_stats *stats);
int take_distributions(const struct take *take, struct mpi_stats *stats);

/* Of an address alone: by the sites that are known. All sites of a module have the same distance to its file's
 * addresses. */
void take_place(const struct take *take, struct mpi_stats_site *site, uint32_t call, uint64_t address);
/* The call that comes from there; CALL_NONE: not known, or several do. */
uint32_t take_call_at(const struct take *take, uint64_t address);

#endif
