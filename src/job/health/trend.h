/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast something is used up, and when it will be. Keeps a few points, of up to two minutes. Pure.
 */
#ifndef SCRY_JOB_HEALTH_TREND_H
#define SCRY_JOB_HEALTH_TREND_H

#include <stddef.h>
#include <stdint.h>

enum { TREND_POINTS = 16 };

struct trend {
    double left; /* now */
    size_t count;
    uint64_t every_ns; /* between two points */
    struct trend_point {
        uint64_t time_ns;
        double left;
    } points[TREND_POINTS];
};

/* What is left now. */
void trend_add(struct trend *trend, uint64_t now_ns, double left);
/* In how many seconds nothing is left, at the rate of all points. -1: it does not shrink all the time, or it is too
 * early to say. */
double trend_left_seconds(const struct trend *trend);

#endif
