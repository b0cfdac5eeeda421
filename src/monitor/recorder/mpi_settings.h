/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of MPI, as people write it: `mpi-metrics`, `mpi-resolution`, `mpi-distributions`. Pure. */
#ifndef SCRY_MONITOR_RECORDER_MPI_SETTINGS_H
#define SCRY_MONITOR_RECORDER_MPI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/mpi_area.h"

enum { MPI_SELECTED = (CALL_COUNT + 63) / 64 };
bool mpi_calls_parse(const char *text, uint64_t ret_selected[MPI_SELECTED]); /* false: a pattern chooses none */

#endif
