/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that change a job, for the record of it: whose, what, with what result. Refusals of confined tools, too. One
 * rule for all tools: a request is told when an action of it that changes something has been carried out on a process of
 * the job, or names the job; a conditional one the first time that this happens. A confined tool is known to speak with
 * its job, and so is told of whatever needs more than the right to observe, a conditional request when it is defined.
 *
 * Not told: what a job's own scry run does, for its rules have records of their own; services for tools on the node only
 * (SCRY_LOCAL), which change nothing of processes. A request that only looks costs nothing.
 */
#ifndef SCRY_MONITOR_ENGINE_CHANGE_H
#define SCRY_MONITOR_ENGINE_CHANGE_H

#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "base/data/buf.h"

struct csr;
struct execution;
struct request;
struct scry_call;
struct session;
struct tool;

/* The jobs that a request has changed, so far: their directories, in the arena of its execution. */
enum { CHANGED_JOBS = 4 };
struct changed_jobs {
    struct span dirs[CHANGED_JOBS];
    size_t count;
};

/* What is told (monitor->on_change). */
struct change {
    struct span job;         /* its directory */
    const struct tool *tool; /* whose it is */
    pid_t pid;               /* of that tool; 0: it is on another node */
    struct span text;        /* of the request */
    Omis_status status;
    struct span why; /* of an error; empty */
};

/* An action is about to run, its objects known. Notes the jobs of an unconfined tool that it changes. */
void change_note(struct execution *execution, const struct scry_call *call);

/* The request with the names of its services only, in the arena: the record of a job goes through brokers as it is,
 * and so has no values that were read or written. */
struct span change_shown(const struct request *request, struct arena *arena);

/* Of a confined tool: it has changed its job, or was refused. Refusals at most once a second, of all tools. */
void change_report_confined(struct session *session, struct span text, Omis_status status, struct span why);
/* Of any other one: what it has changed. */
void change_report(const struct session *session, const struct changed_jobs *jobs, struct span text,
                   Omis_status status);
/* The same for an execution of a conditional request. false: it has changed none. */
bool change_report_csr(const struct csr *csr, struct execution *execution);

#endif
