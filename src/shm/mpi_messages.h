/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of one MPI process, for the message services (specification 8.1.4): a block in the pool of its area
 * (mpi_area.messages_at), made when MPIA_METRIC_MESSAGES is first seen. A message is named by its channel (identity of
 * the communicator, sender, receiver, tag) and its number in it: the sender counts its posts, the receiver the receives
 * that match, and since no message overtakes another one of its channel, both mean the same message. What was sent and
 * is not matched is in the receiver's queue.
 *
 *   channels  a hash: what this process has sent to, and matched from, each peer with each tag on each communicator
 *   log       the last messages sent: their size, when, by which thread
 *   tags      messages that the monitor wants to hear of when they are received
 *   raises    what the process tells the monitor of, waiting until it was heard
 *   command   what the monitor wants done with messages at the process's next MPI call
 *
 * Numbers are never guessed: where the order of two operations cannot be known, the channel carries a doubt. Written by
 * the process under its own lock but for what is the monitor's; whoever reads it checks everything. Freestanding.
 */
#ifndef SCRY_SHM_MPI_MESSAGES_H
#define SCRY_SHM_MPI_MESSAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/mpi_area.h"

enum {
    MPIM_CHANNELS = 4096, /* a power of two */
    MPIM_PROBES = 64,
    MPIM_LOG = 8192, /* a power of two */
    MPIM_TAGS = 128,
    MPIM_RAISES = 16,
    MPIM_WATCHED = 64,
    MPIM_OPEN = 64,
    MPIM_PATH = 256,
    MPIM_TEXT = 160,
};

enum mpim_side { MPIM_NONE, MPIM_SENT, MPIM_GOT };

/* Why the numbers of a channel, or of all of them, are not certain. */
enum mpim_doubt {
    MPIM_DOUBT_LATE = 1,      /* counting began while messages may have been under way */
    MPIM_DOUBT_PAUSED = 2,    /* counting was off for a while */
    MPIM_DOUBT_THREADS = 4,   /* two threads posted the same at once */
    MPIM_DOUBT_CANCELLED = 8, /* one was cancelled */
    MPIM_DOUBT_FREED = 16,    /* the request of a receive from anybody was freed: what it got is not seen */
    MPIM_DOUBT_FAILED = 32,   /* a call failed: whether its message went is not known */
    MPIM_DOUBT_ROOM = 64,     /* there was no room to note it */
    MPIM_DOUBT_OPEN = 128,    /* a receive from anybody is posted, which may have matched it (said by readers only) */
    MPIM_DOUBT_UNFOLLOWED = 256, /* messages went over communicators whose identity is not known */
};

struct mpim_channel {         /* one cache line */
    _Atomic uint32_t side;    /* enum mpim_side; set last */
    uint32_t comm;            /* number in the process's own area */
    uint64_t identity;        /* of the communicator */
    int32_t peer, tag;        /* world rank of the other end */
    _Atomic uint64_t count;   /* messages posted, or receives that have their number */
    _Atomic uint64_t done;    /* of receives: complete */
    _Atomic uint64_t last;    /* of sends: the log's number of the youngest; 0: none */
    _Atomic uint32_t waiting; /* receives from here whose number is not known yet */
    _Atomic uint32_t doubts;  /* enum mpim_doubt */
    uint64_t removed;         /* of count: by the monitor, not by the program */
};
_Static_assert(sizeof(struct mpim_channel) == 64, "a channel is a cache line");

struct mpim_sent {
    _Atomic uint64_t number; /* of the log: 1 is the first ever. 0 while it is being written; set last */
    uint64_t previous;       /* the one before on its channel; 0: none */
    uint64_t k;              /* in its channel */
    uint64_t bytes, time;
    uint32_t channel, tid;
};

/* Receives from anybody, or of any tag, that are posted and not complete; and what there are doubts about. */
struct mpim_open {
    uint64_t identity; /* 0: free */
    int32_t from, tag; /* MPIA_RANK_ANY, MPIA_TAG_ANY */
    uint32_t doubts;   /* not 0: of receives that were posted so, of channels that are not there yet, too */
    uint32_t reserved;
};

enum mpim_tag_state { MPIM_TAG_FREE, MPIM_TAG_SET, MPIM_TAG_GONE /* it was received; the monitor frees it */ };
struct mpim_tag {
    _Atomic uint32_t state; /* enum mpim_tag_state; the monitor writes the rest before */
    int32_t from, tag;
    uint32_t reserved;
    uint64_t identity, k;
    int64_t monitor_tag;
};

/* Events that the monitor wants to hear of. */
enum mpim_event { MPIM_EVENT_TAGGED = 1, MPIM_EVENT_EXTENDED = 2 };

enum mpim_raise_state { MPIM_RAISE_FREE, MPIM_RAISE_TAKEN, MPIM_RAISE_POSTED, MPIM_RAISE_LATE };
struct mpim_raise {
    _Atomic uint32_t state; /* a futex. POSTED: the thread waits; LATE: it does not. The monitor sets it back to FREE */
    uint32_t event;         /* enum mpim_event */
    uint32_t tid;
    int32_t peer, tag; /* sender (TAGGED) or receiver (EXTENDED) */
    uint32_t doubts;
    uint64_t identity, k, bytes, time;
    int64_t monitor_tag;
};

enum mpim_command_state {
    MPIM_COMMAND_FREE,
    MPIM_COMMAND_PUT,   /* by the monitor */
    MPIM_COMMAND_TAKEN, /* the process is at it */
    MPIM_COMMAND_DONE,  /* `done`, or why not in `text` */
};
enum mpim_command_kind {
    MPIM_REMOVE, /* `count` messages from the start of a channel; content of the first to path, if there is one */
    MPIM_CLEAR,  /* all that are there, `count` are known */
    MPIM_INSERT, /* sends the content of path, `bytes`, to peer */
};
struct mpim_command {
    _Atomic uint32_t state; /* enum mpim_command_state */
    uint32_t kind;
    uint32_t serial; /* of this command */
    uint32_t comm;   /* number in this process's area */
    int32_t peer, tag;
    uint64_t k; /* the number that the message must have, or gets (then 0: the next one) */
    uint64_t count, bytes;
    uint64_t done;        /* messages that were removed or sent */
    int32_t result;       /* -errno */
    char path[MPIM_PATH]; /* "": the content is not wanted */
    char text[MPIM_TEXT]; /* what went wrong, for people */
};

/* Bytes that may be inserted, to another process and to the sender itself: so much all ways of transport of both MPI
 * libraries hand over at once (Open MPI's shared memory and its messages to oneself have the least: 4096 and 1024, with
 * their heads). Of more the sender would keep a part until it is received; if nobody does, MPI_Finalize might wait. */
enum { MPIM_INSERT_MOST = 4000, MPIM_INSERT_SELF_MOST = 960 };

struct mpim {
    uint64_t size;           /* of this struct */
    _Atomic uint32_t doubts; /* of all channels */
    _Atomic uint32_t channel_count;
    _Atomic uint64_t sent;       /* messages in the log so far */
    uint64_t since;              /* when counting began, in ticks */
    _Atomic uint64_t unfollowed; /* messages on communicators whose identity is not known, or to other worlds */
    _Atomic uint32_t open_count; /* that are posted: of `open`, and beyond */

    /* ---- the monitor's ---- */
    _Alignas(64) _Atomic uint32_t events; /* enum mpim_event */
    _Atomic uint32_t tag_count;           /* tags that are set, at most: those that are received are still counted */
    _Atomic uint32_t watched_count;       /* ranks whose queues are watched; more than MPIM_WATCHED: all */
    _Atomic int32_t watched[MPIM_WATCHED];
    _Atomic uint64_t
        closed; /* not 0: receives wait, until the monitor has run what waits for a longer queue; a futex */
    struct mpim_command command;

    _Atomic uint64_t raised, raises_lost;
    struct mpim_raise raises[MPIM_RAISES];
    struct mpim_tag tags[MPIM_TAGS];
    struct mpim_open open[MPIM_OPEN];
    _Alignas(64) struct mpim_channel channels[MPIM_CHANNELS];
    struct mpim_sent log[MPIM_LOG];
};
_Static_assert(sizeof(struct mpim) <= 1 << 20, "it leaves room in the pool");

static inline uint32_t mpim_hash(uint32_t side, uint64_t identity, int32_t peer, int32_t tag)
{
    uint64_t key = identity * UINT64_C(0x9e3779b97f4a7c15);
    key = (key ^ (uint32_t)peer) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (uint32_t)tag ^ (uint64_t)side << 40) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(key >> 40) & (MPIM_CHANNELS - 1);
}

/* The channel, or NULL: there is none yet. Of the process itself, or a copy that was taken. */
static inline struct mpim_channel *mpim_channel_find(struct mpim *messages, uint32_t side, uint64_t identity,
                                                     int32_t peer, int32_t tag)
{
    uint32_t at = mpim_hash(side, identity, peer, tag);
    for (uint32_t i = 0; i < MPIM_PROBES; i++) {
        struct mpim_channel *channel = &messages->channels[(at + i) & (MPIM_CHANNELS - 1)];
        uint32_t there = atomic_load_explicit(&channel->side, memory_order_acquire);
        if (there == MPIM_NONE)
            return NULL;
        if (there == side && channel->identity == identity && channel->peer == peer && channel->tag == tag)
            return channel;
    }
    return NULL;
}

/* The block of an area of MPIA_AREA_SIZE, or NULL. */
static inline struct mpim *mpim_of(void *area, uint32_t messages_at)
{
    struct mpim *messages =
        messages_at && messages_at % 64 == 0 ? mpi_pool_at(area, messages_at, sizeof(struct mpim)) : NULL;
    return messages && messages->size == sizeof *messages ? messages : NULL;
}

#endif
