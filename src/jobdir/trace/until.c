/* SPDX-License-Identifier: Apache-2.0 */
/* Up to when the calls took that are open at the end of a trace. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/system/clock.h"
#include "jobdir/record/info.h"
#include "jobdir/trace/internal.h"
#include "shm/waits.h"

/* Its monitor writes on, here: what is still open is so until now, as far as that can be known. */
static uint64_t until_now(const struct trace *trace)
{
    const char *boot = trace_own_value(trace, "boot_id");
    char here[64];
    if (!trace->running || !boot || trace->pid <= 0 || (kill(trace->pid, 0) < 0 && errno != EPERM))
        return 0;
    job_boot_id(here, sizeof here);
    uint64_t now = clock_wall_ns() - WRITTEN_AFTER_NS;
    if (!*here || strcmp(here, boot) != 0 || now < trace->tick_zero_ns)
        return 0;
    return (uint64_t)((unsigned __int128)(now - trace->tick_zero_ns) * trace->ticks_per_second / NS_PER_SECOND);
}

uint64_t trace_until(const struct trace *trace)
{
    while (trace->rest)
        trace = trace->rest;
    uint64_t until = trace_number(trace, "until"), now = until_now(trace);
    return until > now ? until : now;
}
