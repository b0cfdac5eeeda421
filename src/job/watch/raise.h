/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_WATCH_RAISE_H
#define SCRY_JOB_WATCH_RAISE_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/record/kinds.h"

#include <jansson.h>
#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Gives records to the monitor as events (service/job/raise.h), for rules: those kinds that some request waits for, as
 * the monitor tells. One request is under way at a time, the next ones wait, and of more than RAISE_RATE of one kind a
 * second the rest is counted: lines of scripts keep away no failure. Nothing here blocks. Not thread-safe.
 */

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

/* The rule that tells what is wanted, cut to its room, and takes what it printed. */
void raise_rule(char *ret_rule, size_t size, const char *dir);
void raise_take(struct raises *raises, Omis_reply reply);

/* Another monitor, which knows of no request yet. */
void raise_restart(struct raises *raises);
/* Borrows the record. */
void raise_record(struct raises *raises, enum record_type type, const json_t *record);
/* What was raised until now has been done when `asking` is false again. */
void raise_settle(struct raises *raises);
void raise_done(struct raises *raises);

/*
 * Conditional requests of scry run: the rules of --rule, and its own for changed settings and for stalls. Each is
 * defined, then enabled. Its replies go to a function. Rules are for the job's traced processes, which the monitor
 * attaches to the tool that follows the job.
 */

enum { RULES_LIMIT = 69 }; /* --rule, and five of our own */

struct rules;
typedef void rules_fired_fn(void *ctx, size_t rule, Omis_reply reply);

struct rule {
    struct rules *owner;
    const char *text;       /* borrowed */
    bool optional;          /* no error if the monitor refuses it */
    uint64_t fired, failed; /* how often; some action of it failed */
    struct err action_err;  /* of the first failure */
};

struct rules {
    struct rule list[RULES_LIMIT];
    size_t count;
    int arming;     /* requests under way; when 0, all are in force or failed */
    bool lost;      /* the monitor went away while they were being armed */
    struct err err; /* of the first that failed */
    rules_fired_fn *fired;
    void *ctx;
};

/* `text` must live as long as the rules do. */
void rules_add(struct rules *rules, const char *text, bool optional);
/* Sends the rules, also again to another monitor. */
void rules_arm(struct rules *rules);

#endif
