/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with their numbers, while MPIA_METRIC_MESSAGES is set: what match.h knows of matching, fed with what this
 * process posts and completes; the events that come of it, for which the thread waits until the monitor has heard of
 * them; and what the monitor wants done with messages (channel_command.c). Never on the path of a call that is only
 * counted.
 *
 * A receive that was posted is known by a `post` (0: none), which the call that completes it must have kept.
 */
#ifndef SCRY_MPI_MESSAGE_CHANNEL_H
#define SCRY_MPI_MESSAGE_CHANNEL_H

#include "mpi/message/match.h"
#include "mpi/count/self.h"

#pragma GCC visibility push(hidden)

/* Something was switched: the block is made when messages are first counted; a pause is noted; commands are
 * read. */
void channel_switched(struct mpi_self *self);
/* Before MPI_Finalize: what was begun for the monitor is given up. */
void channel_end(void);

/* ---- a call; what it is at stands in self->now ---- */

/* It may post a send, a receive, or both. */
void channel_call_begins(struct mpi_self *self, struct mpi_told *told);
/* The number of what it sends; 0: nothing, or not known. */
static inline uint64_t channel_sends(const struct mpi_self *self)
{
    return self->channel.k;
}
/* How large that really is: a datatype may not have been known before. */
void channel_sent_bytes(struct mpi_self *self, uint64_t bytes);
/* It has returned, and what it completed is noted. */
void channel_call_ends(struct mpi_self *self, struct mpi_told *told, int result);
/* The receive that the call has posted: the caller goes on with it. `handle`: of its request; 0. */
uint64_t channel_take_post(struct mpi_self *self, uint64_t handle);

/* ---- persistent ones are started, Mprobe has matched; `comm` is a number ---- */

uint64_t channel_send_started(struct mpi_self *self, uint32_t comm, int32_t to, int32_t tag, uint64_t bytes);
uint64_t channel_receive_started(struct mpi_self *self, uint32_t comm, int32_t from, int32_t tag, uint64_t handle);
uint64_t channel_matched(struct mpi_self *self, uint32_t comm, int32_t from, int32_t tag);

/* ---- ends ---- */

/* Several complete at once: their senders are known before the first of them is done. */
void channel_known(struct mpi_self *self, uint64_t post, int32_t from, int32_t tag);
/* It has received: the message's number; 0: not known, or not yet. The thread may be held. */
uint64_t channel_done(struct mpi_self *self, uint64_t post, int32_t from, int32_t tag, uint64_t bytes);
void channel_undone(struct mpi_self *self, uint64_t post); /* cancelled */
void channel_lost(struct mpi_self *self, uint64_t post);   /* its request was freed, or completed out of sight */
void channel_send_cancelled(struct mpi_self *self, uint32_t comm, int32_t to, int32_t tag);

/* ---- between channel.c and channel_command.c ---- */

struct channels {
    struct mpim *shared; /* NULL: messages were never counted */
    struct match *match;
};
extern struct channels channels;

bool channel_lock(void); /* false: somebody has it for too long; that is noted as a doubt */
void channel_unlock(void);
/* What the call of the thread posts is of this channel; false: it is not followed. */
bool channel_key(uint32_t comm, int32_t peer, int32_t tag, struct match_key *ret_key);
/* Tells the monitor of a message that was sent, without waiting for it. */
void channel_tell_sent(struct mpi_self *self, const struct match_key *to, uint64_t k, uint64_t bytes);
void channel_commands(struct mpi_self *self);

#pragma GCC visibility pop

#endif
