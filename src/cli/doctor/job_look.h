/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry doctor looks at of a job (doctor/job.c), and its part on programs: whether they have hooks and symbols
 * (doctor/job_programs.c).
 */
#ifndef SCRY_CLI_DOCTOR_JOB_LOOK_H
#define SCRY_CLI_DOCTOR_JOB_LOOK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "cli/doctor/doctor.h"
#include "job/launch/program.h"
#include "job/watch/tracing.h"
#include "jobdir/report/report.h"

enum { JOB_LOOK_SHOWN = 8 }; /* findings of one kind, names in a line */

struct seen_program {
    struct program program;
    struct program_symbols symbols;
    size_t processes, untraced; /* untraced: they executed it, and have no trace */
};

struct job_look {
    struct doctor_out *out;
    char path[PATH_MAX];
    struct job_report report;
    json_t *settings;  /* in force */
    bool hooks_needed; /* functions were to be traced by their hooks */
    struct seen_program *programs;
    size_t program_count, hooked;
    size_t ranks;
    size_t traced;          /* processes that have traces, as far as they are in the records */
    size_t copies;          /* whose parents were searched for */
    size_t unknown;         /* processes whose program is not known */
    size_t monitor_told;    /* warnings about the monitor */
    struct trace_info live; /* from the monitor; not `known`: the job is over, or no answer */
};

/* Of the traces; of a job without any, all 0. */
const struct job_functions *job_look_functions(const struct job_look *look);
/* Text from the job, with control characters escaped. */
const char *job_look_shown(const char *text, char *to, size_t size);

/* Looks at the programs of the job's command and processes as they are now. 0 or -ENOMEM; look->programs is to be freed
 * in any case. */
int job_programs_see(struct job_look *look);
void job_programs_check_hooks(struct job_look *look);
void job_programs_check_symbols(struct job_look *look);

#endif
