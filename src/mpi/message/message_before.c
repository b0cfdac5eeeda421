/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording begins while the program runs: the first call that is recorded says how many messages were exchanged with
 * each rank before, as the rows of peers have counted them. From the moment on when nothing is under way between two
 * ranks by these numbers, a reader knows which send is which receive's (record.h, jobdir/analysis/messages_waits.c).
 */
#include "mpi/count/comm.h"
#include "mpi/message/message.h"

static _Atomic uint32_t uncounted; /* messages were neither recorded nor counted; it stays */
static _Atomic uint64_t last_post; /* when the gap opened */

void COLD message_gap(const struct mpi_self *self, bool unseen)
{
    const uint32_t needed = MPIA_METRIC_PEERS | MPIA_METRIC_REQUESTS;
    if (unseen || !self->counts || (self->metrics & needed) != needed || self->reset_seen)
        atomic_store(&uncounted, 1);
    if (!atomic_exchange(&mpi_hot.area->unrecorded, 1))
        atomic_store(&last_post, message_posts());
}

/* Others may be in a call that is in no number yet. */
static bool is_exact(const struct mpi_self *self)
{
    const struct mpi_thread *thread = self->thread;
    return !self->shared && !atomic_load(&uncounted) && atomic_load(&mpi_hot.area->threads_used) == 1 &&
           !self->reset_seen && !thread->peers_omitted && !thread->requests_omitted;
}

static void say(struct mpi_self *self, enum message_kind kind, const struct mpi_peer *row, uint64_t identity,
                uint64_t count)
{
    const struct message_about about = {CALL_NONE, row->comm, row->peer, MPIA_TAG_NONE, 0, count};
    if (count)
        message_record(self, kind, &about, identity, 0);
}

void COLD message_begin(struct mpi_self *self)
{
    if (!(self->metrics & MPIA_METRIC_TELL) || !atomic_exchange(&mpi_hot.area->unrecorded, 0))
        return;
    bool exact = is_exact(self);
    const struct message_about about = {
        .comm = UINT32_MAX,
        .peer = MPIA_RANK_NONE,
        .tag = MPIA_TAG_NONE,
        .bytes = exact,
        .order = atomic_load(&last_post),
    };
    message_record(self, MESSAGE_BEGIN, &about, MPI_IDENTITY_NONE, 0);
    for (uint32_t i = 0; exact && self->peers && i <= self->peers_mask; i++) {
        const struct mpi_peer *row = &self->peers[i];
        uint64_t identity =
            row->used && row->comm < MPIA_COMMS ? mpi_comm_at(mpi_hot.area, row->comm)->identity : MPI_IDENTITY_NONE;
        if (row->call != CALL_NONE || identity == MPI_IDENTITY_NONE)
            continue;
        say(self, MESSAGE_SENT_BEFORE, row, identity, row->sent_count);
        say(self, MESSAGE_RECEIVED_BEFORE, row, identity, row->got_count);
    }
}
