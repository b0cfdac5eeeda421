/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls: calls that ask whether something has come (MPI_Test, MPI_Iprobe ...), and mostly are told no. Programs make many
 * millions of them, between any two steps of their own work, and two time stamps then cost more than the poll itself. So of
 * polls that come in quick succession and bring nothing only one in about POLL_TICKS is timed. All are counted, exactly.
 * Where one begins is noted, though: what brings something may take long, and so may what the program did before.
 *
 * The time between two time stamps is exact, too: what is estimated is how it is divided. The polls without a time stamp
 * are taken to have lasted as long as those from their place do that have one, and the program to have computed equally
 * long before each, but no longer than was usual (polls_end, at the next call with a time stamp, whatever it is). How many
 * there were is told (mpi_thread.polls_untimed). A poll that brings something is a call like any other, and so is one that
 * comes seldom.
 *
 * Only where everything is counted and nothing reported: else mpi_tls.polling is never set.
 */
#include "mpi/count/call.h"
#include "mpi/count/process.h"

enum {
    POLLS_TIMED_FIRST = 1000,   /* from one place in the program, before one may do without */
    POLLS_UNTIMED_MOST = 250,   /* between two that are timed: 251 apart, as in each 8th Open MPI does more */
    POLL_TICKS = 1 << 14,       /* some 6 us: what two time stamps cost is below 1 % of it */
    POLLS_TICKS_MOST = 1 << 18, /* since the last time stamp: they come more seldom than they did */
    POLL_WEIGHT = 8,            /* of the polls before, in how long one usually takes */
};

/* `count` polls from `place` lasted `ticks` each. */
static void place_add(struct mpi_self *self, const struct self_place *place, uint64_t count, uint64_t ticks)
{
    struct mpi_row *row = place->row;
    row->ticks += count * ticks;
    self_least(self, &row->min, ticks);
    self_most(self, &row->max, ticks);
    place->site->ticks += count * ticks;
    self_least(self, &place->site->min, ticks);
    self_most(self, &place->site->max, ticks);
    self_least(self, &self->outermost->communicate_min, ticks);
    self_most(self, &self->outermost->communicate_max, ticks);
    histogram_add_times(self, &row->ticks_at, ticks, count);
}

/* The clocks: `count` polls of `ticks` in all, and `computed` before each. */
static void clocks_add(struct mpi_self *self, uint64_t count, uint64_t ticks, uint64_t computed)
{
    struct mpi_outermost *outermost = self->outermost;
    struct mpi_blocking *blocking = self->blocking;
    uint32_t seq = atomic_load_explicit(&self->now->seq, memory_order_relaxed);
    atomic_store_explicit(&self->now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    outermost->last += ticks + count * computed;
    outermost->communicate += ticks;
    self_least(self, &outermost->compute_min, computed);
    self_most(self, &outermost->compute_max, computed);
    blocking->other_ticks += ticks;
    blocking->pending += ticks + count * computed;
    compiler_barrier();
    atomic_store_explicit(&self->now->seq, seq + 2, memory_order_relaxed);
    places_pend(self);
    histogram_add_times(self, &outermost->compute_at, computed, count);
    histogram_add_times(self, &blocking->compute_at, computed, -count);
}

static void polls_give_times(struct mpi_self *self, uint64_t now)
{
    uint32_t count = self->polls.granted - self->polls.left;
    uint64_t polled = 0;
    if (!count || !mpi_hot.area)
        return;
    uint64_t last = self->outermost->last, passed = now > last ? now - last : 0;
    for (uint32_t i = 0; i < self->polls.place_count; i++)
        polled += self->polls.places[i]->polls_untimed * self->polls.places[i]->poll_ticks;
    bool shorter = polled > passed; /* than usual: then nothing was computed */
    uint64_t each = passed / count, computed = shorter ? 0 : (passed - polled) / (count + 1);
    if (computed > 2 * self->polls.usual)
        computed = self->polls.usual; /* the rest is one long computation: that before the next call */
    for (uint32_t i = 0; i < self->polls.place_count; i++) {
        struct self_place *place = self->polls.places[i];
        place_add(self, place, place->polls_untimed, shorter ? each : place->poll_ticks);
        place->polls_untimed = 0;
    }
    self->polls.place_count = 0;
    self->polls.before += count;
    self->polls.granted = self->polls.left;
    self->thread->polls_untimed += count;
    clocks_add(self, count, shorter ? each * count : polled, computed);
}

void polls_end(struct mpi_self *self, uint64_t now)
{
    polls_give_times(self, now);
    self->polls.end = false;
    mpi_tls.polling = NULL;
    mpi_tls.counting = self->tells ? NULL : self;
}

struct mpi_self *mpi_poll_at(uint32_t call, uint64_t site, uintptr_t frame)
{
    struct mpi_self *self = mpi_tls.polling;
    uint64_t enter = ticks_now(); /* early: the processor does what follows meanwhile */
    const struct mpi_area *area = mpi_hot.area;
    struct self_place *place = self_place_at(self, call, site);
    if (UNLIKELY(!area || self->frame > frame || self_is_switched(self, area) ||
                 place->poll_key != self_poll_key(call, site) || enter > self->polls.until))
        return NULL;
    self->returns = return_address(frame);
    self->frame = frame;
    self->polls.enter = enter;
    self->polls.place = place;
    return self;
}

/* The place has its first poll without a time stamp: polls_end has to know. */
static COLD void place_note(struct mpi_self *self, struct self_place *place)
{
    if (self->polls.place_count == SELF_POLLERS)
        polls_give_times(self, ticks_now());
    self->polls.places[self->polls.place_count++] = place;
}

void mpi_poll_in_vain(struct mpi_self *self)
{
    struct self_place *place = self->polls.place;
    self->frame = 0;
    if (UNLIKELY(!mpi_hot.area))
        return;
    if (UNLIKELY(!place->polls_untimed))
        place_note(self, place);
    place->polls_untimed++;
    place->row->count++;
    place->site->count++;
    self->outermost->count++; /* at once: who looks sees that it polls */
    self->blocking->other_count++;
    if (UNLIKELY(!--self->polls.left))
        mpi_tls.polling = NULL; /* the next one is timed */
}

void mpi_poll_came(struct mpi_self *self, uint32_t call, uint64_t site, int result)
{
    if (UNLIKELY(!mpi_hot.area)) {
        self_in_child(self);
        return;
    }
    uint64_t leave = ticks_now();
    const struct self_target target = SELF_TARGET_NONE;
    polls_end(self, self->polls.enter);
    self->enter = self->polls.enter;
    self->call = call;
    self->site = site;
    self_begin(self, false, &target);
    mpi_leave(self, result);
    self->leave = leave;
}

void mpi_poll_had_time(struct mpi_self *self)
{
    uint64_t passed = self->leave - self->polls.since, count = self->polls.before + UINT64_C(1);
    uint64_t room = POLL_TICKS * count;
    self->polls.since = self->leave;
    self->polls.usual = passed / count;
    self->polls.before = 0;
    struct self_place *place = self_place_of(self);
    if (passed >= room / 2 || place->address != self->site || place->call != self->call)
        return;
    uint64_t ticks = self->leave - self->enter, usual = place->poll_ticks ? place->poll_ticks : ticks;
    ticks = ticks < 2 * usual ? ticks : 2 * usual; /* the thread may have lost the processor meanwhile */
    place->poll_ticks = (usual * (POLL_WEIGHT - 1) + ticks + POLL_WEIGHT / 2) / POLL_WEIGHT;
    if (place->polls_timed < POLLS_TIMED_FIRST) {
        place->polls_timed++;
        return;
    }
    uint64_t most = room / (passed + 1);
    place->poll_key = self_poll_key(self->call, self->site);
    self->polls.granted = self->polls.left = most < POLLS_UNTIMED_MOST ? (uint32_t)most : POLLS_UNTIMED_MOST;
    self->polls.until = self->leave + POLLS_TICKS_MOST;
    self->polls.end = true;
    mpi_tls.polling = self;
    mpi_tls.counting = NULL;
}
