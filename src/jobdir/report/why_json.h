/* SPDX-License-Identifier: Apache-2.0 */
/* The analysis of analysis/why.h as JSON, apart because the monitor links no JSON. */
#ifndef SCRY_JOBDIR_REPORT_WHY_JSON_H
#define SCRY_JOBDIR_REPORT_WHY_JSON_H

#include <jansson.h>

#include "jobdir/analysis/why.h"

/* doc/reference/why.schema.json: a new reference, or NULL. */
json_t *mpi_why_json(const struct mpi_why *why);

#endif
