/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/message/message.h"

#include "agent/hooks/mpi_host.h"
#include "mpi/count/comm.h"
#include "mpi/message/channel.h"
#include "mpi/message/tell.h"

/*
 * Recording begins while the program runs: the first call that is recorded says how many messages were exchanged with
 * each rank before, as the rows of peers have counted them. From the moment on when nothing is under way between two
 * ranks by these numbers, a reader knows which send is which receive's (record.h, jobdir/analysis/messages_waits.c).
 */

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
    if (!(self->metrics & MPIA_METRIC_RECORD) || !atomic_exchange(&mpi_hot.area->unrecorded, 0))
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

static _Atomic uint64_t posts;

uint64_t message_post(void)
{
    if (mpi_hot.threads_multiple)
        return atomic_fetch_add_explicit(&posts, 1, memory_order_relaxed) + 1;
    uint64_t post = atomic_load_explicit(&posts, memory_order_relaxed) + 1; /* one thread at a time is in MPI */
    atomic_store_explicit(&posts, post, memory_order_relaxed);
    return post;
}

uint64_t message_posts(void)
{
    return atomic_load_explicit(&posts, memory_order_relaxed);
}

void message_flush(struct mpi_self *self)
{
    self->messages.time = 0;
    tell_host->messages(&self->messages);
    self->messages.count = 0;
}

void message_sent_numbered(struct mpi_self *self, struct message_about about)
{
    struct mpi_told *told = self->told;
    if (!mpi_hot.area || !told)
        return;
    uint64_t number = channel_sends(self);
    if (number)
        channel_sent_bytes(self, about.bytes);
    if (!(told->flags & MPI_TOLD_SENT) || self->channel.posts)
        message_tell(&told->sent, &about, number, mpi_hot.area->rank, mpi_rank_shown(about.peer));
    told->flags |= MPI_TOLD_SENT;
    message_record(self, MESSAGE_SENT, &about, message_identity(about.comm), self->enter);
}

void message_unsent(struct mpi_self *self)
{
    const struct message_about about = {
        self->said.call, UINT32_MAX, MPIA_RANK_NONE, MPIA_TAG_NONE, 0, self->said.order,
    };
    self->said.order = 0;
    message_record(self, MESSAGE_UNSENT, &about, MPI_IDENTITY_NONE, 0);
}

void message_got_numbered(struct mpi_self *self, struct message_about about)
{
    struct mpi_told *told = self->told;
    if (!mpi_hot.area || !told)
        return;
    uint64_t post = self->channel.post; /* of a blocking receive; others are done where their request is */
    uint64_t number = post ? channel_done(self, post, about.peer, about.tag, about.bytes) : 0;
    if (!(told->flags & MPI_TOLD_GOT))
        message_tell(&told->got, &about, number, mpi_rank_shown(about.peer), mpi_hot.area->rank);
    told->flags |= MPI_TOLD_GOT;
    told->got_bytes += about.bytes;
    message_record(self, MESSAGE_RECEIVED, &about, message_identity(about.comm), 0);
}
