/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with MPI: as soon as an MPI library is in the process, the interposer that fits (src/mpi) is loaded from
 * SCRY_MPI_DIR or from the agent's own folder, and catches the calls. Everybody else pays a look at the names of what
 * is loaded.
 */
#ifndef SCRY_AGENT_HOOKS_MPI_H
#define SCRY_AGENT_HOOKS_MPI_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/hooks/mpi_host.h"
#include "shm/area.h"
#include "shm/mpi_told.h"

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

/* ---- calls as functions (mpi_tell.c) ---- */

/* mpi_tell_x86_64.S: what goes wrong in them ends there, as in a hook */
uint64_t agent_mpi_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
void agent_mpi_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
bool agent_mpi_acts(uint32_t call, const struct mpi_told *told, uint64_t acts);
void agent_mpi_messages(const struct mpi_messages *messages);

/* ---- their short way ---- */

/*
 * The short way of MPI's calls, as hooks_x86_64.S has one for functions: a call that is recorded with its values, no
 * more and no less, on a stack that is known, with room in the packet, and messages that are reported with it, are written
 * in one piece: with one reservation, and one reading of the clock with the interposer. Values are those of programs that
 * only copy fields of struct mpi_told, which are learnt when a call takes the long way. So are lists of actions that have
 * a plan (agent/safety/act.h), of calls for which they are all.
 */

/* See mpi_host.h. */
extern _Atomic uint64_t mpi_short_acts[CALL_COUNT];
/* Another area. */
void mpi_short_forget(void);

#endif
