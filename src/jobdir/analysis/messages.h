/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the MPI programs of a job, from the traces of their ranks (RECORD_MESSAGE, shm/record.h). The sends
 * and receives of each channel (communicator, source, destination, tag) are sorted by the order in which they were
 * posted. The k-th send belongs to the k-th receive, because MPI lets no message overtake another one of its channel.
 * The parts of a collective operation have the same number on the same communicator.
 *
 * Where records of a rank are missing, its channels are matched up to there. What comes later is counted as ambiguous,
 * never guessed. Where recording began, or went on, while the program ran, messages between two ranks are matched from
 * the first moment on at which none was under way between them (analysis/messages_waits.c).
 *
 * Times are nanoseconds after the start of the job, on one time line for all hosts (jobdir/analysis/timeline.h). A
 * message is under way from the beginning of the call that posted it to the end of the call that completed its receive.
 * Memory: 48 bytes for each send, each receive, each probe, and each rank's part of a collective operation; 16 more for
 * a receive that did not block, 32 for what another call than the one that began it completed.
 */
#ifndef SCRY_JOBDIR_ANALYSIS_MESSAGES_H
#define SCRY_JOBDIR_ANALYSIS_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/analysis/timeline.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/trace/trace.h"

enum {
    MPI_ENDS_LIMIT = 40 << 20, /* sends, receives and parts of collectives that are kept, of all ranks together */
    MPI_LEFT_SHOWN = 20,       /* channels with unmatched messages that are listed */
    MPI_SLOWEST_SHOWN = 10,    /* messages with the longest latency */
};

/* What the other end of a message is, if it has none. */
#define MPI_OTHER_NONE UINT64_MAX            /* it was not received, or not sent, as far as the traces go */
#define MPI_OTHER_AMBIGUOUS (UINT64_MAX - 1) /* records are missing: which one it is, is not known */
#define MPI_OTHER_FAILED (UINT64_MAX - 2)    /* it is no message: the call that was to send it has failed */
#define MPI_OTHER_FOREIGN (UINT64_MAX - 3)   /* a rank without a trace, of another program that is not known, or both */

struct mpi_end {        /* of a message */
    int64_t begin, end; /* of the call */
    uint64_t bytes;
    union {
        uint64_t order; /* until they are matched */
        uint64_t other; /* then: in the other rank's list, or MPI_OTHER_... */
    };
    uint32_t comm, place; /* in their lists */
    int32_t peer, tag;    /* peer: see mpi_messages_at */
};

struct mpi_part { /* one rank's, of a collective operation */
    int64_t begin, end;
    uint64_t order, bytes;
    uint32_t comm, place;
    int32_t root;
    uint32_t call;
};

/* Of a receive that did not block: the call that posted it. */
struct mpi_post {
    int64_t begin;
    uint32_t place, got; /* which receive */
};

/* A call that completed what another one had begun: a send, or a part of a collective operation. */
struct mpi_done {
    int64_t begin, end;
    uint32_t place, index; /* in the list of sends or of parts */
    bool part;
};

/* A call that waited for another rank. */
struct mpi_waited {
    int64_t begin, until; /* from when the call began */
    uint32_t call, rank;  /* for whom, in the list of ranks */
};

/* A call from a certain line. */
struct mpi_place {
    struct mpi_place_key { /* no padding */
        uint64_t site;     /* return address, as the program's file has it; 0: not known */
        uint32_t call;     /* enum call_id */
        uint32_t program;
    } key;
    uint32_t index;
    char *where; /* "exchange (halo.c:34)"; "" */
    UT_hash_handle hh;
};

struct mpi_message_comm {
    struct mpi_comm_key { /* no padding */
        uint64_t identity;
        uint64_t world;
    } key;
    uint32_t index;
    char *name;
    uint32_t same;    /* the first of those that are this one as other programs have it; itself */
    uint32_t *others; /* by rank, of an intercommunicator in the remote group: where in the list of ranks; UINT32_MAX */
    size_t other_count;
    UT_hash_handle hh;
};

/* How many messages a rank had exchanged with another one before recording began. */
struct mpi_message_before {
    uint32_t comm;
    int32_t peer;
    uint64_t sent, got;
};

struct mpi_message_rank {
    size_t trace; /* which of the traces */
    pid_t pid;
    int32_t rank;
    uint32_t world;
    char *node;
    const struct mpi_stats *stats; /* while they are loaded; NULL: there are none */
    struct mpi_end *sent, *got;    /* as in the trace */
    size_t sent_count, got_count, sent_room, got_room;
    uint64_t sent_before;   /* of the ranks before: together with the index a number of its own for each message */
    struct mpi_part *parts; /* of collectives */
    size_t part_count, part_room;
    struct mpi_end *probes; /* blocking ones; other: which of `got` received the message, or MPI_OTHER_NONE */
    size_t probe_count, probe_room;
    struct mpi_post *posts; /* by receive */
    size_t post_count, post_room;
    struct mpi_done *dones; /* of sends only where they may have been waited for */
    size_t done_count, done_room;
    struct mpi_waited *waited; /* by time */
    size_t waited_count, waited_room;
    uint64_t unkept;                   /* ends and parts beyond the limit */
    struct mpi_message_before *before; /* at the last MESSAGE_BEGIN */
    size_t before_count, before_room;
    int64_t gap_end;              /* when that was; INT64_MIN: there is none */
    size_t gap_sent, gap_got;     /* ends before it */
    uint64_t gap_order;           /* posts before the first of them */
    bool gap_twice;               /* something was recorded before the last of them */
    bool counted;                 /* what was exchanged before it is known; without: since MPI_Init */
    bool from_start;              /* MPI_Init is in the trace */
    uint64_t lost;                /* records that are missing; counts of single ones need not be known: at least 1 */
    uint64_t freed;               /* of these, receives that were given up by MPI_Request_free */
    bool stopped;                 /* it called MPI when recording was switched off, and no more when it was on */
    bool thinned;                 /* calls were left out (--min-time, --rate, --max-depth), but not their messages */
    uint64_t certain;             /* what has an order below is certain; UINT64_MAX: all is */
    int64_t begin, finish;        /* of the first and last that is known of it */
    int64_t init_begin, init_end; /* of its MPI_Init; INT64_MIN: not known */
    int64_t final_begin;          /* of its MPI_Finalize; INT64_MIN: not known */
    uint64_t threads;             /* that made calls of MPI */
    uint64_t failed;              /* sends that are none: MPI_OTHER_FAILED */
    bool in_call;                 /* its trace ends inside of a call of MPI: */
    uint32_t in_place;            /* which */
    int64_t in_since;
};

/* Messages of one channel that have only one end. */
struct mpi_left {
    uint32_t world, to_world, comm;
    int32_t from, to, tag;
    uint64_t sent, got;               /* without another end */
    uint64_t sent_unsure, got_unsure; /* ambiguous ones */
};

struct mpi_slow {
    uint32_t from, to; /* in the ranks' list */
    uint64_t sent;     /* which of `from`'s */
    int64_t ns;
};

enum mpi_wait_kind {
    MPI_WAIT_LATE_SENDER,   /* a blocking receive, or a wait for one, began before the send */
    MPI_WAIT_LATE_RECEIVER, /* a blocking send began before the receive, and did not end before */
    MPI_WAIT_COLLECTIVE,    /* for the last to come to an operation that needs all */
    MPI_WAIT_ROOT,          /* for the root of a broadcast or scatter */
    MPI_WAIT_MEMBERS,       /* the root of a reduction or gather, for the last of the others */
    MPI_WAIT_KINDS,
};

struct mpi_wait {
    struct mpi_wait_key {            /* no padding */
        uint32_t kind, place, cause; /* places: who waits, and what for */
    } key;
    uint64_t count;
    int64_t total_ns, max_ns;
    double *by_rank; /* ns waited for this one, by index in the ranks' list */
    UT_hash_handle hh;
};

/* Calls of which it cannot be said whether they waited for another rank. */
struct mpi_unjudged {
    uint64_t count;
    int64_t ns;
};

struct mpi_messages {
    struct mpi_message_rank *ranks; /* by world and rank */
    size_t rank_count;
    uint32_t worlds;
    struct mpi_place *places, **place_list; /* hash; by index */
    struct mpi_message_comm *comms, **comm_list;
    struct timeline timeline;  /* of all traces, also those that are no rank's */
    uint64_t sent, got, parts; /* all that were seen and kept */
    uint64_t matched, matched_bytes;
    uint64_t unreceived, unsent;          /* with one end only */
    uint64_t sent_unsure, got_unsure;     /* ambiguous */
    uint64_t foreign;                     /* ends whose other rank has no trace here */
    uint64_t unranked;                    /* processes with calls of MPI whose rank is not known */
    uint64_t unkept;                      /* beyond MPI_ENDS_LIMIT */
    struct mpi_left left[MPI_LEFT_SHOWN]; /* the channels with the most */
    size_t left_count;
    uint64_t left_channels;
    uint64_t collectives; /* operations */
    struct mpi_slow slowest[MPI_SLOWEST_SHOWN];
    size_t slowest_count;
    int64_t latency_total_ns, latency_min_ns;
    struct mpi_wait *waits;                   /* hash; by total after the load */
    int64_t judged_ns;                        /* in blocking calls that are judged, of all threads of all ranks */
    struct mpi_unjudged unjudged[CALL_COUNT]; /* the other blocking ones, and those that only ask */
};

struct mpi_messages_options {
    uint64_t start_ns;                 /* wall time of the job's start */
    const struct mpi_stats_set *stats; /* of its ranks, with the names of sites; NULL: none */
    size_t limit;                      /* of ends and parts; 0: MPI_ENDS_LIMIT */
    void (*progress)(void *ctx, double share);
    void *ctx;
};

/* How long ranks waited for each other, all together, in the calls that are judged; -1: not known, there is no trace of messages. */
int64_t mpi_messages_waited_ns(const struct mpi_messages *messages);

/* Reads the traces, each one process (jobdir/trace/trace.h), and matches. Without calls of MPI in them there are no
 * ranks. 0, -ENOMEM, or what a trace gave that could not be read, with err. */
int mpi_messages_load(struct mpi_messages **ret_messages, struct trace *const *traces, size_t count,
                      const struct mpi_messages_options *options, struct err *err);
/* The same for a job directory. */
int mpi_messages_load_job(struct mpi_messages **ret_messages, const char *jobdir,
                          const struct mpi_messages_options *options, struct err *err);
void mpi_messages_free(struct mpi_messages *messages); /* NULL is fine */

/* The rank that a trace is of; NULL: none. */
const struct mpi_message_rank *mpi_messages_of_trace(const struct mpi_messages *messages, size_t trace);
const struct mpi_message_rank *mpi_messages_rank(const struct mpi_messages *messages, uint32_t world, int32_t rank);

/* Where in the list of ranks `peer` of an end, or the root of a part, is, which a rank of `world` has: a rank of that
 * world, or one of another that the communicator has (MPIA_RANK_OTHERS); -1: it has no trace, or is not known. */
ptrdiff_t mpi_messages_at(const struct mpi_messages *messages, uint32_t world, uint32_t comm, int32_t peer);

/* One collective operation: the parts of all ranks that took part, by rank. */
struct mpi_operation {
    const struct mpi_part *const *parts;
    const uint32_t *ranks; /* in the list of ranks */
    size_t count;
};
/* By communicator and order. 0, or what `fn` returned if that is not 0, or -ENOMEM. */
typedef int mpi_operation_fn(void *ctx, const struct mpi_operation *operation);
int mpi_messages_each_operation(const struct mpi_messages *messages, mpi_operation_fn *fn, void *ctx);
const char *mpi_wait_name(enum mpi_wait_kind kind); /* "late_sender" */

/* Whether a call may wait for other ranks. */
enum mpi_waiting {
    MPI_WAITS_NOT,   /* it returns at once, or is no communication */
    MPI_WAITS,       /* it blocks */
    MPI_WAITS_LOOKS, /* it returns at once with an answer, and is likely to be asked again: MPI_Test, MPI_Iprobe */
};
enum mpi_waiting mpi_waiting_of(uint32_t call);

/* The sections of the report, and its JSON (.mpi_trace). `messages` may be NULL, or without ranks: then nothing. */
void mpi_messages_text(struct buf *out, const struct mpi_messages *messages);
void mpi_messages_json(json_t *report, const struct mpi_messages *messages);
/* "MPI_Recv, exchange (halo.c:34)" */
void mpi_messages_place(struct buf *out, const struct mpi_place *place);
/* What is missing or was corrected, one a line without its end, for people; `fn` is called for each. */
void mpi_messages_notes(const struct mpi_messages *messages, void (*fn)(void *ctx, const char *line), void *ctx);

#endif
