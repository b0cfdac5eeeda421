/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/progress.h"

#include "base/system/clock.h"
#include "shm/waits.h"

static struct progress_point *point(struct progress *progress, unsigned index)
{
    return &progress->points[(progress->first + index) % PROGRESS_POINTS];
}

void progress_take(struct progress *progress, uint64_t now_ns, double done, double total)
{
    if (done < progress->done || total != progress->total) /* something else has begun */
        progress->count = 0;
    progress->wants |= !progress->count || done != progress->done;
    progress->done = done;
    progress->total = total;
    progress->now_ns = now_ns;
    if (progress->count &&
        now_ns < point(progress, progress->count - 1)->at_ns + PROGRESS_APART_SECONDS * (uint64_t)NS_PER_SECOND)
        return;
    if (progress->count == PROGRESS_POINTS)
        progress->first++;
    else
        progress->count++;
    *point(progress, progress->count - 1) = (struct progress_point){now_ns, done};
}

bool progress_due(struct progress *progress, uint64_t now_ns, bool end)
{
    if (!progress->wants || (!end && progress->said && now_ns < progress->said_ns + NS_PER_SECOND))
        return false;
    progress->wants = false;
    progress->said = true;
    progress->said_ns = now_ns;
    return true;
}

double progress_left_seconds(const struct progress *progress)
{
    if (!progress->count)
        return -1;
    const struct progress_point *old = &progress->points[progress->first % PROGRESS_POINTS];
    double passed = (double)(progress->now_ns - old->at_ns) / NS_PER_SECOND, rose = progress->done - old->done;
    if (progress->done >= progress->total)
        return 0;
    return passed > 0 && rose > 0 ? (progress->total - progress->done) * passed / rose : -1;
}
