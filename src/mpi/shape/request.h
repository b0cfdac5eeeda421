/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that were begun and are not complete: a table in the area by handle, so that readers of the area see what
 * is pending, and beside it what only we need when they complete. Handles come again, and libraries give one handle to
 * several operations that are complete as they begin (MPICH: built-in requests; Open MPI: ompi_request_empty): those
 * are never noted, they are complete at their post. An entry that is there under the handle of a new one was completed
 * unseen.
 *
 * Messages sent are counted where they are posted (persistent ones: started), messages received where they complete,
 * with the bytes and the source that the status says. A cancelled operation is not counted.
 */
#ifndef SCRY_MPI_SHAPE_REQUEST_H
#define SCRY_MPI_SHAPE_REQUEST_H

#include "mpi/count/comm.h"

#pragma GCC visibility push(hidden)

/* What an operation is, for its entry. */
struct request_about {
    uint32_t flags; /* enum mpi_request_flag */
    int32_t peer, tag;
    uint32_t ordinal;
    uint64_t bytes;     /* as posted: of receives at most */
    uint64_t sent, got; /* persistent: at each start; got of collectives and one-sided ones also: at completion */
    struct comm_info *comm;
    uint64_t order;     /* of its post, if messages are reported */
    uint32_t peer_call; /* CALL_NONE: messages of the user; else the row among the peers has this */
};

/* The call of the thread, which succeeded, has begun it. */
void request_begin(struct mpi_self *self, MPI_Request request, const struct request_about *about);
/* MPI_Start of a persistent one. */
void request_start(struct mpi_self *self, MPI_Request request);
/* MPI_Request_free: that of a receive which is not known to be complete is counted, as what it gets is not seen. */
void request_freed(struct mpi_self *self, uint64_t handle);
/* It is among those that have completed together, which are handled one by one: from which rank it got its message.
 * Only where messages are numbered. */
void request_known(struct mpi_self *self, uint64_t handle, const MPI_Status *status);
/* It is complete, and still there (MPI_Request_get_status): what comes for it later finds nothing more to count. */
void request_seen(struct mpi_self *self, uint64_t handle, const MPI_Status *status);
/* It is complete; `status` NULL: not known. */
void request_complete(struct mpi_self *self, uint64_t handle, const MPI_Status *status);

/* Entries in use: nothing needs to be looked up when there are none. */
extern _Atomic uint32_t request_count;

ALWAYS bool request_is_null(MPI_Request request)
{
    return HANDLE_OF(request) == HANDLE_OF(mpi_library.request_null);
}

/* ---- messages that were matched by MPI_Mprobe ---- */

void message_note(MPI_Message message, const struct request_message *about);
/* Takes it out; peer MPIA_RANK_NONE and an unknown communicator if it is not there. */
struct request_message message_take(MPI_Message message);

/* What has come with a receive from `comm`: counted by source, unless it was cancelled or from nobody. `source` is what
 * the program asked for, `from` the same in the world. Returns the bytes. */
ALWAYS uint64_t message_received(struct mpi_self *self, const struct comm_info *comm, int source, int32_t from,
                                 const MPI_Status *status)
{
    if (UNLIKELY(status->MPI_SOURCE == MPI_PROC_NULL || status_cancelled(status)))
        return 0;
    if (UNLIKELY(status->MPI_SOURCE != source || from == MPIA_RANK_NONE))
        from = comm_world_rank(comm, status->MPI_SOURCE);
    uint64_t bytes = status_bytes(status);
    self_got_from(self, comm->number, from, CALL_NONE, 1, bytes);
    return bytes;
}

#pragma GCC visibility pop

#endif
