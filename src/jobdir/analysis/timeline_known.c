/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that monitors have compared while the job ran (clock.json of a job's part). Theirs is of one moment, and
 * messages are of the whole time; but not all ranks exchange any, and few do in both directions.
 */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/data/clock_offset.h"
#include "jobdir/analysis/messages_internal.h"
#include "jobdir/record/parts.h"

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

void timeline_know(struct timeline *timeline, struct trace *const *traces)
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

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

void timeline_drift(struct mpi_messages *messages)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        first = rank->begin < first ? rank->begin : first;
        last = rank->finish > last ? rank->finish : last;
    }
    for (size_t i = 0; i < messages->timeline.host_count && first <= last; i++) {
        struct timeline_host *host = &messages->timeline.hosts[i];
        uint64_t before = distance(first, host->known_at_ns), after = distance(last, host->known_at_ns);
        if (host->known_bound_ns > 0)
            host->known_bound_ns += (double)clock_drift_ns(before > after ? before : after);
    }
}

bool timeline_known(const struct timeline *timeline, uint32_t reference, uint32_t host, struct timeline_host *ret_host)
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
