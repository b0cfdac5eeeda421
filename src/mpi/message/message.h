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

/* The call of the thread, which succeeded, has posted it. */
void message_sent(struct mpi_self *self, const struct message_about *about);
/* It is complete, with the source, the tag and the bytes that its status says. */
void message_got(struct mpi_self *self, const struct message_about *about);
/* A blocking send is said to be posted before it blocks; it failed. Also one that was left by longjmp. */
void message_unsent(struct mpi_self *self);
/* The call of the thread begins a collective operation; a non-blocking one is complete. */
void message_collective(struct mpi_self *self, const struct message_about *about, bool done);
/* The call of the thread has done something else that only waiting is judged by: MESSAGE_PROBED, _POSTED, _SENT_DONE.
 */
void message_note_kind(struct mpi_self *self, enum message_kind kind, const struct message_about *about);

/* ---- recording begins while the program runs (message_before.c) ---- */

/* Calls of the thread go by that are not recorded from here on, or (`unseen`) have gone by without being counted. */
void message_gap(const struct mpi_self *self, bool unseen);
/* The call of the thread is the first that is recorded after such ones: what was sent and received before. */
void message_begin(struct mpi_self *self);
void message_flush(struct mpi_self *self);
uint64_t message_posts(void);

#endif
