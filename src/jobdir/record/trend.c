/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/trend.h"

#include <stdbool.h>

#include "base/system/clock.h"
#include "shm/waits.h"

/* Room for more: half of the points twice as far apart, or without the oldest. */
static void thin_out(struct trend *trend)
{
    if (trend->every_ns >= TREND_MOST_NS) {
        for (size_t i = 1; i < trend->count; i++)
            trend->points[i - 1] = trend->points[i];
        trend->count--;
        return;
    }
    for (size_t i = 0; i < TREND_POINTS / 2; i++)
        trend->points[i] = trend->points[2 * i];
    trend->count = TREND_POINTS / 2;
    trend->every_ns *= 2;
}

void trend_add(struct trend *trend, uint64_t now_ns, double value)
{
    trend->value = value;
    if (!trend->every_ns)
        trend->every_ns = TREND_FIRST_NS;
    if (trend->count && now_ns < trend->points[trend->count - 1].time_ns + trend->every_ns)
        return;
    if (trend->count == TREND_POINTS)
        thin_out(trend);
    trend->points[trend->count++] = (struct trend_point){now_ns, value};
}

/* A second. */
static double growth_between(const struct trend_point *from, const struct trend_point *to)
{
    return (to->value - from->value) / ((double)(to->time_ns - from->time_ns) / NS_PER_SECOND);
}

double trend_left_seconds(const struct trend *trend)
{
    if (trend->count < 4)
        return -1;
    const struct trend_point *first = trend->points, *last = first + trend->count - 1,
                             *middle = first + trend->count / 2;
    if (last->time_ns - first->time_ns < TREND_SPAN_NS)
        return -1;
    if (growth_between(first, middle) >= 0 || growth_between(middle, last) >= 0)
        return -1;
    return trend->value / -growth_between(first, last);
}

/* Each point is above the one before, and neither half grows more than twice as fast as the other. */
static bool grows_evenly(const struct trend_point *first, const struct trend_point *last)
{
    const struct trend_point *middle = first + (last - first) / 2;
    for (const struct trend_point *point = first; point < last; point++)
        if (point[1].value <= point->value)
            return false;
    double one = growth_between(first, middle), other = growth_between(middle, last);
    return one <= 2 * other && other <= 2 * one;
}

double trend_growth(const struct trend *trend, double *ret_seconds)
{
    static const double LEAST_SHARE = 0.1; /* of what it is now */
    enum { LEAST_POINTS = 5 };
    if (trend->count && trend->value < trend->points[trend->count - 1].value)
        return 0;
    for (size_t i = 0; i + LEAST_POINTS <= trend->count; i++) {
        const struct trend_point *first = &trend->points[i], *last = &trend->points[trend->count - 1];
        if (last->time_ns - first->time_ns < GROWTH_SPAN_NS || last->value - first->value < LEAST_SHARE * last->value)
            return 0;
        if (!grows_evenly(first, last))
            continue;
        *ret_seconds = (double)(last->time_ns - first->time_ns) / NS_PER_SECOND;
        return growth_between(first, last);
    }
    return 0;
}
