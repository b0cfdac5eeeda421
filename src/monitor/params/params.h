/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_PARAMS_MPI_PARAMS_H
#define SCRY_MONITOR_PARAMS_MPI_PARAMS_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "shm/area.h"
#include "shm/mpi_told.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the events of MPI calls have as parameters: the arguments of the C function by number and by name, what follows
 * them for calls that communicate, and what a call is about. Where each of them is in struct mpi_told (shm/mpi_told.h).
 *
 *     par0              the result, once the call has ended
 *     par1 ... parN     the arguments of the C function; also by their names
 *     parN+1, parN+2    of calls that send: the message's token and its length in bytes; of calls that receive, too; of
 *                       send-receives those of the message that is sent, and in parN+3, parN+4 of the one received. Of
 *                       collective and one-sided calls no message, and the length.
 *     peer tag comm bytes received source source_tag ordinal
 *     result            as par0, of calls that return whether they succeeded (not MPI_Wtime)
 */

enum { MPI_CALL_WORDS = (CALL_COUNT + 63) / 64 }; /* of a set of calls: bits by enum call_id */

enum mpi_param_kind {
    MPI_PARAM_NONE,   /* the call has no such parameter, or not at this side */
    MPI_PARAM_SIGNED, /* a number, as the next two */
    MPI_PARAM_UNSIGNED,
    MPI_PARAM_FLOATING,
    MPI_PARAM_SENT, /* the message that is sent, */
    MPI_PARAM_GOT,  /* or received: tokens, no numbers */
};

struct mpi_param {
    enum mpi_param_kind kind;
    uint32_t offset; /* in struct mpi_told */
};

/* By its number. */
struct mpi_param mpi_param_at(uint32_t call, bool ended, unsigned number);
/* By its name: "count", "peer", "par3", "$par3". */
struct mpi_param mpi_param_named(uint32_t call, bool ended, struct span name);
/* It is one of the names of what a call is about, and this call has it. */
bool mpi_param_is_about(uint32_t call, bool ended, struct span name);
/* The greatest number that it has. */
unsigned mpi_param_last(uint32_t call);

/* Its 64 bits in what the call reported. */
int64_t mpi_param_bits(const struct mpi_told *told, struct mpi_param param);

/* Appends what it has, for people: "par1 buf, par2 count, ..., par7 message, par8 length". */
void mpi_params_print(struct buf *out, uint32_t call, bool ended);

/* ---- choosing calls ---- */

enum { MPI_NEAR = 3 };

/* Calls by names with wildcards, separated by commas, case-insensitive ("MPI_Send", "mpi_*send", "MPI_Win_*,MPI_Put");
 * "" and "all": all. 0; -ENOENT: with the first name that chooses none in ret_wrong, and calls with names near to it.
 */
int mpi_calls_choose(struct span text, uint64_t ret_calls[MPI_CALL_WORDS], struct span *ret_wrong,
                     const char *ret_near[MPI_NEAR]);
/* The same of a setting, where "none" chooses none. false: a name chooses none, or there is none. */
bool mpi_calls_parse(const char *text, uint64_t ret_calls[MPI_CALL_WORDS]);
/* That it chose none, for people: the parameter that named it, and what is near. -EINVAL. */
int mpi_calls_unknown(const char *param, struct span wrong, const char *const near[MPI_NEAR], struct err *err);

/* What a job wants traced: one setting at a time from text, as the table of options has it, and back. */

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
