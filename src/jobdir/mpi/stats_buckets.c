/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions of an MPI area: the histograms of all threads, added up, with the bounds of their buckets in
 * nanoseconds or bytes. Histograms of different resolution are added at the coarser one: its buckets are unions of the
 * finer one's.
 */
#include <errno.h>
#include <string.h>

#include "jobdir/mpi/stats_take.h"

enum { BUCKETS_MOST = (MPIA_OCTAVES - MPIA_BITS_MOST + 1) << MPIA_BITS_MOST };

struct histogram { /* live buckets, checked */
    const uint64_t *buckets;
    uint32_t bits, count;
    uint64_t total;
};

static bool histogram_at(const struct take *take, uint32_t at, struct histogram *ret_histogram)
{
    void *area = (void *)(uintptr_t)take->area;
    const struct mpi_histogram *live = at ? mpi_pool_at(area, at, sizeof *live) : NULL;
    uint32_t bits = live ? ONCE(live->bits) : UINT32_MAX;
    if (bits > MPIA_BITS_MOST || ONCE(live->bucket_count) != mpi_bucket_count(bits))
        return false;
    uint32_t count = mpi_bucket_count(bits);
    if (!mpi_pool_at(area, at, sizeof *live + (uint64_t)count * sizeof *live->buckets))
        return false;
    *ret_histogram = (struct histogram){live->buckets, bits, count, ONCE(live->total)};
    return true;
}

/* What a bucket holds is below this. */
static uint64_t bucket_end(uint32_t bucket, uint32_t bits)
{
    return bucket + 1 < mpi_bucket_count(bits) ? mpi_bucket_low(bucket + 1, bits) : UINT64_MAX;
}

/* ---- adding up ---- */

struct merged {
    uint64_t buckets[BUCKETS_MOST], total;
    uint32_t bits;
    bool any;
};

static void merge(const struct take *take, struct merged *merged, const uint32_t *at, size_t count)
{
    struct histogram histogram;
    memset(merged, 0, sizeof *merged);
    merged->bits = MPIA_BITS_MOST;
    for (size_t i = 0; i < count; i++)
        if (histogram_at(take, at[i], &histogram) && histogram.bits < merged->bits)
            merged->bits = histogram.bits;
    for (size_t i = 0; i < count; i++) {
        if (!histogram_at(take, at[i], &histogram) || histogram.bits < merged->bits)
            continue;
        merged->total += histogram.total;
        for (uint32_t k = 0; k < histogram.count; k++) {
            uint64_t values = ONCE(histogram.buckets[k]);
            if (!values)
                continue;
            uint64_t low = mpi_bucket_low(k, histogram.bits);
            merged->buckets[histogram.bits == merged->bits ? k : mpi_bucket(low, merged->bits)] += values;
            merged->any = true;
        }
    }
}

/* Buckets that are narrower than a nanosecond fall together. */
static int put_distribution(const struct take *take, struct mpi_stats *stats, struct merged *merged, const char *name,
                            bool is_time)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < mpi_bucket_count(merged->bits); i++) {
        if ((int64_t)merged->buckets[i] < 0)
            merged->buckets[i] = 0; /* its parts are not of one moment */
        used += merged->buckets[i] != 0;
    }
    if (!used)
        return 0;
    if ((int64_t)merged->total < 0)
        merged->total = 0;
    struct mpi_stats_bucket *buckets = arena_alloc(take->arena, used * sizeof *buckets);
    if (!buckets || !name)
        return -ENOMEM;
    struct mpi_stats_distribution *distribution = &stats->distributions[stats->distribution_count++];
    *distribution = (struct mpi_stats_distribution){.name = name,
                                                    .is_time = is_time,
                                                    .total = is_time ? take_ns(take, merged->total) : merged->total,
                                                    .buckets = buckets};
    for (uint32_t i = 0; i < mpi_bucket_count(merged->bits); i++) {
        if (!merged->buckets[i])
            continue;
        uint64_t from = mpi_bucket_low(i, merged->bits), to = bucket_end(i, merged->bits);
        if (is_time) {
            from = take_ns(take, from);
            to = to == UINT64_MAX ? to : take_ns(take, to);
        }
        if (to <= from)
            to = from + 1;
        struct mpi_stats_bucket *last = distribution->count ? &buckets[distribution->count - 1] : NULL;
        if (last && from < last->to) {
            last->to = to > last->to ? to : last->to;
            last->count += merged->buckets[i];
        } else {
            buckets[distribution->count++] = (struct mpi_stats_bucket){from, to, merged->buckets[i]};
        }
    }
    return 0;
}

/* ---- which there are ---- */

static int of_call(const struct take *take, struct mpi_stats *stats, struct merged *merged, uint32_t call)
{
    enum { LATENCY, SIZE, COMPLETION, KINDS };
    static const char *const names[KINDS] = {"latency", "size", "completion"};
    uint32_t at[KINDS][MPIA_THREADS] = {{0}};
    bool any[KINDS] = {false};
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = take_thread(take, i);
        if (!thread)
            continue;
        at[LATENCY][i] = ONCE(thread->rows[call].ticks_at);
        at[SIZE][i] = ONCE(thread->rows[call].bytes_at);
        at[COMPLETION][i] = ONCE(thread->spans[call].ticks_at);
        for (unsigned kind = 0; kind < KINDS; kind++)
            any[kind] |= at[kind][i] != 0;
    }
    int code = 0;
    for (unsigned kind = 0; kind < KINDS && code == 0; kind++) {
        if (!any[kind])
            continue;
        merge(take, merged, at[kind], MPIA_THREADS);
        if (merged->any)
            code =
                put_distribution(take, stats, merged,
                                 arena_printf(take->arena, "%s.%s", call_infos[call].name, names[kind]), kind != SIZE);
    }
    return code;
}

/* The distributions that make up one of a thread's clocks (struct mpi_blocking): appended to a list. */
enum clock_kind { COMPUTATION, COMMUNICATION, BLOCKING_COMPUTATION, BLOCKING_COMMUNICATION, CLOCK_KINDS };

static size_t parts_of(const struct mpi_thread *thread, enum clock_kind kind, uint32_t *at)
{
    size_t count = 0;
    bool blocking = kind == BLOCKING_COMMUNICATION;
    if (kind == COMPUTATION || kind == BLOCKING_COMPUTATION) {
        at[count++] = ONCE(thread->outermost.compute_at);
        if (kind == BLOCKING_COMPUTATION)
            at[count++] = ONCE(thread->blocking.compute_at);
        return count;
    }
    at[count++] = blocking ? ONCE(thread->blocking.communicate_at) : ONCE(thread->outermost.communicate_at);
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (!mpi_call_is_untimed(call) && (!blocking || call_infos[call].blocking) && ONCE(thread->rows[call].ticks_at))
            at[count++] = thread->rows[call].ticks_at;
    return count;
}

/* Of the thread that is the rank; where none is known to be it, of all. */
static int of_clocks(const struct take *take, struct mpi_stats *stats, struct merged *merged)
{
    static const char *const names[CLOCK_KINDS] = {"computation", "communication", "blocking.computation",
                                                   "blocking.communication"};
    uint32_t *at = arena_alloc(take->arena, (size_t)MPIA_THREADS * (CALL_COUNT + 2) * sizeof *at);
    bool has_main = false;
    int code = at ? 0 : -ENOMEM;
    for (size_t i = 0; i < stats->thread_count; i++)
        has_main |= stats->threads[i].is_main;
    for (unsigned kind = 0; kind < CLOCK_KINDS && code == 0; kind++) {
        size_t count = 0;
        for (uint32_t i = 0; i < MPIA_THREADS; i++) {
            const struct mpi_thread *thread = take_thread(take, i);
            if (thread && !take_is_shared(thread) && (!has_main || ONCE(thread->is_main)))
                count += parts_of(thread, kind, at + count);
        }
        merge(take, merged, at, count);
        code = put_distribution(take, stats, merged, names[kind], true);
    }
    return code;
}

int take_distributions(const struct take *take, struct mpi_stats *stats)
{
    struct merged *merged = arena_alloc(take->arena, sizeof *merged);
    stats->distributions = arena_zalloc(take->arena, 3 * CALL_COUNT + 4, sizeof *stats->distributions);
    if (!merged || !stats->distributions)
        return -ENOMEM;
    int code = of_clocks(take, stats, merged);
    for (uint32_t call = 1; call < CALL_COUNT && code == 0; call++)
        code = of_call(take, stats, merged, call);
    return code;
}
