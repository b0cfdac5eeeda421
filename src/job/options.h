/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `scry run` was told, in the form that a job needs, and what `scry set` changes of it while the job runs. Which
 * options there are, and how their values are written, is in options/table.h.
 */
#ifndef SCRY_JOB_OPTIONS_H
#define SCRY_JOB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "options/options.h"

enum { RUN_SETTINGS = 32, RUN_RULES = 64 };

/* As the table has the words of --mpi. */
enum run_mpi { RUN_MPI_AUTO, RUN_MPI_OFF, RUN_MPI_STATS, RUN_MPI_TRACE, RUN_MPI_MESSAGES };

/* What is set for the job in the monitor (service job_set), as it was given and checked. */
struct run_setting {
    const char *key, *value;
};

struct run_options {
    char **command;        /* NULL-terminated */
    const char *dir;       /* NULL: a new one */
    const char *name;      /* "": none */
    const char *hide_args; /* as job/hide_args.h has it */
    const char *log_level; /* of scry run and the monitor, as base/log.h names it; NULL: as it is */
    bool quiet, crash_stack;
    double sample_seconds;
    uint64_t max_bytes;
    enum run_mpi mpi;
    double stall_seconds; /* without progress of all ranks, to be told; 0: not */
    bool trace_off;       /* --trace off: no functions are traced; with --mpi off nothing is loaded into the job */
    const char *loaded;   /* so what is loaded: nothing, functions; NULL: all. As it was at the start */
    bool trace_wanted;    /* an option of tracing was given: that nothing comes is worth a word */
    struct run_setting settings[RUN_SETTINGS];
    size_t setting_count;
    const char *rules[RUN_RULES]; /* conditional requests; their syntax was checked */
    size_t rule_count;
    struct arena memory; /* of values that were put together, or changed */
};

/* 0; or -errno with err for people. The command and texts are borrowed from `given`. run_options_done in any case. */
int run_options_take(struct run_options *ret_options, const struct options *given, struct err *err);
void run_options_done(struct run_options *options);

/* One setting that can be changed while the job runs (`scry set`): is there such a key, and is that a value of it? 0 or
 * -errno with err. */
int run_setting_check(const char *key, const char *value, struct err *err);
/* Changes options that are in use. The value is copied. */
int run_setting_change(struct run_options *options, const char *key, const char *value, struct err *err);

#endif
