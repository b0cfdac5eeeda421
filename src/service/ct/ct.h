/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in extension `ct`: function calls in processes that have an agent (monitor/recorder/agents.h), as tools see
 * them. ct.c has information and selection, ct/event.c the events, ct/variable.c variables by name, ct/snapshot.c
 * snapshots.
 */
#ifndef SCRY_SERVICE_CT_CT_H
#define SCRY_SERVICE_CT_CT_H

#include <stdint.h>

#include <scry/ext.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "shm/area.h"

struct agent;
struct agent_event;
struct event_ops;
struct monitor;
struct process;
struct scry_call;
struct tool;

/* ---- for the rest of the room ---- */

/* A tool follows a new job: attaches the job's processes that have agents to the tool; later ones follow, before their
 * main starts. */
void ct_job_created(struct monitor *monitor, struct tool *tool, const char *dir);

/* ---- inside of ct ---- */

extern const struct event_ops ct_called_ops, ct_returned_ops;

/* The agent of a process. NULL: err says why there is none, and what to do. */
struct agent *ct_agent(const struct process *process, struct err *err);

void ct_read_variable(struct scry_call *call);
void ct_write_variable(struct scry_call *call);
void ct_snapshot(struct scry_call *call);
void ct_get_stacks(struct scry_call *call);
void ct_get_stack_values(struct scry_call *call);

/* Converts ticks of the agents' clock to this machine's monotonic clock, and a duration. */
uint64_t ct_time_ns(const struct agent *agent, uint64_t ticks);
double ct_duration_ns(const struct agent *agent, uint64_t ticks);

/* The place of a function, by its slot. The name is its address if it has no other. */
struct ct_place {
    char address_name[24];
    const char *name, *file, *module;
    uint32_t line;
    uint64_t address;
};
void ct_place(struct agent *agent, uint32_t slot, struct ct_place *ret_place);

#endif
