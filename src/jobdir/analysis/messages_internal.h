/* SPDX-License-Identifier: Apache-2.0 */
/* Inside jobdir: the steps from traces to messages (analysis/messages_read.c reads, messages_match.c finds what several
 * programs have in common, and the other ends, timeline.c makes times common, messages_waits.c finds who waited for
 * whom). */
#ifndef SCRY_JOBDIR_ANALYSIS_MESSAGES_INTERNAL_H
#define SCRY_JOBDIR_ANALYSIS_MESSAGES_INTERNAL_H

#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/stats.h"

/* struct mpi_place_key.program of an executable; NULL is "". */
uint32_t mpi_messages_program(const char *exe);
/* One rank's trace of `count`; *kept ends and parts there are already. 0 or -errno. */
int mpi_messages_read(struct mpi_messages *messages, struct mpi_message_rank *rank, struct trace *trace, size_t count,
                      size_t *kept, const struct mpi_messages_options *options, struct err *err);
/* Which communicators of several worlds are one. 0 or -ENOMEM. */
int mpi_messages_join(struct mpi_messages *messages);

/* The sends from one rank to another on a communicator, and the receives there, all tags: indices in their lists. */
struct mpi_pair {
    const struct mpi_message_rank *from, *to;
    const uint32_t *sent, *got;
    size_t sends, gets;
    uint64_t sent_before, got_before; /* what was counted before they were recorded */
};
/* The moment after which each send is one of the receives after it: nothing was under way. 1, 0: that cannot be known,
 * or -ENOMEM. */
int mpi_messages_quiet(const struct mpi_messages *messages, const struct mpi_pair *pair, int64_t *ret_ns);

/* Order of a receive of which it is not known. */
#define MPI_ORDER_UNKNOWN ((uint64_t)INT64_MAX)

int mpi_messages_match(struct mpi_messages *messages); /* 0 or -ENOMEM */
/* Which receives got what the probes saw; `sorted`: the receives by channel and order, whose orders still stand. */
void mpi_messages_probes(struct mpi_message_rank *rank, const uint32_t *sorted);
/* Receives that do not block, and are not complete, by the order of their posts. false: out of memory, there is none.
 */
struct mpi_posted;
bool mpi_posted_add(struct mpi_posted **list, uint64_t order, int64_t begin, uint32_t place);
bool mpi_posted_take(struct mpi_posted **list, uint64_t order, struct mpi_post *post); /* sets begin and place */
void mpi_posted_free(struct mpi_posted **list);
/* Each time that is kept of a rank but for those of the rank itself is put through `fn`. */
typedef int64_t mpi_time_fn(void *ctx, int64_t ns);
void mpi_messages_each_time(struct mpi_message_rank *rank, mpi_time_fn *fn, void *ctx);
/* A call of which nothing is known that it could have waited for. */
void mpi_messages_unjudged(struct mpi_messages *messages, uint32_t call, int64_t ns);
int mpi_messages_waits(struct mpi_messages *messages); /* 0 or -ENOMEM */
void mpi_messages_waits_free(struct mpi_messages *messages);

/* A matched message, from the receiver's side. */
static inline const struct mpi_end *mpi_sent_of(const struct mpi_messages *messages,
                                                const struct mpi_message_rank *rank, const struct mpi_end *got,
                                                const struct mpi_message_rank **ret_from)
{
    if (got->other >= MPI_OTHER_FOREIGN)
        return NULL;
    ptrdiff_t from = mpi_messages_at(messages, rank->world, got->comm, got->peer);
    *ret_from = from < 0 ? NULL : &messages->ranks[from];
    return from < 0 ? NULL : &messages->ranks[from].sent[got->other];
}

/* Inside jobdir: communicators that several programs (worlds) have in common. */

struct shared { /* a communicator of one world with ranks of another */
    uint32_t world;
    const struct mpi_stats_comm *comm; /* as one of its ranks has it */
    uint64_t parent;                   /* identity of what it was made from; 0 */
    uint32_t *own;                     /* by rank in the own group: where in the list of ranks; UINT32_MAX */
    int64_t from, to;       /* the call of its root; the first and last MPI_Init of children. from > to: not known */
    uint64_t meeting;       /* struct mpi_stats_comm, of its root; 0: not known */
    uint32_t root;          /* where in the list of ranks, with `meeting` */
    struct shared *same;    /* the first of those that are one; NULL: not found */
    struct shared *claimed; /* the only one it can have met */
    size_t claims;          /* how many say that of it */
};

struct join {
    struct mpi_messages *messages;
    struct shared *list;
    size_t count, room;
};

/* Unites what was made where two programs met. */
void mpi_messages_meet(const struct join *join);

#endif
