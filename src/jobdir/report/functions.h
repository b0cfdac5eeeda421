/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the traces of a job say as a whole: functions, who calls whom, the slowest calls, what tracing cost, crashes.
 * One pass over each trace, in memory that grows with the number of functions, not of calls.
 */
#ifndef SCRY_JOBDIR_REPORT_FUNCTIONS_H
#define SCRY_JOBDIR_REPORT_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>
#include <uthash.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/trace/calls.h"
#include "jobdir/trace/profile.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/mpi/text.h"
#include "jobdir/mpi/trace.h"

enum {
    FUNCTIONS_SLOWEST = 10,
    FUNCTIONS_SLOWEST_EACH = 3, /* of one function */
    FUNCTIONS_LAST = 8,         /* calls before a crash */
    FUNCTIONS_SITES = 100,      /* that --json has */
};

/* Of a function's time, what its threads did not have a processor: because they waited, because others had it, and why
 * or whether is not known. */
struct job_spent {
    double waiting_ns, preempted_ns, unknown_ns;
};
/* The rest, on a processor. False: too much of the time is not known. */
bool job_cpu_ns(double ns, const struct job_spent *spent, double *ret_ns);

struct job_function {
    char *key; /* name, file and line as one string */
    const char *name, *file;
    char *strings;
    uint32_t line;
    uint64_t counted; /* of the calls, those that were only counted: their time is in the total only */
    uint64_t unkept; /* of the calls, those whose records were overwritten, or beyond a limit: time in the total only */
    uint64_t thinned;    /* further calls, that were not recorded to keep the rate (--rate), */
    uint64_t tallied;    /* and of these, those for which records cost more than they tell: in their callers' time */
    bool calls_at_least; /* there were more of these, that were not even counted */
    uint64_t calls, unwound, open; /* open: never ended; their time counts until the end of the trace */
    uint64_t lost;                 /* ended, and when is not known: their time counts for nothing */
    double total_ns, self_ns, min_ns, max_ns, sum_ns; /* sum_ns: of all calls, also those inside each other */
    struct job_spent total_spent, self_spent;
    UT_hash_handle hh;
};

struct job_function_rank { /* of MPI, over all threads of the process */
    struct {               /* without padding: hashed as bytes */
        const struct job_function *function;
        struct mpi_who who; /* its program always, also if it is the only one */
    } key;
    uint64_t calls;
    double total_ns, self_ns;
    UT_hash_handle hh;
};

/* A process that has traces: one of each program that it executed. */
struct job_traced {
    char *key; /* NODE/PID */
    pid_t pid;
    size_t index;       /* from 0, as they were read */
    char *exe;          /* of the last program; "" */
    struct mpi_who who; /* rank -1: of no MPI program, or not known */
    UT_hash_handle hh;
};

struct job_function_process { /* over all threads and programs of the process */
    struct {                  /* without padding: hashed as bytes */
        const struct job_function *function;
        const struct job_traced *process;
    } key;
    uint64_t calls;
    double total_ns, self_ns;
    UT_hash_handle hh;
};

struct job_edge {
    struct {                                          /* without padding: hashed as bytes */
        const struct job_function *caller, *function; /* caller NULL: none recorded */
    } key;
    uint64_t calls;
    double total_ns;
    UT_hash_handle hh;
};

struct job_site { /* where a function is called from */
    char *key;
    const struct job_function *function;
    const char *module, *build_id;
    uint64_t offset; /* the return address, as the file of the module has it */
    bool inlined;
    uint64_t calls;
    double total_ns;
    const char *caller, *file; /* the function that calls; "": not known (job/places/place_names.h) */
    uint64_t line;
    UT_hash_handle hh;
};

struct job_slow_call {
    const struct job_function *function;
    double ns, start_seconds;
    pid_t pid;
    uint32_t tid;
    const char *how;          /* "returned", "unwound", "open" */
    char *arguments, *result; /* as text; NULL: not recorded */
    char *where;              /* a call of MPI came from there; NULL: it is none, or that is not known */
    struct mpi_who who;       /* of MPI, as in job_function_rank; rank -1 */
    bool timed;               /* of what its time was is known: */
    struct call_time time;
};

struct job_crash_calls {
    pid_t pid;
    uint32_t tid;
    int signal;
    uint64_t address;
    double seconds;
    char *stack; /* open calls, innermost first, one a line */
    char *last;  /* calls that ended last, the latest first, one a line */
};

struct job_unwatched { /* by reason */
    char *why, *names; /* of a few of its programs */
    size_t processes, programs;
    UT_hash_handle hh;
};

struct job_functions {
    struct job_traced *traced;               /* hash by key, in the order of their indices */
    struct job_function *functions;          /* hash by key; sorted by self time after the load */
    struct job_edge *edges;                  /* sorted by total time */
    struct job_function_rank *by_rank;       /* hash by key */
    struct job_function_process *by_process; /* likewise; only as was asked for */
    struct job_site *sites;                  /* sorted by total time */
    struct arena names;                      /* of sites */
    bool sites_named;                        /* their places in the source were looked up */
    struct mpi_who *ranks;                   /* that were traced, in their order */
    struct mpi_programs programs;
    size_t rank_count;
    struct job_slow_call slowest[FUNCTIONS_SLOWEST];
    size_t slowest_count;
    struct job_crash_calls *crashes;
    size_t crash_count;
    json_t *problems;  /* array of notes (notes_json.h): why something is missing */
    json_t *unwatched; /* array of strings: of what processes it is not known when they had a processor, and why */
    struct job_unwatched *unwatched_for;                   /* the same by reasons */
    size_t processes;                                      /* that have traces: one of each program that they ran */
    uint64_t events, discarded, overwritten, bytes;        /* overwritten: by the flight recorder */
    uint64_t functions_omitted, threads_omitted, too_deep; /* calls, threads, calls that there was no place for */
    uint64_t children_omitted;                             /* of fork: NOTE_left_alone, NOTE_unreached */
    uint64_t processes_omitted;                            /* that were to be traced: NOTE_refused, NOTE_late */
    uint64_t waits_ran_out,
        waits_dropped; /* --overflow wait: how often in vain, how many of `discarded` because of it */
    uint64_t tallied;  /* of thinned, those that nobody asked for, see job_function */
    bool calls_at_least;
    uint64_t thinned, min_time_ns, max_depth; /* what was left out as was asked for; 0: nothing */
    bool min_time_partly;                     /* min_time_ns was not in force all the time */
    double cost_seconds, self_ns;             /* self_ns: of all functions together */
    bool cost_bounded;                        /* cost_seconds cannot be true: it is cut to what the job used */
    size_t unfinished; /* traces that do not say that their process ended, which it did: counts are too low; a problem
                          each */
    bool limited;      /* the traces could not grow: from --max-size on, or while the disk was full */
    bool incomplete;   /* there was no time to read all of them: functions are missing */
    bool cut_off;      /* no monitor at the end of the job: NOTE_unwatched_to_end */
    size_t unread;     /* processes of which then nothing was read, nor what the monitor counted */
};

struct job_functions_options {
    pid_t process;                             /* 0: all */
    bool only_stats;                           /* only processes that `stats` are of */
    bool by_process;                           /* functions by process, too */
    uint64_t start_ns;                         /* wall time of the job's start */
    double cpu_seconds;                        /* that the job used in all; 0: not known */
    bool all_ended;                            /* no process of the job lives: its traces are complete */
    uint64_t budget_ns;                        /* give up after so long; 0: never */
    const struct mpi_stats_set *stats;         /* of its ranks, with the names of sites; NULL: none */
    void (*progress)(void *ctx, double share); /* NULL: none */
    void *ctx;
    /* Told the profile of each trace, when that is read. NULL: not wanted */
    void (*profiled)(void *ctx, const struct job_traced *process, const struct trace *trace,
                     const struct profile *profile);
    void *profiled_ctx;
};

/* Reads all traces of a job directory. There may be none: then there is nothing in it. 0 or -errno. */
int job_functions_load(struct job_functions **ret_functions, const char *jobdir,
                       const struct job_functions_options *options, struct err *err);
void job_functions_free(struct job_functions *functions);
/* What a process did in a function; NULL: nothing, or it was not asked for. */
const struct job_function_process *job_functions_of(const struct job_functions *functions,
                                                    const struct job_function *function,
                                                    const struct job_traced *process);
/* Whether there is a trace of this process. */
bool job_functions_traced(const struct job_functions *functions, const char *node, pid_t pid);

/* After names were given to sites: those in one line of the source become one, and the report shows them. */
void job_sites_join(struct job_functions *functions);

/* A few lines for the summary: the hottest functions, what tracing cost, problems but those that are among the job's
 * warnings (array of {text}; NULL: none). Nothing without traces. */
void job_functions_summary(struct buf *out, const struct job_functions *functions, const json_t *warnings);
/* The calls that a process was in when it crashed, `most` of them (0: none), the innermost first. False: not known;
 * `functions` may be NULL. */
bool job_functions_crash(struct buf *out, const struct job_functions *functions, pid_t pid, size_t most);
/* The sections of the report, for so many columns (0: as many as it takes). */
void job_functions_text(struct buf *out, const struct job_functions *functions, const json_t *warnings, size_t columns);
/* Nothing is missing of what was to be recorded. */
bool job_functions_complete(const struct job_functions *functions);
/* Sets .functions, .calls, .call_sites, .slowest_calls, .trace, .last_calls of the report. `functions` may be NULL. */
void job_functions_json(json_t *report, const struct job_functions *functions);

#endif
