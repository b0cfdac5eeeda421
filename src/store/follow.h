/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_FOLLOW_H
#define SCRY_STORE_FOLLOW_H

#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Follows jobs at a broker into the record. The session is kept by the broker while we are away (QoS 1); what is missing
 * all the same, for we came late, or figures were dropped, is asked for again (doc/reference/broker.md). What is stored
 * is said in `stored` after it is on the disk. Records are lost only if three answers that should have them do not.
 *
 * All that came is written some times a second, in one transaction: records, which numbers there are, roll-ups, summaries. So
 * whenever it is killed, what is there is whole, and what is missing is known. Its owner is the topic's, for the broker has
 * checked that; days are those of arrival, for clocks of nodes may be wrong. One recorder holds the record's lock: two of one
 * name would have each other thrown out by the broker for ever.
 */

/*
 * The process that tells others of jobs while the recorder runs: `scry-site serve`. It reads the database, so
 * whatever its clients do, the recorder has nothing to do with it. It is started again when it ends.
 */

/* How the recorder is, as it says so about twice a second to the program that tells others, on its
 * standard input: these bytes, each time. Counters begin with the recorder. */
struct record_health {
    uint64_t written, repeated, dropped; /* records; dropped: to be asked for again, for there was no room */
    uint64_t pending_bytes;              /* not in the database yet */
    uint64_t messages;                   /* of the broker */
    double started, flushed;             /* wall clock; flushed: when the database last took something; 0: not yet */
    uint32_t connected, writable;        /* 0 or 1 */
};

struct notifier_options {
    const char *metrics; /* [ADDRESS:]PORT; NULL: none */
    const char *otlp;    /* http[s]://...; NULL: none */
    double retry_seconds;
};

struct notifier {
    struct notifier_options options;
    int listener, pipe; /* -1: none */
    pid_t pid;
    uint64_t again_ns, begun_ns;
    unsigned deaths;   /* in a row, of a program that did not last */
    char address[128]; /* where metrics are, for people; "": nowhere */
};

/* Looks at the options, and listens. 0 or -errno with err; notifier_end in any case. */
int notifier_open(struct notifier *ret_notifier, const struct notifier_options *options, struct err *err);
/* Starts it, if there is something to tell. SCRY_RECORD is the record. 0 or -errno with err. */
int notifier_start(struct notifier *notifier, struct err *err);
/* Says how the recorder is; starts it again if it has ended. */
void notifier_tick(struct notifier *notifier, const struct record_health *health, uint64_t now_ns);
/* Lets it send the rest, at most WAIT_TOLD. */
void notifier_end(struct notifier *notifier);

/* ---- following ---- */

struct follow_options {
    const char *broker, *owner;
    bool all, owner_said; /* of all owners; it was said, and not by the URL */
    bool once, quiet;
    double keep_seconds, keep_minutes_seconds; /* 0: for ever */
    struct notifier_options tell;              /* whom else */
};

/* Until SIGTERM or SIGINT, or with `once`, until all jobs that are there are over and stored. The exit status of the
 * program: 1: something is missing; or -errno with err. */
int follow_run(struct store *store, const struct follow_options *options, struct err *err);

#endif
