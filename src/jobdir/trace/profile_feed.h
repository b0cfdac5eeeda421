/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of a trace: what its events say of calls. */
#ifndef SCRY_JOBDIR_TRACE_PROFILE_FEED_H
#define SCRY_JOBDIR_TRACE_PROFILE_FEED_H

#include "jobdir/trace/profile.h"
#include "jobdir/trace/trace.h"

static inline void profile_feed(struct profile *profile, const struct trace_event *event)
{
    uint32_t thread = event->thread->serial;
    if (event->kind == TRACE_ENTRY)
        profile_enter(profile, thread, event->stack, event->function, event->time);
    else if (event->kind != TRACE_EXIT)
        return;
    else if (event->alone)
        profile_leave_of(profile, thread, event->stack, event->function, event->entry_time, event->time);
    else if (event->how == TRACE_RETURNED || event->how == TRACE_OPEN)
        profile_leave(profile, thread, event->stack, event->time);
    else if (event->how == TRACE_UNWOUND)
        profile_unwind(profile, thread, event->stack, 1, event->time);
    else if (event->how == TRACE_EXIT_LOST)
        profile_lost(profile, thread, event->stack, 1);
}

#endif
