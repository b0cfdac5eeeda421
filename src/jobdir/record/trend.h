/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_RECORD_TREND_H
#define SCRY_JOBDIR_RECORD_TREND_H

#include <stddef.h>
#include <stdint.h>

/*
 * How fast something is used up, or grows, and when it will have come to an end. Keeps a few points, of up to two minutes. Pure.
 */

enum { TREND_POINTS = 16 };

struct trend {
    double value; /* now */
    size_t count;
    uint64_t every_ns; /* between two points */
    struct trend_point {
        uint64_t time_ns;
        double value;
    } points[TREND_POINTS];
};

/* What is left, or used, now. */
void trend_add(struct trend *trend, uint64_t now_ns, double value);
/* Of what is left: in how many seconds it is nothing, at the rate of all points. -1: it does not shrink all the time, or it is too
 * early to say. */
double trend_left_seconds(const struct trend *trend);
/* By how much it grows a second, and has done so evenly for *ret_seconds. 0: it does not, or by little, or it is too early to say. */
double trend_growth(const struct trend *trend, double *ret_seconds);

#endif
