/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: blocking, non-blocking and persistent ones. What they move: volume.h. */
#ifndef SCRY_MPI_SHAPE_SHAPE_COLLECTIVE_H
#define SCRY_MPI_SHAPE_SHAPE_COLLECTIVE_H

#include "mpi/count/comm.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"
#include "mpi/shape/volume.h"

void coll_before(struct mpi_self *self, const struct mpi_args *args);
void coll_after(struct mpi_self *self, const struct mpi_args *args, int result);
void coll_init_after(struct mpi_self *self, const struct mpi_args *args, int result);

/* ---- those that programs call most (wrap.py), in the wrapper ---- */

#define HAVE_SHAPE_coll_short
ALWAYS void shape_coll_short_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    struct comm_info *comm = comm_find(self, args->comm);
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    if (volume_is_rooted(args->volume))
        target.peer = comm_world_rank(comm, args->root);
    if (args->volume != CALL_VOLUME_BARRIER)
        target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, true, &target);
}

/* Where the communicator is not a plain one. */
void coll_short_rest(struct mpi_self *self, uint32_t rule, const void *sbuf, MPI_Count count, MPI_Datatype type,
                     int root, MPI_Comm comm);

ALWAYS void shape_coll_short_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    const struct comm_info *comm = comm_find(self, args->comm);
    if (UNLIKELY(comm->kind == MPIA_COMM_FREE || comm->kind == MPIA_COMM_INTER || !comm->targets)) {
        coll_short_rest(self, args->volume, args->sbuf, args->count, args->datatype, args->root, args->comm);
        return;
    }
    bool rooted = volume_is_rooted(args->volume);
    const struct volume_in in = {
        .size = comm->targets,
        .place = rooted && (uint32_t)args->root == comm->rank ? VOLUME_ROOT : VOLUME_ELSEWHERE,
        .in_place = args->sbuf == MPI_IN_PLACE,
        .block_sent = args->volume == CALL_VOLUME_BARRIER ? 0 : type_bytes(self, args->count, args->datatype),
    };
    struct volume volume = volume_of(args->volume, &in);
    int32_t root = rooted ? comm_world_rank(comm, args->root) : MPIA_RANK_NONE;
    self_bytes(self, volume.args, volume.sent, volume.got);
    self_sent_to(self, comm->number, root, self->call, 1, volume.sent, volume.args);
    self_got_from(self, comm->number, root, self->call, 1, volume.got);
}

/* ---- all ---- */

#define HAVE_SHAPE_coll
static inline void shape_coll_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_coll_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_after(self, args, result);
}

#define HAVE_SHAPE_icoll
static inline void shape_icoll_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_icoll_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_after(self, args, result);
}

#define HAVE_SHAPE_coll_init
static inline void shape_coll_init_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_coll_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_init_after(self, args, result);
}

#endif
