/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional service requests (specification 5.2.2, 7.2.3): defined disabled, enabled and disabled by services, armed
 * on every attached process that their event definition covers, also on those attached later.
 */
#ifndef SCRY_MONITOR_ENGINE_CSR_H
#define SCRY_MONITOR_ENGINE_CSR_H

#include <stdbool.h>

#include "base/data/arena.h"
#include "lang/request.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "shm/code.h"

struct value;
struct clock_offset;
struct csr_part;
struct event;
struct event_ops;
struct process;
struct reply_builder;
struct thread;

/* One process the request is armed on, or could not be. */
struct csr_target {
    struct process *process;
    Omis_status status;
    bool stale;        /* the process executed another program: not armed again */
    bool pending;      /* not in place yet: the tool gets a reply when it is */
    char *text;        /* why not, malloc'ed; NULL */
    UT_hash_handle hh; /* of the request, by process, in the order of arming */
};

struct csr {
    struct scry_object object;
    struct session *session;
    uint32_t request_id, flags;
    struct arena arena; /* the request's text and tree */
    struct request request;
    struct span text; /* of the request */
    bool told;        /* a job has been told that it was changed (change.h) */
    struct service *event_service;
    const struct value *event_args;
    struct service **actions; /* services of request.actions */
    void *event_data;
    bool enabled;
    unsigned executing;               /* its action list is running */
    const char *home_token;           /* of a part (monitor/tree): what its tool knows it by; NULL: its own */
    bool far;                         /* a part whose list is executed where its tool is */
    const struct clock_offset *clock; /* of its host: $time is in that; NULL: in ours */
    struct csr_part *parts;           /* on other nodes (monitor/tree); NULL: none */
    bool (*elsewhere)(struct csr *csr, const struct event *event); /* true: the list is executed elsewhere, or later;
                                                                    * NULL: it never is */
    struct csr_target *targets;
    struct code_program *program;                /* the action list lowered, or NULL */
    uint64_t program_serial;                     /* grows with each lowering */
    int gate;                                    /* cell: see csr_gate; -1: none */
    struct csr_post *posts;                      /* user events that the program posts (lower.c) */
    struct csr *next_enabled, *previous_enabled; /* of the event service */
};

enum csr_change { CSR_DEFINED, CSR_ENABLED, CSR_DISABLED, CSR_DELETED };

/* Tells whoever makes it known to other nodes (monitor->on_csr). */
void csr_changed(struct csr *csr, enum csr_change change);

/* Takes the arena over. Sends nothing. NULL when out of memory. */
struct csr *csr_new(struct session *session, struct arena *arena_take);

/* The state changes send their replies (7.3.1) to the request's session. Idempotent. */
void csr_enable(struct csr *csr);
void csr_disable(struct csr *csr);
void csr_delete(struct csr *csr); /* disables silently, sends OMIS_CSR_DELETED */
void csr_drop(struct csr *csr);   /* the same without replies: its session is gone */

/* For requests that programs enable and disable: from now on it stays armed, and a cell says whether it is enabled: 1,
 * or 0, which its own program checks first. Only where agents detect its event and its tool wants no replies of these
 * changes. Returns the cell, or -1. */
int csr_gate(struct csr *csr);

/* Whether the event definition names this process or a thread, queue ... of it. Attachment does not matter. */
bool csr_covers_thread(const struct csr *csr, const struct thread *thread);
bool csr_covers_object(const struct csr *csr, const struct scry_object *object);

/* Whether it names single threads: then it does not match everything in its processes. */
bool csr_names_threads(const struct csr *csr);

/* A process was attached (or a thread appeared) or is being detached: arms or disarms the tool's enabled requests. */
void csr_process_attached(struct tool *tool, struct process *process);
void csr_process_detached(struct tool *tool, struct process *process);
/* A thread is not watched any more: the requests it was watched for say so. */
void csr_thread_detached(struct tool *tool, const struct thread *thread);
/* The process executed another program: addresses mean nothing any more. */
void csr_process_executed(struct process *process);
/* The process is gone: forget it. */
void csr_process_gone(struct process *process);
/* What detects the events of `ops` in a process was made anew (another program with another agent): arms again. */
void csr_process_renewed(struct process *process, const struct event_ops *ops);
/* Objects ended that lists of any tool were lowered with: those are lowered again, or left to the monitor. */
void csr_relower(struct monitor *monitor);
/* Arms again the targets whose tracing was lost with the tracer. The tool gets a reply of those that cannot be armed,
 * and of those that now can. If the new tracer dies, too, they stay as they were, for the next one. */
void csr_rearm(struct monitor *monitor);

/* What was pending in a process is in place (code 0), or turned out not to work, also later: the tool gets a reply. */
void csr_target_ready(struct csr *csr, struct process *process, int code, const struct err *err);

struct csr_target *csr_target(const struct csr *csr, const struct process *process);

/* ---- lowering (lower.c) ---- */

/*
 * Lowering: compiles a conditional request's action list to a program (shm/code.h) that runs where the event happens.
 * Possible when every action has a `lower` that accepts its arguments, and the tool does not want a reply each time
 * (OMIS_DONT_RETURN_OK).
 */

struct scry_code {
    struct code_program program;
    struct csr *csr;
    struct csr_post *previous_posts; /* of the program before */
};

/* NULL: must run in the monitor. The caller frees. */
struct code_program *lower_csr(struct csr *csr);

/* What has to hold so that the event of a request that is not lowered is handed to the monitor: of csr->event_data and
 * its gate. *ret_filter: NULL if nothing has to; the caller frees. 0, or -1: too long, or out of memory. */
int lower_filter(struct csr *csr, struct code_program **ret_filter);

/* The next instruction, zeroed but for its operation; NULL: the program is full. */
struct code_insn *lower_insn(struct scry_code *code, enum code_op op);

/* A user event that a program posts: raised by the monitor, as often as the program did, when it comes to it. */
struct csr_post {
    int cell; /* how often since the monitor last read it */
    struct scry_object *object;
    const struct value *params; /* of the request's arena */
    size_t param_count;
    struct csr_post *next;
};

/* Adds a post to the program. 0, or -1: agents cannot post it. */
int lower_post(struct scry_code *code, struct scry_object *event, const struct value *params, size_t param_count);

/* Raises what was posted; called when the doorbell was rung. Between monitor_enter and monitor_leave. False: there is
 * more, call again. */
bool lower_posts_raise(struct monitor *monitor);
void lower_posts_free(struct csr *csr);

#endif
