/* SPDX-License-Identifier: Apache-2.0 */
/* When packets are brought in (collect.c): in turns over all agents, by a timer that slows down while there is nothing,
 * before the loop next waits, or because somebody asks. */
#include <errno.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/map_guard.h"
#include "monitor/recorder/agents_internal.h"
#include "monitor/engine/monitor.h"
#include "shm/waits.h"

enum { NS_PER_MS = 1000000 };

/* What is still to be written of a process that has ended may need the symbols of its modules: names that are numbers
 * so far, those of functions that were only counted, and where it crashed. Calls of MPI have their names. */
static bool needs_names(const struct agent *agent)
{
    const struct area *area = agent->view.area;
    return agent->unnamed || agent->counts || agent->rated || agent->skipped ||
           (area &&
            (atomic_load(&area->crash.valid) || atomic_load(&area->flight_overwritten) || atomic_load(&area->tallies)));
}

static bool collect_done(struct agent *agent)
{
    /* names are worth a little waiting for: the process was too short for its index to be built */
    return agent->ended && !agent->drained && !agent->more &&
           (!needs_names(agent) || agent_indexes_ready(agent) ||
            clock_now_ns() - agent->ended_ns > wait_policies[WAIT_MAIN].limit_ms * WAITS_NS_PER_MS);
}

static uint64_t collect_turn(struct agents *agents)
{
    uint64_t now = clock_now_ns(), done = 0, records = 0;
    unsigned left = 0;
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        bool partial = agent->ended || now - agent->partial_ns >= (uint64_t)COLLECT_PARTIAL_MS * NS_PER_MS;
        uint64_t events = agent->events;
        if (agent->applies_soon) {
            agent->applies_soon = false;
            agent_apply(agent);
        }
        if (partial)
            agent->partial_ns = now;
        if (done < COLLECT_BUDGET)
            done += collect_agent(agent, COLLECT_BUDGET - done, partial, false);
        else
            agent->more = true;
        records += agent->events - events;
        done += agent->events != events;
        agent_modules_changed(agent);
        left += agent->more;
        if (!agent->more)
            collect_finish(agent, false);
    }
    agents->collecting--;
    log_debug("collect processes=%u records=%llu bytes=%llu left=%u us=%llu", agents->count,
              (unsigned long long)records, (unsigned long long)done, left,
              (unsigned long long)(clock_now_ns() - now) / 1000);
    bool cut = agents->faults != map_guard_faults();
    agents->faults = map_guard_faults();
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (cut)
            agent_area_check(agent);
        if (collect_done(agent))
            agent_drained(agent);
    }
    if (left)
        collect_soon(agents);
    return done;
}

static void on_timer(void *ctx)
{
    struct agents *agents = ctx;
    uint64_t done = collect_turn(agents);
    if (!agents->list) {
        loop_remove(agents->timer);
        agents->timer = NULL;
        return;
    }
    uint64_t shortest = (uint64_t)COLLECT_MIN_MS * NS_PER_MS, longest = (uint64_t)COLLECT_MAX_MS * NS_PER_MS;
    agents->timer_ns = done ? shortest : 2 * agents->timer_ns > longest ? longest : 2 * agents->timer_ns;
    loop_set_timer(agents->timer, agents->timer_ns, 0);
}

static void on_deferred(void *ctx)
{
    struct agents *agents = ctx;
    agents->deferred = NULL;
    collect_turn(agents);
    if (!agents->timer && agents->list) {
        agents->timer_ns = (uint64_t)COLLECT_MIN_MS * NS_PER_MS;
        agents->timer = loop_add_timer(agents->monitor->loop, agents->timer_ns, 0, on_timer, agents);
    }
}

void collect_soon(struct agents *agents)
{
    if (!agents->deferred)
        agents->deferred = loop_add_deferred(agents->monitor->loop, on_deferred, agents);
}

void agent_collect(struct agent *agent)
{
    agent->agents->collecting++;
    do
        collect_agent(agent, UINT64_MAX, true, false);
    while (agent->more);
    agent->agents->collecting--;
}

int agent_flush(struct agent *agent, struct err *err)
{
    if (!agent->writer)
        return err_set(err, -ENOENT, "nothing is recorded of pid %d", agent->pid);
    agent->agents->collecting++;
    collect_agent(agent, UINT64_MAX, true, true);
    collect_until(agent);
    collect_finish(agent, true);
    agent->agents->collecting--;
    if (!trace_writer_failed(agent->writer))
        return 0;
    struct buf text = BUF_INIT;
    note_text(&text, &agent->problem.note);
    err_set(err, -EIO, "%s", text.data ? text.data : "");
    buf_done(&text);
    return -EIO;
}
