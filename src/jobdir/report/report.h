/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run was, for people and for programs: made from job.json and the spool. The JSON's members are pinned in
 * doc/reference/report.schema.json.
 */
#ifndef SCRY_JOBDIR_REPORT_REPORT_H
#define SCRY_JOBDIR_REPORT_REPORT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/text/fields.h"
#include "jobdir/record/info.h"
#include "jobdir/record/model.h"
#include "jobdir/record/parts.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/report/functions.h"

enum { REPORT_PROCESSES = 100000 }; /* ended processes that a report lists singly */

struct job_report {
    const char *path;
    struct job_info info;
    enum job_state state;
    struct job_model model;
    json_t *problems;                /* what could not be read: array of strings */
    json_t *snapshots;               /* jobdir/report/rules.h; NULL: not read */
    struct job_functions *functions; /* of its traces; NULL: not read */
    struct mpi_report *mpi;          /* NULL: no MPI, or not read. The report's own */
    bool one_rank;                   /* of mpi_rank only */
    int mpi_rank;
    struct mpi_messages *messages; /* NULL: not read. The report's own */
    json_t *failed;                /* jobdir/report/failed.h; NULL: not read. The report's own */
    json_t *last;                  /* job_report_last; NULL: not made. Likewise */
    struct job_report *parts;      /* of its other nodes, without functions, MPI and messages, which are here */
    size_t part_count;
    struct part_clock clock; /* of a part; */
    double shift;            /* seconds from the start of the job until its start, by the job's clock */
};

/* Reads a job directory, as far as it can be read: only a missing or unreadable job.json without a spool, and newer
 * versions, are errors. Pass *ret_report to job_report_done in any case. `path` is borrowed. */
int job_report_load(struct job_report *ret_report, const char *path, struct err *err);
void job_report_done(struct job_report *report);
/* The reports of its parts, which job_report_load reads, too. 0 or -ENOMEM. */
int job_report_load_parts(struct job_report *report);
/* Adds a part without its records: its model is empty, and keeps no ended processes. NULL: no memory. */
struct job_report *job_report_add_part(struct job_report *report, const char *dir);
/* Reads again what changes while it runs: how it stands with it, and the clocks. */
void job_report_look_at_part(const struct job_report *report, struct job_report *part);
/* The models of the job and its parts, for i from 0 to part_count. */
static inline const struct job_model *job_report_model(const struct job_report *report, size_t i)
{
    return i ? &report->parts[i - 1].model : &report->model;
}
/* The sums over the job and its parts, as far as these were read: of peaks of all together, too, which need not be of the
 * same moment. What is of one process, or at once, is the greatest of a node; the rest is the job's own. */
struct job_result job_report_total(const struct job_report *report);
void job_report_parts_done(struct job_report *report);
/* How the ranks ended, by the records of the job and its parts. 0 or -ENOMEM. */
int job_report_find_ends(const struct job_report *report, struct mpi_stats_set *set);
/* Of a rank that has ended, and was outside of MPI for so long at the end: whether it slept or waited, rather than computed. */
bool job_report_was_idle(const struct job_report *report, const struct mpi_stats *stats, uint64_t ns);
/* What that one waited for outside of MPI, and where, if that is known: appends "sleeps, at main (a.c:3)". */
bool job_report_stood(const struct job_report *report, const struct mpi_stats *stats, uint64_t ns, struct buf *out);
/* Those that were noted, as records of spool.h, without those that are only counted (record/model.h); borrowed, may be NULL. */
const json_t *job_report_warnings(const struct job_report *report);
uint64_t job_report_warning_count(const struct job_report *report);   /* all */
json_t *job_report_warnings_omitted(const struct job_report *report); /* those not listed, as kept_omitted */
/* Reads the job's traces, too: report->functions. Calls of MPI have their places by report->mpi. 0 or -errno. */
int job_report_load_functions(struct job_report *report, const struct job_functions_options *options, struct err *err);

/* Reads the messages in the traces of its ranks, after report->mpi: report->messages. 0 or -errno. */
int job_report_load_messages(struct job_report *report, void (*progress)(void *ctx, double share), void *ctx,
                             struct err *err);

/* The values as of now: of an ended job its result, else what is known so far. */
struct job_result job_report_result(const struct job_report *report);

/* The rest of "was lost: ...". */
#define JOB_LOST_TEXT "neither the command nor its `scry run` is there any more, and no end was recorded"
/* How it ended, or how it stands with it, to be read after its name: "ended: exit status 1". */
void job_report_outcome(struct buf *out, const struct job_report *report);
/* Nobody has recorded its end, and nobody will. */
bool job_report_is_lost(const struct job_report *report);
/* Since when, and in what, a running job stands still: "deadlock for 40 s: ...", "has stood still for 40 s: ...". false: that is not so. */
bool job_report_put_standing(struct buf *out, const struct job_report *report);
extern const struct field report_standing_fields[]; /* the same, of a struct job_report */
/* How fast the job's memory grows, if it does so evenly, and when it comes to its limit: "grows 12 MB/s since 40 s; at this rate the
 * limit of its node in 3.0 min". Of one that is over: until its end. false: it does not. */
bool job_report_put_growth(struct buf *out, const struct job_report *report);
extern const struct field report_growth_fields[]; /* the same, of a struct job_report */
/* What it was stuck in when that was last looked at, by its warnings; NULL: nothing. */
const char *job_report_stall(const struct job_report *report);

/* What happened last in all layers (jobdir/layers/last.h); a new reference. NULL: it did not fail, or its records have
 * no layers, as those of older versions. */
json_t *job_report_last(const struct job_report *report);
/* What the exit status 0 of its command hides, as a note (hidden_failure): a rank that failed, a process that crashed, was killed
 * for lack of memory, or failed and said why, an error in a log. A new reference; NULL: nothing that is known. */
json_t *job_report_hidden(const struct job_report *report);

struct report_style {
    bool ascii;     /* no characters beyond ASCII */
    bool colour;    /* ANSI */
    size_t columns; /* lines are not longer: what does not fit goes on below. 0: as long as they are */
};
/* For a stream: colours on a terminal unless NO_COLOR is set, ASCII where the locale is not UTF-8. */
struct report_style report_style_for(int fd);

/* The short form, as scry run prints it at the end. The last line names the command to see more. */
void job_report_summary(struct buf *out, const struct job_report *report, struct report_style style);
/* The long form: the summary, then processes, course over time, gaps and what could not be read. */
void job_report_text(struct buf *out, const struct job_report *report, struct report_style style);

json_t *job_report_json(const struct job_report *report); /* a new reference, or NULL */
json_t *job_report_schema(void);                          /* of that; a new reference, or NULL */

void job_report_diff_text(struct buf *out, const struct job_report *a, const struct job_report *b);
json_t *job_report_diff_json(const struct job_report *a, const struct job_report *b);
json_t *job_report_diff_schema(void);

/* "exited", "signaled", "not_started"; of a job that has not ended, the name of its state. */
const char *job_report_status(const struct job_report *report);

/* Whether a process belongs into it: with one_rank, only those that are this rank. */
bool job_report_has(const struct job_report *report, const struct job_process *process);

/* What is said of a struct job_process, as in .processes[]; belongs to the struct job_report. */
extern const struct field job_process_fields[];

/* The statistics of the rank that a process of the profile is, by report->mpi; NULL: it is none, or not known. */
const struct mpi_stats *job_report_sampled_rank(const struct job_report *report, const struct sampled_process *process);

/* Of a struct job_report: "profile", which is read from the job directory; brief: without its tree and processes. */
extern const struct field report_profile_fields[], report_profile_brief_fields[];

/* Of the member "batch" of job.json. */
extern const struct field job_batch_fields[];

/* Why ranks do not move (jobdir/analysis/why.h): of a struct mpi_why, which is `all`, too. */
extern const struct field mpi_why_fields[];

#endif
