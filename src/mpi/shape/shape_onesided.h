/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided communication: windows are noted as communicators are, their ranks are those of their communicator. */
#ifndef SCRY_MPI_SHAPE_SHAPE_ONESIDED_H
#define SCRY_MPI_SHAPE_SHAPE_ONESIDED_H

#include "mpi/count/comm.h"
#include "mpi/shape/request.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"

/* What an operation moves by its rule (put, get, getput): count x size of the origin's and the result's arguments.
 * MPI_Fetch_and_op and MPI_Compare_and_swap have no counts: one element, of the latter two go. MPI_NO_OP sends none. */
void rma_after(struct mpi_self *self, const struct mpi_args *args, int result);

static inline void rma_begin(struct mpi_self *self, const struct mpi_args *args)
{
    const struct comm_info *window = comm_find_handle(self, HANDLE_OF(args->win));
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    target.peer = comm_world_rank(window, args->dest);
    target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, args->blocking, &target);
}

#define HAVE_SHAPE_rma
static inline void shape_rma_before(struct mpi_self *self, struct mpi_args *args)
{
    rma_begin(self, args);
}

static inline void shape_rma_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    rma_after(self, args, result);
}

#define HAVE_SHAPE_rma_request
static inline void shape_rma_request_before(struct mpi_self *self, struct mpi_args *args)
{
    rma_begin(self, args);
}

static inline void shape_rma_request_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    rma_after(self, args, result);
}

#define HAVE_SHAPE_win_new
static inline void shape_win_new_before(struct mpi_self *self, struct mpi_args *args)
{
    struct comm_info *comm = comm_find(self, args->comm);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_new_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area && HANDLE_OF(*args->newwin) != HANDLE_OF(mpi_library.win_null))
        comm_note_window(self, *args->newwin, comm_find(self, args->comm), args->call);
}

/* The process got a lock on a window, or gave it back: whoever waits for one waits for those that hold them. */
void window_held(struct mpi_self *self, uint64_t window, bool more);
/* MPI_Win_start is about to be called, MPI_Win_post was: with whom, in the rows of peers. */
void window_epoch(struct mpi_self *self, const struct mpi_args *args, uint32_t window);
/* MPI_Win_complete was called, or MPI_Win_start has failed. */
void window_epoch_over(struct mpi_self *self, uint32_t window);

/* Those in which all processes of the window take part have an ordinal; the others (lock, flush, ...) a target. */

#define HAVE_SHAPE_win_sync
static inline void shape_win_sync_before(struct mpi_self *self, struct mpi_args *args)
{
    struct comm_info *window = comm_find_handle(self, HANDLE_OF(args->win));
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    if (args->call == CALL_MPI_Win_fence)
        target.ordinal = comm_ordinal(window);
    if (args->call == CALL_MPI_Win_lock || args->call == CALL_MPI_Win_unlock || args->call == CALL_MPI_Win_flush ||
        args->call == CALL_MPI_Win_flush_local)
        target.peer = comm_world_rank(window, args->dest);
    if (args->call == CALL_MPI_Win_start)
        window_epoch(self, args, window->number);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_sync_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    bool locks = args->call == CALL_MPI_Win_lock || args->call == CALL_MPI_Win_lock_all;
    if ((locks || args->call == CALL_MPI_Win_unlock || args->call == CALL_MPI_Win_unlock_all) && result == MPI_SUCCESS)
        window_held(self, HANDLE_OF(args->win), locks);
    if (args->call == CALL_MPI_Win_post && result == MPI_SUCCESS)
        window_epoch(self, args, comm_find_handle(self, HANDLE_OF(args->win))->number);
    if ((args->call == CALL_MPI_Win_complete && result == MPI_SUCCESS) ||
        (args->call == CALL_MPI_Win_start && result != MPI_SUCCESS))
        window_epoch_over(self, comm_find_handle(self, HANDLE_OF(args->win))->number);
}

#define HAVE_SHAPE_win_free
static inline void shape_win_free_before(struct mpi_self *self, struct mpi_args *args)
{
    uint64_t handle = args->newwin ? HANDLE_OF(*args->newwin) : 0;
    struct comm_info *window = comm_find_handle(self, handle);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    target.ordinal = comm_ordinal(window);
    if (window->shown)
        comm_forget(handle);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_free_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_win_name
static inline void shape_win_name_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm_find_handle(self, HANDLE_OF(args->win))->number;
    target.flags = MPIA_NOW_WINDOW;
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_name_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area)
        comm_name(comm_find_handle(self, HANDLE_OF(args->win)), args->name);
}

#endif
