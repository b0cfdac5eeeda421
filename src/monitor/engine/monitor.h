/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_ENGINE_MONITOR_H
#define SCRY_MONITOR_ENGINE_MONITOR_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/system/loop.h"
#include "lang/reply.h"
#include "monitor/engine/object.h"
#include "shm/code.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The engine of one node's monitor. It knows no sockets: the daemon hands it requests and takes its replies (tool.h).
 * One thread; everything a request causes on this node is finished before the next one begins, so an action list
 * is never interrupted by another one here. The exception are actions whose answer takes a while (call_later): a list
 * without braces waits at them, and others run in that time.
 */

struct agent_command;
struct session;
struct checked_request;
struct agents;
struct change;
struct csr;
struct message;
struct message_source;
struct monitor_tracing;
struct mpi_registry;
struct node;
struct process;
struct watched_thread;
struct registry;
struct scry_call;
struct session;
struct tracer;
struct event;
struct hold;
struct lock;
struct raised_event;
struct execution;

enum { NESTED_LIMIT = 16 }; /* handlers that wait for requests whose handlers wait for requests ... */

/* What the engine needs of monitor/parts, where several nodes are one system (monitor/tree/tree.h). */
struct monitor_parts {
    bool (*defers)(struct csr *csr, const struct event *event); /* its list: this node is locked */
    bool (*blocks)(struct session *session);                    /* nothing of it may be executed, likewise */
    bool (*tell)(struct csr *csr, const struct event *event);   /* of a far part */
    void (*session_ends)(struct session *session);
};

struct monitor {
    struct loop *loop; /* borrowed */
    uint32_t node_number;
    struct object_class *classes; /* hash by name */
    struct scry_object *objects;  /* hash by token */
    struct registry *registry;
    struct node *node;         /* this machine */
    struct process *processes; /* hash by pid: those that have a token */
    struct message *messages;  /* hash by what they are: those in queues that have a token */
    struct tool *tools;        /* hash by id */
    uint32_t last_tool_id;

    struct tree *tree; /* other monitors (monitor/tree/tree.h) */
    /* Set while there are any: a checked request of a session; true: it was taken, with the arena. */
    bool (*elsewhere)(struct session *session, struct checked_request *request);
    void (*elsewhere_cancel)(struct session *session); /* the session ends: its `away` */

    const struct monitor_tracing *tracing; /* set when the services are registered */
    struct tracer *tracer;                 /* NULL until needed */
    struct loop_source *tracer_source, *tracer_deferred, *tracer_idle;
    uint64_t tracer_died_ns[3]; /* when, in a ring: three times within a short while are enough */
    unsigned tracer_deaths;
    bool tracing_off;

    struct cell_memory *cells;
    struct agents *agents;                       /* of traced processes, set by the daemon; NULL: there are none */
    struct mpi_registry *mpi;                    /* MPI processes; comes and goes with agents */
    const struct message_source *message_source; /* set with mpi (messages.h) */
    /* Set with agents: the address lies in the midst of a jump that was put into the process: no breakpoint may. NULL: none does. */
    bool (*in_jump)(struct monitor *monitor, pid_t pid, uint64_t address);
    void (*on_hello)(struct monitor *monitor, pid_t pid); /* set by its listener: a process of ours with an agent
                                                           * lives, and waits for an answer; NULL */
    void (*on_command)(struct monitor *monitor,
                       const struct agent_command *command); /* set by its listener: what one said */
    bool (*job_has)(struct monitor *monitor, const char *dir,
                    pid_t pid); /* set by who follows jobs: this process is the job's; NULL: there are none */
    struct job *jobs;           /* those that are followed here; set likewise */
    /* Likewise: the directory of the job that has the process, or that is named (pid 0); empty: nobody's, or it is the
     * tool itself who follows it. */
    struct span (*job_of)(struct monitor *monitor, const struct tool *tool, pid_t pid, struct span name);
    void (*on_change)(struct monitor *monitor, const struct change *change); /* likewise: for its record; with job_of */
    bool (*knows_node)(struct monitor *monitor, uint32_t number); /* set likewise: another one has, or had, it */
    bool (*wait_for_parts)(
        struct scry_call *call); /* set likewise: answers when all nodes have done it; false: they have */
    void (*on_csr)(struct csr *csr,
                   int change); /* set by who knows other nodes: enum csr_change; NULL: there are none */
    bool (*gathers)(const struct csr *csr,
                    struct span reply); /* set likewise: keeps a reply about a change of state, until other nodes have
                                         * said theirs; false: there are none */
    uint64_t refused_ns; /* when a refusal was told last: new sessions must not fill the record with them */
    struct state_part {  /* other parts of the state (monitor_state_print) */
        void (*print)(void *ctx, struct buf *out); /* NULL: none */
        void *ctx;
    } connections, traced, others;
    struct loop_source *sampler; /* runs while processes are attached */

    /* executions: depth > 0 while one runs; objects that end meanwhile wait in the graveyard */
    unsigned busy;
    uint64_t last_execution, last_gather;
    unsigned executing; /* action lists that run: one, or more when ends of processes are found meanwhile */
    const struct execution
        *running;        /* the innermost of them, or an extension's code (extension/extension.c); NULL: none */
    bool programs_stale; /* objects ended that lowered lists may refer to */
    struct scry_object *graveyard;
    struct raised_event *raised_first, *raised_last;
    const struct monitor_parts *parts; /* set by who knows other nodes; NULL: this is the only one */
    struct lock *lock;                 /* of those */
    struct hold *hold;                 /* of the event whose lists run (event.h); NULL: nobody waits for them */
    unsigned
        nested; /* less than NESTED_LIMIT: requests that extensions wait for, one in the other (extension/extension.c) */
    unsigned mistakes;               /* of extensions, in their calls */
    unsigned cascade;                /* user events raised by user events since the queue was empty */
    struct watched_thread *switched; /* whose context switches are to be read (switching.c) */
    struct loop_source *switch_turn;
    struct process *unsettled; /* processes whose need of the tracer may have changed */
};

/* Registers the built-in services through `register_services`, sets up the local node. 0 or -errno. */
int monitor_new(struct monitor **ret_monitor, struct loop *loop, int (*register_services)(struct monitor *),
                struct err *err);
void monitor_free(struct monitor *monitor);

/* The one monitor of this program: what the functions of scry/ext.h, which have no context, work on. */
struct monitor *monitor_current(void);

static inline bool monitor_blocks(const struct monitor *monitor, struct session *session)
{
    return monitor->parts && monitor->parts->blocks(session);
}

/* Brackets everything that may run action lists. monitor_leave runs the events raised meanwhile, gives processes back
 * that nobody needs traced any more, and frees what ended. */
void monitor_enter(struct monitor *monitor);
void monitor_leave(struct monitor *monitor);

/*
 * What the monitor holds at the moment, for people who look for a mistake in scry: lines in the form of the log
 * (base/system/log.h), a word that says what it is, then `key=value`. Reads only; changes nothing.
 */

struct monitor;

/* Appends lines, each ended by '\n'. Without memory out->failed is set. */
void monitor_state_print(const struct monitor *monitor, struct buf *out);

/*
 * Requests, replies, events and changes of conditional requests in the log, one line each (base/system/log.h, level
 * debug). All are cheap when that level is off. They change nothing, and never fail: without memory they
 * log nothing.
 */

struct csr;
struct csr_target;
struct event;
struct session;

/* The text as it came. */
void request_log_request(const struct session *session, uint32_t id, uint32_t flags, struct span text);
/* `encoded` as lang/reply.h says: of each reply how large it is, its first error or else its first text. */
void request_log_reply(const struct session *session, uint32_t id, bool last, struct span encoded);
/* `matched` conditional requests have their lists executed. */
void request_log_event(const struct event *event, size_t matched);
/* `state`: defined, enabled, disabled, deleted, dropped or triggered. */
void request_log_csr(const struct csr *csr, const char *state);
/* How it went in one process. */
void request_log_armed(const struct csr *csr, const struct csr_target *target);

#endif
