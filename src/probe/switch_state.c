/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/switch_state.h"
#include "base/data/grow.h"
#include "shm/waits.h"

#include <stdlib.h>

void switch_state_free(struct switch_state *state)
{
    free(state->pauses);
}

static struct switch_pause *pause_add(struct switch_state *state)
{
    if (!GROW(state->pauses, state->pause_count, state->pause_cap))
        return NULL;
    struct switch_pause *pause = &state->pauses[state->pause_count++];
    *pause = (struct switch_pause){0};
    return pause;
}

static struct switch_pause *open_pause(struct switch_state *state)
{
    struct switch_pause *last = state->pause_count ? &state->pauses[state->pause_count - 1] : NULL;
    return last && !last->until_ns ? last : NULL;
}

void switch_interrupts(struct switch_state *state, uint64_t time_ns)
{
    struct switch_pause *pause = open_pause(state) ? NULL : pause_add(state);
    if (pause)
        pause->from_ns = time_ns;
}

void switch_resumes(struct switch_state *state, uint64_t time_ns)
{
    struct switch_pause *pause = open_pause(state);
    if (!pause)
        pause = pause_add(state);
    if (pause)
        pause->until_ns = time_ns;
}

/* Between an interrupt and the time at which the thread was let go on. */
static bool is_within(const struct switch_state *state, uint64_t time_ns)
{
    for (size_t i = 0; i < state->pause_count; i++) {
        const struct switch_pause *pause = &state->pauses[i];
        if (pause->from_ns && pause->from_ns < time_ns && (!pause->until_ns || time_ns < pause->until_ns))
            return true;
    }
    return false;
}

/* Was it let go on while it was off the processor? */
static bool was_resumed(const struct switch_state *state, uint64_t out_ns, uint64_t in_ns)
{
    for (size_t i = 0; i < state->pause_count; i++) {
        uint64_t until_ns = state->pauses[i].until_ns;
        if (out_ns < until_ns && until_ns < in_ns)
            return true;
    }
    return false;
}

/* Takes out what ended before. True if there was any. */
static bool end_pauses(struct switch_state *state, uint64_t in_ns)
{
    size_t ended = 0;
    while (ended < state->pause_count && state->pauses[ended].until_ns && state->pauses[ended].until_ns < in_ns)
        ended++;
    state->pause_count -= ended;
    for (size_t i = 0; ended && i < state->pause_count; i++)
        state->pauses[i] = state->pauses[i + ended];
    return ended > 0;
}

static void tell_in(struct switch_state *state, uint64_t time_ns, switch_event_fn *fn, void *ctx)
{
    enum switch_place before = state->reported;
    state->restarted_ns = 0;
    state->reported = SWITCH_RUNS;
    if (before == SWITCH_SLEEPS)
        fn(ctx, SWITCH_UNBLOCKED, time_ns);
    if (before != SWITCH_RUNS)
        fn(ctx, SWITCH_SCHEDULED, time_ns);
}

static void tell_out(struct switch_state *state, switch_event_fn *fn, void *ctx)
{
    const struct switch_record out = state->out;
    if (state->restarted_ns) {
        state->ran_ns += state->runs_ns ? out.time_ns - state->runs_ns : 0;
        state->runs_ns = 0;
        bool may_sleep_on = state->ran_ns < SWITCH_RESTART_NS;
        if (may_sleep_on && out.preempted)
            return;
        if (!may_sleep_on)
            tell_in(state, state->restarted_ns, fn, ctx);
        state->restarted_ns = 0;
        if (may_sleep_on)
            return;
    }
    state->reported = out.preempted ? SWITCH_PREEMPTED : SWITCH_SLEEPS;
    fn(ctx, SWITCH_DESCHEDULED, out.time_ns);
    if (!out.preempted)
        fn(ctx, SWITCH_BLOCKED, out.time_ns);
}

static void take_in(struct switch_state *state, uint64_t time_ns, switch_event_fn *fn, void *ctx)
{
    bool left = state->left;
    state->left = false;
    if (left && !is_within(state, state->out.time_ns) && !was_resumed(state, state->out.time_ns, time_ns))
        tell_out(state, fn, ctx);
    bool resumed = end_pauses(state, time_ns);
    if (is_within(state, time_ns) || state->reported == SWITCH_RUNS)
        return;
    if (resumed && state->reported == SWITCH_SLEEPS) {
        state->restarted_ns = state->runs_ns = time_ns;
        state->ran_ns = 0;
    } else if (state->restarted_ns)
        state->runs_ns = time_ns;
    else
        tell_in(state, time_ns, fn, ctx);
}

void switch_take(struct switch_state *state, const struct switch_record *record, switch_event_fn *fn, void *ctx)
{
    if (record->in) {
        take_in(state, record->time_ns, fn, ctx);
        return;
    }
    if (state->left && !is_within(state, state->out.time_ns)) /* its way back was lost */
        tell_out(state, fn, ctx);
    state->left = true;
    state->out = *record;
}

bool switch_asks_stopped(const struct switch_state *state)
{
    return state->left && !state->out.preempted && !is_within(state, state->out.time_ns) &&
           !was_resumed(state, state->out.time_ns, UINT64_MAX);
}

void switch_settle(struct switch_state *state, bool stopped, uint64_t now_ns, switch_event_fn *fn, void *ctx)
{
    if (state->left) {
        bool own = is_within(state, state->out.time_ns) || was_resumed(state, state->out.time_ns, UINT64_MAX) ||
                   (stopped && !state->out.preempted);
        state->left = false;
        if (!own)
            tell_out(state, fn, ctx);
    } else if (state->restarted_ns && state->runs_ns && state->ran_ns + now_ns - state->runs_ns >= SWITCH_RESTART_NS) {
        tell_in(state, state->restarted_ns, fn, ctx);
    }
}
