/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/safety/timeout.h"

#include <stdatomic.h>

#include "agent/safety/read.h"
#include "agent/system/world.h"

enum { GONE = 'X', UNSEEN = '?' };

/* How it stands with the monitor; found out by one thread at a time. */
static struct {
    _Atomic uint64_t looked_ns; /* when; 0: never */
    _Atomic uint64_t ticks;
    _Atomic int32_t pid;
    _Atomic char state;    /* the kernel's letter, or one of the two above; 0: nothing is known yet */
    _Atomic uint32_t vain; /* it was waited for, once; until it runs again */
} known;

void timeout_forget(void)
{
    atomic_store(&known.state, (char)0);
    atomic_store(&known.vain, 0);
    atomic_store(&known.pid, 0);
    atomic_store(&known.looked_ns, 0);
}

static bool is_idle(char state)
{
    return state == UNSEEN || waits_is_stopped(state);
}

static char look(int32_t pid, uint64_t ticks)
{
    if (pid <= 0 || !agent_is_there(pid))
        return GONE;
    const struct outside *outside = outside_read(pid, OUTSIDE_STAT);
    if (!outside) /* another thread reads something */
        return atomic_load(&known.state);
    char state = outside->state;
    bool same = !ticks || outside->ticks == ticks;
    outside_release();
    if (!state)
        return UNSEEN;
    return !same || waits_is_dead(state) ? GONE : state;
}

static char look_now_and_then(struct doorbell *bell, uint64_t now_ns)
{
    uint64_t ticks = atomic_load(&bell->monitor_start_ticks), looked_ns = atomic_load(&known.looked_ns);
    int32_t pid = atomic_load(&bell->monitor_pid);
    bool other = pid != atomic_load(&known.pid) || ticks != atomic_load(&known.ticks);
    if ((!other && looked_ns && now_ns - looked_ns < wait_policies[WAIT_HELD].look_ms * WAITS_NS_PER_MS) ||
        !atomic_compare_exchange_strong(&known.looked_ns, &looked_ns, now_ns))
        return atomic_load(&known.state);
    char state = look(pid, ticks);
    atomic_store(&known.state, state);
    if (other || (state != GONE && !is_idle(state)))
        atomic_store(&known.vain, 0);
    atomic_store(&known.ticks, ticks); /* last: from here on that is known of this one */
    atomic_store(&known.pid, pid);
    return state;
}

bool timeout_runs(struct timeout *timeout)
{
    struct doorbell *bell = timeout->bell;
    if (!bell)
        return false;
    uint64_t now_ns = agent_now_ns();
    char state = look_now_and_then(bell, now_ns);
    if (atomic_load(&bell->monitor_pid) != timeout->monitor_pid ||
        atomic_load(&bell->monitor_start_ticks) != timeout->monitor_ticks || state == GONE)
        return false;
    bool idle = is_idle(state);
    if (!idle)
        timeout->idle_since = 0;
    else if (!timeout->idle_since)
        timeout->idle_since = now_ns;
    const struct wait_seen seen = {.passed_ns = idle ? now_ns - timeout->idle_since : 0,
                                   .state = state == UNSEEN ? (char)0
                                            : state         ? state
                                                            : 'S',
                                   .in_vain = atomic_load(&known.vain) != 0};
    if (waits_judge(&wait_policies[WAIT_HELD], &seen) == WAIT_ON)
        return true;
    atomic_store(&known.vain, 1);
    return false;
}

char doorbell_monitor_state(struct doorbell *bell)
{
    char state = bell ? look_now_and_then(bell, agent_now_ns()) : (char)GONE;
    return state == UNSEEN ? (char)0 : state;
}

bool doorbell_monitor_alive(struct doorbell *bell)
{
    return doorbell_monitor_state(bell) != GONE;
}
