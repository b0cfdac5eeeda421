/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/shape.h"

#include "mpi/shape/request.h"
#include "mpi/count/type.h"

struct rma {
    uint64_t args, sent, got;
};

static bool is_fetch_and_op(uint32_t call)
{
    return call == CALL_MPI_Fetch_and_op;
}

static struct rma moved(struct mpi_self *self, const struct mpi_args *args)
{
    bool one = is_fetch_and_op(args->call) || args->call == CALL_MPI_Compare_and_swap;
    bool no_op = HANDLE_OF(args->op) && HANDLE_OF(args->op) == HANDLE_OF(mpi_library.no_op);
    uint64_t bytes = no_op && !one ? 0 : type_bytes(self, one ? 1 : args->count, args->datatype);
    switch (args->volume) {
    case CALL_VOLUME_PUT:
        return (struct rma){bytes, bytes, 0};
    case CALL_VOLUME_GET:
        return (struct rma){bytes, 0, bytes};
    default: /* getput */
        if (args->call == CALL_MPI_Compare_and_swap)
            return (struct rma){bytes, 2 * bytes, bytes};
        if (one)
            return (struct rma){bytes, no_op ? 0 : bytes, bytes};
        uint64_t got = type_bytes(self, args->rcount, args->rtype);
        return (struct rma){no_op ? got : bytes, bytes, got};
    }
}

void rma_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    struct comm_info *window = comm_find_handle(self, HANDLE_OF(args->win));
    int32_t peer = comm_world_rank(window, args->dest);
    struct rma rma = {0, 0, 0};
    if (peer != MPIA_RANK_NULL) {
        rma = moved(self, args);
        if (args->volume != CALL_VOLUME_GET)
            self_sent_to(self, window->number, peer, self->call, 1, rma.sent, rma.args);
        if (args->volume != CALL_VOLUME_PUT)
            self_got_from(self, window->number, peer, self->call, 1, rma.got);
    }
    self_bytes(self, rma.args, rma.sent, rma.got);
    if (args->request) {
        struct request_about about = {
            .peer = peer, .tag = MPIA_TAG_NONE, .bytes = rma.args, .comm = window, .peer_call = self->call};
        request_begin(self, *args->request, &about);
    }
}

/* ---- epochs of MPI_Win_start and MPI_Win_post ---- */

enum { EPOCH_RANKS = 15 };

/* Of each window by its number: whom its epoch of access is with. */
static struct epoch {
    uint32_t count; /* may be more than fit */
    int32_t ranks[EPOCH_RANKS];
} epochs[MPIA_COMMS];

struct naming {
    struct mpi_self *self;
    uint32_t window, call;
};

static void name_one(void *ctx, int32_t rank)
{
    const struct naming *naming = ctx;
    struct epoch *epoch = &epochs[naming->window];
    self_sent_to(naming->self, naming->window, rank, naming->call, 1, 0, 0);
    if (naming->call != CALL_MPI_Win_start)
        return;
    if (epoch->count < EPOCH_RANKS)
        epoch->ranks[epoch->count] = rank;
    epoch->count++;
}

/* Windows that have no number of their own are not told from each other. */
static bool has_epochs(const struct mpi_self *self, uint32_t window)
{
    return self->counts && mpi_hot.area && self->metrics & MPIA_METRIC_PEERS && window < MPIA_COMMS - 1;
}

void window_epoch(struct mpi_self *self, const struct mpi_args *args, uint32_t window)
{
    struct naming naming = {self, window, args->call};
    if (!has_epochs(self, window) || !HANDLE_OF(args->group) ||
        HANDLE_OF(args->group) == HANDLE_OF(mpi_library.group_null))
        return; /* (the program may live with an error of its call, but not with one of ours) */
    if (args->call == CALL_MPI_Win_start)
        epochs[window].count = 0;
    comm_group_each(args->group, name_one, &naming);
}

void window_epoch_over(struct mpi_self *self, uint32_t window)
{
    if (!has_epochs(self, window))
        return;
    struct epoch *epoch = &epochs[window];
    for (uint32_t i = 0; i < epoch->count && epoch->count <= EPOCH_RANKS; i++)
        self_got_from(self, window, epoch->ranks[i], CALL_MPI_Win_start, 1, 0);
    for (uint32_t i = 0; epoch->count > EPOCH_RANKS && self->peers && i <= self->peers_mask; i++) {
        struct mpi_peer *row = &self->peers[i];
        if (row->used && row->comm == window && row->call == CALL_MPI_Win_start)
            row->got_count = row->sent_count;
    }
    epoch->count = 0;
}

/* ---- locks ---- */

void window_held(struct mpi_self *self, uint64_t window, bool more)
{
    struct mpi_comm *shown = comm_find_handle(self, window)->shown;
    uint32_t held = shown ? atomic_load_explicit(&shown->held, memory_order_relaxed) : 0;
    /* Locks that were taken before anybody counted are given back, too. */
    while (shown && (more || held) &&
           !atomic_compare_exchange_weak_explicit(&shown->held, &held, more ? held + 1 : held - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}
