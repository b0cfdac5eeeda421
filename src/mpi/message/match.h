/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which message a receive gets: the rules of matching (MPI 3.1, 3.5), without MPI. Messages of a channel (communicator,
 * sender, receiver, tag) are received in the order in which they were sent, by the receives that match it in the order
 * in which these were posted. So the k-th receive that matched a channel got its k-th message. A receive from one
 * sender with one tag has its number when it is posted; one from any sender when it is known from which it got a
 * message; and one that was posted behind such a one, and may have competed with it, only then, too.
 *
 * What there is to know of the channels stands in a struct mpim (shm/mpi_messages.h). Not thread-safe: the caller has a
 * lock.
 */
#ifndef SCRY_MPI_MESSAGE_MATCH_H
#define SCRY_MPI_MESSAGE_MATCH_H

#include "shm/mpi_messages.h"

#pragma GCC visibility push(hidden)

enum { MATCH_POSTS = 8192, MATCH_ACTIVE = 64 };

struct match_key { /* of receives, with MPIA_RANK_ANY and MPIA_TAG_ANY */
    uint64_t identity;
    int32_t peer, tag;
    uint32_t comm; /* its number */
};

enum match_state { MATCH_FREE, MATCH_POSTED, MATCH_COMPLETE, MATCH_LOST /* its request was freed */ };

/* A receive that was posted and is not complete, or has no number yet. In a list in the order of their posts. */
struct match_post {
    uint32_t next, previous;
    uint32_t serial; /* distinguishes uses of this entry */
    uint32_t state;  /* enum match_state */
    bool known;      /* the channel is */
    uint32_t tid;
    struct match_key key;
    uint64_t k;      /* 0: not known */
    uint64_t bytes;  /* when it is complete */
    uint64_t handle; /* of its request, if it may be asked; 0 */
};

/* One message that was received, numbered later than when it was received. */
typedef void match_received(void *ctx, const struct match_post *post);

struct match {
    struct mpim *shared;
    match_received *received;
    void *ctx;
    uint32_t free, used; /* list of entries; how many were ever used */
    uint32_t open;       /* from anybody: the channel is not known */
    uint32_t unnumbered; /* the channel is known */
    uint32_t last_serial;
    struct {
        uint32_t owner; /* index of a thread + 1; 0: free */
        uint32_t side;
        struct match_key key;
    } active[MATCH_ACTIVE];               /* calls that post and have not returned; of several threads */
    struct match_post posts[MATCH_POSTS]; /* [0] is head and end of the list */
};

void match_start(struct match *match, struct mpim *shared, match_received *received, void *ctx);

/* ---- sending ---- */

/* A message is posted: its number; 0: there is no room. */
uint64_t match_sent(struct match *match, const struct match_key *to, uint64_t bytes, uint32_t tid, uint64_t time);
/* How large the last one really is. */
void match_sent_bytes(struct match *match, const struct match_key *to, uint64_t k, uint64_t bytes);
/* The post failed. */
void match_unsent(struct match *match, const struct match_key *to, uint64_t k);

/* ---- receiving ---- */

/* A receive is posted; 0: there is no room. `ret_k`: its number, 0 if it is not known yet. */
uint64_t match_posted(struct match *match, const struct match_key *key, uint64_t *ret_k);
/* It may be asked under this handle (match_known). */
void match_handle(struct match *match, uint64_t post, uint64_t handle);
/* It is complete: got a message from `from` with `tag`. Its number; 0: not known yet, `received` is called when it is.
 */
uint64_t match_done(struct match *match, uint64_t post, int32_t from, int32_t tag, uint64_t bytes, uint32_t tid);
/* It has matched that, but is not complete, or is not known to the program to be. */
void match_known(struct match *match, uint64_t post, int32_t from, int32_t tag);
/* It was cancelled, or failed when it was posted. */
void match_undone(struct match *match, uint64_t post, uint32_t doubt);
/* It will complete out of sight. */
void match_lost(struct match *match, uint64_t post);

/* The receive that comes after `post` (0: the first) of those from anybody which one of `key` may have competed with,
 * among those before `until`; 0: none. */
uint64_t match_blocker(struct match *match, uint64_t until, uint64_t post, uint64_t *ret_handle);

/* ---- doubts ---- */

/* All channels of one side that fit the key, now and later. */
void match_doubt(struct match *match, uint32_t side, const struct match_key *key, uint32_t doubts);
/* A thread enters a call that posts, and leaves it: what two post at once has no order. */
void match_enter(struct match *match, uint32_t owner, uint32_t side, const struct match_key *key);
void match_leave(struct match *match, uint32_t owner);

/* The channel, made if need be; NULL: there is no room, which was noted. */
struct mpim_channel *match_channel(struct match *match, uint32_t side, const struct match_key *key);

static inline bool match_overlap(const struct match_key *a, const struct match_key *b)
{
    return a->identity == b->identity && (a->peer == b->peer || a->peer == MPIA_RANK_ANY || b->peer == MPIA_RANK_ANY) &&
           (a->tag == b->tag || a->tag == MPIA_TAG_ANY || b->tag == MPIA_TAG_ANY);
}

#pragma GCC visibility pop

#endif
