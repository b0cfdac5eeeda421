/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_MPI_WHY_H
#define SCRY_SERVICE_MPI_WHY_H

#include "base/data/buf.h"
#include "base/data/span.h"
#include "jobdir/analysis/why.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * mpi_get_wait_graph: why the ranks of a job do not move (jobdir/analysis/why.h). Those of this node are looked at here;
 * all nodes of the tool look at theirs (mpi_look), and what they saw is joined.
 */

struct scry_call;

#endif
