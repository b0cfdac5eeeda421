/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_TELLER_H
#define SCRY_STORE_TELLER_H

#include "base/data/err.h"

#include <stdint.h>
#include <sys/types.h>

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

struct teller_options {
    const char *metrics; /* [ADDRESS:]PORT; NULL: none */
    const char *otlp;    /* http[s]://...; NULL: none */
    double retry_seconds;
};

struct teller {
    struct teller_options options;
    int listener, pipe; /* -1: none */
    pid_t pid;
    uint64_t again_ns, begun_ns;
    unsigned deaths;   /* in a row, of a program that did not last */
    char address[128]; /* where metrics are, for people; "": nowhere */
};

/* Looks at the options, and listens. 0 or -errno with err; teller_end in any case. */
int teller_open(struct teller *ret_teller, const struct teller_options *options, struct err *err);
/* Starts it, if there is something to tell. SCRY_RECORD is the record. 0 or -errno with err. */
int teller_start(struct teller *teller, struct err *err);
/* Says how the recorder is; starts it again if it has ended. */
void teller_tick(struct teller *teller, const struct record_health *health, uint64_t now_ns);
/* Lets it send the rest, at most WAIT_TOLD. */
void teller_end(struct teller *teller);

#endif
