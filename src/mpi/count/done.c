/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a call: its clocks, its row, its call site, its distributions. The common case, that everything is on and
 * the thread has a block of its own, finds what it adds to in a struct self_place, so that it is a few instructions for
 * each number; everything else goes the long way.
 */
#include "mpi/count/call.h"
#include "mpi/count/process.h"

/* ---- clocks ---- */

static void extremes_add(uint64_t *least, uint64_t *most, uint64_t value)
{
    if (*least - 1 >= AT_LEAST_ONE(value))
        *least = AT_LEAST_ONE(value);
    if (*most < value)
        *most = value;
}

/* A communication from `enter` to `leave`. */
static void clocks_add(struct mpi_self *self, uint64_t enter, uint64_t leave)
{
    struct mpi_outermost *clock = self->outermost;
    struct mpi_blocking *blocking = self->blocking;
    uint64_t computed = enter - clock->last, communicated = leave - enter;
    if (UNLIKELY((int64_t)computed < 0)) { /* the processors' counters differ a little */
        communicated = leave > clock->last ? leave - clock->last : 0;
        computed = 0;
        leave = clock->last + communicated;
    }
    clock->last = leave;
    clock->communicate += communicated;
    clock->count++;
    extremes_add(&clock->compute_min, &clock->compute_max, computed);
    extremes_add(&clock->communicate_min, &clock->communicate_max, communicated);
    self->computed = computed;
    self->pended = blocking->pending;
    if (self->is_blocking) {
        extremes_add(&blocking->compute_min, &blocking->compute_max, computed + blocking->pending);
        extremes_add(&blocking->communicate_min, &blocking->communicate_max, communicated);
        blocking->pending = 0;
    } else {
        blocking->other_ticks += communicated;
        blocking->other_count++;
        blocking->pending += computed + communicated;
    }
}

/* What the thread is in, and its clocks, at the end of a call. */
static void leave_note(struct mpi_self *self)
{
    if (UNLIKELY(self->leave < self->enter))
        self->leave = self->enter;
    uint64_t enter = self->enter, leave = self->leave;
    struct mpi_now *now = self->now;
    uint32_t seq = atomic_load_explicit(&now->seq, memory_order_relaxed);
    atomic_store_explicit(&now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    now->call = CALL_NONE;
    now->since = leave;
    if (self->timed)
        clocks_add(self, enter, leave);
    compiler_barrier();
    atomic_store_explicit(&now->seq, seq + 2, memory_order_relaxed);
}

void self_left(struct mpi_self *self)
{
    if (self->counts && self->now->call != CALL_NONE)
        leave_note(self);
}

/* ---- the long way ---- */

static bool call_is_selected(uint32_t call)
{
    return atomic_load_explicit(&mpi_hot.area->selected[call / 64], memory_order_relaxed) >> (call % 64) & 1;
}

/* What was computed before this call is, by the other definition, part of a longer computation. */
static void note_pieces(struct mpi_self *self, uint64_t computed, uint64_t pended)
{
    struct mpi_blocking *blocking = self->blocking;
    if (self->is_blocking && !pended)
        return;
    histogram_take(self, &blocking->compute_at, computed);
    if (self->is_blocking)
        histogram_add(self, &blocking->compute_at, computed + pended);
}

static void note_distributions(struct mpi_self *self, struct mpi_row *row, uint64_t ticks)
{
    bool own = call_is_selected(self->call);
    if (own) {
        own = histogram_add(self, &row->ticks_at, ticks);
        if (self->args_bytes != SELF_UNSIZED)
            histogram_add(self, &row->bytes_at, self->args_bytes);
    }
    if (self->shared || mpi_call_is_untimed(self->call) || own == self->timed) {
        if (!self->timed || self->shared)
            return;
    } else if (self->timed) {
        histogram_add(self, &self->outermost->communicate_at, ticks);
        if (self->is_blocking)
            histogram_add(self, &self->blocking->communicate_at, ticks);
    } else { /* no part of the clocks, which have the sum of the calls' */
        histogram_take(self, &self->outermost->communicate_at, ticks);
        if (self->is_blocking)
            histogram_take(self, &self->blocking->communicate_at, ticks);
        return;
    }
    histogram_add(self, &self->outermost->compute_at, self->computed);
    note_pieces(self, self->computed, self->pended);
}

static void row_add(const struct mpi_self *self, struct mpi_row *row, uint64_t ticks)
{
    self_add(self, &row->count, 1);
    self_add(self, &row->ticks, ticks);
    self_least(self, &row->min, ticks);
    self_most(self, &row->max, ticks);
}

void self_span(struct mpi_self *self, uint32_t call, uint64_t since, uint64_t until, uint64_t bytes)
{
    if (!self->counts || call >= CALL_COUNT)
        return;
    struct mpi_row *row = &self->thread->spans[call];
    uint64_t ticks = until > since ? until - since : 0;
    row_add(self, row, ticks);
    self_add(self, &row->args_bytes, bytes);
    if (self->metrics & MPIA_METRIC_DISTRIBUTIONS && call_is_selected(call))
        histogram_add(self, &row->ticks_at, ticks);
}

/* ---- places ---- */

#define NO_RANGE ((struct self_range){UINT64_MAX, 0})

/* Of `range`, only what is between these is no extreme; a least value of 0 is none. */
static void range_cut(struct self_range *range, uint64_t least, uint64_t most)
{
    uint64_t end = range->least + range->span;
    range->least = least > range->least ? least : range->least;
    end = most < end ? most : end;
    bool none = !least || end < range->least;
    *range = none ? NO_RANGE : (struct self_range){range->least, end - range->least};
}

/* Values that are neither in the first octaves nor beyond the last: the bucket of those is found without a branch. */
static struct self_range range_of_buckets(const struct mpi_self *self)
{
    uint64_t least = UINT64_C(1) << self->bits;
    return (struct self_range){least, (UINT64_C(1) << MPIA_OCTAVES) - 1 - least};
}

static void find_ranges(struct mpi_self *self)
{
    const struct mpi_outermost *outermost = self->outermost;
    const struct mpi_blocking *blocking = self->blocking;
    self->computed_any = range_of_buckets(self);
    range_cut(&self->computed_any, outermost->compute_min, outermost->compute_max);
    self->computed_none_pending = self->computed_any;
    range_cut(&self->computed_none_pending, blocking->compute_min, blocking->compute_max);
    self->computed_pending = range_of_buckets(self);
    range_cut(&self->computed_pending, blocking->compute_min, blocking->compute_max);
    self->computed_blocking = blocking->pending ? NO_RANGE : self->computed_none_pending;
}

static void find_range(const struct mpi_self *self, struct self_place *place)
{
    const struct mpi_row *row = &self->thread->rows[self->call];
    place->range = range_of_buckets(self);
    range_cut(&place->range, place->site->min, place->site->max);
    range_cut(&place->range, row->min, row->max);
    range_cut(&place->range, self->outermost->communicate_min, self->outermost->communicate_max);
    if (self->is_blocking)
        range_cut(&place->range, self->blocking->communicate_min, self->blocking->communicate_max);
}

static bool is_there(uint32_t at)
{
    return at > POOL_REFUSED;
}

/* The next call from here finds what it adds to. Where something is missing, for lack of room, it will go the long way
 * again. */
static void place_make(struct mpi_self *self)
{
    struct self_place *place = self_place_of(self);
    struct mpi_row *row = &self->thread->rows[self->call];
    struct mpi_site *site = site_of(self);
    bool same = place->address == self->site && place->call == self->call;
    place->address = 0;
    if (!self->fast || !site || !call_is_selected(self->call) || !is_there(row->ticks_at) ||
        !is_there(self->outermost->compute_at) || (!self->is_blocking && !is_there(self->blocking->compute_at)))
        return;
    self->computations = pool_at(self->outermost->compute_at);
    *place = (struct self_place){
        .address = self->site,
        .call = self->call,
        .row = row,
        .site = site,
        .latency = pool_at(row->ticks_at),
        .pieces = self->is_blocking ? NULL : pool_at(self->blocking->compute_at),
        .computed = self->is_blocking ? &self->computed_blocking : &self->computed_any,
        .bytes = SELF_UNSIZED,
        .polls_timed = same ? place->polls_timed : 0,
        .poll_ticks = same ? place->poll_ticks : 0,
        .poll_key = same ? place->poll_key : 0,
    };
    if (self->args_bytes != SELF_UNSIZED && is_there(row->bytes_at)) {
        place->size = pool_at(row->bytes_at);
        place->bytes = self->args_bytes;
        place->bytes_bucket = mpi_bucket(self->args_bytes, self->bits);
    }
    find_range(self, place);
    find_ranges(self);
}

void places_pend(struct mpi_self *self)
{
    self->computed_blocking = NO_RANGE;
}

void places_forget(struct mpi_self *self)
{
    for (uint32_t i = 0; i < SELF_PLACES; i++)
        self->places[i].address = self->places[i].poll_key = 0;
    self->send_peer = self->got_peer = &self_no_peer;
}

static __attribute__((noinline)) void done_slow(struct mpi_self *self)
{
    if (!self->counts) {
        self->frame = 0;
        return;
    }
    self_left(self);
    uint64_t ticks = self->leave - self->enter;
    struct mpi_row *row = &self->thread->rows[self->call];
    row_add(self, row, ticks);
    if (self->args_bytes != SELF_UNSIZED) {
        self_add(self, &row->args_bytes, self->args_bytes);
        self_add(self, &row->sent_bytes, self->sent);
        self_add(self, &row->got_bytes, self->got);
    }
    if (self->metrics & MPIA_METRIC_SITES)
        site_add(self, ticks);
    if (self->metrics & MPIA_METRIC_DISTRIBUTIONS)
        note_distributions(self, row, ticks);
    place_make(self);
    self->frame = 0;
}

/* ---- the short way ---- */

ALWAYS bool is_within(const struct self_range *range, uint64_t value)
{
    return value - range->least <= range->span;
}

/* As mpi_bucket, of range_of_buckets. */
ALWAYS uint32_t bucket_of(const struct mpi_self *self, uint64_t value)
{
    uint32_t octave = 63 ^ (uint32_t)__builtin_clzll(value);
    uint32_t shift = octave - self->bits;
    return (shift << self->bits) + (uint32_t)(value >> shift);
}

ALWAYS void put(struct mpi_histogram *histogram, uint64_t value, uint32_t bucket)
{
    histogram->total += value;
    histogram->buckets[bucket]++;
}

ALWAYS void unput(struct mpi_histogram *histogram, uint64_t value, uint32_t bucket)
{
    histogram->total -= value;
    histogram->buckets[bucket]--;
}

/* A call as there were many from here: nothing is made, nothing is an extreme. `pieces`: what was computed before it is
 * part of a longer computation, either before a call that does not block, or after one. */
ALWAYS void done_fast(struct mpi_self *self, struct self_place *place, struct mpi_histogram *pieces, uint64_t pending)
{
    struct mpi_thread *thread = self->thread;
    uint64_t ticks = self->leave - self->enter, computed = self->enter - thread->outermost.last;
    uint32_t seq = atomic_load_explicit(&thread->now.seq, memory_order_relaxed);
    atomic_store_explicit(&thread->now.seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    thread->outermost.last = self->leave;
    thread->outermost.communicate += ticks;
    thread->outermost.count++;
    uint32_t bucket = bucket_of(self, computed);
    if (UNLIKELY(pieces != NULL)) {
        unput(pieces, computed, bucket);
        if (pending) {
            thread->blocking.pending = 0;
            put(pieces, computed + pending, bucket_of(self, computed + pending));
            self->computed_blocking = self->computed_none_pending;
        } else {
            thread->blocking.other_ticks += ticks;
            thread->blocking.other_count++;
            thread->blocking.pending += computed + ticks;
            self->computed_blocking = NO_RANGE; /* the next one that blocks has to look at what is pending */
        }
    }
    compiler_barrier();
    *(volatile uint64_t *)&thread->now = seq + 2; /* and call = CALL_NONE */

    put(self->computations, computed, bucket);
    put(place->latency, ticks, bucket_of(self, ticks));
    struct mpi_row *row = place->row;
    struct mpi_site *site = place->site;
    uint64_t bytes = place->bytes;
    row->count++;
    row->ticks += ticks;
    site->count++;
    site->ticks += ticks;
    if (place->size) {
        row->args_bytes += bytes;
        row->sent_bytes += self->sent;
        row->got_bytes += self->got;
        site->args_bytes += bytes;
        put(place->size, bytes, place->bytes_bucket);
    }
    self->frame = 0;
}

/* A call that blocks after one that does not; or else the long way. */
static __attribute__((noinline)) void done_pending(struct mpi_self *self, struct self_place *place, uint64_t computed)
{
    const struct mpi_blocking *blocking = &self->thread->blocking;
    uint64_t pending = blocking->pending;
    if (place->pieces || !pending || !is_there(blocking->compute_at) || !is_within(&self->computed_any, computed) ||
        !is_within(&self->computed_pending, computed + pending))
        done_slow(self);
    else
        done_fast(self, place, pool_at(blocking->compute_at), pending);
}

void mpi_done(struct mpi_self *self)
{
    struct self_place *place = self_place_of(self);
    uint64_t ticks = self->leave - self->enter, computed = self->enter - self->thread->outermost.last;
    if (UNLIKELY(place->address != self->site || place->call != self->call || self->args_bytes != place->bytes ||
                 !is_within(&place->range, ticks)))
        done_slow(self);
    else if (UNLIKELY(!is_within(place->computed, computed)))
        done_pending(self, place, computed);
    else
        done_fast(self, place, place->pieces, 0);
}
