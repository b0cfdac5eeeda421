/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI calls as functions of the agents (shm/mpi_told.h): their slots, names, and what is recorded of them. The slots of
 * an agent are there once its program has asked for them (area.mpi): at its first MPI call after MPIA_METRIC_TELL was
 * set; the call waits for that. Demands on them: struct agent_demand.mpi_calls (agent_mpi_params_put).
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_MPI_H
#define SCRY_MONITOR_RECORDER_AGENT_MPI_H

#include "monitor/recorder/agents.h"
#include "shm/mpi_told.h"

struct mpi_process;

/* Who wants what of a process: `bit` (MPIA_METRIC_TELL, MPIA_METRIC_MESSAGES) of its area's metrics is set while the
 * changes (+1, -1) sum to more than 0, or the settings of its job want it. */
void mpi_process_want(struct mpi_process *process, uint32_t bit, int change);
/* MPIA_METRIC_TELL of some calls only: bits by enum call_id, MPI_CALL_WORDS. 0 or -ENOMEM (never with -1). */
int mpi_process_want_calls(struct mpi_process *process, const uint64_t *calls, int change);

/* The MPI call that a slot of the agent is; CALL_NONE: another function. */
uint32_t agent_mpi_call(const struct agent *agent, uint32_t slot);
/* The program's calls are functions by now. */
bool agent_mpi_tells(const struct agent *agent);

/* What a raised event of an MPI call reports; false: it is no MPI call's. */
bool agent_event_mpi_call(const struct agent_event *event, struct mpi_told *ret_told);

/* ---- between the files of the agents' side ---- */

/* As agent_function, if the slot is an MPI call; its text is static. */
bool agent_mpi_function(const struct agent *agent, uint32_t slot, struct index_function *ret_function,
                        uint64_t *ret_address);
/* The library of it, for people. */
const char *agent_mpi_library(const struct agent *agent);
/* Whether its calls are to be recorded. */
bool agent_mpi_records(const struct agent *agent);
/* Modes of MPI's slots by the settings of the job, and what is captured there, if the program reports its calls. */
void agent_mpi_apply(struct agent *agent);
/* The name and the layouts of an MPI call for the trace; false: the slot is another function's. */
bool agent_mpi_name(struct agent *agent, uint32_t slot);
/* Of an area that an earlier monitor made: a layout that a site has. */
void agent_mpi_adopt(struct agent *agent, uint64_t site, uint32_t layout);

#endif
