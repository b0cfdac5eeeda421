/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/comm.h"
#include "mpi/shape/request.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"
#include "mpi/shape/volume.h"

static bool is_neighbourhood(uint32_t rule)
{
    return rule == CALL_VOLUME_NEIGHBOR_ALLGATHER || rule == CALL_VOLUME_NEIGHBOR_ALLGATHERV ||
           rule == CALL_VOLUME_NEIGHBOR_ALLTOALL || rule == CALL_VOLUME_NEIGHBOR_ALLTOALLV ||
           rule == CALL_VOLUME_NEIGHBOR_ALLTOALLW;
}

/* ---- before ---- */

static MPI_Count count_at(const int *counts, const MPI_Count *large, uint32_t at)
{
    return counts ? counts[at] : large ? large[at] : 0;
}

/* Of one block, for those who look at a call that hangs: 0 if it isn't known before the call has succeeded. */
static uint64_t bytes_before(struct mpi_self *self, const struct mpi_args *args)
{
    switch (args->volume) {
    case CALL_VOLUME_BCAST:
    case CALL_VOLUME_REDUCE:
    case CALL_VOLUME_ALLREDUCE:
    case CALL_VOLUME_SCAN:
    case CALL_VOLUME_EXSCAN:
        return type_bytes_before(self, args->count, args->datatype);
    case CALL_VOLUME_REDUCE_SCATTER_BLOCK:
        return type_bytes_before(self, args->rcount, args->datatype);
    case CALL_VOLUME_SCATTER:
    case CALL_VOLUME_SCATTERV:
        return args->rbuf == MPI_IN_PLACE ? 0 : type_bytes_before(self, args->rcount, args->rtype);
    case CALL_VOLUME_GATHER:
    case CALL_VOLUME_GATHERV:
    case CALL_VOLUME_ALLGATHER:
    case CALL_VOLUME_ALLGATHERV:
    case CALL_VOLUME_ALLTOALL:
    case CALL_VOLUME_NEIGHBOR_ALLGATHER:
    case CALL_VOLUME_NEIGHBOR_ALLGATHERV:
    case CALL_VOLUME_NEIGHBOR_ALLTOALL:
        return args->sbuf == MPI_IN_PLACE ? 0 : type_bytes_before(self, args->scount, args->stype);
    default:
        return 0;
    }
}

void coll_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    struct comm_info *comm = comm_find(self, args->comm);
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    if (volume_is_rooted(args->volume))
        target.peer = comm_world_rank(comm, args->root);
    target.bytes = bytes_before(self, args);
    self_begin(self, args->blocking, &target);
}

/* ---- what it moves ---- */

/* Bytes of all `count` blocks; those of neighbours in `null` are not there. */
static uint64_t sum(struct mpi_self *self, const int *counts, const MPI_Count *large, uint32_t count, MPI_Datatype type,
                    const MPI_Datatype *types, uint64_t null)
{
    uint64_t bytes = 0, size = !types && count ? type_bytes(self, 1, type) : 0;
    if (!counts && !large)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        MPI_Count n = count_at(counts, large, i);
        if (n > 0 && !(i < 64 && null >> i & 1))
            bytes += types ? type_bytes(self, n, types[i]) : (uint64_t)n * size;
    }
    return bytes;
}

static uint64_t own_block(struct mpi_self *self, const int *counts, const MPI_Count *large,
                          const struct comm_info *comm, MPI_Datatype type, const MPI_Datatype *types)
{
    return type_bytes(self, count_at(counts, large, comm->rank), types ? types[comm->rank] : type);
}

static enum volume_place place_of(const struct comm_info *comm, int root)
{
    if (comm->kind != MPIA_COMM_INTER)
        return (uint32_t)root == comm->rank ? VOLUME_ROOT : VOLUME_ELSEWHERE;
    return root == MPI_ROOT ? VOLUME_ROOT : root == MPI_PROC_NULL ? VOLUME_OUTSIDE : VOLUME_ELSEWHERE;
}

static uint32_t count_null(uint64_t null)
{
    return null ? (uint32_t)__builtin_popcountll(null) : 0;
}

/* Arguments that MPI does not look at here (those of the root elsewhere, those that IN_PLACE replaces) may be anything:
 * they are not looked at either. */
static void blocks(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *comm,
                   struct volume_in *in)
{
    uint32_t rule = args->volume;
    bool root = in->place == VOLUME_ROOT, inter = in->inter, outside = in->place == VOLUME_OUTSIDE;
    bool sends = !(inter && root) && !outside, gets = !(inter && root) && !outside;
    switch (rule) {
    case CALL_VOLUME_BCAST:
    case CALL_VOLUME_REDUCE:
    case CALL_VOLUME_ALLREDUCE:
    case CALL_VOLUME_SCAN:
    case CALL_VOLUME_EXSCAN:
        in->block_sent = outside ? 0 : type_bytes(self, args->count, args->datatype);
        break;
    case CALL_VOLUME_REDUCE_SCATTER_BLOCK:
        in->block_got = type_bytes(self, args->rcount, args->datatype);
        break;
    case CALL_VOLUME_REDUCE_SCATTER:
        in->block_got = own_block(self, args->rcounts, args->lrcounts, comm, args->datatype, NULL);
        in->all_sent = sum(self, args->rcounts, args->lrcounts, comm->size, args->datatype, NULL, 0);
        break;
    case CALL_VOLUME_GATHER:
        in->block_sent = sends && !in->in_place ? type_bytes(self, args->scount, args->stype) : 0;
        in->block_got = root ? type_bytes(self, args->rcount, args->rtype) : 0;
        break;
    case CALL_VOLUME_GATHERV:
        in->block_sent = sends && !in->in_place ? type_bytes(self, args->scount, args->stype) : 0;
        in->all_got = root ? sum(self, args->rcounts, args->lrcounts, in->size, args->rtype, NULL, 0) : 0;
        in->block_got = root && !inter ? own_block(self, args->rcounts, args->lrcounts, comm, args->rtype, NULL) : 0;
        break;
    case CALL_VOLUME_SCATTER:
        in->block_sent = root ? type_bytes(self, args->scount, args->stype) : 0;
        in->block_got = gets && !in->in_place ? type_bytes(self, args->rcount, args->rtype) : 0;
        break;
    case CALL_VOLUME_SCATTERV:
        in->all_sent = root ? sum(self, args->scounts, args->lscounts, in->size, args->stype, NULL, 0) : 0;
        in->block_sent = root && !inter ? own_block(self, args->scounts, args->lscounts, comm, args->stype, NULL) : 0;
        in->block_got = gets && !in->in_place ? type_bytes(self, args->rcount, args->rtype) : 0;
        break;
    case CALL_VOLUME_ALLGATHER:
    case CALL_VOLUME_ALLTOALL:
    case CALL_VOLUME_NEIGHBOR_ALLGATHER:
    case CALL_VOLUME_NEIGHBOR_ALLTOALL:
        in->block_sent = in->in_place ? 0 : type_bytes(self, args->scount, args->stype);
        in->block_got = type_bytes(self, args->rcount, args->rtype);
        break;
    case CALL_VOLUME_ALLGATHERV:
        in->block_sent = in->in_place ? 0 : type_bytes(self, args->scount, args->stype);
        in->block_got = inter ? 0 : own_block(self, args->rcounts, args->lrcounts, comm, args->rtype, NULL);
        in->all_got = sum(self, args->rcounts, args->lrcounts, in->size, args->rtype, NULL, 0);
        break;
    case CALL_VOLUME_ALLTOALLV:
    case CALL_VOLUME_ALLTOALLW:
        in->block_got = inter ? 0 : own_block(self, args->rcounts, args->lrcounts, comm, args->rtype, args->rtypes);
        in->all_got = sum(self, args->rcounts, args->lrcounts, in->size, args->rtype, args->rtypes, 0);
        in->all_sent =
            in->in_place ? 0 : sum(self, args->scounts, args->lscounts, in->size, args->stype, args->stypes, 0);
        break;
    case CALL_VOLUME_NEIGHBOR_ALLGATHERV:
        in->block_sent = type_bytes(self, args->scount, args->stype);
        in->all_got = sum(self, args->rcounts, args->lrcounts, comm->sources, args->rtype, NULL, comm->null_sources);
        break;
    case CALL_VOLUME_NEIGHBOR_ALLTOALLV:
    case CALL_VOLUME_NEIGHBOR_ALLTOALLW:
        in->all_sent =
            sum(self, args->scounts, args->lscounts, comm->sinks, args->stype, args->stypes, comm->null_sinks);
        in->all_got =
            sum(self, args->rcounts, args->lrcounts, comm->sources, args->rtype, args->rtypes, comm->null_sources);
        break;
    default: /* barrier */
        break;
    }
}

static struct volume moved(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *comm)
{
    struct volume_in in = {
        .size = comm->targets,
        .rank = comm->rank,
        .inter = comm->kind == MPIA_COMM_INTER,
        .in_place = args->sbuf == MPI_IN_PLACE ||
                    (args->rbuf == MPI_IN_PLACE &&
                     (args->volume == CALL_VOLUME_SCATTER || args->volume == CALL_VOLUME_SCATTERV)),
        .sinks = comm->sinks - count_null(comm->null_sinks),
        .sources = comm->sources - count_null(comm->null_sources),
    };
    if (volume_is_rooted(args->volume))
        in.place = place_of(comm, args->root);
    if (comm->kind == MPIA_COMM_FREE || (comm->targets == 0 && !is_neighbourhood(args->volume)))
        return (struct volume){0, 0, 0};
    blocks(self, args, comm, &in);
    return volume_of(args->volume, &in);
}

/* ---- after ---- */

static int32_t root_of(const struct mpi_args *args, const struct comm_info *comm)
{
    return volume_is_rooted(args->volume) ? comm_world_rank(comm, args->root) : MPIA_RANK_NONE;
}

static struct comm_info *comm_of(struct mpi_self *self, const struct mpi_args *args)
{
    struct comm_info *comm = comm_find(self, args->comm);
    return LIKELY(comm->kind != MPIA_COMM_FREE) ? comm : comm_adopt(self, args->comm);
}

void coll_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    struct comm_info *comm = comm_of(self, args);
    struct volume volume = moved(self, args, comm);
    int32_t root = root_of(args, comm);
    self_bytes(self, volume.args, volume.sent, volume.got);
    self_sent_to(self, comm->number, root, self->call, 1, volume.sent, volume.args);
    self_got_from(self, comm->number, root, self->call, 1, volume.got);
    if (args->request) {
        struct request_about about = {
            .peer = root,
            .tag = MPIA_TAG_NONE,
            .ordinal = comm->shown ? atomic_load_explicit(&comm->shown->collectives, memory_order_relaxed) : 0,
            .bytes = volume.args,
            .comm = comm,
            .peer_call = self->call,
        };
        request_begin(self, *args->request, &about);
    }
}

COLD void coll_short_rest(struct mpi_self *self, uint32_t rule, const void *sbuf, MPI_Count count, MPI_Datatype type,
                          int root, MPI_Comm comm)
{
    const struct mpi_args args = {
        .volume = rule, .sbuf = sbuf, .count = count, .datatype = type, .root = root, .comm = comm};
    coll_after(self, &args, MPI_SUCCESS);
}

void coll_init_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    struct comm_info *comm = comm_of(self, args);
    struct volume volume = moved(self, args, comm);
    struct request_about about = {
        .flags = MPIA_REQUEST_PERSISTENT | MPIA_REQUEST_INACTIVE,
        .peer = root_of(args, comm),
        .tag = MPIA_TAG_NONE,
        .ordinal = comm->shown ? atomic_load_explicit(&comm->shown->collectives, memory_order_relaxed) : 0,
        .bytes = volume.args,
        .sent = volume.sent,
        .got = volume.got,
        .comm = comm,
        .peer_call = self->call,
    };
    request_begin(self, *args->request, &about);
}
