/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MPI_COUNT_POOL_H
#define SCRY_MPI_COUNT_POOL_H

#include "mpi/count/self.h"

/* The pool of the area, and the histograms in it. */

enum { POOL_REFUSED = 1 }; /* an offset that is none: there was no room, and it is not asked for again */

/* `size` zero bytes, aligned to cache lines: the offset, or 0 (and counted in pool_refused). */
uint32_t pool_take(uint64_t size);

ALWAYS void *pool_at(uint32_t at)
{
    return (uint8_t *)mpi_hot.area + at;
}

/* The resolution that is set now. */
uint32_t histogram_bits(void);
/* A histogram of the thread's resolution at *at, or POOL_REFUSED. All of a thread's have the same. */
void histogram_make(const struct mpi_self *self, uint32_t *at);
/* What shall stand in place of `at` when counts start again: it, emptied, or 0 if the thread's resolution was changed.
 */
uint32_t histogram_clear(const struct mpi_self *self, uint32_t at);

/* The histogram at *at, which is made if need be; NULL: there is no room. */
ALWAYS struct mpi_histogram *histogram_of(const struct mpi_self *self, uint32_t *at)
{
    if (UNLIKELY(*at <= POOL_REFUSED)) {
        if (*at != POOL_REFUSED)
            histogram_make(self, at);
        if (*at == POOL_REFUSED)
            return NULL;
    }
    return pool_at(*at);
}

/* Adds a value `times` to the distribution at *at; false: there was no room for one. */
static inline bool histogram_add_times(const struct mpi_self *self, uint32_t *at, uint64_t value, uint64_t times)
{
    struct mpi_histogram *histogram = histogram_of(self, at);
    if (!histogram)
        return false;
    self_add(self, &histogram->total, value * times);
    self_add(self, &histogram->buckets[mpi_bucket(value, histogram->bits)], times);
    return true;
}

static inline bool histogram_add(const struct mpi_self *self, uint32_t *at, uint64_t value)
{
    return histogram_add_times(self, at, value, 1);
}

/* Takes it away: of distributions that are added to others. */
static inline void histogram_take(const struct mpi_self *self, uint32_t *at, uint64_t value)
{
    histogram_add_times(self, at, value, UINT64_MAX);
}

/* Where calls come from: a thread's table of call sites, and the modules that they lie in. */

/* A thread takes over its block: finds the tables that are there. */
void site_tables_use(struct mpi_self *self);
/* Counts of sites and peers start again. */
void site_tables_clear(struct mpi_self *self);

/* The row of the call that the thread is in, made if need be; NULL: there is no room, which was counted. */
struct mpi_site *site_make(struct mpi_self *self);

ALWAYS uint32_t site_hash(uint64_t address, uint32_t call)
{
    return (uint32_t)((address + call) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

ALWAYS struct mpi_site *site_of(struct mpi_self *self)
{
    if (UNLIKELY(!self->sites))
        return site_make(self);
    struct mpi_site *site = &self->sites[site_hash(self->site, self->call) & self->sites_mask];
    return LIKELY(site->address == self->site && site->call == self->call) ? site : site_make(self);
}

static inline void site_add(struct mpi_self *self, uint64_t ticks)
{
    struct mpi_site *site = site_of(self);
    if (!site)
        return;
    self_add(self, &site->count, 1);
    self_add(self, &site->ticks, ticks);
    self_least(self, &site->min, ticks);
    self_most(self, &site->max, ticks);
    if (self->args_bytes != SELF_UNSIZED)
        self_add(self, &site->args_bytes, self->args_bytes);
}

/* Where in a file `address` lies: index in modules or UINT32_MAX, and the offset. */
uint32_t module_of(uint64_t address, uint64_t *ret_offset);

#endif
