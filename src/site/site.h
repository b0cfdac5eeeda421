/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SITE_SITE_H
#define SCRY_SITE_SITE_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "store/db.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

/*
 * What a site's administrator wants to know of all jobs of a record: how many where, of whom and in which state; nodes with
 * problems; and jobs that do not do what they should, each with the figures that say so and what to do about it. All from
 * the summary of each job and the roll-ups of its newest minutes (doc/reference/record.md): a few questions for all jobs,
 * none of which reads a record.
 */

struct site_filter {
    const char *owner, *node; /* NULL: all */
    double since_seconds;     /* jobs that are over: only those that ended so long ago, or later */
};

enum site_state { SITE_RUNNING, SITE_AWAY /* unreachable, lost, unwatched */, SITE_WELL, SITE_WRONG };

/* A job. Texts are owned by the site's memory. Numbers that are unknown are negative. */
struct site_job {
    int64_t key;
    const char *owner, *id, *name, *node, *state, *batch_system, *batch_id, *stalled_text, *last_warning, *cause,
        *cause_text;
    enum site_state kind;
    double started, last_t, wall_seconds, cpu_seconds, cpus_asked, time_asked_seconds, left_seconds, progress,
        stalled_t;
    int64_t node_cpus, node_memory_bytes, memory_used_bytes, memory_asked_bytes, rss_bytes;
    int64_t processes, warnings, log_errors, crashes, oom_kills, behind, lost, exit_code, signal;
    struct site_recent {
        int64_t minutes;                          /* of which there are figures; 0: none, and all others are unknown */
        double cpus;                              /* processors used */
        double pressure, iowait, throttled, load; /* shares: means of the minutes' peaks; load: the most */
        int64_t available_bytes, swap_used_bytes; /* the least, the most */
    } recent;
    struct site_ranks {
        int64_t count, busiest;              /* ranks of MPI; the one that computed most */
        double busiest_seconds, all_seconds; /* of computing */
    } ranks;
    UT_hash_handle hh; /* by key */
};

struct site_node {
    const char *name;
    int64_t jobs, running, away, wrong, crashes, oom_kills, cpus, memory_bytes, available_bytes, swap_used_bytes;
    double load, pressure, iowait, reserved; /* reserved: processors that the jobs that run asked for */
    UT_hash_handle hh;
};

struct site_user {
    const char *name;
    int64_t jobs, running, away, wrong, problems;
    double cpu_seconds,
        reserved_seconds;        /* of the jobs that asked for a number of processors: that number times their time */
    double reserved_cpu_seconds; /* of these jobs */
    UT_hash_handle hh;
};

struct site_count {
    const char *state;
    int64_t jobs;
};

/* How jobs failed that did: "exit status 3", "SIGSEGV", "out of memory". */
struct site_failure {
    const char *how;
    int64_t jobs;
};

enum { SITE_REASON_JOBS = 3 };

/* Why: jobs whose reasons are the same but for numbers and what stands in quotes. */
struct site_reason {
    const char *name;       /* what is the same */
    const char *cause;      /* the kind of the reason's note; "": none is known, and text is how they failed */
    const char *text;       /* of the newest one, */
    const char *owner, *id; /* which is this */
    const struct site_job *newest[SITE_REASON_JOBS]; /* that, and those before it; NULL: there are no more */
    int64_t jobs;
    UT_hash_handle hh;
};

/* A rule that holds for a job, or a node. */
struct site_problem {
    const struct site_rule *rule;
    const struct site_job *job; /* NULL: of the node */
    const char *node;
    double value, of; /* in the rule's unit; of < 0: there is nothing to compare with */
    const char *text, *advice;
};

struct site {
    char record[256];
    double time;               /* wall clock */
    double seconds;            /* that it took to ask */
    struct site_filter filter; /* borrowed */
    struct site_job *jobs;     /* hash, in the order of their starts, newest first */
    struct site_node *nodes;
    struct site_user *users;
    struct site_count states[16];
    size_t state_count;
    struct site_failure failures[32]; /* most jobs first; of more kinds the rest are not counted */
    size_t failure_count;
    struct site_reason *reasons; /* hash, most jobs first */
    struct site_problem *problems;
    size_t problem_count, problem_room;
    struct arena memory;
};

/* Asks the database. 0 or its errors, with err. site_done in any case. */
int site_ask(struct site *ret_site, struct db *db, const struct site_filter *filter, struct err *err);
void site_done(struct site *site);

/* ---- rules ---- */

struct site_verdict {
    double value, of;
    struct buf text, advice;
};

struct site_rule {
    const char *name, *unit, *about;
    /* One of them: does it hold? Then it says why. */
    bool (*of_job)(const struct site_job *job, struct site_verdict *ret_verdict);
    bool (*of_node)(const struct site_node *node, struct site_verdict *ret_verdict);
};
extern const struct site_rule site_rules[]; /* ends with {0} */

/* Of all jobs and nodes; -ENOMEM. */
int site_judge(struct site *site);

/* ---- what is printed (fields.c, fields.c) ---- */

/* New references; NULL: out of memory. */
json_t *site_json(const struct site *site);
json_t *site_schema(void);
/* For people, in lines of that width. */
void site_print(struct buf *out, const struct site *site, size_t columns);

#endif
