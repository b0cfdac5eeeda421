/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events thread_has_started_lib_call and thread_has_ended_lib_call (specification 8.1.3) for MPI: a request for
 * them is a demand on calls of MPI, which the agent serves as it does those on functions (ct/event.c).
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

/* A process has its agent: requests that waited for that are armed. */
void lib_call_agent_came(struct process *process);

/* A tool follows a new job: as ct_job_created, of processes that are seen by their MPI only. */
void lib_call_job_created(struct monitor *monitor, struct tool *tool, const char *dir);

#endif
