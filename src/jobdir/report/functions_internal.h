/* SPDX-License-Identifier: Apache-2.0 */
/* Inside jobdir: the traces of a job while they are read for its report (report/functions.c: all of them and what they
 * say of functions; report/functions_calls.c: what is kept of single calls). */
#ifndef SCRY_JOBDIR_REPORT_FUNCTIONS_INTERNAL_H
#define SCRY_JOBDIR_REPORT_FUNCTIONS_INTERNAL_H

#include "jobdir/trace/calls.h"
#include "jobdir/text/fields.h"
#include "jobdir/mpi/trace.h"
#include "jobdir/trace/profile.h"
#include "jobdir/report/functions.h"
#include "jobdir/trace/trace.h"

/* A call that ended. */
struct ended {
    uint32_t function;
    enum trace_exit how;
    uint64_t entry_time, time;
};

struct recent {
    struct ended calls[FUNCTIONS_LAST];
    uint32_t count;
};

/* One trace while it is read, with those that a later monitor went on with: calls that began in one and end in the
 * other are one call each. */
struct reading {
    struct job_functions *all;
    const struct job_functions_options *options;
    struct trace *trace;
    struct mpi_trace *mpi;
    struct mpi_who who; /* program 0: not known yet */
    struct job_traced *process;
    struct profile *profile;
    struct calls *calls;
    struct recent *recent; /* by thread */
    size_t recent_room;
    struct job_function **known; /* by id */
    size_t known_room;
    uint64_t *alone; /* by id: calls that are known though their beginning is not in the trace */
    size_t alone_room;
    struct job_site **sites; /* by places of the trace */
    size_t site_room;
    double least_slow_ns; /* shorter calls are not among the slowest */
    uint64_t last_time, events, gaps;
    int code;
};

/* A function by its id in the trace. NULL: out of memory, and reading->code is set. */
struct job_function *report_function(struct reading *reading, uint32_t id);

/* Which rank it is of which program, as far as is known by now. */
struct mpi_who report_who(struct reading *reading);

/* What a struct call_visitor calls; ctx is the reading. */
void report_call_begins(void *ctx, struct call *call, const struct trace_event *event);
void report_call_ends(void *ctx, struct call *call, const struct trace_event *event);
void report_other_event(void *ctx, const struct call *innermost, const struct trace_event *event);
void report_calls_free(struct job_functions *all);

/* report/functions_list.c. A call that ended; ns 0: how long it took is not known. */
void report_site_call(struct reading *reading, const struct call *call, double ns);
void report_sites_sort(struct job_functions *all);
void report_sites_free(struct job_functions *all);
void report_put_sites(struct buf *out, const struct job_functions *functions);
extern const struct field report_site_fields[]; /* of a struct job_site */
json_t *report_sites_json(const void *functions, const void *all);

/* Processes that were not watched all the time, a line for each reason why. */
void report_unwatched_text(struct buf *out, const struct job_functions *all);

/* report/functions_list.c: all functions, by rank, and who calls whom. */
enum { SHOWN_FUNCTIONS = 25 };
void report_functions_text(struct buf *out, const struct job_functions *functions, size_t columns);
extern const struct field report_functions_fields[]; /* of the struct job_functions */
/* One function as JSON, which has these fields, and what one rank did in it (NULL: it was not there). */
extern const struct field report_function_fields[];
json_t *report_function_json(const struct job_function *function);
/* Its name with the file without folders, and the line; the second: these only. */
void report_put_function(struct buf *out, const struct job_function *function);
void report_put_source(struct buf *out, const struct job_function *function);
/* What the number of its calls does not say. */
void report_put_remarks(struct buf *out, const struct job_function *function);
/* Nothing is known but how often it was called, and for how long in all; that is not known, either. */
bool report_only_counted(const struct job_function *function);
bool report_time_unknown(const struct job_function *function);
double report_share(double part, double whole); /* percent */
/* Under the title of a table in which something is missing without having been asked for. */
void report_put_not_whole(struct buf *out, const struct job_functions *functions, bool times);
/* For people: its program only if there are several. */
struct mpi_who report_shown_who(const struct job_functions *functions, struct mpi_who who);

/* report/functions_calls.c: the slowest calls, and those of threads that crashed. */
void report_slowest_text(struct buf *out, const struct job_functions *functions);
extern const struct field report_slowest_fields[]; /* of the struct job_functions */

#endif
