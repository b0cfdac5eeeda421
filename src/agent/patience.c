/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/patience.h"

#include <asm/unistd.h>
#include <errno.h>
#include <stdatomic.h>

#include "agent/read_internal.h"
#include "agent/sys.h"

enum {
    LOOK_MS = PATIENCE_SLICE_MS,
    STOPPED_MS = 200, /* a stop that is over sooner is waited for; as for an answer to hello */
    UNSEEN_MS = 1000, /* and how long one that may be stopped, for all that can be seen: there is no /proc here */
};
#define NS_PER_MS UINT64_C(1000000)

enum monitor { MONITOR_RUNS, MONITOR_STOPPED, MONITOR_UNSEEN, MONITOR_GONE };

/* How it stands with the monitor; found out by one thread at a time. */
static struct {
    _Atomic uint64_t looked; /* when, in ns; 0: never */
    _Atomic uint64_t ticks;
    _Atomic int32_t pid;
    _Atomic uint32_t monitor; /* enum monitor */
    _Atomic char state;       /* the kernel's letter */
    _Atomic uint32_t vain;    /* it was waited for, once; until it runs again */
} known;

void patience_forget(void)
{
    atomic_store(&known.monitor, MONITOR_RUNS);
    atomic_store(&known.vain, 0);
    atomic_store(&known.pid, 0);
    atomic_store(&known.looked, 0);
}

static uint64_t now_ns(void)
{
    struct {
        int64_t sec, nsec;
    } now = {0, 0};
    sys_call2(__NR_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&now);
    return (uint64_t)now.sec * 1000 * NS_PER_MS + (uint64_t)now.nsec;
}

static enum monitor look(int32_t pid, uint64_t ticks)
{
    if (pid <= 0 || sys_call2(__NR_kill, pid, 0) == -ESRCH)
        return MONITOR_GONE;
    const struct outside *outside = outside_look(pid, OUTSIDE_STAT);
    if (!outside) /* another thread reads something */
        return (enum monitor)atomic_load(&known.monitor);
    char state = outside->state;
    bool same = !ticks || outside->ticks == ticks;
    outside_release();
    atomic_store(&known.state, state);
    if (!state)
        return MONITOR_UNSEEN;
    if (!same || state == 'Z' || state == 'X')
        return MONITOR_GONE;
    return state == 'T' || state == 't' ? MONITOR_STOPPED : MONITOR_RUNS;
}

static enum monitor look_now_and_then(struct doorbell *bell, uint64_t now)
{
    uint64_t ticks = atomic_load(&bell->monitor_start_ticks), looked = atomic_load(&known.looked);
    int32_t pid = atomic_load(&bell->monitor_pid);
    bool other = pid != atomic_load(&known.pid) || ticks != atomic_load(&known.ticks);
    if ((!other && looked && now - looked < LOOK_MS * NS_PER_MS) ||
        !atomic_compare_exchange_strong(&known.looked, &looked, now))
        return (enum monitor)atomic_load(&known.monitor);
    enum monitor monitor = look(pid, ticks);
    atomic_store(&known.monitor, monitor);
    if (other || monitor == MONITOR_RUNS)
        atomic_store(&known.vain, 0);
    atomic_store(&known.ticks, ticks); /* last: from here on that is known of this one */
    atomic_store(&known.pid, pid);
    return monitor;
}

bool patience_lasts(struct patience *patience)
{
    struct doorbell *bell = patience->bell;
    if (!bell)
        return false;
    uint64_t now = now_ns();
    enum monitor monitor = look_now_and_then(bell, now);
    if (atomic_load(&bell->monitor_pid) != patience->monitor_pid ||
        atomic_load(&bell->monitor_start_ticks) != patience->monitor_ticks || monitor == MONITOR_GONE)
        return false;
    if (monitor == MONITOR_RUNS) {
        patience->idle_since = 0;
        return true;
    }
    if (atomic_load(&known.vain))
        return false;
    if (!patience->idle_since)
        patience->idle_since = now;
    if (now - patience->idle_since < (monitor == MONITOR_STOPPED ? STOPPED_MS : UNSEEN_MS) * NS_PER_MS)
        return true;
    atomic_store(&known.vain, 1);
    return false;
}

bool patience_monitor_alive(struct doorbell *bell)
{
    return bell && look_now_and_then(bell, now_ns()) != MONITOR_GONE;
}

bool patience_monitor_starved(struct doorbell *bell)
{
    if (!bell || look_now_and_then(bell, now_ns()) != MONITOR_RUNS)
        return false;
    char state = atomic_load(&known.state);
    return state == 'R' || state == 'D';
}
