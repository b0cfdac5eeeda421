/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a profile is kept. One struct profile_thread a thread: a row a function, a node a path, both in arrays that grow,
 * with a hash of indexes over each. A record touches its stack's frame, one node and one row. What is asked for
 * (functions, edges, the tree over all threads) is made from the rows and nodes when it is asked for.
 */
#ifndef SCRY_JOBDIR_TRACE_PROFILE_INTERNAL_H
#define SCRY_JOBDIR_TRACE_PROFILE_INTERNAL_H

#include <stdbool.h>

#include <uthash.h>

#include "jobdir/trace/profile.h"

enum {
    PROFILE_DEPTH = 1 << 20,  /* calls inside each other on one stack; deeper ones are only paired */
    PROFILE_FRAMES = 4 << 20, /* on all stacks together */
    PROFILE_SHARE = 4,        /* all threads together may have so many times `limit` rows and nodes */
};

#define PROFILE_FLAT UINT32_C(0x80000000)     /* see profile_node_of */
#define PROFILE_ROOT_ROW UINT32_C(0x7fffffff) /* of what is around the outermost calls */

struct row { /* a cache line */
    uint32_t function;
    uint32_t active; /* open calls in this thread */
    uint64_t calls, total, self, min, max, unwound, sum;
};

/* What stands beside rows and frames where it is known when threads had a processor. */
struct row_spent {
    struct profile_spent total, self;
};
struct frame_spent {
    struct profile_spent begin, inner, row_total; /* as time, inner and row_total of the frame */
};

struct node {
    uint32_t function;
    uint32_t parent;  /* index; for those beyond the limit PROFILE_FLAT | row of the caller */
    uint32_t context; /* under which node its callees are: itself, or where its function was entered first */
    uint32_t row;
    uint32_t last;   /* callee found last */
    uint32_t active; /* open calls */
    uint64_t calls, total;
};

struct frame {
    uint32_t node, row;
    uint64_t time, inner;           /* inner: in calls that ended */
    uint64_t row_total, node_total; /* of its row and node when it began: what came since is in its own time */
};

struct index {
    uint32_t *slots; /* index + 1; 0: free */
    size_t mask;     /* size - 1 */
};

struct profile_thread {
    uint32_t number;
    bool ended;
    struct row *rows;        /* 0: the others */
    struct row_spent *spent; /* of the rows; NULL: it is not known */
    struct node *nodes;      /* 0: the root; 1: calls that found no place of their own */
    size_t row_count, row_room, node_count, node_room;
    size_t flat_count; /* of the nodes, those that are edges */
    struct index by_function, by_path;
    uint64_t latest;
    struct stack *stacks;
    UT_hash_handle hh;
};

struct stack {
    uint64_t key; /* thread << 32 | stack */
    struct profile_thread *thread;
    struct frame *frames;      /* 0: what is around the outermost call */
    struct frame_spent *spent; /* of the frames; NULL */
    size_t depth, room;        /* depth counts frame 0 */
    uint64_t beyond;           /* calls deeper than there is room for, open now */
    struct stack *next;        /* of the thread */
    UT_hash_handle hh;
};

struct profile {
    size_t limit;
    size_t rows, nodes, frames, stacks_count; /* over all threads */
    struct profile_thread *threads;           /* hash by number */
    struct stack *stacks;                     /* hash by key */
    struct stack *last;                       /* used last */
    struct profile_thread *others;            /* threads beyond the limit, and ended ones that had to make room */
    bool spends;
    struct profile_spent now; /* of the thread whose event comes */
};

static inline uint32_t profile_hash(uint32_t a, uint32_t b)
{
    return (uint32_t)(((uint64_t)a << 32 ^ b) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static inline uint64_t profile_span(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

/* Row and node to count a call in; made if there is room, else the others' ones. `caller_row` is that of the frame
 * around. */
uint32_t profile_row_of(struct profile *profile, struct profile_thread *thread, uint32_t function);
uint32_t profile_node_of(struct profile *profile, struct profile_thread *thread, uint32_t context, uint32_t caller_row,
                         uint32_t row);

static inline void profile_spent_add(struct profile_spent *to, const struct profile_spent *more)
{
    to->waiting += more->waiting;
    to->preempted += more->preempted;
    to->unknown += more->unknown;
}

/* A new thread's rows and nodes. NULL: no memory. */
struct profile_thread *profile_thread_new(struct profile *profile, uint32_t number);
void profile_thread_free(struct profile *profile, struct profile_thread *thread);
/* Counts a thread's rows and nodes in `profile->others`, too, so that it can be freed. */
void profile_thread_merge(struct profile *profile, const struct profile_thread *from);

#endif
