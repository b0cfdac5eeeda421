/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a packet holds: CTF 1.8 as it comes to lie on disk (trace metadata in jobdir/trace/write.c says the same
 * in TSDL). Little-endian, byte-aligned. A packet: struct packet_head, then records. A record:
 *
 *     u32  id (low 5 bits) | low 27 bits of its time stamp (ticks of the time stamp counter)
 *     [u32 id; u64 time    only if id is RECORD_EXTENDED: 2^27 ticks or more since the record before, or an id > 30]
 *     payload by id
 *
 * The first record's time is the packet's begin, so its 27 bits are those of begin. Each packet can be read without the
 * ones before it: exits of calls that were entered in an earlier packet name their function (RECORD_EXIT_OF).
 *
 * Calls of one thread on one stack nest: RECORD_EXIT ends the innermost open call that is not ended yet *of this
 * packet*. When a thread runs on another stack (signal stack, ucontext coroutine), RECORD_STACK comes first; there is
 * one stack of calls for each number.
 */
#ifndef SCRY_SHM_RECORD_H
#define SCRY_SHM_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum record_id {
    RECORD_ENTRY,         /* u32 function, or RECORD_PLACE + where it was called from */
    RECORD_EXIT,          /* - */
    RECORD_EXIT_OF,       /* u32 function; u64 entry_time: entered in an earlier packet */
    RECORD_ENTRY_VALUES,  /* u32 as in ENTRY; u32 layout; u16 size; size bytes */
    RECORD_EXIT_VALUES,   /* u32 function; u64 entry_time; u32 layout; u16 size; size bytes: instead of EXIT, EXIT_OF */
    RECORD_CALLER_VALUES, /* u32 layout; u16 size; size bytes: the caller's locals at the entry that comes next, at once
                             and in the same packet */
    RECORD_UNWOUND,       /* u32 count: so many innermost calls ended without returning (exception, longjmp); of those
                             entered in earlier packets, too */
    RECORD_LOST,          /* u32 count: so many innermost calls returned, but their exits found no room */
    RECORD_STACK,         /* u32 stack; u32 depth on it: what follows happens there. 0: the thread's own */
    RECORD_SIGNAL,        /* i32 signal; i32 code; u64 address; u64 pc: a fatal signal */
    RECORD_MARK,          /* u16 size; size bytes of text: the program annotates itself (scry/agent.h) */
    RECORD_THINNED,       /* u32 function: its rate is limited from here; calls are missing */
    RECORD_MESSAGE,       /* struct record_message: something of MPI was sent, received, or done by all */
    RECORD_IDS,
    RECORD_EXTENDED = 31,
};

/* What an entry has instead of a function: below it the number of a place, a function with where it is called from
 * (.places of the trace, struct area_place of the area). So it takes no bytes of its own. Entries without it, whose
 * places found no room or are not asked for (MPI has its own), and those of older traces have the function alone. */
#define RECORD_PLACE (UINT32_C(1) << 31)

enum {
    RECORD_HEAD = 4,
    RECORD_EXTENDED_HEAD = 16,
    RECORD_TIME_BITS = 27,
    RECORD_VALUES_LIMIT = 4096, /* bytes of captured values in one record */
    RECORD_NO_LAYOUT = 0,       /* for a layout: what the values mean is not known any more */
};

/*
 * RECORD_MESSAGE. It stands inside of the call that posts a send (of blocking ones at its begin), completed a receive,
 * began a collective operation or completed a non-blocking one. Nothing is there of operations with MPI_PROC_NULL, nor
 * of those that failed or were cancelled. A reader matches sends and receives of a channel (comm, source, destination,
 * tag) each sorted by `order`, the k-th with the k-th: MPI lets no message overtake another one of its channel, in the
 * order in which they were posted. Collectives: the same comm and order on all ranks.
 */
enum message_kind {
    MESSAGE_SENT,            /* posted, or started if persistent; peer: destination */
    MESSAGE_RECEIVED,        /* complete; peer (source) and tag as the status says */
    MESSAGE_COLLECTIVE,      /* began; peer: the root, MPIA_RANK_NONE if it has none */
    MESSAGE_COLLECTIVE_DONE, /* a non-blocking one is complete */
    MESSAGE_UNSENT,          /* the post of this order has failed after all: there is no such message */
    MESSAGE_BEGIN,           /* calls have gone by that were not recorded. order: of the last post that was; bytes: 1 if
                                what follows is exact, 0: it is not known what was sent and received so far */
    MESSAGE_SENT_BEFORE,     /* then: so many (order) to peer on comm since MPI_Init; peers without have none */
    MESSAGE_RECEIVED_BEFORE, /* so many were received from it */
    MESSAGE_PROBED,    /* a blocking probe has seen a message, peer and tag as the status says: the first receive of
                          its channel that is posted with this order or a later one gets it */
    MESSAGE_POSTED,    /* a receive that does not block was posted, or started, with this order */
    MESSAGE_SENT_DONE, /* the send of this order is complete, in a call that may have waited for it: one of at least
                          MESSAGE_WAIT_TICKS. Of shorter ones nothing is recorded */
    MESSAGE_FREED,     /* the receive of this order was given up by MPI_Request_free: it may get a message yet */
    MESSAGE_KINDS,
};

#define MESSAGE_WAIT_TICKS (UINT64_C(1) << 14) /* some microseconds */

struct record_message {
    uint8_t kind;   /* enum message_kind */
    uint32_t call;  /* enum call_id (shm/mpi_calls.h): that posted it */
    uint64_t comm;  /* mpi_comm.identity; 0: not known, then it matches nothing */
    int32_t peer;   /* world rank, or MPIA_RANK_... (shm/mpi_area.h) */
    int32_t tag;    /* MPIA_TAG_NONE of collectives */
    uint64_t bytes; /* sent, received; of collectives by the arguments */
    uint64_t order; /* of the post among the posts of sends and receives of this process, 1 is the first; collectives:
                       the sequence number on comm. The highest bit: posted before MESSAGE_BEGIN, in the order of the
                       rest; 0: not known */
} __attribute__((packed));
_Static_assert(sizeof(struct record_message) == 37, "there is no padding");

/* CTF packet header and context, as one. Sizes in bits, times in ticks. Sizeof is 80: no padding. */
struct packet_head {
    uint32_t magic;        /* 0xC1FC1FC1 */
    uint32_t stream_class; /* 0 */
    uint64_t stream;       /* number of the file, set by the monitor; in the area: how many entries and exits of it the
                              monitor has written already */
    uint64_t time_begin, time_end;
    uint64_t content_size, packet_size;
    uint64_t events_discarded; /* cumulative in the stream */
    uint64_t packet_seq;       /* likewise. On disk: where it is more than one higher packets are missing (the flight
                                  recorder, a limit), and the discarded events are theirs */
    uint32_t tid;
    uint32_t depth;         /* calls open when it begins */
    uint32_t stack;         /* that it begins on */
    uint32_t thread_serial; /* tells threads apart that had the same tid one after the other: 1, 2 ... of the process */
};
_Static_assert(sizeof(struct packet_head) == 80, "the head has no padding");
#define PACKET_MAGIC UINT32_C(0xC1FC1FC1)

/* What follows the head of each record, for those who read packets. */
static const struct record_shape {
    uint8_t fixed; /* bytes */
    bool bytes;    /* the last two of them say how many more follow */
} record_shapes[RECORD_IDS] = {
    [RECORD_ENTRY] = {4, false},
    [RECORD_EXIT] = {0, false},
    [RECORD_EXIT_OF] = {12, false},
    [RECORD_ENTRY_VALUES] = {10, true},
    [RECORD_EXIT_VALUES] = {18, true},
    [RECORD_CALLER_VALUES] = {6, true},
    [RECORD_UNWOUND] = {4, false},
    [RECORD_LOST] = {4, false},
    [RECORD_STACK] = {8, false},
    [RECORD_SIGNAL] = {24, false},
    [RECORD_MARK] = {2, true},
    [RECORD_THINNED] = {4, false},
    [RECORD_MESSAGE] = {sizeof(struct record_message), false},
};

#endif
