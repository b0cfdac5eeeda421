/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `scry run`: one table, read from the command line, the environment (SCRY_NAME) and a file (--config),
 * in this order of precedence. --trace and --rule may be given several times in one source, and then add up.
 */
#ifndef SCRY_JOB_OPTIONS_H
#define SCRY_JOB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { RUN_SETTINGS = 32, RUN_RULES = 64 };

enum run_mpi { RUN_MPI_AUTO, RUN_MPI_OFF, RUN_MPI_STATS, RUN_MPI_TRACE, RUN_MPI_MESSAGES };

/* What is set for the job in the monitor (service job_set), as it was given and checked. */
struct run_setting {
    const char *key, *value;
};

struct run_options {
    char **command; /* borrowed from argv, NULL-terminated */
    const char *dir, *name, *config;
    const char *hide_args; /* as job/hide_args.h has it */
    bool quiet, crash_stack, help;
    const char *keep_for, *keep_size; /* limits for old jobs, as scry rm takes them; NULL: none */
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
    uint64_t given, fixed; /* bits of the table's rows that have a value; from sources of higher precedence */
    struct arena memory;   /* of values that came from the file, or were put together */
};

/* 0; or -errno with err for people. */
int run_options_parse(struct run_options *ret_options, int argc, char **argv, struct err *err);
void run_options_done(struct run_options *options);

/* The options, one a line, for --help. */
void run_options_help(struct buf *out);

/* One setting that can be changed while the job runs (`scry set`): is there such a key, and is that a value of it? 0 or
 * -errno with err. */
int run_setting_check(const char *key, const char *value, struct err *err);
/* Changes options that are in use. The value is copied. */
int run_setting_change(struct run_options *options, const char *key, const char *value, struct err *err);
/* The keys, one a line, for --help. */
void run_settings_help(struct buf *out);

#endif
