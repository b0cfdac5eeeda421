/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_JOBS_PS_H
#define SCRY_CLI_JOBS_PS_H

#include "cli/jobs/ranks.h"
#include "jobdir/report/report.h"

#include <jansson.h>
#include <stdbool.h>

/* scry ps, for programs. All return a new reference, or NULL when out of memory. */

json_t *ps_schema(void);

#endif
