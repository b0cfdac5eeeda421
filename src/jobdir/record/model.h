/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's state and history, made from its records one after the other. scry run feeds it what it records, reports and
 * views feed it what they read from the spool: both say the same. jobdir/record/kinds.h has the kinds of records.
 */
#ifndef SCRY_JOBDIR_RECORD_MODEL_H
#define SCRY_JOBDIR_RECORD_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "base/data/err.h"
#include "jobdir/record/layers.h"
#include "jobdir/record/trend.h"
#include "jobdir/text/fields.h"

/*
 * Records of which a job may have any number, warnings above all: of each kind the first ones and the last ones are kept, and all are
 * counted. So neither a supervisor nor a report grows with them.
 */

/* Of each kind: the first KEPT_EACH, and at least as many of the last; never three times as many. Beyond KEPT_KINDS all others are one. */
enum { KEPT_EACH = 100, KEPT_KINDS = 200 };

struct kept_kind {
    uint64_t total;
    size_t kept;
    UT_hash_handle hh;
    char name[];
};

struct kept {
    json_t *records; /* an array, in their order; the same one until kept_done */
    uint64_t total;
    struct kept_kind *kinds; /* hash by name */
};

int kept_init(struct kept *kept); /* 0, or -ENOMEM */
void kept_done(struct kept *kept);
/* `record` is borrowed; its kind is its "note", else its "kind", else "". */
void kept_add(struct kept *kept, const json_t *record);
/* How many are not kept, by kinds: an array of kept_omitted_fields; empty: all are. A new reference. */
json_t *kept_omitted(const struct kept *kept);
extern const struct field kept_omitted_fields[];

enum { JOB_NAME_SIZE = 64, JOB_COMMANDS = 1000, JOB_FIRINGS = 10000, JOB_WHYS = 50, JOB_STATUS_UNKNOWN = -1 };

/* The signal that ended it; 0: none, or not known. */
int job_status_signal(int status);

/* The source of a status: none, the kernel's process events, a pidfd, scry run as the parent. */
enum job_status_source { JOB_STATUS_BY_NOBODY, JOB_STATUS_BY_EVENT, JOB_STATUS_BY_PIDFD, JOB_STATUS_BY_WAIT };
const char *job_status_source_name(enum job_status_source source); /* as in records; NULL: no source */

/* Why a status is unknown: there are a handful of texts. */
struct job_why {
    uint64_t count;
    UT_hash_handle hh;
    char text[];
};

struct job_process {
    pid_t pid, ppid;
    const char *node;  /* that it is on, if its job has parts on other nodes; NULL: the job's own. The model's */
    double start, end; /* end < 0: alive, as far as is known */
    char name[JOB_NAME_SIZE];
    char state; /* the kernel's letter; '?' before it was sampled */
    int status; /* wait status, or JOB_STATUS_UNKNOWN */
    enum job_status_source source;
    const char *why;    /* it is unknown; of the model; NULL: nothing is said */
    json_t *argv, *cwd; /* NULL: unknown */
    bool argv_cut;
    uint64_t cpu_ns, rss, peak_rss, threads, peak_threads;
    struct process_bytes bytes;
    bool bytes_sampled; /* as seen last: nothing was told at its end */
    bool alone;         /* it is the parent of none that is known */
    double sampled;     /* when cpu_ns was taken */
    double cpu_share;   /* processors used between the last two samples, 1.0 is one */
    UT_hash_handle hh;
};

/* All processes of one name. */
struct job_command {
    char name[JOB_NAME_SIZE];
    uint64_t count, cpu_ns, peak_rss;
    struct process_bytes bytes; /* of those of which it is known */
    bool bytes_sampled;         /* of some as seen last */
    UT_hash_handle hh;
};
void job_bytes_add(struct process_bytes *sum, const struct process_bytes *more);

struct job_model {
    size_t keep_limit;         /* ended processes to keep, set before the first record */
    const char *part;          /* name of the node, of a part of a job; set before the first record, borrowed */
    struct job_process *alive; /* hash by pid */
    struct job_process *ended; /* in the order of their ends */
    size_t ended_count, ended_room;
    uint64_t ended_omitted;       /* beyond keep_limit */
    struct job_command *commands; /* hash by name, of ended processes; at most JOB_COMMANDS, then "(others)" */

    struct job_why *whys;     /* hash by text; at most JOB_WHYS */
    uint64_t failed, unknown; /* ended processes: with another status than 0; whose status is not known */

    uint64_t started_total, ended_total;      /* processes; counted also when they are not listed */
    uint64_t processes, threads, rss, cpu_ns; /* now, of the tree */
    double cpu_share;                         /* of the tree, between the last two samples */
    double alive_share;                       /* the same of the last ones that had processes */
    uint64_t peak_processes, peak_threads, peak_tree_rss, peak_rss;
    struct memory_record memory, peak_memory; /* of the last record of it, and where it was most; 0: there was none */
    struct trend growth;                      /* of the resident size of all processes */
    uint64_t measured_rss;                    /* of those records the most */
    struct series processes_series, rss_series, cpu_series;

    json_t *node, *node_sample, *stall, *end; /* the last of each, or NULL */
    json_t *standing;                         /* what it stands still in now; NULL: it goes on, or that is not known */
    json_t *request;                          /* the last that was carried out; NULL: none */
    struct kept warnings, gaps;
    json_t *crashes;
    json_t *pauses; /* array of {from, to}: when nothing was recorded because scry set said so; to null: on */
    bool switched_off, trace_off; /* on=no, trace=off */
    json_t *firings;              /* array of `rule` records: of each rule the first, see job/watch/tracing.h */
    json_t *files;                /* the record of --files, or NULL */
    json_t *syscalls;             /* the record of --syscalls, or NULL */
    json_t *rules;                /* the last list of rules and how often each fired, or NULL */
    bool singly;
    char reason[256]; /* why not singly */
    struct layers layers;
    double last_seconds;
    double rated_seconds; /* when cpu_share was taken, and the time used until then */
    uint64_t rated_cpu_ns;
    uint64_t records, samples, next_seq;
    uint64_t missing_records; /* holes in the sequence */
};

/* The memory of all processes now, with shared pages counted once as far as known: between two records as at the last one. */
uint64_t job_model_memory(const struct job_model *model);
/* The most of that, not less than the largest process has; 0: it was not read, for little can be shared. Where it grew since it
 * was read, the most that it can be. */
uint64_t job_model_peak_memory(const struct job_model *model, uint64_t largest);

/* The process of that number that ended last; NULL: none is listed. */
const struct job_process *job_model_ended(const struct job_model *model, pid_t pid);

int job_model_init(struct job_model *model, size_t keep_limit);
void job_model_done(struct job_model *model);
/* Borrowed. Members that are missing or of the wrong type count as 0; unknown types of records are ignored. */
void job_model_apply(struct job_model *model, const json_t *record);

/* Reads the whole spool of a job directory. What could not be read is described in `problems` (an array of strings).
 * Only a newer version is an error. */
int job_model_read(struct job_model *model, const char *path, json_t *problems, struct err *err);

static inline uint64_t job_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
