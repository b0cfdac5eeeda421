/* SPDX-License-Identifier: Apache-2.0 */
/* What a job wants traced: one setting at a time from text, as the table of options has it, and back. */
#ifndef SCRY_MONITOR_PARAMS_TRACE_SETTINGS_H
#define SCRY_MONITOR_PARAMS_TRACE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "shm/area.h"

enum trace_mpi { TRACE_MPI_AUTO, TRACE_MPI_OFF, TRACE_MPI_STATS, TRACE_MPI_TRACE, TRACE_MPI_MESSAGES };

/* What the job's processes got at their start: nothing else can be switched on while it runs. */
enum trace_loaded { TRACE_LOADED_ALL, TRACE_LOADED_FUNCTIONS, TRACE_LOADED_NOTHING };

struct trace_settings {
    bool enabled;    /* --trace was given: that nothing comes is worth a word */
    bool off;        /* --trace off: nothing is recorded */
    bool on;         /* no: nothing is recorded, counted or run until it is yes again */
    char *selection; /* symbols/index/index.h; "": the program's own compiled-in hooks */
    bool args, locals, count_only;
    char *statics; /* source files whose static variables are recorded; "": of none */
    unsigned depth, string_bytes, array_items, value_bytes;
    uint64_t min_ns;
    unsigned max_depth, rate; /* 0: none */
    uint64_t buffer_bytes, max_bytes;
    enum area_policy policy;
    unsigned wait_us;
    enum area_reader reader;
    enum trace_loaded loaded;
    enum trace_mpi mpi;      /* of MPI programs: off, nothing is counted */
    uint32_t mpi_metrics;    /* enum mpi_metric */
    unsigned mpi_bits;       /* of distributions: 2^bits parts of each doubling */
    char *mpi_distributions; /* calls whose distributions are taken: "all", "none", or names with wildcards */
};
/* The defaults; strings are malloc'ed. */
int trace_settings_init(struct trace_settings *settings);
void trace_settings_done(struct trace_settings *settings);
/* One setting by its option's name: trace args locals count-only depth min-time max-depth buffer overflow rate max-size
 * read-by on mpi mpi-metrics mpi-resolution mpi-distributions; and loaded, which scry run says: all functions nothing.
 * 0, or -EINVAL with err: what was expected, or why it is refused. Unknown keys: -ENOENT. */
int trace_settings_set(struct trace_settings *settings, const char *key, const char *value, struct err *err);
/* All of them but loaded, as trace_settings_set takes them. */
void trace_settings_each(const struct trace_settings *settings,
                         void (*fn)(void *ctx, const char *key, const char *value), void *ctx);
/* Nobody said which calls are to be recorded: then only as many as cost the programs little. */
bool trace_settings_plain(const struct trace_settings *settings);
/* Bytes of values of one record at most. */
unsigned trace_settings_values(const struct trace_settings *settings);
/* Do captures depend on the setting? */
bool trace_settings_compiled(const char *key);

#endif
