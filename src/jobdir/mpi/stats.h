/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one MPI process has done, out of its area (shm/mpi_area.h): the form in which the monitor writes it to disk,
 * reports read it, and services and `scry why` use it. In the job directory:
 *
 *     stats/NODE/PID-N.json             all of struct mpi_stats, without the distributions (doc/reference/
 *                                       mpi-stats.schema.json); N as of the trace
 *     stats/NODE/PID-N/NAME.dist        one distribution a file: NAME is e.g. MPI_Send.latency, MPI_Send.size,
 *                                       MPI_Isend.completion, computation, communication (outermost calls),
 *                                       blocking.computation, blocking.communication. Text: comment lines with what and
 *                                       unit, then `from to count` (to exclusive; nanoseconds or bytes) by size
 *
 * Written atomically (a temporary file, then rename): while the process runs when asked, and at its end. Times in
 * nanoseconds by the calibrated clock; sums are exact in ticks before they are converted.
 *
 * Taking and writing do without a JSON library, for the monitor; mpi/stats_text.c has one.
 */
#ifndef SCRY_JOBDIR_MPI_STATS_H
#define SCRY_JOBDIR_MPI_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/mpi/thread_wait.h"
#include "shm/mpi_area.h"

enum { MPI_STATS_VERSION = 1 };

struct mpi_stats_row {
    uint32_t call; /* enum call_id */
    uint64_t count, total_ns, min_ns, max_ns;
    uint64_t args_bytes, sent_bytes, got_bytes;
    uint64_t others_count, others_ns; /* of count and total_ns, by threads that are not the rank */
    uint64_t open, open_ns; /* further calls that have not ended, of total_ns; not in the file (report/mpi_report.c) */
    bool got_unknown, got_least; /* what arrived later was not measured, or not of all; not in the file either */
};

struct mpi_stats_clock { /* total_ns = compute_ns + communicate_ns, to the nanosecond */
    uint64_t total_ns, compute_ns, communicate_ns, count;
    uint64_t compute_open_ns, communicate_open_ns; /* of those, what goes on yet: it is not in count, min and max */
    uint64_t compute_min_ns, compute_max_ns, communicate_min_ns, communicate_max_ns; /* min 0: none */
};

struct mpi_stats_site {
    uint32_t call;
    const char *module;          /* path; "" unknown */
    const char *build_id;        /* hexadecimal; "" */
    uint64_t offset;             /* of the return address, as the file of the module has it; without module: itself */
    const char *function, *file; /* "" until they were looked up */
    uint32_t line;
    uint64_t count, total_ns, min_ns, max_ns,
        args_bytes;                                  /* count 0: of calls that are reported, but not counted by site */
    uint64_t others_count, others_ns, open, open_ns; /* as of a row */
};

/* `comm` of what follows is an index in comms; UINT32_MAX: none, or not known. */
struct mpi_stats_peer {
    uint32_t comm;
    int32_t peer;  /* world rank or MPIA_RANK_... */
    uint32_t call; /* CALL_NONE: messages of the user; else the collective or one-sided operation */
    uint64_t sent_count, sent_bytes, got_count, got_bytes, args_bytes;
};

/* Not what was moved, but epochs that were begun with a peer. */
static inline bool mpi_stats_is_epoch(const struct mpi_stats_peer *peer)
{
    return call_is(peer->call, CALL_IS_EPOCH);
}

struct mpi_stats_comm {
    uint32_t kind;                          /* enum mpi_comm_kind */
    uint32_t number, parent, ordinal, call; /* parent: a number; UINT32_MAX: none */
    int32_t lowest;
    uint32_t size, rank, remote_size;
    bool ended;
    uint32_t collectives;
    uint32_t held;               /* windows: locks that it holds on it */
    const int32_t *ranks;        /* world rank of each; NULL: 0 .. size - 1 */
    const int32_t *remote_ranks; /* remote_size of them; NULL: there are none, or they are not known */
    const char *name;
    uint64_t identity; /* the same on all ranks, without the highest bit: struct record_message.comm; 0: not known */
    uint64_t meeting;  /* with another program: the same on the roots of both; 0: none, or not known */
};

struct mpi_stats_request {
    uint32_t call, comm, flags;
    int32_t peer, tag;
    uint32_t thread;
    uint32_t ordinal; /* non-blocking collectives: the sequence number on comm */
    uint64_t bytes, age_ns;
    uint64_t handle;
};

struct mpi_stats_now { /* what a thread is in, since when */
    uint32_t call;     /* CALL_NONE: it computes */
    uint64_t age_ns;
    int32_t peer, tag, source_peer, source_tag;
    uint32_t comm, ordinal, flags, waiting;
    uint64_t bytes, offset;
    uint64_t waits[MPIA_WAITS];
    struct mpi_stats_site site; /* without counts */
};

enum mpi_attends { /* whether a thread attends to what it waits for (jobdir/mpi/look.h) */
                   MPI_ATTENDS_UNKNOWN,
                   MPI_ATTENDS,
                   MPI_STARVED,        /* it had no processor */
                   MPI_STOPPED,        /* by a signal or a debugger */
                   MPI_STOPPED_UNSAID, /* by scry, since the statistics were written or for a moment only */
};

struct mpi_stats_thread {
    int32_t tid;
    bool is_main;
    bool ended; /* while its process lives: what it is in has no meaning */
    const char *name;
    const char
        *held; /* what has stopped it: "a rule of scry (thread_has_started_lib_call)"; "", or NULL: no tool has */
    struct mpi_stats_clock outermost, blocking;
    struct mpi_stats_now now;
    struct mpi_stats_now last; /* while it computes: the call that it has come out of; CALL_NONE: not known */
    uint64_t errors;
    enum mpi_attends attends; /* this and what follows: if the process was inspected */
    bool polls;               /* with `last` (jobdir/analysis/messages.h) */
    uint64_t polls_ns;        /* for so long nothing came of it */
    double polls_per_second;
};

struct mpi_stats_distribution {
    const char *name; /* as the file's */
    bool is_time;     /* nanoseconds; else bytes */
    uint64_t total;   /* of all values */
    size_t count;
    struct mpi_stats_bucket {
        uint64_t from, to, count;
    } * buckets; /* only those that are not empty */
};

struct mpi_stats_end { /* of a process that has ended, by the records of its job (jobdir/mpi/look.h) */
    bool known;
    int status;     /* wait status, or JOB_STATUS_UNKNOWN */
    double seconds; /* since the start of the job */
    bool first;     /* of its MPI_COMM_WORLD the first that ended, and before MPI_Finalize */
    bool lost;      /* not known, for its node was lost while it ran: its last statistics may be old */
    bool later;     /* not known, for it came after all that are; */
    bool left;      /* and what is known of it was seen when the job ended, or soon after */
};

struct mpi_stats {
    const char *name; /* NODE/PID-N, of the file; "" of what was just taken */
    const char *dir;  /* the job's, or of its part, that the file is in; NULL: it was not read from one */
    const char *node, *exe, *processor, *library /* "openmpi", "mpich" */, *library_version, *namespace;
    const char *fault; /* why the interposer switched itself off; "" */
    int32_t pid, rank, world_size, thread_level;
    uint32_t state; /* enum mpi_state */
    bool running;   /* the process lives, and this is how far it is */
    bool aborted;
    int32_t abort_code;
    bool status_known;             /* of one that has ended: the monitor saw how, */
    int32_t status;                /* as from wait(2) */
    bool spawned;                  /* by MPI_Comm_spawn: its MPI_COMM_WORLD has a parent */
    bool uncounted;                /* counting is switched off just now: what it is in is not known */
    uint64_t resets;               /* how often counting began anew: what was before is in no number */
    uint64_t reset_ns;             /* after MPI_Init's return, of the last time */
    uint64_t paused_ns;            /* between MPI_Init and MPI_Finalize, in which nothing was counted; but before a
                                           reset */
    uint64_t started_wall_ns;      /* CLOCK_REALTIME at MPI_Init's return */
    uint64_t taken_wall_ns;        /* of when this is */
    uint64_t init_ns, finalize_ns; /* how long those took */
    bool clocks_off, peers_off, requests_off; /* not measured at all (--mpi-metrics): what is 0 then is not known */
    uint64_t omitted;          /* calls, requests, bytes of the pool that found no room: > 0 is said; of these: */
    uint64_t requests_omitted; /* operations whose completion is not known, nor what they received */
    uint64_t sites_omitted, peers_omitted; /* calls that are in no call site, in no row of a peer */
    uint64_t
        unheard_ns; /* its node did not answer: so long before the question it was looked at last; not in the file */
    bool late;      /* MPI ran before its calls were watched: how many there were is not known; not
                                           in the file */
    uint64_t polls_untimed;             /* calls that came too fast to be timed one by one: their times are estimated */
    uint64_t receives_freed;            /* given up by MPI_Request_free: what they got is in no number */
    bool unrecorded;                    /* its last calls are not in its trace: recording was not, or no more, on */
    bool open_added;                    /* its rows and sites have what its threads are in; not in the file */
    struct mpi_stats_end end;           /* likewise */
    struct mpi_stats_row *rows, *spans; /* calls that occurred, summed over threads */
    size_t row_count, span_count;
    struct mpi_stats_site *sites;
    size_t site_count;
    struct mpi_stats_peer *peers;
    size_t peer_count;
    struct mpi_stats_comm *comms;
    size_t comm_count;
    struct mpi_stats_request *requests;
    size_t request_count;
    struct mpi_stats_thread *threads;
    size_t thread_count;
    bool looked;                    /* its threads were inspected when this was taken (jobdir/mpi/look.h) */
    const struct thread_seen *seen; /* then: all of them but those of the MPI library; */
    size_t seen_count;              /* 0: that was not possible */
    struct mpi_stats_distribution *distributions;
    size_t distribution_count;
};

/* Reads an area of MPIA_AREA_SIZE bytes that its process may be writing to: each part is consistent in itself. All
 * memory from `arena`. `now_ticks`: of the moment; of a process that has ended, its last; 0: not known, then the last
 * time that stands in the area. Times that are open at that moment (what a thread is in, or computes since) count.
 * node, exe, running and taken_wall_ns are the caller's to set. 0, -EBADMSG (no such area), -ENOMEM.
 */
int mpi_stats_take(struct mpi_stats *ret_stats, const void *area, uint64_t now_ticks, struct arena *arena);
/* The same, but only what it is in: who it is, its threads with their clocks, and its communicators without their
 * ranks. Costs so little that it may be asked all the time. */
int mpi_stats_take_now(struct mpi_stats *ret_stats, const void *area, uint64_t now_ticks, struct arena *arena);
/* Writes the files below `dir` (stats/NODE of a job directory; made if need be), those of the distributions only if
 * there are any in `stats`. 0 or -errno, with err: what was there before is still there, then. */
int mpi_stats_write(const struct mpi_stats *stats, const char *dir, uint32_t incarnation, struct err *err);
/* The JSON alone. */
void mpi_stats_print(const struct mpi_stats *stats, struct buf *out);

/* Of all processes of a job directory and its parts, by (namespace, rank, pid), without their distributions. Unreadable files are
 * named in err by their first, the others are read: returns how many were unreadable, or -errno (-ENOENT: it has no
 * such files). */
struct mpi_stats_set {
    struct mpi_stats *ranks;
    size_t count, room;
    struct arena *arena; /* owns all of it */
};
int mpi_stats_read(struct mpi_stats_set *ret_set, const char *jobdir, struct err *err);
/* Room for one more, behind the last one; the caller fills it and adds 1 to `count`. NULL: no memory. An empty set
 * ({0}) gets its arena. */
struct mpi_stats *mpi_stats_set_next(struct mpi_stats_set *set);
const char *mpi_stats_set_text(struct mpi_stats_set *set, const char *text); /* a copy; NULL: no memory */
void mpi_stats_set_sort(struct mpi_stats_set *set);                          /* by (namespace, rank, pid) */
/* Of a sorted one: programs all of whose ranks have ended are no part of it while others run. */
void mpi_stats_set_forget_ended(struct mpi_stats_set *set);
void mpi_stats_set_done(struct mpi_stats_set *set);

/* One process from the bytes of its file. 0, -EBADMSG or -ENOMEM with err. */
int mpi_stats_parse(struct mpi_stats *ret_stats, const char *json, size_t size, struct arena *arena, struct err *err);
/* One distribution from the bytes of its file. Likewise. */
int mpi_stats_parse_distribution(struct mpi_stats_distribution *ret_distribution, const char *text, size_t size,
                                 struct arena *arena, struct err *err);
/* Adds to the statistics of a process, by its name, the distributions that stand beside them. Returns how many files
 * were unreadable, the first named in err, or -errno. */
int mpi_stats_read_distributions(struct mpi_stats *stats, const char *jobdir, struct arena *arena, struct err *err);

/*
 * Who sent how many messages and bytes to whom: the user's messages and one-sided operations, from both sides. The
 * counts of the sender and of the receiver are kept apart: they differ by what was never received, and by what is not
 * known of ranks without statistics.
 */

struct mpi_matrix_cell {
    uint32_t world;
    int32_t from, to;                                      /* world ranks, or MPIA_RANK_FOREIGN */
    uint64_t sent_count, sent_bytes, got_count, got_bytes; /* as the sender, as the receiver counted */
    uint64_t put_count, put_bytes; /* one-sided, by caller: `from` called, whichever way the bytes went */
    bool got_least; /* `to` got more: some of its operations found no room (mpi_stats.requests_omitted) */
};

struct mpi_matrix {
    struct mpi_matrix_cell *cells; /* those that are not empty, by world, from, to */
    size_t count;
    uint64_t messages, bytes, got_messages, got_bytes;
    uint64_t freed;   /* receives given up by MPI_Request_free: each may have got a message that nobody counted, */
    uint64_t omitted; /* as operations that found no room */
};

/* 0 or -ENOMEM. */
int mpi_matrix_make(struct mpi_matrix *ret_matrix, const struct mpi_stats_set *set, const uint32_t *world_of,
                    struct arena *arena);

/* Few ranks: a table; many: a picture of blocks of ranks, and the pairs with the most bytes. */
void mpi_matrix_text(struct buf *out, const struct mpi_matrix *matrix, uint32_t worlds);

#endif
