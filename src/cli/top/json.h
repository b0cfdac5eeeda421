/* SPDX-License-Identifier: Apache-2.0 */
/* scry top, for programs. Both return a new reference, or NULL when out of memory. */
#ifndef SCRY_CLI_TOP_JSON_H
#define SCRY_CLI_TOP_JSON_H

#include <jansson.h>

#include "cli/jobs/ranks.h"
#include "cli/top/functions.h"
#include "jobdir/report/report.h"

json_t *top_json(const struct job_report *report, const struct rank_list *ranks, const struct top_functions *functions);
json_t *top_schema(void);

/* Of a struct top_function; the table's columns belong to a struct top_functions_view. */
extern const struct field top_function_fields[];
struct top_functions_view {
    const struct top_functions *functions;
    bool narrow;
};

#endif
