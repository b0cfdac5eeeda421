/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MPI_MESSAGE_MESSAGE_H
#define SCRY_MPI_MESSAGE_MESSAGE_H

#include "mpi/count/self.h"
#include "shm/record.h"

/*
 * Messages one by one, while they are wanted (MPIA_METRIC_RECORD: recorded, MPIA_METRIC_MESSAGES: numbered): the one
 * place that sees every posted send, every completed receive, and every collective operation.
 * Never on the path of a call that is only counted.
 *
 * Posts of sends and receives are numbered together, in the order in which this process made them: by that, and not by
 * when they complete, MPI matches them. PROC_NULL takes no number.
 */

/* A send or a receive is posted: its number, 1 is the first. */
uint64_t message_post(void);

struct message_about {
    uint32_t call; /* that posted it */
    uint32_t comm; /* its number in the area; UINT32_MAX: not known */
    int32_t peer;  /* world rank */
    int32_t tag;   /* MPIA_TAG_NONE of collectives */
    uint64_t bytes;
    uint64_t order; /* of its post; 0: not known. Collectives: the sequence number */
};

/* In place of the number of what was posted before anybody listened, at that time. */
static inline uint64_t message_post_before(uint64_t ticks)
{
    return ticks | UINT64_C(1) << 63;
}

static inline uint64_t message_identity(uint32_t comm)
{
    return comm < MPIA_COMMS ? mpi_comm_at(mpi_hot.area, comm)->identity : MPI_IDENTITY_NONE;
}

void message_flush(struct mpi_self *self);

/* Is reported with the call's begin or end; at once, when there are too many for that, or it has begun. */
ALWAYS void message_record(struct mpi_self *self, enum message_kind kind, const struct message_about *about,
                           uint64_t identity, uint64_t time)
{
    struct mpi_messages *messages = &self->messages;
    if (!(self->metrics & MPIA_METRIC_RECORD))
        return;
    if (UNLIKELY(messages->count == MPI_MESSAGES))
        message_flush(self);
    messages->list[messages->count++] = (struct mpi_message){
        .time = time,
        .comm = identity,
        .bytes = about->bytes,
        .order = about->order,
        .kind = kind,
        .call = about->call,
        .peer = about->peer,
        .tag = about->tag,
    };
}

/* Where they are numbered, or the call is not reported. */
void message_sent_numbered(struct mpi_self *self, struct message_about about);
void message_got_numbered(struct mpi_self *self, struct message_about about);

ALWAYS bool message_is_numbered(const struct mpi_self *self)
{
    return UNLIKELY(!mpi_hot.area || !self->told || self->channel.k || self->channel.post || self->channel.posts);
}

/* Member by member: what is copied as a whole is read as it was not written, and waits for that. */
ALWAYS void message_tell(struct mpi_told_message *told, const struct message_about *about, uint64_t number,
                         int64_t from, int64_t to)
{
    told->comm_id = message_identity(about->comm);
    told->number = number;
    told->from = from;
    told->to = to;
    told->tag = about->tag;
    told->bytes = about->bytes;
}

/* The call of the thread, which succeeded, has posted it. */
ALWAYS void message_sent(struct mpi_self *self, const struct message_about *about)
{
    struct mpi_told *told = self->told;
    if (message_is_numbered(self)) {
        message_sent_numbered(self, *about);
        return;
    }
    if (!(told->flags & MPI_TOLD_SENT))
        message_tell(&told->sent, about, 0, mpi_hot.area->rank, mpi_rank_shown(about->peer));
    told->flags |= MPI_TOLD_SENT;
    message_record(self, MESSAGE_SENT, about, message_identity(about->comm), self->enter);
}

/* It is complete, with the source, the tag and the bytes that its status says. */
ALWAYS void message_got(struct mpi_self *self, const struct message_about *about)
{
    struct mpi_told *told = self->told;
    if (message_is_numbered(self)) {
        message_got_numbered(self, *about);
        return;
    }
    if (!(told->flags & MPI_TOLD_GOT))
        message_tell(&told->got, about, 0, mpi_rank_shown(about->peer), mpi_hot.area->rank);
    told->flags |= MPI_TOLD_GOT;
    told->got_bytes += about->bytes;
    message_record(self, MESSAGE_RECEIVED, about, message_identity(about->comm), 0);
}

/* A blocking send is said to be posted before it blocks; it failed. Also one that was left by longjmp. */
void message_unsent(struct mpi_self *self);
/* The call of the thread has done something else: begins a collective operation, a non-blocking one is complete; or what
 * only waiting is judged by: MESSAGE_PROBED, _POSTED, _SENT_DONE. */
ALWAYS void message_note_kind(struct mpi_self *self, enum message_kind kind, const struct message_about *about)
{
    if (mpi_hot.area && self->told)
        message_record(self, kind, about, message_identity(about->comm), 0);
}

/* ---- recording begins while the program runs (message_before.c) ---- */

/* Calls of the thread go by that are not recorded from here on, or (`unseen`) have gone by without being counted. */
void message_gap(const struct mpi_self *self, bool unseen);
/* The call of the thread is the first that is recorded after such ones: what was sent and received before. */
void message_begin(struct mpi_self *self);
uint64_t message_posts(void);

#endif
