/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_EXPORT_EXPORT_H
#define SCRY_JOBDIR_EXPORT_EXPORT_H

#include "jobdir/analysis/messages.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/mpi/trace.h"
#include "jobdir/trace/calls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Traces for other programs. One row a format; each is fed the traces of a job one after the other and writes as it
 * goes, in memory that does not grow with the number of calls.
 */

struct exporter {
    FILE *out;
    struct buf text;                     /* not yet written */
    uint64_t start_ns;                   /* wall time that is 0 */
    const struct mpi_messages *messages; /* and the common time line; NULL: no process has calls of MPI */
    const struct sampled *sampled;       /* with EXPORT_SAMPLES; NULL: there are none */
    int64_t from_ns, to_ns;              /* what is asked for, after the start; INT64_MIN, INT64_MAX: all */
    bool chosen;                         /* only some functions, or threads, or depths are wanted */
    const char *title, *command;         /* of the job, for people */
    bool failed;                         /* out takes no more: errno is in `error` */
    int error;
    void *state; /* the format's own */
    /* of the trace that is read */
    const struct trace *trace;
    size_t number;         /* which it is, from 0 */
    struct mpi_trace *mpi; /* its rank, and where its calls of MPI come from; NULL: not known */
};

enum export_messages {
    EXPORT_NO_MESSAGES,
    EXPORT_WITH_MESSAGES, /* exporter->messages is there if there are any */
    EXPORT_NEEDS_MESSAGES,
    EXPORT_MESSAGES_ONLY, /* and no other event: everything is written by `begin` */
    EXPORT_SAMPLES,       /* of the profile, and nothing of traces: likewise */
};

struct export_format {
    const char *name; /* as --format takes it: options/table.c has it, too */
    enum export_messages messages;
    bool clips;                              /* calls that began before exporter->from_ns are given, too */
    int (*begin)(struct exporter *exporter); /* these four: 0 or -errno */
    int (*trace_begin)(struct exporter *exporter);
    int (*trace_end)(struct exporter *exporter);
    int (*end)(struct exporter *exporter);
    void (*done)(struct exporter *exporter); /* frees the state, whatever went before */
    struct call_visitor visitor;             /* its ctx is the exporter */
};

/* NULL after the last; by name NULL if there is none. */
const struct export_format *export_format_at(size_t index);
const struct export_format *export_format_find(const char *name);

extern const struct export_format export_chrome, export_folded, export_folded_cpu, export_folded_waiting, export_csv,
    export_messages, export_samples, export_pprof, export_speedscope, export_spacetime;

/* Writes what has gathered, when it is much or `all`. */
void export_flush(struct exporter *exporter, bool all);
/* ns after the start of the job; 0 for what lies before it. */
uint64_t export_ns(const struct exporter *exporter, uint64_t ticks);
/* The name of the traced program, without folders. */
const char *export_program(const struct trace *trace);

#endif
