/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_ANALYSIS_TIMELINE_H
#define SCRY_JOBDIR_ANALYSIS_TIMELINE_H

#include "jobdir/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One time line for the traces of several hosts. Processes of one host (one boot) share a clock, the time stamp
 * counter, and one calibration of it. How far the clocks of two hosts are apart is estimated twice, at the start and at
 * the end of what they exchanged, from the least delays in both directions (as NTP does, D. L. Mills, RFC 5905; for
 * traces: R. Hofmann, U. Hilgers, "Theory and Tool for Estimating Global Time in Parallel and Distributed Systems",
 * 1998), and interpolated linearly. Where monitors have compared the clocks (clock.json of a part), the more precise of
 * both counts. What then still arrives before it was sent is corrected by a controlled logical
 * clock (R. Rabenseifner, "The Controlled Logical Clock", 1997): the receive moves behind the send, what follows in its
 * rank moves with it, and goes back to its own time slowly. The order of what one process did is kept.
 */

enum {
    TIMELINE_LEAST_NS = 1000, /* so long a message between two hosts takes at least */
    TIMELINE_BACK = 100,      /* a corrected clock goes back by one part in so many */
};

enum timeline_how {
    TIMELINE_REFERENCE, /* the others are compared with it */
    TIMELINE_BOTH_WAYS, /* offset at the start and at the end, from messages in both directions */
    TIMELINE_ONCE,      /* likewise, but one offset for the whole time: there were too few messages for two */
    TIMELINE_ONE_WAY,   /* messages in one direction only: moved as far as needed for none to arrive too early */
    TIMELINE_AS_IT_IS,  /* no message connects it with the reference: its clock is believed */
    TIMELINE_KNOWN,     /* the monitors have compared the clocks, and messages do not say it better */
};

struct timeline_host {
    char *key;  /* of the boot */
    char *name; /* of the host */
    uint64_t zero_ns, ticks_per_second;
    enum timeline_how how;
    double offset_start_ns, offset_end_ns; /* that are added to its times at these moments (its own time) */
    double start_ns, end_ns;
    double bound_ns; /* so far the offset may be off at these moments; below 0: not known */
    bool known;      /* its clock was compared with the job's: */
    double known_ns, known_bound_ns;
    int64_t known_at_ns; /* when, in ns after the start by the job's clock */
};

struct timeline_knot { /* from `at` on (before it was corrected), so much later */
    int64_t at, shift;
};

struct timeline_trace {
    uint32_t host;
    struct timeline_knot *knots;
    size_t knot_count, knot_room;
};

struct timeline {
    uint64_t start_ns;
    struct timeline_host *hosts;
    size_t host_count;
    struct timeline_trace *traces; /* as in the list that was given */
    size_t trace_count;
    uint64_t early;     /* messages that arrived before they were sent, by the clocks as they were */
    uint64_t corrected; /* of them, those that the estimated offsets left so: corrected one by one */
    int64_t largest_ns; /* the furthest that a receive was moved for that */
};

/* Hosts and clocks of the traces, not yet compared. 0 or -ENOMEM. */
int timeline_init(struct timeline *timeline, struct trace *const *traces, size_t count, uint64_t start_ns);
void timeline_done(struct timeline *timeline);

/* Times are less than this away from the start (nine years): whatever stands in a trace, they can be computed with. */
#define TIMELINE_LIMIT_NS (INT64_C(1) << 58)
int64_t timeline_limit(int64_t ns);

/* ns after the start by the clock of the host alone. */
int64_t timeline_raw(const struct timeline *timeline, size_t trace, uint64_t ticks);
/* That on the common time line. */
int64_t timeline_map(const struct timeline *timeline, size_t trace, int64_t raw_ns);
/* The two steps of that: the offsets between hosts, then the corrections of single messages. */
int64_t timeline_shift_host(const struct timeline *timeline, size_t trace, int64_t raw_ns);

static inline int64_t timeline_ns(const struct timeline *timeline, size_t trace, uint64_t ticks)
{
    return timeline_map(timeline, trace, timeline_raw(timeline, trace, ticks));
}

/* When its clock was compared, first and last, on the common time line: seconds after the job's start. */
double timeline_compared_seconds(const struct timeline_host *host, bool last);
const char *timeline_how_name(enum timeline_how how); /* "both_ways" */

/* ---- for messages.c: compares, by the matched messages whose times are raw, and makes these times common ---- */

struct mpi_messages;
int timeline_estimate(struct mpi_messages *messages); /* sets the hosts' offsets; 0 or -ENOMEM */
int timeline_correct(struct mpi_messages *messages);  /* the controlled logical clock; likewise */

#endif
