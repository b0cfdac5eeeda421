/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the MPI programs of a job, out of the traces of their ranks (RECORD_MESSAGE, shm/record.h): sends and
 * receives of each channel (communicator, source, destination, tag) sorted by the order in which they were posted, the
 * k-th send being the k-th receive's, as MPI lets no message overtake another one of its channel. Collective operations
 * are those with the same number on the same communicator.
 *
 * Where records of a rank are missing, its channels are matched up to there; what comes later is counted as ambiguous,
 * never guessed. A rank whose MPI_Init is not in its trace is ambiguous from the beginning.
 *
 * Times are nanoseconds after the start of the job, on one time line for all hosts (jobdir/timeline.h). A message is
 * under way from the beginning of the call that posted it to the end of the call that completed its receive. Memory: 48
 * bytes for each send, each receive, and each rank's part of a collective operation.
 */
#ifndef SCRY_JOBDIR_MPI_MESSAGES_H
#define SCRY_JOBDIR_MPI_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>
#include <uthash.h>

#include "base/buf.h"
#include "base/err.h"
#include "jobdir/mpi_stats.h"
#include "jobdir/timeline.h"
#include "jobdir/trace.h"

enum {
    MPI_ENDS_LIMIT = 40 << 20, /* sends, receives and parts of collectives that are kept, of all ranks together */
    MPI_LEFT_SHOWN = 20,       /* channels with unmatched messages that are listed */
    MPI_SLOWEST_SHOWN = 10,    /* messages with the longest latency */
};

/* What the other end of a message is, if it has none. */
#define MPI_OTHER_NONE UINT64_MAX            /* it was not received, or not sent, as far as the traces go */
#define MPI_OTHER_AMBIGUOUS (UINT64_MAX - 1) /* records are missing: which one it is cannot be told */
#define MPI_OTHER_FOREIGN (UINT64_MAX - 2)   /* a rank of another MPI_COMM_WORLD, one without a trace, or not known */

struct mpi_end {        /* of a message */
    int64_t begin, end; /* of the call */
    uint64_t bytes;
    union {
        uint64_t order; /* until they are matched */
        uint64_t other; /* then: in the other rank's list, or MPI_OTHER_... */
    };
    uint32_t comm, place; /* in their lists */
    int32_t peer, tag;
};

struct mpi_part { /* one rank's, of a collective operation */
    int64_t begin, end;
    uint64_t order, bytes;
    uint32_t comm, place;
    int32_t root;
    uint32_t call;
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
    UT_hash_handle hh;
};

struct mpi_message_rank {
    size_t trace; /* which of the traces */
    pid_t pid;
    int32_t rank;
    uint32_t world;
    char *node;
    struct mpi_end *sent, *got; /* as in the trace */
    size_t sent_count, got_count, sent_room, got_room;
    uint64_t sent_before;   /* of the ranks before: together with the index a number of its own for each message */
    struct mpi_part *parts; /* of collectives */
    size_t part_count, part_room;
    uint64_t unkept;               /* ends and parts beyond the limit */
    bool from_start;               /* MPI_Init is in the trace */
    uint64_t lost;                 /* records that are missing; counts of single ones need not be known: at least 1 */
    uint64_t certain;              /* what has an order below is certain; UINT64_MAX: all is */
    int64_t begin, finish;         /* of the first and last that is known of it */
    int64_t init_end, final_begin; /* of its MPI_Init, its MPI_Finalize; INT64_MIN: not known */
    uint64_t threads;              /* that made calls of MPI */
};

/* Messages of one channel that have only one end. */
struct mpi_left {
    uint32_t world, comm;
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
    struct mpi_wait *waits; /* hash; by total after the load */
};

struct mpi_messages_options {
    uint64_t start_ns;                 /* wall time of the job's start */
    const struct mpi_stats_set *stats; /* of its ranks, with the names of sites; NULL: none */
    size_t limit;                      /* of ends and parts; 0: MPI_ENDS_LIMIT */
    void (*progress)(void *ctx, double share);
    void *ctx;
};

/* Reads the traces, each one process (jobdir/trace.h), and matches. Without calls of MPI in them there are no ranks. 0,
 * -ENOMEM, or what a trace gave that could not be read, with err. */
int mpi_messages_load(struct mpi_messages **ret_messages, struct trace *const *traces, size_t count,
                      const struct mpi_messages_options *options, struct err *err);
/* The same for a job directory. */
int mpi_messages_load_job(struct mpi_messages **ret_messages, const char *jobdir,
                          const struct mpi_messages_options *options, struct err *err);
void mpi_messages_free(struct mpi_messages *messages); /* NULL is fine */

/* The rank that a trace is of; NULL: none. */
const struct mpi_message_rank *mpi_messages_of_trace(const struct mpi_messages *messages, size_t trace);
const struct mpi_message_rank *mpi_messages_rank(const struct mpi_messages *messages, uint32_t world, int32_t rank);

/* One collective operation: the parts of all ranks that took part, by rank. */
struct mpi_operation {
    const struct mpi_part *const *parts;
    const uint32_t *ranks; /* in the list of ranks */
    size_t count;
};
/* By communicator and order. 0, or what `fn` returned if that is not 0, or -ENOMEM. */
typedef int mpi_operation_fn(void *ctx, const struct mpi_operation *operation);
int mpi_messages_each_operation(const struct mpi_messages *messages, mpi_operation_fn *fn, void *ctx);
/* What kind of operation a collective call is. */
enum mpi_gathering { MPI_ALL_TO_ALL, MPI_ONE_TO_ALL, MPI_ALL_TO_ONE, MPI_ALL_OTHERWISE };
enum mpi_gathering mpi_gathering_of(uint32_t call);

const char *mpi_wait_name(enum mpi_wait_kind kind); /* "late_sender" */

/* The sections of the report, and its JSON (.mpi_trace). `messages` may be NULL, or without ranks: then nothing. */
void mpi_messages_text(struct buf *out, const struct mpi_messages *messages);
void mpi_messages_json(json_t *report, const struct mpi_messages *messages);
/* "MPI_Recv, exchange (halo.c:34)" */
void mpi_messages_place(struct buf *out, const struct mpi_messages *messages, uint32_t place);
/* What is missing or was corrected, one a line without its end, for people; `fn` is called for each. */
void mpi_messages_notes(const struct mpi_messages *messages, void (*fn)(void *ctx, const char *line), void *ctx);

#endif
