/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators, windows and files, found by their handles: their number in the area, and what a rank in them is in
 * MPI_COMM_WORLD. They are noted when the call that made them has succeeded: from then on the handle is valid, and
 * reading it involves this process only. They are forgotten when the call that frees them has returned. A handle may
 * come again. One that was made unseen (by a nested call) is noted when a call with it has succeeded.
 *
 * A table of their own and no attributes: those would cost a lock at each access, and call us back out of the library.
 */
#ifndef SCRY_MPI_COUNT_COMM_H
#define SCRY_MPI_COUNT_COMM_H

#include "mpi/count/self.h"

#pragma GCC visibility push(hidden)

enum { COMM_SLOTS = 4096 }; /* a power of two: that exist at a time */

struct comm_info {
    _Atomic uint64_t handle; /* 0: never used, 1: was used, 2: is being written */
    uint32_t number;
    uint32_t kind; /* enum mpi_comm_kind; MPIA_COMM_FREE: not known */
    uint32_t size, rank;
    uint32_t targets;                  /* how many ranks messages may go to: size, or that of the remote group */
    const int32_t *ranks;              /* what they are in the world; NULL: the same */
    struct mpi_comm *shown;            /* in the area; NULL if not known */
    _Atomic uint32_t made;             /* how many were made from it: ordinals */
    uint32_t sources, sinks;           /* of a topology: neighbours that there are */
    uint64_t null_sources, null_sinks; /* of a Cartesian one: bit i: neighbour i is MPI_PROC_NULL */
    void *private_ranks;               /* memory of `ranks` where the pool had no room */
    uint64_t private_size;
};

/* What stands for a handle that is not known: number UINT32_MAX, no ranks. */
struct comm_info *comm_unknown(void);

/* After MPI_Init: MPI_COMM_WORLD, MPI_COMM_SELF and the parent. Before MPI_Finalize: gives back what that holds. */
void comm_start(void);
void comm_end(void);

struct comm_info *comm_lookup(struct mpi_self *self, uint64_t handle);
/* That which has the number now, if it was not freed; NULL. */
struct comm_info *comm_of_number(uint32_t number);

ALWAYS struct comm_info *comm_find_handle(struct mpi_self *self, uint64_t handle)
{
    struct comm_info *info = self->comm;
    if (LIKELY(atomic_load_explicit(&info->handle, memory_order_relaxed) == handle))
        return info;
    return comm_lookup(self, handle);
}

ALWAYS struct comm_info *comm_find(struct mpi_self *self, MPI_Comm comm)
{
    return comm_find_handle(self, HANDLE_OF(comm));
}

/* A rank as given with a communicator (of a window: of its group) as one of the world, or enum MPIA_RANK_.... */
ALWAYS int32_t comm_world_rank(const struct comm_info *info, int rank)
{
    if (LIKELY((uint32_t)rank < info->targets)) /* at most INT_MAX */
        return info->ranks ? info->ranks[rank] : rank;
    return rank == MPI_ANY_SOURCE  ? MPIA_RANK_ANY
           : rank == MPI_PROC_NULL ? MPIA_RANK_NULL
           : rank == MPI_ROOT      ? MPIA_RANK_ROOT
                                   : MPIA_RANK_NONE;
}

/* MPI ran before anything was seen of it: how a communicator was made is not known in the same way on all ranks, so
 * none but MPI_COMM_WORLD and MPI_COMM_SELF has an identity. Before comm_start. */
extern bool comm_begun_late;

/* One more collective on it: its sequence number. */
ALWAYS uint32_t comm_ordinal(struct comm_info *info)
{
    if (UNLIKELY(!info->shown))
        return 0;
    /* at most one thread at a time may be in a collective of a communicator */
    uint32_t ordinal = atomic_load_explicit(&info->shown->collectives, memory_order_relaxed) + 1;
    atomic_store_explicit(&info->shown->collectives, ordinal, memory_order_relaxed);
    return ordinal;
}

/* `call` succeeded with `comm`, which is not known. */
struct comm_info *comm_adopt(struct mpi_self *self, MPI_Comm comm);
/* `call` has made `made` (not a null handle: see comm_not_made) from `parent`, which may be unknown. */
void comm_note(struct mpi_self *self, MPI_Comm made, struct comm_info *parent, uint32_t call, uint32_t ordinal);
/* The same of a communicator that may not be read yet: the ranks are those of `parent`. */
void comm_note_copy(struct mpi_self *self, MPI_Comm made, struct comm_info *parent, uint32_t call, uint32_t ordinal);
void comm_note_window(struct mpi_self *self, MPI_Win made, struct comm_info *parent, uint32_t call);
void comm_note_file(struct mpi_self *self, MPI_File made, struct comm_info *parent, uint32_t call, const char *path);
/* One more communicator was, or would have been, made from `parent`; all its processes count the same. */
uint32_t comm_made(struct comm_info *parent);
/* For MPI_Comm_create_group, in which only a part of the parent's processes take part: a number that those agree on. */
uint32_t comm_made_by_group(struct comm_info *parent, MPI_Group group, int tag);
/* `fn` with each rank of the group as one of the world; not with those of another world. */
void comm_group_each(MPI_Group group, void (*fn)(void *ctx, int32_t rank), void *ctx);
/* It was made with another program, which knows the same number (mpi/shape/shape_comm.c). */
void comm_met(struct comm_info *info, uint64_t meeting);
void comm_forget(uint64_t handle);
void comm_name(struct comm_info *info, const char *name);

#pragma GCC visibility pop

#endif
