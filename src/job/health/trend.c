/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/trend.h"

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

void trend_add(struct trend *trend, uint64_t now_ns, double left)
{
    trend->left = left;
    if (!trend->every_ns)
        trend->every_ns = TREND_FIRST_NS;
    if (trend->count && now_ns < trend->points[trend->count - 1].time_ns + trend->every_ns)
        return;
    if (trend->count == TREND_POINTS)
        thin_out(trend);
    trend->points[trend->count++] = (struct trend_point){now_ns, left};
}

/* A second; negative: it grows. */
static double rate(const struct trend_point *from, const struct trend_point *to)
{
    return (from->left - to->left) / ((double)(to->time_ns - from->time_ns) / NS_PER_SECOND);
}

double trend_left_seconds(const struct trend *trend)
{
    if (trend->count < 4)
        return -1;
    const struct trend_point *first = trend->points, *last = first + trend->count - 1,
                             *middle = first + trend->count / 2;
    if (last->time_ns - first->time_ns < TREND_SPAN_NS)
        return -1;
    if (rate(first, middle) <= 0 || rate(middle, last) <= 0)
        return -1;
    return trend->left / rate(first, last);
}
