/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reporting calls to the agent (agent/hooks/mpi_host.h): a body out of the way (wrap/wrap.py, wrap/table.c), which a wrapper
 * goes on to when mpi_enter says that calls are reported. A process that reports nothing pays nothing for it:
 * the comparison that notices all switches also notices that a listener has come.
 */
#ifndef SCRY_MPI_MESSAGE_TELL_H
#define SCRY_MPI_MESSAGE_TELL_H

#include "mpi/count/self.h"

#pragma GCC visibility push(hidden)

struct mpi_host;

/* Keeps the host, and listens (struct self_listener); before anything is redirected. */
void tell_start(const struct mpi_host *host);
extern const struct mpi_host *tell_host;

/* After mpi_enter has returned NULL: not NULL if that was because the call is to be reported. */
ALWAYS struct mpi_self *mpi_tells(void)
{
    struct mpi_self *self = mpi_tls.self;
    if (LIKELY(!self || !self->telling))
        return NULL;
    self->telling = false;
    return self;
}

/* mpi_acts needs the arguments. */
ALWAYS bool mpi_acts_on_pars(const struct mpi_self *self)
{
    return (self->acts & MPI_ACTS_ALL) == MPI_ACTS_PARS;
}

/* Where mpi_tells or mpi_quick_tells was not NULL: the same once more. */
ALWAYS struct mpi_self *mpi_telling(void)
{
    return mpi_tls.self;
}

#pragma GCC visibility pop

#endif
