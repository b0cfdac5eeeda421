/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/message.h"

#include "agent/mpi_host.h"
#include "mpi/channel.h"
#include "mpi/tell.h"

extern const struct mpi_host *tell_host;

static _Atomic uint64_t posts;

uint64_t message_post(void)
{
    return atomic_fetch_add_explicit(&posts, 1, memory_order_relaxed) + 1;
}

static uint64_t identity_of(uint32_t comm)
{
    return comm < MPIA_COMMS ? mpi_comm_at(mpi_hot.area, comm)->identity : MPI_IDENTITY_NONE;
}

static void record(const struct mpi_self *self, enum message_kind kind, const struct message_about *about,
                   uint64_t identity, uint64_t time)
{
    const struct record_message message = {
        .kind = (uint8_t)kind,
        .call = about->call,
        .comm = identity,
        .peer = about->peer,
        .tag = about->tag,
        .bytes = about->bytes,
        .order = about->order,
    };
    if (self->metrics & MPIA_METRIC_TELL)
        tell_host->message(&message, time);
}

void message_sent(struct mpi_self *self, const struct message_about *about)
{
    struct mpi_told *told = self->told;
    if (!mpi_hot.area || !told)
        return;
    const struct mpi_told_message message = {
        .comm_id = identity_of(about->comm),
        .from = mpi_hot.area->rank,
        .to = about->peer,
        .tag = about->tag,
        .bytes = about->bytes,
        .number = channel_sends(self),
    };
    channel_sent_bytes(self, about->bytes);
    if (!(told->flags & MPI_TOLD_SENT) || self->channel.posts)
        told->sent = message;
    told->flags |= MPI_TOLD_SENT;
    record(self, MESSAGE_SENT, about, message.comm_id, self->enter);
}

void message_got(struct mpi_self *self, const struct message_about *about)
{
    struct mpi_told *told = self->told;
    if (!mpi_hot.area || !told)
        return;
    uint64_t post = self->channel.post; /* of a blocking receive; others are done where their request is */
    const struct mpi_told_message message = {
        .number = post ? channel_done(self, post, about->peer, about->tag, about->bytes) : 0,
        .comm_id = identity_of(about->comm),
        .from = about->peer,
        .to = mpi_hot.area->rank,
        .tag = about->tag,
        .bytes = about->bytes,
    };
    if (!(told->flags & MPI_TOLD_GOT))
        told->got = message;
    told->flags |= MPI_TOLD_GOT;
    told->got_bytes += about->bytes;
    record(self, MESSAGE_RECEIVED, about, message.comm_id, 0);
}

void message_collective(struct mpi_self *self, const struct message_about *about, bool done)
{
    if (mpi_hot.area && self->told)
        record(self, done ? MESSAGE_COLLECTIVE_DONE : MESSAGE_COLLECTIVE, about, identity_of(about->comm), 0);
}
