/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a job that runs on several nodes: each other node's is a job directory of its own,
 * JOB/parts/NAME, where NAME is the node's, with a number behind it if there is more than one. Whoever reads files of a
 * job reads those of its parts as well, and finds them here. A part has no parts; only where it was made, on a node that does
 * not see the job directory, the first part has in `parts` those that other launchers made there.
 *
 * A part that was brought here over the network is a mirror (jobdir/record/mirror.h). Beside it may be clock.json:
 * {"offset_ns": the node's wall clock minus that of the job's, "bound_ns": so far that may be off, "at_ns": when that
 * was}. Whoever reads that adds what clocks may drift until the time in question.
 */
#ifndef SCRY_JOBDIR_RECORD_PARTS_H
#define SCRY_JOBDIR_RECORD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

enum { PARTS_MOST = 100000 };
#define PARTS_HOSTS ".hosts"         /* in parts/: the nodes that launchers went to, as they named them, one a line */
#define PARTS_UNWATCHED ".unwatched" /* in parts/: those that nothing comes from, each a line: name, tab, why */
#define PARTS_OPTIONS \
    ".options"                  /* in parts/: what scry set has changed, a line --KEY=VALUE each; the last one counts */
#define PART_BROUGHT ".brought" /* in a part's directory: all of it is where the job is */
#define JOB_HOME "home" /* setting of a part in the monitor: the directory of its job, which programs may name */

/* Calls `fn` with the job directory, and then with each of its parts in the order of their names, until it returns
 * another value than 0, which is returned. -ENOMEM. */
int job_dirs_each(const char *jobdir, int (*fn)(void *ctx, const char *dir), void *ctx);

/* Makes the directory of this node's part in that of the job, which is seen here. 0 or -errno with err. */
int job_part_make(const char *jobdir, const char *host, char *ret_path, size_t size, struct err *err);

/* Whether there is a part of this host, which may be named with a user and its domain. */
bool job_has_part_of(const char *jobdir, const char *name);

/* It is being brought here, and not all of it is: it is worth to wait for it. */
bool job_part_comes(const char *part);

struct part_clock {
    int64_t offset_ns; /* 0: not known, or the clocks agree */
    uint64_t bound_ns, at_ns;
};
/* false: it is not known. */
bool job_part_clock(const char *part, struct part_clock *ret_clock);
/* How far the offset may be off at another moment, by the job's clock. */
uint64_t job_part_clock_bound(const struct part_clock *clock, uint64_t at_ns);
int job_part_set_clock(const char *part, const struct part_clock *clock);

#endif
