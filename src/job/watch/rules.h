/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional requests of scry run: the rules of --rule, and its own for changed settings and for stalls. Each is
 * defined, then enabled. Its replies go to a function. Rules are for the job's traced processes, which the monitor
 * attaches to the tool that follows the job.
 */
#ifndef SCRY_JOB_WATCH_RULES_H
#define SCRY_JOB_WATCH_RULES_H

#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

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
