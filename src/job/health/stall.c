/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/stall.h"

#include "base/system/clock.h"
#include "shm/waits.h"

/* Programs that only wait for something wake up now and then: that is no work. */
#define IDLE_SHARE 0.005

static const char *what_moved(const struct stall *stall, const struct look *look, const struct process_motion *motion,
                              int64_t output_bytes)
{
    double passed_ns = (double)(look->now_ns - stall->moved_ns);
    double worked_ns = (double)(motion->cpu_ns - stall->seen.cpu_ns);
    if (motion->changes != stall->seen.changes)
        return "began, executed or ended";
    if (output_bytes != stall->output_bytes)
        return "wrote output";
    if (motion->bytes != stall->seen.bytes)
        return "read or wrote";
    if (worked_ns > (double)STALL_IDLE_NS && worked_ns > IDLE_SHARE * passed_ns)
        return "computed";
    return NULL;
}

void stall_look(struct stall *stall, const struct look *look, const struct process_motion *motion, int64_t output_bytes,
                double after_seconds)
{
    const char *what = what_moved(stall, look, motion, output_bytes);
    bool stopped = motion->stopped; /* somebody has done so, and knows */
    if (!stall->moved_ns || what || stopped) {
        stall->moved_ns = look->now_ns;
        stall->said = false;
        stall->last = what ? what : stall->last;
        stall->seen = *motion;
        stall->output_bytes = output_bytes;
        return;
    }
    double seconds = (double)(look->now_ns - stall->moved_ns) / NS_PER_SECOND;
    if (stall->said || after_seconds <= 0 || seconds < after_seconds)
        return;
    stall->said = true;
    if (!look->quiet)
        look->say(look->ctx, NOTE(stands_still, .seconds = seconds, .pid = (uint64_t)stall->seen.pid,
                                  .program = stall->seen.name, .last = stall->last ? stall->last : "began"));
}
