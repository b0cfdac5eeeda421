/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of MPI as functions (shm/mpi_told.h): what the interposer tells, by mpi_host.h. There are no compiled-in hooks;
 * the call's address on the stack is that of its struct mpi_told, and from there on it is a call like others: with a
 * slot, records, values, actions, and an end by longjmp.
 */
#ifndef SCRY_AGENT_HOOKS_MPI_TELL_H
#define SCRY_AGENT_HOOKS_MPI_TELL_H

#include <stdbool.h>
#include <stdint.h>

struct mpi_told;
struct mpi_messages;

bool agent_mpi_tell(bool on);

/* mpi_tell_x86_64.S: what goes wrong in them ends there, as in a hook */
void agent_mpi_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
void agent_mpi_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
bool agent_mpi_acts(uint32_t call, const struct mpi_told *told, uint64_t acts);
void agent_mpi_messages(const struct mpi_messages *messages);

#endif
