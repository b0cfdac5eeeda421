/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of MPI's calls, as hooks_x86_64.S has one for functions: a call that is recorded with its values, no
 * more and no less, on a stack that is known, with room in the packet, and messages that are reported with it, are written
 * in one piece: with one reservation, and the time that the interposer has taken. Values are those of programs that
 * only copy fields of struct mpi_told, which are learnt when a call takes the long way. So are lists of actions that have
 * a plan (agent/safety/act.h), of calls for which they are all.
 */
#ifndef SCRY_AGENT_HOOKS_MPI_SHORT_H
#define SCRY_AGENT_HOOKS_MPI_SHORT_H

#include "agent/hooks/agent.h"
#include "agent/hooks/mpi_host.h"
#include "shm/mpi_told.h"

/* The long way, as functions go it (mpi_tell.c); mpi_short_learn: the call went it. */
void mpi_long_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
void mpi_long_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
void mpi_long_messages(const struct mpi_messages *messages);
void mpi_short_learn(uint32_t call);
/* See mpi_host.h. */
extern _Atomic uint64_t mpi_short_acts[CALL_COUNT];
/* Another area. */
void mpi_short_forget(void);

#endif
