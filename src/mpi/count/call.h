/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wrapper does around a call, whatever the call is (shape/shape.h has a wrapper written out): it counts (self.c,
 * done.c), and reports to the agent (message/tell.c).
 */
#ifndef SCRY_MPI_COUNT_CALL_H
#define SCRY_MPI_COUNT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/hooks/mpi_host.h"
#include "shm/mpi_told.h"

#pragma GCC visibility push(hidden)

/* The calling thread. */
struct mpi_self;

/* One outermost call of a thread. */
struct mpi_self *mpi_enter_at(uint32_t call, uint64_t site, uintptr_t frame);
static inline __attribute__((always_inline)) struct mpi_self *mpi_enter(uint32_t call, uint64_t site)
{
    return mpi_enter_at(call, site, (uintptr_t)__builtin_dwarf_cfa()); /* of the wrapper */
}
void mpi_done(struct mpi_self *self);
/* A call of shape quick: counted, no more. true: it may have to be reported. */
bool mpi_quick(uint32_t call);

/*
 * While calls are reported to the agent (message/tell.h), each goes another way (wrap/wrap.py, wrap/table.c): mpi_enter returns NULL then,
 * and mpi_tells does not. There, around the call itself, are
 *
 *     struct mpi_told told; its arguments, as numbers
 *     bool tells = mpi_tell_begins(self, &told);
 *     ... the call, mpi_leave, shape_send_after(self, &args, result);
 *     if (tells) mpi_tell_ends(self, &told, result);
 */
bool mpi_tell_begins(struct mpi_self *self, struct mpi_told *told);
void mpi_tell_ends(struct mpi_self *self, struct mpi_told *told, int64_t result);
/* Before all this: true: the list of actions that wants the call was run, so it is not reported but goes the way of those
 * that are only counted. `given`: what told has: MPI_ACTS_PARS before the shape has seen the call, whose time begins then; or
 * MPI_ACTS_ALL. */
bool mpi_acts(struct mpi_self *self, const struct mpi_told *told, uint32_t given);
/* A call of shape quick; NULL: it is not reported. */
struct mpi_self *mpi_quick_tells(uint32_t call, uint64_t site, uintptr_t frame);
bool mpi_quick_begins(struct mpi_self *self, struct mpi_told *told, uint64_t comm); /* a handle; 0: it has none */
void mpi_quick_ends(struct mpi_self *self, struct mpi_told *told, int64_t result);

#pragma GCC visibility pop

#endif
