/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread that an event holds waits for the monitor: like agent/safety/patience.h, by the same row of
 * shm/waits.h. While the monitor is stopped nobody is held. When it runs again, it gets the number of released threads,
 * and of events that it missed.
 */
#include "base/system/clock.h"
#include "base/system/wait_world.h"
#include "tracer/tracee.h"

static struct {
    uint64_t looked_ns, idle_ns; /* when; since when it has been stopped, or cannot be seen */
    bool over;                   /* it was waited for in vain, and has not run since */
    uint64_t let_go, unreported;
} known;

static void look(void)
{
    uint64_t now_ns = clock_now_ns();
    if (known.looked_ns && now_ns - known.looked_ns < PATIENCE_LOOK_NS)
        return;
    known.looked_ns = now_ns;
    char state = wait_look(monitor_pid).state;
    if (state && !waits_is_stopped(state))
        known.idle_ns = 0;
    else if (!known.idle_ns)
        known.idle_ns = now_ns;
    const struct wait_seen seen = {
        .passed_ns = known.idle_ns ? now_ns - known.idle_ns : 0, .state = state, .in_vain = known.over};
    known.over = waits_judge(&wait_policies[WAIT_HELD], &seen) != WAIT_ON;
}

bool patience_over(void)
{
    if (known.over)
        look();
    return known.over;
}

void patience_unreported(void)
{
    known.unreported++;
}

static struct thread *held_thread(void)
{
    struct thread *thread = all_threads;
    while (thread && !thread->hold)
        thread = thread->hh.next;
    return thread;
}

bool patience_tick(void)
{
    struct thread *thread = held_thread();
    if (!thread && !known.over && !known.let_go && !known.unreported) {
        known.looked_ns = known.idle_ns = 0;
        return false;
    }
    look();
    for (; known.over && thread; thread = held_thread()) {
        known.let_go++;
        hold_release(thread->hold);
    }
    if (!known.over && (known.let_go || known.unreported)) {
        struct tracer_event event = {.kind = TRACER_LET_GO, .args = {known.let_go, known.unreported}, .arg_count = 2};
        known.let_go = known.unreported = 0;
        event_send(&event);
    }
    return true;
}
