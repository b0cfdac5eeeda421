/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of several nodes' monitors as one, for why.h: each monitor has looked at its own ranks, at its own moment,
 * by its own clock. The wait-for graph joins them by communicators and ranks. What is left is time: ranks wait at the
 * same moment only if their calls have lasted longer than what lies between the looks. So the times are taken to one
 * clock, by what is known of the offsets, and what that may be off counts as distance. A node's record may then be of
 * any age: a rank that has waited since before it, on both sides, still closes a circle. Pure.
 */
#ifndef SCRY_JOBDIR_ANALYSIS_WHY_ALIGN_H
#define SCRY_JOBDIR_ANALYSIS_WHY_ALIGN_H

#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"

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

#endif
