/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_FOLLOW_H
#define SCRY_STORE_FOLLOW_H

#include "store/store.h"
#include "store/teller.h"

#include <stdbool.h>

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

struct follow_options {
    const char *broker, *owner;
    bool all, owner_said; /* of all owners; it was said, and not by the URL */
    bool once, quiet;
    double keep_seconds, keep_minutes_seconds; /* 0: for ever */
    struct teller_options tell;                /* whom else */
};

/* Until SIGTERM or SIGINT, or with `once`, until all jobs that are there are over and stored. The exit status of the
 * program: 1: something is missing; or -errno with err. */
int follow_run(struct store *store, const struct follow_options *options, struct err *err);

#endif
