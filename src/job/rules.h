/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional requests of scry run itself: the rules of --rule, and those by which it hears of changed settings and of
 * stalls. Each is defined and then enabled; what it reports is handed to a function. Rules are for the job's traced
 * processes: the monitor attaches them to the tool that follows the job as they come.
 */
#ifndef SCRY_JOB_RULES_H
#define SCRY_JOB_RULES_H

#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { RULES_LIMIT = 67 }; /* --rule, and three of our own */

struct rules;
typedef void rules_fired_fn(void *ctx, size_t rule, Omis_reply reply);

struct rule {
    struct rules *owner;
    const char *text;       /* borrowed */
    bool optional;          /* that it cannot be had is no error */
    uint64_t fired, failed; /* how often; some action of it failed */
    struct err action_err;  /* the first that did */
};

struct rules {
    struct rule list[RULES_LIMIT];
    size_t count;
    int arming;     /* requests under way; when 0, all are in force or failed */
    bool lost;      /* the monitor went away while they were being armed */
    struct err err; /* the first that failed */
    rules_fired_fn *fired;
    void *ctx;
};

/* `text` must live as long as the rules do. */
void rules_add(struct rules *rules, const char *text, bool optional);
/* Sends them, also again to another monitor. */
void rules_arm(struct rules *rules);

#endif
