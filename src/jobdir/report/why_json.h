/* SPDX-License-Identifier: Apache-2.0 */
/* The analysis of analysis/why.h as JSON, apart because the monitor links no JSON. */
#ifndef SCRY_JOBDIR_REPORT_WHY_JSON_H
#define SCRY_JOBDIR_REPORT_WHY_JSON_H

#include "jobdir/analysis/why.h"
#include "jobdir/text/fields.h"

extern const struct field mpi_why_fields[]; /* of a struct mpi_why, which is `all`, too */

#endif
