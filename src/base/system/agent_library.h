/* SPDX-License-Identifier: Apache-2.0 */
/* Where the libraries are that scry loads into programs. */
#ifndef SCRY_BASE_SYSTEM_AGENT_LIBRARY_H
#define SCRY_BASE_SYSTEM_AGENT_LIBRARY_H

#include <limits.h>

#include "base/data/err.h"

#define AGENT_LIBRARY "libscry-agent.so"

/* Finds the agent: $SCRY_AGENT_LIB, beside the program (installed or built), the compiled-in place. 0, or -ENOENT with
 * what to do. */
int agent_library(char *ret_path, int size, struct err *err);

/* The directory of the libraries for MPI programs: $SCRY_MPI_DIR, beside the agent, or as built. "": none. */
void agent_library_mpi(char ret_dir[PATH_MAX], const char *library);

#endif
