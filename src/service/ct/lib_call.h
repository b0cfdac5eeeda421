/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events thread_has_started_lib_call and thread_has_ended_lib_call (specification 8.1.3) for MPI. A request is a
 * demand on MPI calls, which the agent serves like demands on functions (ct/event.c).
 */
#ifndef SCRY_SERVICE_CT_LIB_CALL_H
#define SCRY_SERVICE_CT_LIB_CALL_H

struct agent;
struct agent_event;
struct monitor;
struct mpi_told;
struct process;
struct tool;

/* An agent raised an event of an MPI call: runs the lists of those who wait for it. */
void lib_call_raise(struct monitor *monitor, const struct agent_event *seen, const struct mpi_told *told);

/* A process has its agent: arms requests that waited for it. */
void lib_call_agent_came(struct process *process);

/* A tool follows a new job: like ct_job_created, for processes known only by their MPI. */
void lib_call_job_created(struct monitor *monitor, struct tool *tool, const char *dir);

#endif
