/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/mpi_host.h"
#include "mpi/wrap/bind.h"
#include "mpi/wrap/connect.h"
#include "mpi/count/library.h"
#include "mpi/count/self.h"
#include "mpi/message/tell.h"

#include <stddef.h>

__attribute__((visibility("default"))) const struct mpi_guest *scry_mpi_start(const struct mpi_host *from)
{
    static const struct mpi_guest guest = {
        .look = bind_look, .symbol = bind_symbol, .opens = self_opens, .seal = self_seal};
    static struct mpi_host host;
    if (from->version != MPI_HOST_VERSION)
        return NULL;
    host = *from;
    if (!host.why_not)
        host.why_not = bind_start(&host);
    if (!host.why_not && !mpi_library_start(NULL, bind_find))
        host.why_not = "the MPI library lacks a function of MPI 3.1";
    tell_start(&host);
    self_look = bind_look;
    if (!mpi_connect(&host) || host.why_not)
        return NULL;
    if (host.late)
        self_note_running();
    bind_look();
    return &guest;
}
