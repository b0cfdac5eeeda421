/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_EXPORT_REPLAY_H
#define SCRY_JOBDIR_EXPORT_REPLAY_H

#include "jobdir/mpi/trace.h"
#include "jobdir/trace/calls.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A trace as a person reads it: calls in the order of time, indented by depth, with values, sources and durations. A
 * call that calls nothing else stands on one line, others on two:
 *
 *     0.001234  solve(n = 5, tol = 1e-06)  in main {k = 7}  stommel.c:210 from stommel.c:301
 *     0.001240    norm(n = 5)  {sum = 6.25}  = 2.5  310 ns  stommel.c:180 from stommel.c:214
 *     0.001262  end of solve  {i = 12}  = 3  28.1 us
 */

struct replay_options {
    struct call_filter filter;
    uint64_t min_ns;   /* calls that took less are not shown */
    uint64_t start_ns; /* wall time that is 0.000000 */
    bool json;         /* one object a call, in the order of their ends, and one an event */
    bool full_times;   /* wall time to the nanosecond, durations in ns */
    bool threads;      /* a column says which thread */
    bool colour;
    bool types;                /* with the declaration of each function, as far as it is known */
    struct mpi_trace *mpi;     /* of the trace, where calls of MPI come from; borrowed; NULL: not known */
    size_t columns;            /* lines are not longer: what does not fit goes on below. 0: as long as they are */
    size_t value_columns;      /* arguments, locals and results are cut to so many characters each; 0: they are not */
    void (*before)(void *ctx); /* called each time before something is written; NULL: none */
    void *ctx;
};

struct replay;

int replay_new(struct replay **ret_replay, const struct trace *trace, const struct replay_options *options,
               FILE *out); /* 0 or -ENOMEM; all are borrowed but the options themselves */
void replay_free(struct replay *replay);

/* Writes what an event makes known. 1: nothing more will be shown. 0, -ENOMEM or, when `out` takes no more, -EIO. */
int replay_event(struct replay *replay, const struct trace_event *event);
/* Says that recording was off between two wall times (to_ns UINT64_MAX: to the end). 0, -ENOMEM or -EIO. */
int replay_pause(struct replay *replay, uint64_t from_ns, uint64_t to_ns);
/* Writes the calls that wait for their end: for a trace that grows, when nothing comes. */
int replay_idle(struct replay *replay);
void replay_show_threads(struct replay *replay); /* from now on */

#endif
