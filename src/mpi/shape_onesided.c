/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape.h"

#include "mpi/request.h"
#include "mpi/type.h"

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
