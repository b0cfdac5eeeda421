/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the agent of calls (agent/hooks/mpi_host.h): another body of each wrapper (wrap.py), out of the way, which a
 * wrapper goes to when mpi_enter says that calls are told. A process that tells nothing pays nothing for it: that
 * somebody began to listen is noticed by the comparison that notices all switches.
 */
#ifndef SCRY_MPI_MESSAGE_TELL_H
#define SCRY_MPI_MESSAGE_TELL_H

#include "mpi/count/self.h"

#pragma GCC visibility push(hidden)

struct mpi_host;

/* Keeps the host, and listens (struct self_listener); before anything is redirected. */
void tell_start(const struct mpi_host *host);
extern const struct mpi_host *tell_host;

/* After mpi_enter has said NULL: not NULL if that was because the call is to be told. */
ALWAYS struct mpi_self *mpi_tells(void)
{
    struct mpi_self *self = mpi_tls.self;
    if (LIKELY(!self || !self->telling))
        return NULL;
    self->telling = false;
    return self;
}

#pragma GCC visibility pop

#endif
