/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_CT_CT_H
#define SCRY_SERVICE_CT_CT_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/system/clock.h"
#include "shm/area.h"
#include "symbols/client/client.h"
#include "tracer/tracer.h"
#include "base/data/arena.h"
#include "lang/value.h"
#include "monitor/engine/event.h"
#include "shm/code.h"

#include <scry/ext.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The built-in extension `ct`: function calls in processes that have an agent (monitor/recorder/agents.h), as tools see
 * them. ct.c has information and selection, ct/event.c the events, ct/ct.c variables by name, ct/snapshot.c
 * snapshots.
 */

struct code_program;
struct csr;
struct ct_condition;
struct scry_code;
struct mpi_told;
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

/* Jobs as objects: what services of calls and of MPI ask about a job that a tool follows (service/job/job.c). */

struct monitor;
struct scry_object;
struct tool;

extern const char JOB_CLASS[];

/* The data of an object of that class begins with it. */
struct job_object {
    char *dir; /* the job directory, its name in the registry of agents */
};

/* A job by its directory, the last part of that (its id), or its token; NULL: nobody follows such a job. */
struct scry_object *job_object_find(struct monitor *monitor, struct span name);
/* Is this the job that is named, or its part on this node: a job whose `home` (jobdir/record/parts.h) has the name? */
bool job_object_is(struct monitor *monitor, const struct scry_object *object, struct span name);
/* The last part of a directory. */
struct span job_object_id(struct span dir);

/* The tool that follows the job with this directory; NULL: nobody does. */
struct tool *job_tool(struct monitor *monitor, const char *dir);
/* The directory of the job that is named; NULL: nobody follows such a job. */
const char *job_directory(struct monitor *monitor, struct span name);

/* Requests to the helper scry-symbols, for services of `ct` that read variables now. */

struct process;
struct thread;

enum { CT_FRAMES = 256 }; /* of a thread, at most */

/* Runs `scry-symbols JOB` with a request, for at most 10 s. 0 or -errno with err. In any case the caller ends the
 * reader, which has the answers (helper_next). */
int ct_helper_run(const char *job, const struct buf *request, struct helper_reader *ret_reader, struct err *err);

/* Begins a request of `variable`: the process, its modules, levels of pointers. *ret_agent (may be NULL) is the range
 * of the agent's code, whose frames are not the program's; empty without an agent. */
struct ct_range {
    uint64_t start, end;
};
int ct_request_begin(struct buf *request, const struct process *process, unsigned depth, struct ct_range *ret_agent,
                     struct err *err);
/* Adds the frames of a stopped thread. The caller frees them. */
int ct_request_frames(struct buf *request, struct thread *thread, struct tracer_frame **ret_frames, size_t *ret_count,
                      struct err *err);

/* Stops threads of one process, unless they are stopped already, while they are inspected. */
int ct_threads_stop(struct thread *const *threads, size_t count, struct err *err);
void ct_threads_continue(struct thread *const *threads, size_t count);

/* ---- lib_call.c ---- */

/*
 * The events thread_has_started_lib_call and thread_has_ended_lib_call (specification 8.1.3) for MPI. A request is a
 * demand on MPI calls, which the agent serves like demands on functions (ct/event.c).
 */

/* An agent raised an event of an MPI call: runs the lists of those who wait for it. */
void lib_call_raise(struct monitor *monitor, const struct agent_event *seen, const struct mpi_told *told);

/* A process has its agent: arms requests that waited for it. */
void lib_call_agent_came(struct process *process);

/* A tool follows a new job: like ct_job_created, for processes known only by their MPI. */
void lib_call_job_created(struct monitor *monitor, struct tool *tool, const char *dir);

/* ---- conditions (condition.c) ---- */

/*
 * Conditions of ct_function_called and ct_function_returned, compiled to instructions (shm/code.h) that run where the
 * event occurs.
 *
 *     condition  ::= [ value ] [ ';' expression { ',' expression } ]
 *     value      ::= operand | '!' value | '~' value | '-' value | '+' value | '(' type ')' value | '(' value ')' |
 *                    value operator value
 *     operator   ::= '*' '/' '%' '+' '-' '<<' '>>' '<' '<=' '>' '>=' '==' '!=' '&' '^' '|' '&&' '||' -- C's precedence
 *     operand    ::= expression | number | character | 'true' | 'false' | 'NULL' | 'nullptr' | 'duration' |
 *                    'sizeof' '(' type ')'
 *     expression ::= { '*' | '&' } name { '.' name | '->' name | '[' ... ']' | '::' name } | 'sizeof' '(' ... ')'
 *
 * A type is a number type (base/data/number.h). symbols/capture/indexes.c reads what is in brackets, and
 * enumerators. 'duration' is the time of the call in seconds; only returns have it.
 *
 * The expressions, each once, in the order of their first use, are the parameters par0, par1, ... Those after the
 * semicolon are only parameters.
 */

struct ct_condition {
    struct code_program program; /* passes if the condition holds */
    const char *params[CODE_PARAMS];
    unsigned param_count;
};

/* 0, -EINVAL with err (where, and what was expected), or -ENOMEM. The expressions are in the arena. */
int ct_condition_compile(struct arena *arena, struct span text, bool at_exit, struct ct_condition *ret_condition,
                         struct err *err);

/*
 * What all events of agents share, on functions (ct/event.c) and on MPI calls (lib_call.c): the condition that is
 * checked in the call, raising, and new processes of jobs.
 */

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
