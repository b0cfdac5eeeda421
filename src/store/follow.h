/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_FOLLOW_H
#define SCRY_STORE_FOLLOW_H

#include "store/store.h"
#include "store/teller.h"

#include <stdbool.h>

/*
 * Follows jobs at a broker into the record. The session is kept by the broker while we are away (QoS 1); what is missing
 * all the same, for we came late, or figures were dropped, is asked for again (doc/reference/broker.md). What is stored
 * is said in `stored` after it is on the disk.
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
