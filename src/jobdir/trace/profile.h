/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: calls, total, self, min and max time of each function, and who called it how often, from entries and exits
 * as they come. Fed by the monitor with live records and by reports with a trace (jobdir/trace/trace.h). Memory is
 * bounded: at most `limit` functions, edges and threads of each kind, then they are counted under "(others)".
 *
 * Times are ticks. Of recursive functions the total counts only outermost calls, so no total exceeds the run time.
 * Calls are counted in a tree of paths by thread; a call of a function that is already open goes on where that was
 * entered, so recursion makes no deeper tree.
 */
#ifndef SCRY_JOBDIR_TRACE_PROFILE_H
#define SCRY_JOBDIR_TRACE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

enum { PROFILE_OTHERS = UINT32_MAX - 1, PROFILE_ROOT = UINT32_MAX };
enum { PROFILE_LIMIT = 1 << 17 };

struct profile;

/* Ticks that a thread did not have a processor: because it waited, because others had it, and why is not known. */
struct profile_spent {
    uint64_t waiting, preempted, unknown;
};

struct profile_row {
    uint32_t function;                     /* id; PROFILE_OTHERS */
    uint64_t calls, total, self, min, max; /* of calls that ended; calls also counts open ones */
    uint64_t unwound, open;
    uint64_t sum; /* of the times of all calls that ended, those inside a call of the same function, too */
    struct profile_spent total_spent, self_spent; /* of the times; of calls that ended. See profile_spent_now */
};
struct profile_edge {
    uint32_t caller, function; /* caller PROFILE_ROOT: none recorded */
    uint64_t calls, total;
};

int profile_new(struct profile **ret_profile, size_t limit); /* 0 or -ENOMEM; a limit of 0 is PROFILE_LIMIT */
void profile_free(struct profile *profile);

/* `thread` and `stack` name a stack of calls. Events that do not fit (an exit without entry) are ignored. */
void profile_enter(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t function, uint64_t time);
void profile_leave(struct profile *profile, uint32_t thread, uint32_t stack, uint64_t time);
/* What the thread of the event that is fed next had spent until then. Before each event, from the first one on; or of
 * none. */
void profile_spent_now(struct profile *profile, const struct profile_spent *until_now);
void profile_unwind(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t count, uint64_t time);
/* So many innermost calls returned, but when is not known: counted, not timed. */
void profile_lost(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t count);
/* The end of a call that names its entry (RECORD_EXIT_OF): ends that call, those left open inside it count as lost; a
 * call whose entry was never seen is counted as a whole. */
void profile_leave_of(struct profile *profile, uint32_t thread, uint32_t stack, uint32_t function, uint64_t entry_time,
                      uint64_t time);
void profile_thread_ended(struct profile *profile, uint32_t thread, uint64_t time);

/* Rows over all threads, by self time, largest first; malloc'ed. Open calls count until `now` (0: not at all). */
int profile_rows(const struct profile *profile, uint64_t now, struct profile_row **ret_rows, size_t *ret_count);
int profile_edges(const struct profile *profile, struct profile_edge **ret_edges, size_t *ret_count);
/* Of one thread. */
int profile_thread_rows(const struct profile *profile, uint32_t thread, uint64_t now, struct profile_row **ret_rows,
                        size_t *ret_count);

/* The call tree so far, by paths: preorder with depth, siblings by total, largest first. Merged over threads; open
 * calls count until the last event of their thread (so in the edges). */
struct profile_node {
    uint32_t depth, function;
    uint64_t calls, total;
};
int profile_tree(const struct profile *profile, struct profile_node **ret_nodes, size_t *ret_count);

#endif
