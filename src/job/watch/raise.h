/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives records to the monitor as events (service/job/raise.h), for rules: those kinds that some request waits for, as
 * the monitor tells. One request is under way at a time, the next ones wait, and of more than RAISE_RATE of one kind a
 * second the rest is counted: lines of scripts keep away no failure. Nothing here blocks. Not thread-safe.
 */
#ifndef SCRY_JOB_WATCH_RAISE_H
#define SCRY_JOB_WATCH_RAISE_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/record/kinds.h"

enum { RAISE_KINDS = 7, RAISE_RATE = 100, RAISE_TEXT = 4096 /* bytes of one text */ };

struct raise_place;

struct raises {
    const char *dir;              /* of the job; borrowed */
    uint32_t wanted;              /* bits, by the kinds of events */
    bool up, asking;              /* the monitor follows the job; a request is under way */
    struct buf waiting;           /* requests */
    uint64_t second_ns;           /* when this second began; */
    unsigned raised[RAISE_KINDS]; /* how many in it, of each kind */
    uint64_t omitted;             /* not raised though wanted */
    bool any;                     /* something was raised */
    struct raise_place *places;   /* the function that each shell is in: hash by pid */
};

/* Appends the rule that tells what is wanted, and takes what it printed. */
void raise_rule(struct buf *out, const char *dir);
void raise_take(struct raises *raises, Omis_reply reply);

/* Another monitor, which knows of no request yet. */
void raise_restart(struct raises *raises);
/* Borrows the record. */
void raise_record(struct raises *raises, enum record_type type, const json_t *record);
/* What was raised until now has been done when `asking` is false again. */
void raise_settle(struct raises *raises);
void raise_done(struct raises *raises);

#endif
