/* SPDX-License-Identifier: Apache-2.0 */
/* scry ps, for programs. All return a new reference, or NULL when out of memory. */
#ifndef SCRY_CLI_JOBS_PS_JSON_H
#define SCRY_CLI_JOBS_PS_JSON_H

#include <stdbool.h>

#include <jansson.h>

#include "cli/jobs/ranks.h"
#include "jobdir/report/report.h"

/* Whether anything is known of what it used: of a job elsewhere, lists have only that it runs. */
/* Of a job that is elsewhere: whether it has signed what is known of it. *ret_known: somebody could tell. */
bool ps_is_signed(const struct job_report *report, bool *ret_known);
bool ps_is_measured(const struct job_report *report, const struct job_result *result);

/* One of .jobs, with its ranks (none if it is over). */
json_t *ps_job_json(const struct job_report *report, const struct rank_now *ranks, size_t rank_count);
/* A job whose directory cannot be read. */
/* Why it failed, or what its exit status of 0 hides, as far as is known; NULL: nothing. */
const char *ps_reason(const struct job_report *report);
/* How far it said last that it is; NULL: it did not. */
const json_t *ps_progress(const struct job_report *report);
json_t *ps_unreadable_json(const char *path, const char *reason);
json_t *ps_schema(void);

#endif
