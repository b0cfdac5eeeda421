/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with MPI: as soon as an MPI library is in the process, the interposer that fits (src/mpi) is loaded from
 * SCRY_MPI_DIR or from the agent's own folder, and catches the calls. Everybody else pays a look at the names of what
 * is loaded.
 */
#ifndef SCRY_AGENT_HOOKS_MPI_H
#define SCRY_AGENT_HOOKS_MPI_H

#include <stdbool.h>

#include "shm/late.h"

/* Whether the process has an MPI library, wanted or not. */
bool agent_mpi_found(void);
/* At the start: SCRY_MPI and SCRY_MPI_DIR, or NULL. Both are copied. `can_load`: the C library is initialised, so that
 * dlopen can be called; else it is looked when something else is loaded. */
void agent_mpi_start(const char *mode, const char *dir, bool can_load);
/* The same for a program that runs already: whether its calls are caught now. */
enum late_result agent_mpi_late(const char *dir);
/* Something was loaded since. */
void agent_mpi_detect(void);
/* The calling thread goes to dlopen. */
void agent_mpi_opens(void);
/* The program is going to restrict its system calls; `why` goes to the monitor. */
void agent_mpi_seal(const char *why);
/* Whether dlsym's answers may have to be others. */
bool agent_mpi_asks(const char *name);
/* What dlsym shall return for `name`, for which the C library's finds `found`. */
void *agent_mpi_symbol(const char *name, void *found);

#endif
