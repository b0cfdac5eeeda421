/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_CT_CONDITION_H
#define SCRY_SERVICE_CT_CONDITION_H

#include "base/data/arena.h"
#include "base/data/err.h"
#include "base/data/buf.h"
#include "lang/value.h"
#include "monitor/engine/event.h"
#include "shm/code.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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
