/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/timeline.h"

#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/analysis/messages_internal.h"
#include "jobdir/record/parts.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

static int64_t timeline_with_knots(const struct timeline_trace *trace, int64_t ns);

/*
 * Clocks that monitors have compared while the job ran (clock.json of a job's part). Theirs is of one moment, and
 * messages are of the whole time; but not all ranks exchange any, and few do in both directions.
 */

/* The job directory that a trace is in: DIR/trace/NODE/PID-N. false: it is in none. */
static bool dir_of(const struct trace *trace, char *ret_dir)
{
    snprintf(ret_dir, PATH_MAX, "%s", trace_path(trace));
    for (int i = 0; i < 3; i++) {
        char *slash = strrchr(ret_dir, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return *ret_dir;
}

static bool is_part(const char *dir)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", dir);
    return strcmp(basename(dirname(copy)), "parts") == 0;
}

/* Reads what is known of the hosts' clocks from the job's parts. */
static void timeline_know(struct timeline *timeline, struct trace *const *traces)
{
    size_t home = SIZE_MAX;
    bool homes = false; /* several */
    for (size_t i = 0; i < timeline->trace_count; i++) {
        struct timeline_host *host = &timeline->hosts[timeline->traces[i].host];
        struct part_clock clock;
        char dir[PATH_MAX];
        if (!dir_of(traces[i], dir))
            continue;
        if (!is_part(dir)) {
            homes |= home != SIZE_MAX && home != timeline->traces[i].host;
            home = timeline->traces[i].host;
        } else if (!host->known && job_part_clock(dir, &clock)) {
            host->known = true;
            host->known_ns = -(double)clock.offset_ns;
            host->known_bound_ns = (double)clock.bound_ns;
            host->known_at_ns = clock.at_ns ? timeline_limit((int64_t)(clock.at_ns - timeline->start_ns)) : 0;
        }
    }
    /* What is in the job directory itself is of the job's own node, whose clock is the job's; of a job without parts,
     * it may be of many. */
    if (home == SIZE_MAX || homes)
        return;
    timeline->hosts[home].known = true;
    timeline->hosts[home].known_ns = timeline->hosts[home].known_bound_ns = 0;
}

static uint64_t time_distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* That was at one moment: what is told is of others, too, and clocks drift. */
static void timeline_drift(struct mpi_messages *messages)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        first = rank->begin < first ? rank->begin : first;
        last = rank->finish > last ? rank->finish : last;
    }
    for (size_t i = 0; i < messages->timeline.host_count && first <= last; i++) {
        struct timeline_host *host = &messages->timeline.hosts[i];
        uint64_t before = time_distance(first, host->known_at_ns), after = time_distance(last, host->known_at_ns);
        if (host->known_bound_ns > 0)
            host->known_bound_ns += (double)clock_drift_ns(before > after ? before : after);
    }
}

/* The host with the offset to the reference that follows from that; false: it is not known. */
static bool timeline_known(const struct timeline *timeline, uint32_t reference, uint32_t host,
                           struct timeline_host *ret_host)
{
    const struct timeline_host *from = &timeline->hosts[reference];
    struct timeline_host to = timeline->hosts[host];
    if (!from->known || !to.known)
        return false;
    to.how = TIMELINE_KNOWN;
    to.offset_start_ns = to.offset_end_ns = to.known_ns - from->known_ns;
    to.bound_ns = to.known_bound_ns + from->known_bound_ns;
    to.start_ns = to.end_ns = 0;
    *ret_host = to;
    return true;
}

/*
 * The controlled logical clock: all sends and receives in an order in which each send comes before its receive and each
 * rank's are as they were. A receive that is too early moves its rank's clock forward; that goes back by one part in
 * TIMELINE_BACK of the time that passes, so that order and about all durations stay. Only done if one is too early.
 */

struct step {
    int64_t time;
    uint32_t index;
    bool got;
};

struct course { /* of one rank */
    struct step *steps;
    size_t count, at;
    int64_t *sent; /* corrected; INT64_MIN: not yet come to */
};

struct correction {
    struct mpi_messages *messages;
    struct course *courses;
};

static int64_t least_between(const struct mpi_messages *messages, const struct mpi_message_rank *a,
                             const struct mpi_message_rank *b)
{
    const struct timeline *timeline = &messages->timeline;
    return timeline->traces[a->trace].host == timeline->traces[b->trace].host ? 0 : TIMELINE_LEAST_NS;
}

static bool any_too_early(const struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i], *from;
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *sent = mpi_sent_of(messages, rank, &rank->got[k], &from);
            if (sent && rank->got[k].end < sent->begin + least_between(messages, from, rank))
                return true;
        }
    }
    return false;
}

/* Receives before sends of the same moment: these get the whole of the shift. */
static int by_time(const void *a, const void *b)
{
    const struct step *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->got != right->got)
        return left->got ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int course_init(struct course *course, const struct mpi_message_rank *rank)
{
    course->steps = malloc((rank->sent_count + rank->got_count + 1) * sizeof *course->steps);
    course->sent = malloc((rank->sent_count + 1) * sizeof *course->sent);
    if (!course->steps || !course->sent)
        return -ENOMEM;
    for (size_t i = 0; i < rank->sent_count; i++) {
        course->steps[course->count++] = (struct step){rank->sent[i].begin, (uint32_t)i, false};
        course->sent[i] = INT64_MIN;
    }
    for (size_t i = 0; i < rank->got_count; i++)
        if (rank->got[i].other < MPI_OTHER_FOREIGN)
            course->steps[course->count++] = (struct step){rank->got[i].end, (uint32_t)i, true};
    if (course->count)
        qsort(course->steps, course->count, sizeof *course->steps, by_time);
    return 0;
}

static int add_knot(struct timeline_trace *trace, int64_t at, int64_t shift)
{
    if (!GROW(trace->knots, trace->knot_count, trace->knot_room))
        return -ENOMEM;
    trace->knots[trace->knot_count++] = (struct timeline_knot){at, shift};
    return 0;
}

/* The shift that is left of that of the last knot. */
static int64_t shift_at(const struct timeline_trace *trace, int64_t at)
{
    if (!trace->knot_count)
        return 0;
    const struct timeline_knot *knot = &trace->knots[trace->knot_count - 1];
    int64_t shift = knot->shift - (at - knot->at) / TIMELINE_BACK;
    return shift > 0 ? shift : 0;
}

/* 1: done; 0: its message was not yet sent; -ENOMEM. */
static int take_step(struct correction *correction, size_t index)
{
    struct mpi_messages *messages = correction->messages;
    struct course *course = &correction->courses[index];
    const struct mpi_message_rank *rank = &messages->ranks[index], *from = NULL;
    struct timeline_trace *trace = &messages->timeline.traces[rank->trace];
    const struct step *step = &course->steps[course->at];
    int64_t shift = shift_at(trace, step->time);
    if (!step->got) {
        course->sent[step->index] = step->time + shift;
        return 1;
    }
    const struct mpi_end *got = &rank->got[step->index];
    if (!mpi_sent_of(messages, rank, got, &from))
        return 1;
    int64_t sent = correction->courses[from - messages->ranks].sent[got->other];
    if (sent == INT64_MIN)
        return 0;
    int64_t needed = sent + least_between(messages, from, rank) - step->time;
    if (needed <= shift)
        return 1;
    messages->timeline.corrected++;
    if (needed - shift > messages->timeline.largest_ns)
        messages->timeline.largest_ns = needed - shift;
    int code = add_knot(trace, step->time, needed);
    return code < 0 ? code : 1;
}

/* Each rank as far as it goes, as long as one gets on. A circle can only be of a damaged trace: what it holds stays. */
static int correction_walk(struct correction *correction)
{
    const struct mpi_messages *messages = correction->messages;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < messages->rank_count; i++) {
            struct course *course = &correction->courses[i];
            int code = 1;
            while (course->at < course->count && (code = take_step(correction, i)) == 1) {
                course->at++;
                moved = true;
            }
            if (code < 0)
                return code;
        }
    }
    return 0;
}

static int64_t with_knots(void *ctx, int64_t ns)
{
    return timeline_with_knots(ctx, ns);
}

/* The times are on the common line but for the knots. */
static void knots_apply(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        struct timeline_trace *trace = &messages->timeline.traces[messages->ranks[i].trace];
        if (trace->knot_count)
            mpi_messages_each_time(&messages->ranks[i], with_knots, trace);
    }
}

int timeline_correct(struct mpi_messages *messages)
{
    if (!any_too_early(messages))
        return 0;
    struct correction correction = {messages, calloc(messages->rank_count + 1, sizeof *correction.courses)};
    int code = correction.courses ? 0 : -ENOMEM;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        code = course_init(&correction.courses[i], &messages->ranks[i]);
    if (code == 0)
        code = correction_walk(&correction);
    if (code == 0)
        knots_apply(messages);
    for (size_t i = 0; correction.courses && i < messages->rank_count; i++) {
        free(correction.courses[i].steps);
        free(correction.courses[i].sent);
    }
    free(correction.courses);
    return code;
}

/* Hosts, their clocks, and how far these are apart. */

#define WINDOW_SHARE 10 /* the first and last part in so many of a pair's messages, by time */
#define WINDOW_MOST_NS (5 * (int64_t)NS_PER_SECOND)
#define DRIFT_MOST 0.001 /* clocks do not go wrong faster than that */

/* ---- hosts ---- */

static int add_host(struct timeline *timeline, const struct trace *trace, uint32_t *ret_host)
{
    const char *boot = trace_value(trace, "boot_id"), *host = trace_value(trace, "host");
    const char *key = boot && *boot ? boot : trace_node(trace);
    for (size_t i = 0; i < timeline->host_count; i++)
        if (strcmp(timeline->hosts[i].key, key) == 0) {
            *ret_host = (uint32_t)i;
            return 0;
        }
    struct timeline_host *hosts = realloc(timeline->hosts, (timeline->host_count + 1) * sizeof *hosts);
    if (!hosts)
        return -ENOMEM;
    timeline->hosts = hosts;
    uint64_t frequency = trace_number(trace, "ticks_per_second");
    hosts[timeline->host_count] = (struct timeline_host){.key = strdup(key),
                                                         .name = strdup(host && *host ? host : trace_node(trace)),
                                                         .zero_ns = trace_wall_ns(trace, 0),
                                                         .ticks_per_second = frequency ? frequency : NS_PER_SECOND,
                                                         .how = TIMELINE_AS_IT_IS,
                                                         .bound_ns = -1};
    *ret_host = (uint32_t)timeline->host_count++;
    return hosts[*ret_host].key && hosts[*ret_host].name ? 0 : -ENOMEM;
}

int timeline_init(struct timeline *timeline, struct trace *const *traces, size_t count, uint64_t start_ns)
{
    *timeline = (struct timeline){.start_ns = start_ns, .traces = calloc(count + 1, sizeof *timeline->traces)};
    if (!timeline->traces)
        return -ENOMEM;
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        code = add_host(timeline, traces[i], &timeline->traces[i].host);
        timeline->trace_count++;
    }
    if (code == 0)
        timeline_know(timeline, traces);
    return code;
}

void timeline_done(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->host_count; i++) {
        free(timeline->hosts[i].key);
        free(timeline->hosts[i].name);
    }
    for (size_t i = 0; i < timeline->trace_count; i++)
        free(timeline->traces[i].knots);
    free(timeline->hosts);
    free(timeline->traces);
    *timeline = (struct timeline){0};
}

const char *timeline_how_name(enum timeline_how how)
{
    static const char *const names[] = {"reference", "both_ways", "once", "one_way", "as_it_is", "known"};
    return names[how];
}

double timeline_compared_seconds(const struct timeline_host *host, bool last)
{
    double ns = last ? host->end_ns + host->offset_end_ns : host->start_ns + host->offset_start_ns;
    return ns / 1e9;
}

/* ---- times ---- */

int64_t timeline_raw(const struct timeline *timeline, size_t trace, uint64_t ticks)
{
    const struct timeline_host *host = &timeline->hosts[timeline->traces[trace].host];
    uint64_t wall = host->zero_ns + (uint64_t)((unsigned __int128)ticks * NS_PER_SECOND / host->ticks_per_second);
    return timeline_limit((int64_t)(wall - timeline->start_ns));
}

int64_t timeline_limit(int64_t ns)
{
    return ns > TIMELINE_LIMIT_NS ? TIMELINE_LIMIT_NS : ns < -TIMELINE_LIMIT_NS ? -TIMELINE_LIMIT_NS : ns;
}

/* The offset of a host at a moment of its own time. */
static double offset_at(const struct timeline_host *host, double at)
{
    double span = host->end_ns - host->start_ns;
    if (span <= 0)
        return host->offset_start_ns;
    return host->offset_start_ns + (host->offset_end_ns - host->offset_start_ns) * ((at - host->start_ns) / span);
}

int64_t timeline_shift_host(const struct timeline *timeline, size_t trace, int64_t raw_ns)
{
    const struct timeline_host *host = &timeline->hosts[timeline->traces[trace].host];
    if (host->offset_start_ns == 0 && host->offset_end_ns == 0)
        return raw_ns;
    return raw_ns + number_round(offset_at(host, (double)raw_ns));
}

static int64_t timeline_with_knots(const struct timeline_trace *trace, int64_t ns)
{
    /* the last knot at or before */
    size_t low = COUNT_BEFORE(trace->knot_count, i, trace->knots[i].at <= ns);
    if (!low)
        return ns;
    const struct timeline_knot *knot = &trace->knots[low - 1];
    int64_t shift = knot->shift - (ns - knot->at) / TIMELINE_BACK;
    return shift > 0 ? ns + shift : ns;
}

int64_t timeline_map(const struct timeline *timeline, size_t trace, int64_t raw_ns)
{
    return timeline_with_knots(&timeline->traces[trace], timeline_shift_host(timeline, trace, raw_ns));
}

/* ---- delays between hosts ---- */

struct least { /* of one direction, in a part of the time */
    bool known;
    int64_t ns, at; /* and when it was sent or received, by the clock of the lower host */
};

struct between {
    struct {
        uint32_t low, high; /* hosts */
    } key;
    int64_t first, last;      /* of messages in both directions, by the clock of the lower host; last < first: none */
    struct least least[3][2]; /* in the first part, the last part, at any time; towards high, towards low */
    uint64_t messages;
    bool used;
    UT_hash_handle hh;
};

enum part { FIRST, LAST, EVER };

struct estimate {
    struct mpi_messages *messages;
    struct between *pairs;
    bool windows; /* the second time through: first and last are known */
    int code;
};

static struct between *between_of(struct estimate *estimate, uint32_t from, uint32_t to)
{
    struct between *pair, key = {.key = {from < to ? from : to, from < to ? to : from}};
    HASH_FIND(hh, estimate->pairs, &key.key, sizeof key.key, pair);
    if (pair)
        return pair;
    pair = calloc(1, sizeof *pair);
    if (!pair) {
        estimate->code = -ENOMEM;
        return NULL;
    }
    pair->key = key.key;
    pair->first = INT64_MAX;
    pair->last = INT64_MIN;
    HASH_ADD(hh, estimate->pairs, key, sizeof pair->key, pair);
    return pair;
}

static void note_least(struct least *least, int64_t ns, int64_t at)
{
    if (!least->known || ns < least->ns)
        *least = (struct least){true, ns, at};
}

static void pair_sample(struct estimate *estimate, uint32_t from, uint32_t to, int64_t sent, int64_t received)
{
    if (from == to)
        return;
    struct between *pair = between_of(estimate, from, to);
    if (!pair)
        return;
    unsigned direction = from > to;
    int64_t at = direction ? received : sent; /* one clock for both directions: they may be minutes apart */
    if (!estimate->windows) {
        pair->first = at < pair->first ? at : pair->first;
        pair->last = at > pair->last ? at : pair->last;
        pair->messages++;
        note_least(&pair->least[EVER][direction], received - sent, at);
        return;
    }
    int64_t span = pair->last - pair->first, window = span / WINDOW_SHARE;
    window = window < WINDOW_MOST_NS ? window : WINDOW_MOST_NS;
    if (at <= pair->first + window)
        note_least(&pair->least[FIRST][direction], received - sent, at);
    if (at >= pair->last - window)
        note_least(&pair->least[LAST][direction], received - sent, at);
}

/* Of an operation that nobody leaves before all have come: the last to come of a host is a message to each other one;
 * the first host and each of the others are enough. */
static int sample_operation(void *ctx, const struct mpi_operation *operation)
{
    struct estimate *estimate = ctx;
    const struct timeline *timeline = &estimate->messages->timeline;
    uint32_t host = 0;
    bool several = false;
    if (call_info(operation->parts[0]->call)->gathering != CALL_GATHERING_ALL_TO_ALL)
        return 0;
    for (size_t i = 0; i < operation->count; i++) {
        uint32_t own = timeline->traces[estimate->messages->ranks[operation->ranks[i]].trace].host;
        several |= i && own != host;
        host = own;
    }
    if (!several)
        return 0;
    _cleanup_(freep) struct {
        bool seen;
        int64_t begin, end;
    } *hosts = calloc(timeline->host_count, sizeof *hosts);
    if (!hosts)
        return -ENOMEM;
    for (size_t i = 0; i < operation->count; i++) {
        uint32_t own = timeline->traces[estimate->messages->ranks[operation->ranks[i]].trace].host;
        const struct mpi_part *part = operation->parts[i];
        if (!hosts[own].seen || part->begin > hosts[own].begin)
            hosts[own].begin = part->begin;
        if (!hosts[own].seen || part->end < hosts[own].end)
            hosts[own].end = part->end;
        hosts[own].seen = true;
    }
    uint32_t first = 0;
    while (!hosts[first].seen)
        first++;
    for (uint32_t other = first + 1; other < timeline->host_count; other++) {
        if (!hosts[other].seen)
            continue;
        pair_sample(estimate, first, other, hosts[first].begin, hosts[other].end);
        pair_sample(estimate, other, first, hosts[other].begin, hosts[first].end);
    }
    return estimate->code;
}

static int sample_all(struct estimate *estimate)
{
    struct mpi_messages *messages = estimate->messages;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i], *from;
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *got = &rank->got[k], *sent = mpi_sent_of(messages, rank, got, &from);
            if (sent)
                pair_sample(estimate, messages->timeline.traces[from->trace].host,
                            messages->timeline.traces[rank->trace].host, sent->begin, got->end);
        }
    }
    int code = mpi_messages_each_operation(messages, sample_operation, estimate);
    return code ? code : estimate->code;
}

/* ---- from the delays to offsets ---- */

static bool pair_knows_both(const struct between *pair, enum part part)
{
    return pair->least[part][0].known && pair->least[part][1].known;
}

/* How far the clock of `host` is ahead of the other's, from the least delays in both directions: the real ones are
 * taken to be the same. */
static double pair_ahead(const struct between *pair, enum part part, bool host_is_high)
{
    double high = ((double)pair->least[part][0].ns - (double)pair->least[part][1].ns) / 2;
    return host_is_high ? high : -high;
}

/* When that was, by the clock of a host. */
static double pair_moment(const struct between *pair, enum part part, bool host_is_high)
{
    double low = ((double)pair->least[part][0].at + (double)pair->least[part][1].at) / 2;
    return host_is_high ? low + pair_ahead(pair, part, true) : low;
}

/* When the message of one direction was at a host, by its clock. */
static double moment_of(const struct least *least, unsigned direction, bool host_is_high)
{
    double passed = direction ? -(double)least->ns : (double)least->ns; /* from the lower host to the higher one */
    return host_is_high ? (double)least->at + passed : (double)least->at;
}

/* How far that may be off: nothing arrives before it was sent, so no further than the least delays allow. */
static double pair_bound(const struct between *pair, enum part part, const struct timeline_host *from)
{
    double both_ways = (double)pair->least[part][0].ns + (double)pair->least[part][1].ns;
    return from->bound_ns < 0 ? -1 : from->bound_ns + (both_ways > 0 ? both_ways / 2 : 0);
}

/* What all messages between two hosts in one direction took at least, with the clocks moved like this. */
static double least_delay(const struct between *pair, const struct timeline_host *from, const struct timeline_host *to,
                          bool to_is_high)
{
    unsigned direction = pair->least[EVER][0].known ? 0 : 1;
    const struct least *least = &pair->least[EVER][direction];
    bool towards = (direction == 0) == to_is_high; /* the host receives */
    double apart = to->offset_start_ns - offset_at(from, moment_of(least, direction, !to_is_high));
    return (double)least->ns + (towards ? apart : -apart);
}

static void set_one_way(struct between *pair, const struct timeline_host *from, struct timeline_host *to, bool high)
{
    bool first = pair->least[EVER][0].known, towards = first == high;
    const struct least *least = &pair->least[EVER][first ? 0 : 1];
    double delay = least_delay(pair, from, to, high); /* it was not moved yet */
    to->offset_start_ns = delay >= TIMELINE_LEAST_NS ? 0
                          : towards                  ? TIMELINE_LEAST_NS - delay
                                                     : delay - TIMELINE_LEAST_NS;
    to->offset_end_ns = to->offset_start_ns;
    to->start_ns = to->end_ns = moment_of(least, first ? 0 : 1, high);
    to->how = TIMELINE_ONE_WAY;
}

static void set_both_ways(struct between *pair, const struct timeline_host *from, struct timeline_host *to, bool high)
{
    double start = pair_moment(pair, FIRST, high), end = pair_moment(pair, LAST, high);
    double drift = (pair_ahead(pair, LAST, high) - pair_ahead(pair, FIRST, high)) / (end > start ? end - start : 1);
    bool twice = pair_knows_both(pair, FIRST) && pair_knows_both(pair, LAST) && end > start && fabs(drift) < DRIFT_MOST;
    enum part first = twice ? FIRST : EVER, last = twice ? LAST : EVER;
    to->how = twice ? TIMELINE_BOTH_WAYS : TIMELINE_ONCE;
    to->start_ns = pair_moment(pair, first, high);
    to->end_ns = pair_moment(pair, last, high);
    to->offset_start_ns = offset_at(from, pair_moment(pair, first, !high)) - pair_ahead(pair, first, high);
    to->offset_end_ns = offset_at(from, pair_moment(pair, last, !high)) - pair_ahead(pair, last, high);
    to->bound_ns = number_max(pair_bound(pair, first, from), pair_bound(pair, last, from));
}

/* `host` from one that is known: by their messages, or by what monitors have found, if that is nearer to the truth and
 * no message says that it is wrong. */
static void set_host(struct timeline *timeline, struct between *pair, uint32_t reference, uint32_t known, uint32_t host)
{
    struct timeline_host *to = &timeline->hosts[host], compared;
    const struct timeline_host *from = &timeline->hosts[known];
    bool high = host == pair->key.high, two = pair_knows_both(pair, EVER);
    pair->used = true;
    if (two)
        set_both_ways(pair, from, to, high);
    bool better = timeline_known(timeline, reference, host, &compared);
    if (better && two)
        better = to->bound_ns < 0 ||
                 (compared.bound_ns < to->bound_ns &&
                  fabs(compared.offset_start_ns - to->offset_start_ns) <= compared.bound_ns + to->bound_ns);
    else if (better)
        better = least_delay(pair, from, &compared, high) >= -compared.bound_ns - number_max(from->bound_ns, 0);
    if (better)
        *to = compared;
    else if (!two)
        set_one_way(pair, from, to, high);
}

/* The pair that connects a known host with another one best: in both directions, and with the most messages. */
static struct between *best_pair(const struct estimate *estimate, const bool *known)
{
    struct between *best = NULL;
    for (struct between *pair = estimate->pairs; pair; pair = pair->hh.next) {
        if (known[pair->key.low] == known[pair->key.high])
            continue;
        bool better = !best || pair_knows_both(pair, EVER) > pair_knows_both(best, EVER) ||
                      (pair_knows_both(pair, EVER) == pair_knows_both(best, EVER) && pair->messages > best->messages);
        best = better ? pair : best;
    }
    return best;
}

static int set_hosts(struct estimate *estimate)
{
    struct mpi_messages *messages = estimate->messages;
    struct timeline *timeline = &messages->timeline;
    _cleanup_(freep) bool *known = calloc(timeline->host_count + 1, sizeof *known);
    if (!known)
        return -ENOMEM;
    uint32_t reference = messages->rank_count ? timeline->traces[messages->ranks[0].trace].host : 0;
    known[reference] = true;
    timeline->hosts[reference].how = TIMELINE_REFERENCE;
    timeline->hosts[reference].bound_ns = 0;
    for (uint32_t next = 0;; known[next] = true) {
        for (struct between *pair; (pair = best_pair(estimate, known));) {
            uint32_t from = known[pair->key.low] ? pair->key.low : pair->key.high;
            uint32_t host = known[pair->key.low] ? pair->key.high : pair->key.low;
            set_host(timeline, pair, reference, from, host);
            known[host] = true;
        }
        /* one that has exchanged nothing with these, only with others, if at all */
        while (next < timeline->host_count &&
               (known[next] || !timeline_known(timeline, reference, next, &timeline->hosts[next])))
            next++;
        if (next == timeline->host_count)
            break;
    }
    return 0;
}

static void count_early(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i], *from;
        for (size_t k = 0; k < rank->got_count; k++) {
            const struct mpi_end *sent = mpi_sent_of(messages, rank, &rank->got[k], &from);
            messages->timeline.early += sent && rank->got[k].end < sent->begin;
        }
    }
}

struct shift {
    const struct timeline *timeline;
    size_t trace;
};

static int64_t shift_time(void *ctx, int64_t ns)
{
    const struct shift *shift = ctx;
    return timeline_shift_host(shift->timeline, shift->trace, ns);
}

static void shift_ranks(struct mpi_messages *messages)
{
    for (size_t i = 0; i < messages->rank_count; i++) {
        struct shift shift = {&messages->timeline, messages->ranks[i].trace};
        mpi_messages_each_time(&messages->ranks[i], shift_time, &shift);
    }
}

int timeline_estimate(struct mpi_messages *messages)
{
    struct estimate estimate = {.messages = messages};
    struct timeline *timeline = &messages->timeline;
    count_early(messages);
    if (timeline->host_count < 2) {
        if (timeline->host_count) {
            timeline->hosts[0].how = TIMELINE_REFERENCE;
            timeline->hosts[0].bound_ns = 0;
        }
        return 0;
    }
    timeline_drift(messages);
    int code = sample_all(&estimate);
    estimate.windows = true;
    if (code == 0)
        code = sample_all(&estimate);
    if (code == 0)
        code = set_hosts(&estimate);
    if (code == 0)
        shift_ranks(messages);
    HASH_FREE_ALL(estimate.pairs);
    return code;
}
