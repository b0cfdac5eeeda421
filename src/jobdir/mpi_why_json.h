/* SPDX-License-Identifier: Apache-2.0 */
/* The analysis of mpi_why.h as JSON, apart because the monitor links no JSON. */
#ifndef SCRY_JOBDIR_MPI_WHY_JSON_H
#define SCRY_JOBDIR_MPI_WHY_JSON_H

#include <jansson.h>

#include "jobdir/mpi_why.h"

/* doc/reference/why.schema.json: a new reference, or NULL. */
json_t *mpi_why_json(const struct mpi_why *why);

#endif
