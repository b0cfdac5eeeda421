/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interposer has the agent say to the monitor, and taking over the MPI area that comes back. Whatever goes
 * wrong, nothing is counted at all.
 */
#ifndef SCRY_MPI_WRAP_CONNECT_H
#define SCRY_MPI_WRAP_CONNECT_H

#include <stdbool.h>

struct mpi_host;

/* Once, after mpi_library_start. False: nothing may be redirected. With host->why_not the monitor gets that, and the
 * answer is false, too. */
bool mpi_connect(const struct mpi_host *host);

#endif
