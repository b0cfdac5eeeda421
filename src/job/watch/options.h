/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `scry run` in the form that a job needs, and the changes that `scry set` makes while it runs. The
 * options and their types are in options/table.h.
 */
#ifndef SCRY_JOB_WATCH_OPTIONS_H
#define SCRY_JOB_WATCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/err.h"
#include "broker/url.h"
#include "options/options.h"

enum { RUN_SETTINGS = 32, RUN_RULES = 64, RUN_LOGS = 64, RUN_METRICS = 16 };

/* In the order of the words of --mpi. */
enum run_mpi { RUN_MPI_AUTO, RUN_MPI_OFF, RUN_MPI_STATS, RUN_MPI_TRACE, RUN_MPI_MESSAGES };

/* In the order of the words of --script: what is seen of shell scripts and Python. */
enum run_script { RUN_SCRIPT_OFF, RUN_SCRIPT_OUTSIDE, RUN_SCRIPT_CALLS, RUN_SCRIPT_LINES };

/* A setting of the job in the monitor (service job_set), as given and checked. */
struct run_setting {
    const char *key, *value;
};

struct run_options {
    char **command;        /* NULL-terminated */
    const char *dir;       /* NULL: a new one */
    const char *part_of;   /* the id of the job that this is a part of; NULL: it is a job of its own */
    const char *home;      /* and the job's directory */
    const char *for_parts; /* options for parts of this job, as "--trace=all\t--args"; "": none */
    const char *name;      /* "": none */
    const char *hide_args; /* see jobdir/text/hide_args.h */
    const char *log_level; /* for scry run and the monitor (base/system/log.h); NULL: unchanged */
    bool quiet, crash_stack, files, syscalls;
    bool anyway; /* what cannot be done ends in a run without scry, not in none */
    double sample_seconds;
    unsigned profile_hz; /* 0: no profile */
    bool profile_given;  /* that there can be none is said */
    uint64_t max_bytes;
    enum run_mpi mpi;
    enum run_script script;
    bool script_given;    /* what cannot be seen of scripts is said */
    double stall_seconds; /* report ranks without progress after this time; 0: never */
    double still_seconds; /* report a job of which nothing moves after this time; 0: never */
    bool trace_off;       /* --trace off: no functions are traced; with --mpi off nothing is loaded into the job */
    const char *loaded;   /* so what is loaded: "nothing", "functions"; NULL: all. Does not change */
    bool trace_wanted;    /* an option of tracing was given: warn if nothing is recorded */
    struct run_setting settings[RUN_SETTINGS];
    size_t setting_count;
    const char *rules[RUN_RULES]; /* conditional requests; their syntax was checked */
    size_t rule_count;
    const char *logs[RUN_LOGS]; /* --log; job/logs checks them */
    size_t log_count;
    const char *metrics[RUN_METRICS]; /* --metric; job/logs checks them */
    size_t metric_count;
    const char *log_patterns;
    bool tee; /* what it writes to pipes is passed on and kept, so many bytes of the end */
    uint64_t tee_bytes;
    const char *key; /* for requests through a broker: the absolute path of a key file, or its text; NULL: none */
    struct broker_url *broker; /* NULL: the job is not published */
    bool publish_output;       /* with what it prints */
    struct arena memory;       /* of combined or changed values */
};

/* Takes SCRY_KEY out of the environment. 0, or -errno with err for people. Command and texts are borrowed from `given`. Call run_options_done in any case. */
int run_options_take(struct run_options *ret_options, const struct options *given, struct err *err);
void run_options_done(struct run_options *options);

/* Does an option, or a setting, of a job concern its parts on other nodes, too? */
bool run_option_is_for_parts(const char *name);

/* Checks a setting that `scry set` can change while the job runs, and its value. 0 or -errno with err. */
int run_setting_check(const char *key, const char *value, struct err *err);
/* Changes options in use. The value is copied. */
int run_setting_change(struct run_options *options, const char *key, const char *value, struct err *err);

#endif
