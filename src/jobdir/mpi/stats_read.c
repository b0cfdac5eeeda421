/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/mpi/stats_take.h"
#include "jobdir/record/parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Distributions of an MPI area: the histograms of all threads, added up, with the bounds of their buckets in
 * nanoseconds or bytes. Histograms of different resolution are added at the coarser one: its buckets are unions of the
 * finer one's.
 */

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

/* Statistics of many MPI processes (jobdir/mpi/stats.h): without a JSON library, for the monitor. */

static bool has_arena(struct mpi_stats_set *set)
{
    return set->arena || (set->arena = calloc(1, sizeof *set->arena));
}

const char *mpi_stats_set_text(struct mpi_stats_set *set, const char *text)
{
    return has_arena(set) ? arena_dup(set->arena, text, strlen(text)) : NULL;
}

struct mpi_stats *mpi_stats_set_next(struct mpi_stats_set *set)
{
    if (!has_arena(set))
        return NULL;
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 64;
        struct mpi_stats *grown = arena_alloc(set->arena, room * sizeof *grown);
        if (!grown)
            return NULL;
        if (set->count)
            memcpy(grown, set->ranks, set->count * sizeof *grown);
        set->ranks = grown;
        set->room = room;
    }
    return &set->ranks[set->count];
}

static int by_rank(const void *a, const void *b)
{
    const struct mpi_stats *one = a, *other = b;
    int order = strcmp(one->namespace, other->namespace);
    if (order == 0)
        order = one->rank < other->rank ? -1 : one->rank > other->rank;
    if (order == 0)
        order = one->pid < other->pid ? -1 : one->pid > other->pid;
    return order ? order : strcmp(one->name, other->name);
}

void mpi_stats_set_sort(struct mpi_stats_set *set)
{
    if (set->count)
        qsort(set->ranks, set->count, sizeof *set->ranks, by_rank);
}

void mpi_stats_set_forget_ended(struct mpi_stats_set *set)
{
    bool any = false;
    size_t used = 0;
    for (size_t i = 0; i < set->count; i++)
        any |= set->ranks[i].running;
    for (size_t i = 0, next; i < set->count && any; i = next) {
        bool runs = false;
        for (next = i; next < set->count && strcmp(set->ranks[next].namespace, set->ranks[i].namespace) == 0; next++)
            runs |= set->ranks[next].running;
        for (size_t k = i; k < next && runs; k++)
            set->ranks[used++] = set->ranks[k];
    }
    if (any)
        set->count = used;
}

void mpi_stats_set_done(struct mpi_stats_set *set)
{
    if (set->arena)
        arena_done(set->arena);
    free(set->arena);
    *set = (struct mpi_stats_set){0};
}

/* The files of statistics of MPI in a job directory (jobdir/mpi/stats.h). What cannot be read is said and left out. */

/* ---- all of a job ---- */

struct reading {
    struct mpi_stats_set set;
    bool found;      /* there is a folder of them */
    const char *dir; /* that is read, of the set */
    int unreadable;
    struct err *err; /* of the first */
};

static void note_unreadable(struct reading *reading, const char *path, int code, const struct err *why)
{
    if (!reading->unreadable++ && *why->text)
        err_set(reading->err, code, "%s: %s", path, why->text);
    else if (reading->unreadable == 1)
        err_errno(reading->err, code, "%s", path);
}

/* NODE/PID-N of PID-N.json */
static bool name_of(const char *node, const char *file, char *ret_name, size_t size)
{
    int pid, incarnation, end = 0;
    if (!isdigit((unsigned char)*file) || sscanf(file, "%d-%d%n", &pid, &incarnation, &end) != 2 ||
        strcmp(file + end, ".json") != 0)
        return false;
    return snprintf(ret_name, size, "%s/%.*s", node, end, file) < (int)size;
}

static int read_one(struct reading *reading, const char *path, const char *name)
{
    struct mpi_stats_set *set = &reading->set;
    _cleanup_(freep) char *bytes = NULL;
    size_t size;
    struct err why = {.text = ""};
    struct mpi_stats *stats = mpi_stats_set_next(set);
    if (!stats)
        return -ENOMEM;
    int code = file_read_plain(path, &bytes, &size);
    if (code == 0)
        code = mpi_stats_parse(stats, bytes, size, set->arena, &why);
    if (code == -ENOMEM)
        return code;
    if (code < 0) {
        note_unreadable(reading, path, code, &why);
        return 0;
    }
    stats->name = arena_dup(set->arena, name, strlen(name));
    stats->dir = reading->dir;
    set->count += stats->name != NULL;
    return stats->name ? 0 : -ENOMEM;
}

static int read_node(struct reading *reading, const char *dir, const char *node)
{
    char path[PATH_MAX], name[PATH_MAX];
    int code = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, node) >= (int)sizeof path)
        return 0;
    DIR *files = opendir(path);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));)
        if (name_of(node, entry->d_name, name, sizeof name) &&
            snprintf(path, sizeof path, "%s/%s/%s", dir, node, entry->d_name) < (int)sizeof path)
            code = read_one(reading, path, name);
    if (files)
        closedir(files);
    return code;
}

/* Of the job, or of one of its parts. */
static int read_dir(void *ctx, const char *dir)
{
    struct reading *reading = ctx;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/stats", dir) >= (int)sizeof path)
        return -ENAMETOOLONG;
    DIR *nodes = opendir(path);
    if (!nodes && errno == ENOENT)
        return 0;
    if (!nodes)
        return err_errno(reading->err, -errno, "%s", path);
    reading->found = true;
    reading->dir = mpi_stats_set_text(&reading->set, dir);
    int code = reading->dir ? 0 : -ENOMEM;
    for (struct dirent *entry; code == 0 && (entry = readdir(nodes));)
        if (entry->d_name[0] != '.')
            code = read_node(reading, path, entry->d_name);
    closedir(nodes);
    return code;
}

int mpi_stats_read(struct mpi_stats_set *ret_set, const char *jobdir, struct err *err)
{
    struct reading reading = {.err = err};
    int code = job_dirs_each(jobdir, read_dir, &reading);
    if (code == 0 && !reading.found)
        code = err_errno(err, -ENOENT, "%s/stats", jobdir);
    if (code < 0) {
        mpi_stats_set_done(&reading.set);
        return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
    }
    mpi_stats_set_sort(&reading.set);
    *ret_set = reading.set;
    return reading.unreadable;
}

/* ---- distributions ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mpi_stats_distribution *)a)->name, ((const struct mpi_stats_distribution *)b)->name);
}

static bool is_distribution(const char *file)
{
    size_t len = strlen(file);
    return len > strlen(".dist") && strcmp(file + len - strlen(".dist"), ".dist") == 0;
}

int mpi_stats_read_distributions(struct mpi_stats *stats, const char *jobdir, struct arena *arena, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    struct reading reading = {.err = err};
    struct mpi_stats_distribution *list = NULL;
    size_t count = 0, room = 0;
    int code = 0;
    if (snprintf(dir, sizeof dir, "%s/stats/%s", stats->dir ? stats->dir : jobdir, stats->name) >= (int)sizeof dir)
        return err_set(err, -ENAMETOOLONG, "%s: the path is too long", jobdir);
    DIR *files = opendir(dir);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));) {
        _cleanup_(freep) char *bytes = NULL;
        size_t size;
        struct err why = {.text = ""};
        if (!is_distribution(entry->d_name))
            continue;
        if (count == room) {
            room = room ? 2 * room : 32;
            struct mpi_stats_distribution *grown = arena_alloc(arena, room * sizeof *grown);
            if (!grown) {
                code = -ENOMEM;
                break;
            }
            if (count)
                memcpy(grown, list, count * sizeof *grown);
            list = grown;
        }
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        int bad = file_read_plain(path, &bytes, &size);
        if (bad == 0)
            bad = mpi_stats_parse_distribution(&list[count], bytes, size, arena, &why);
        if (bad == -ENOMEM)
            code = bad;
        else if (bad < 0)
            note_unreadable(&reading, path, bad, &why);
        else
            count++;
    }
    if (files)
        closedir(files);
    if (code < 0)
        return err_set(err, code, "out of memory");
    if (count)
        qsort(list, count, sizeof *list, by_name);
    stats->distributions = list;
    stats->distribution_count = count;
    return reading.unreadable;
}
