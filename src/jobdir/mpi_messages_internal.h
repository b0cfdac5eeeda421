/* SPDX-License-Identifier: Apache-2.0 */
/* Inside jobdir: the steps from traces to messages (mpi_messages_read.c reads, mpi_messages_match.c finds the other
 * ends, timeline*.c makes times common, mpi_messages_waits.c looks who waited for whom). */
#ifndef SCRY_JOBDIR_MPI_MESSAGES_INTERNAL_H
#define SCRY_JOBDIR_MPI_MESSAGES_INTERNAL_H

#include "jobdir/mpi_messages.h"

/* One rank's trace of `count`; *kept ends and parts there are already. 0 or -errno. */
int mpi_messages_read(struct mpi_messages *messages, struct mpi_message_rank *rank, struct trace *trace, size_t count,
                      size_t *kept, const struct mpi_messages_options *options, struct err *err);
int mpi_messages_match(struct mpi_messages *messages); /* 0 or -ENOMEM */
int mpi_messages_waits(struct mpi_messages *messages); /* 0 or -ENOMEM */
void mpi_messages_waits_free(struct mpi_messages *messages);

/* The rank with that number in a world, or -1. */
ptrdiff_t mpi_messages_find(const struct mpi_messages *messages, uint32_t world, int32_t rank);

/* A matched message, from the receiver's side. */
static inline const struct mpi_end *mpi_sent_of(const struct mpi_messages *messages,
                                                const struct mpi_message_rank *rank, const struct mpi_end *got,
                                                const struct mpi_message_rank **ret_from)
{
    if (got->other >= MPI_OTHER_FOREIGN)
        return NULL;
    ptrdiff_t from = mpi_messages_find(messages, rank->world, got->peer);
    *ret_from = from < 0 ? NULL : &messages->ranks[from];
    return from < 0 ? NULL : &messages->ranks[from].sent[got->other];
}

#endif
