/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_ANALYSIS_WHY_H
#define SCRY_JOBDIR_ANALYSIS_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"

/*
 * Why the ranks of an MPI job do not move, from what each rank's statistics say it is in: the wait-for graph, and what
 * follows from it. Nothing is stopped or asked for: pure, and safe on any numbers that a damaged area may hold.
 *
 * The graph is an AND-OR graph (E. Knapp, "Deadlock detection in distributed databases", ACM Computing Surveys 19,
 * 1987): a rank waits for conditions, all of which must come true; a condition comes true when any one of its ranks
 * acts (a receive from MPI_ANY_SOURCE: any of the communicator; MPI_Waitany: any of its peers). Ranks that compute may
 * act; what may act then, may act, too; those that are left are stuck for good. A rank of several threads may act if
 * one of them may: with MPI_THREAD_MULTIPLE any that lives, also one that has not called MPI yet, unless it waits for
 * others of its process (jobdir/mpi/thread_wait.h). The statistics of ranks are not of one moment, so only calls that
 * have lasted longer than `settled_ns` count as waiting: ranks that wait through that time wait at the same moment.
 *
 * A thread that polls (jobdir/analysis/messages.h) may do something else between its polls, so it is never stuck. What it
 * polls for are weak edges: a second round finds the ranks that could not act if it did nothing but poll, and reports
 * them as just that.
 *
 * Two communicators of different ranks are the same if their kind, ordinal and lowest world rank are, and their parents
 * are the same by this rule, too.
 */

enum { MPI_WHY_SETTLED_NS = 200000000, MPI_WHY_NONE = UINT32_MAX };

enum mpi_why_state {
    MPI_WHY_COMPUTES,
    MPI_WHY_MOVES, /* in a call, but not for long, or one that waits for nobody */
    MPI_WHY_POLLS, /* asks again and again, and nothing comes of it; conditions say for whom */
    MPI_WHY_WAITS, /* conditions say for whom; none: not known (one-sided synchronisation, dynamic processes) */
    MPI_WHY_IO,
    MPI_WHY_STOPPED, /* by a signal or a debugger, wherever it is */
    MPI_WHY_STARTS,  /* MPI_Init has not returned, or not been called */
    MPI_WHY_ENDED,   /* MPI_Finalize returned, or the process ended after it was entered */
    MPI_WHY_DIED,    /* the process ended without MPI_Finalize */
    MPI_WHY_BLOCKED, /* outside of MPI, by threads of its process that cannot go on (or by itself) */
};

enum mpi_why_reason {
    MPI_WHY_FOR_SEND,       /* receives: for the peer to send */
    MPI_WHY_FOR_RECEIVE,    /* sends: for the peer to receive */
    MPI_WHY_FOR_COLLECTIVE, /* for a rank that has not entered it */
    MPI_WHY_FOR_TARGET,     /* one-sided: for the holder of a lock on the window, or for the target */
    MPI_WHY_FOR_FINALIZE,   /* for a rank to enter MPI_Finalize (MPI_Init: to start) */
    MPI_WHY_FOR_POST,       /* one-sided epochs: for a target to call MPI_Win_post */
    MPI_WHY_FOR_COMPLETE,   /* one-sided epochs: for an origin to call MPI_Win_complete */
};

struct mpi_why_condition {
    enum mpi_why_reason reason;
    bool maybe;    /* may have come true already: one of several requests, or a send that is perhaps buffered */
    bool unlikely; /* maybe, and rather another one is what it waits for: more has been sent to it than for that one */
    bool all;      /* all of for_ranks are needed (collectives); else any of them would do */
    const uint32_t *for_ranks; /* indices into mpi_why.ranks; may be shared with other conditions */
    uint32_t for_count;        /* 0: no rank could */
    int32_t peer, tag;         /* world rank or MPIA_RANK_...; MPIA_TAG_... */
    uint32_t call, comm;       /* of the operation; index in the rank's comms, MPI_WHY_NONE */
    uint64_t unmatched;        /* receives: messages that these ranks sent to it on this communicator, not received
                                  yet */
    uint64_t elsewhere; /* receives from one rank: the same on another communicator, if there are none on this one, */
    uint32_t elsewhere_comm; /* which is this one of its comms */
};

struct mpi_why_thread {
    const struct mpi_stats_thread *thread; /* borrowed */
    enum mpi_why_state state;
    bool stuck;
    bool any; /* one of the conditions is enough */
    const struct mpi_why_condition *conditions;
    size_t condition_count;
};

struct mpi_why_actor {              /* a thread that may do something for its rank */
    struct mpi_why_thread *thread;  /* NULL: has not called MPI */
    const struct thread_seen *seen; /* NULL: was not inspected */
    bool free;                      /* may go on */
    const char *where; /* for the caller to set, of those in the circle, or asleep: what it waits for, and from where */
};

struct mpi_why_rank {
    const struct mpi_stats *stats; /* borrowed */
    enum mpi_why_state state;      /* of its thread `shown` */
    bool stuck;                    /* cannot move any more, whatever the others do */
    bool asleep;                   /* all of its threads wait for each other, or for what only one of them could give
                                      (a semaphore, a condition): only a signal's handler could wake one */
    bool in_vain;                  /* waits or polls, and could not move if those that poll did nothing else */
    const struct mpi_why_thread *threads;
    size_t thread_count, shown; /* shown: the rank's own (MPI_Init) thread, unless only another one waits */
    struct mpi_why_actor *actors;
    size_t actor_count;
    const size_t *circle; /* of its actors, those that wait for each other's mutexes or ends, in order */
    size_t circle_count;
    uint32_t root;      /* index of the rank that it waits for in the end, through any number of others; MPI_WHY_NONE */
    const char *where;  /* for the caller to set before the texts are made: "in do_force (stommel.c:210)"; NULL */
    const char *python; /* for the caller to set: where the Python program called that; NULL */
    bool blocked;       /* set with it: `where` says what it is blocked in, outside of MPI: "sleeps" */
};

enum mpi_why_kind {                    /* gravest first */
                    MPI_WHY_MISMATCH,  /* one collective, different calls or roots */
                    MPI_WHY_DEADLOCK,  /* ranks wait for each other in a circle (a knot), or threads of one */
                    MPI_WHY_DEAD_PEER, /* ranks wait for ranks that died */
                    MPI_WHY_UNMATCHED, /* a receive that nothing can match: the peer ended, or what it sent has another
                                          tag */
                    MPI_WHY_POLLS_IN_VAIN, /* the same as the two above, if those that poll did nothing else */
                    MPI_WHY_STRAGGLER,     /* ranks wait for ranks that compute, or do I/O */
                    MPI_WHY_DIED_RANK,     /* died, and no rank waits for it (yet) */
};

struct mpi_why_finding {
    enum mpi_why_kind kind;
    const uint32_t *ranks; /* the circle in order; the ranks that disagree; those that are waited for */
    size_t rank_count;
    const uint32_t *victims; /* those that wait for these, directly or through others */
    size_t victim_count;
    const char *text; /* one line for people, without the calls of the single ranks */
};

struct mpi_why {
    struct mpi_why_rank *ranks; /* in the order of the set */
    size_t count;
    size_t computing, waiting, polling, stuck; /* how many */
    size_t unheard;                   /* of nodes that do not answer: in none of these, unless stuck since before */
    uint64_t still_ns;                /* for so long no rank has begun or ended a call; 0: some move */
    struct mpi_why_finding *findings; /* gravest first */
    size_t finding_count;
};

struct mpi_why_options {
    uint64_t settled_ns; /* 0: MPI_WHY_SETTLED_NS */
    uint64_t
        came_ns; /* a receive that has waited for so long has looked at each message that lies there, though nobody has seen it
                            look; 0: some times settled_ns */
    uint64_t apart_ns; /* how far the times of two ranks may be off each other (mpi_why_align) */
};

/* Borrows `set`, which must outlive the result; all memory from `arena`. 0 or -ENOMEM. */
int mpi_why_find(struct mpi_why *ret_why, const struct mpi_stats_set *set, const struct mpi_why_options *options,
                 struct arena *arena);

/* Did the ranks wait for each other when they were ended from outside, or when the job ended and left them? Those are looked at as if
 * they lived, in what they were in then, and only what had lasted some seconds counts: then they waited at the same time. false: none
 * was stuck or asked in vain, nor did they wait for one that was late, one ended by itself, or not all ends are known. As mpi_why_find else; the set is in its order. */
bool mpi_why_find_at_end(struct mpi_why *ret_why, const struct mpi_stats_set *set, struct arena *arena);

/* Of ranks that their launcher killed together, index of the one that may have failed before: it was in a call of MPI in which it waited
 * for no other one, as where the library has found an error, and others waited for it. MPI_WHY_NONE: that is not known. */
uint32_t mpi_why_failed_at_end(struct mpi_why *ret_why, const struct mpi_stats_set *set, struct arena *arena);

/* That ranks wait for one that is outside of MPI, and none has begun or ended a call for as long as counts as a stall; NULL: it is not
 * so. */
const struct mpi_why_finding *mpi_why_late(const struct mpi_why *why);
/* The same for some seconds: many programs do that, so it explains nothing by itself. */
const struct mpi_why_finding *mpi_why_waited(const struct mpi_why *why);

/* That ranks wait for each other, of which some poll: those may have done something else meanwhile. */
bool mpi_why_asked(const struct mpi_why *why);

/* How long one that is stuck has waited in MPI_Finalize, the longest, while others do not come there; 0: none has, or all have come. */
uint64_t mpi_why_finalizing_ns(const struct mpi_why *why);

/* Says again in the findings what those do that others wait for, after the caller has set `where` and `blocked`. */
void mpi_why_found_where(struct mpi_why *why, struct arena *arena);

const char *mpi_why_reason_name(enum mpi_why_reason reason); /* "send", "collective", ... */
const char *mpi_why_state_name(enum mpi_why_state state);    /* "computes", "waits", ... */
const char *mpi_why_kind_name(enum mpi_why_kind kind);       /* "deadlock", "straggler", ... */

/* What has stopped a thread: a tool, or "a signal or a debugger". */
const char *mpi_why_stopper(const struct mpi_why_thread *thread);
/* It waits or polls, and had no processor between the two inspections (jobdir/mpi/look.h): nothing follows from that.
 */
bool mpi_why_is_starved(const struct mpi_why_thread *thread);
/* It may have threads that MPI does not know, and could not be inspected: they may act, or not. */
bool mpi_why_is_unseen(const struct mpi_why_rank *rank);
/* Something never goes on: a rank, or threads of one. */
bool mpi_why_is_stuck(const struct mpi_why *why);
/* What a thread is in, or polls with. */
const struct mpi_stats_now *mpi_why_call_of(const struct mpi_why_thread *thread);
/* Since when; of one that polls: for how long nothing came of it. */
uint64_t mpi_why_age_of(const struct mpi_why_thread *thread);
/* "MPI_Recv from rank 1, tag 7, on MPI_COMM_WORLD": what a thread is in, without since when and where. */
void mpi_why_call_text(struct buf *out, const struct mpi_why *why, const struct mpi_why_rank *rank,
                       const struct mpi_why_thread *thread);
/* What one waits for that is outside of MPI. It has been seen. */
void mpi_why_actor_text(struct buf *out, const struct mpi_why_actor *actor);
/* The findings with the calls that make them, then a line for each other rank (alike ones together). */
void mpi_why_text(struct buf *out, const struct mpi_why *why);
/* The line of it that says most, without its end: the first finding, or how many wait. */
void mpi_why_line(struct buf *out, const struct mpi_why *why);
/* The same as the reason of an end: with the calls of a circle, and where they are. */
void mpi_why_reason(struct buf *out, const struct mpi_why *why);
/* "MPI_Recv at exchange (recv.c:2)"; nothing of one that is in no call. */
void mpi_why_call_at(struct buf *out, const struct mpi_why_rank *rank);

/*
 * The records of several nodes' monitors as one: each monitor has looked at its own ranks, at its own moment,
 * by its own clock. The wait-for graph joins them by communicators and ranks. What is left is time: ranks wait at the
 * same moment only if their calls have lasted longer than what lies between the looks. So the times are taken to one
 * clock, by what is known of the offsets, and what that may be off counts as distance. A node's record may then be of
 * any age: a rank that has waited since before it, on both sides, still closes a circle. Pure.
 */

struct mpi_why_part {
    const char *dir;   /* as mpi_stats.dir has it */
    const char *node;  /* for people */
    int64_t offset_ns; /* its clock minus the reader's */
    uint64_t bound_ns; /* so far that may be off */
};

/* Takes the times of the ranks of each part to the reader's clock, and sets mpi_stats.unheard_ns of those that were looked at
 * before `since_ns`, if they were `asked` then; else only the note says how old that is. Returns how far the times of two ranks
 * may be off each other (for mpi_why_options). Appends to `note`, for people: parts of which no rank is known, those that were
 * looked at before `since_ns` (on the reader's clock; 0: any time is good), and ranks that nobody has told of; nothing
 * if there are none. */
uint64_t mpi_why_align(struct mpi_stats_set *set, const struct mpi_why_part *parts, size_t count, uint64_t since_ns,
                       bool asked, struct buf *note);

/*
 * Threads that poll: between two readings of the statistics they called MPI_Test, MPI_Iprobe or similar calls again and
 * again. Nothing completed, and they called nothing else that makes progress. Such a thread waits for what these calls
 * ask for. But it may do other things at any moment, so it never counts as stuck for that.
 */

/* Into polls, polls_ns, polls_per_second and last of the threads of `set`; `before`: the same job, a little earlier. */
void mpi_polls_find(struct mpi_stats_set *set, const struct mpi_stats_set *before);

#endif
