/* SPDX-License-Identifier: Apache-2.0 */
/* How far a job is, and when it will be done at the rate of the last minutes. Pure; the caller has the clock. */
#ifndef SCRY_JOB_LOGS_PROGRESS_H
#define SCRY_JOB_LOGS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_POINTS = 32 };

/* Zeroed: nothing is known. */
struct progress {
    double done, total;
    uint64_t now_ns, said_ns;
    bool said, wants; /* since it was said, something has changed */
    struct progress_point {
        uint64_t at_ns;
        double done;
    } points[PROGRESS_POINTS]; /* a ring, PROGRESS_APART_SECONDS apart: the recent past */
    unsigned first, count;
};

void progress_take(struct progress *progress, uint64_t now_ns, double done, double total);
/* Whether it is to be said now: at most once a second; `end`: in any case if something changed. */
bool progress_due(struct progress *progress, uint64_t now_ns, bool end);
/* Seconds from the last look on; -1: unknown. */
double progress_left_seconds(const struct progress *progress);

#endif
