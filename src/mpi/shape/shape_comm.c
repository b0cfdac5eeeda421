/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/shape.h"

#include "mpi/count/comm.h"
#include "mpi/shape/meeting.h"
#include "mpi/shape/request.h"

/* All processes of the parent take part in all of these, but for MPI_Comm_create_group and those without a parent: they
 * stand in the order of its collectives, like a barrier. */
static bool is_collective(const struct mpi_args *args)
{
    return args->call != CALL_MPI_Comm_create_group;
}

void comm_new_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    struct comm_info *parent = comm_find(self, args->comm);
    target.comm = parent->number;
    if (is_collective(args))
        target.ordinal = comm_ordinal(parent);
    if (args->call == CALL_MPI_Comm_spawn || args->call == CALL_MPI_Comm_spawn_multiple ||
        args->call == CALL_MPI_Comm_accept || args->call == CALL_MPI_Comm_connect)
        target.peer = comm_world_rank(parent, args->root);
    self_begin(self, args->blocking, &target);
}

static bool is_null(MPI_Comm comm)
{
    return HANDLE_OF(comm) == 0 || HANDLE_OF(comm) == HANDLE_OF(mpi_library.comm_null);
}

void comm_new_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS || !mpi_hot.area)
        return;
    struct comm_info *parent = comm_find(self, args->comm);
    if (parent->kind == MPIA_COMM_FREE && HANDLE_OF(args->comm))
        parent = comm_adopt(self, args->comm);
    uint32_t ordinal = is_collective(args) ? comm_made(parent) : comm_made_by_group(parent, args->group, args->tag);
    if (!is_null(*args->newcomm)) /* MPI_UNDEFINED, or not in the group: others have got one */
        comm_note(self, *args->newcomm, parent, args->call, ordinal);
}

/* The port's name is for the root alone: others may have passed anything. */
void comm_connect_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    comm_new_after(self, args, result);
    if (result != MPI_SUCCESS || !mpi_hot.area || is_null(*args->newcomm))
        return;
    const struct comm_info *parent = comm_find(self, args->comm);
    uint64_t meeting = 0;
    if (args->call == CALL_MPI_Comm_join)
        meeting = meeting_on_socket(args->fd);
    else if (parent->kind != MPIA_COMM_FREE && (uint32_t)args->root == parent->rank)
        meeting = meeting_at_port(args->name);
    comm_met(comm_find(self, *args->newcomm), meeting);
}

/* The new communicator may not be looked at before the request is complete; but it is the same as its parent. */
void comm_idup_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS || !mpi_hot.area)
        return;
    struct comm_info *parent = comm_find(self, args->comm);
    uint32_t ordinal = comm_made(parent);
    if (!is_null(*args->newcomm) && parent->shown)
        comm_note_copy(self, *args->newcomm, parent, args->call, ordinal);
    if (self->counts) {
        struct request_about about = {
            .peer = MPIA_RANK_NONE,
            .tag = MPIA_TAG_NONE,
            .ordinal = self->now->ordinal,
            .comm = parent,
            .peer_call = args->call,
        };
        request_begin(self, *args->request, &about);
    }
}

/* Its handle may be given to another one before we are told that it is free: it is forgotten before. */
void comm_free_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    uint64_t handle = args->newcomm ? HANDLE_OF(*args->newcomm) : 0;
    struct comm_info *comm = comm_find_handle(self, handle);
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    bool predefined =
        handle == HANDLE_OF(mpi_library.comm_world) || handle == HANDLE_OF(mpi_library.comm_self); /* an error */
    if (comm->shown && !predefined)
        comm_forget(handle);
    self_begin(self, args->blocking, &target);
}

void comm_free_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
}

void comm_name_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area)
        comm_name(comm_find(self, args->comm), args->name);
}
