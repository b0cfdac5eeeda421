/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls come from: a thread's table of call sites, and the modules that they lie in. */
#ifndef SCRY_MPI_COUNT_SITE_H
#define SCRY_MPI_COUNT_SITE_H

#include "mpi/count/pool.h"

#pragma GCC visibility push(hidden)

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

#pragma GCC visibility pop

#endif
