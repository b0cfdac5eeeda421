/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages one by one, while somebody wants them (MPIA_METRIC_TELL: recorded, MPIA_METRIC_MESSAGES: numbered): the one
 * place that hears of every send that was posted and of every receive that is complete, and of collective operations.
 * Never on the path of a call that is only counted.
 *
 * Posts of sends and receives are numbered together, in the order in which this process made them: by that, and not by
 * when they complete, MPI matches them. PROC_NULL takes no number.
 */
#ifndef SCRY_MPI_MESSAGE_H
#define SCRY_MPI_MESSAGE_H

#include "mpi/self.h"
#include "shm/record.h"

#pragma GCC visibility push(hidden)

/* A send or a receive is posted: its number, 1 is the first. */
uint64_t message_post(void);

struct message_about {
    uint32_t call; /* that posted it */
    uint32_t comm; /* its number in the area; UINT32_MAX: not known */
    int32_t peer;  /* world rank */
    int32_t tag;   /* MPIA_TAG_NONE of collectives */
    uint64_t bytes;
    uint64_t order; /* of its post; 0: not known, it was posted before anybody listened. Collectives: the how-manyeth */
};

/* The call of the thread, which succeeded, has posted it. */
void message_sent(struct mpi_self *self, const struct message_about *about);
/* It is complete, with the source, the tag and the bytes that its status says. */
void message_got(struct mpi_self *self, const struct message_about *about);
/* The call of the thread begins a collective operation; a non-blocking one is complete. */
void message_collective(struct mpi_self *self, const struct message_about *about, bool done);

#pragma GCC visibility pop

#endif
