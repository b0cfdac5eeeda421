/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all events of agents share, on functions (ct/event.c) and on MPI calls (lib_call.c): the condition that is
 * checked in the call, raising, and new processes of jobs.
 */
#ifndef SCRY_SERVICE_CT_CALL_EVENT_H
#define SCRY_SERVICE_CT_CALL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/err.h"
#include "lang/value.h"
#include "monitor/engine/event.h"

struct agent;
struct agent_event;
struct code_program;
struct csr;
struct ct_condition;
struct monitor;
struct process;
struct scry_code;
struct tool;

/* The agent of a process, or NULL. */
struct agent *call_event_agent(const struct process *process);

/* For event_ops.lower: the condition holds. */
int call_event_lower(const struct ct_condition *condition, struct scry_code *code);

/* For event_ops.match, for a request that is not lowered: it is enabled, and the condition holds for the call. */
bool call_event_holds(const struct csr *csr, const struct ct_condition *condition, const struct event *event);

/* For event_ops.relowered: arms the request again. If that fails, disarms it and reports that to its tool. */
void call_event_rearm(struct csr *csr, struct process *process);

/* Begins an event: its service, process and time. False: nobody waits for it. Set the call's parameters, then call
 * call_event_raise: it runs the lists, and those of user events that they raise, because the thread waits for these,
 * too. */
bool call_event_begin(struct monitor *monitor, const struct agent_event *seen, const char *service,
                      struct event *ret_event);
void call_event_raise(struct monitor *monitor, struct event *event, const struct value *outputs, size_t output_count);

/* A new process of a job: attaches it to the tool that follows the job. */
void call_event_attach(struct tool *tool, pid_t pid, const char *job);

#endif
