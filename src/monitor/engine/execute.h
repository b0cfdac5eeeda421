/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_ENGINE_EXECUTE_H
#define SCRY_MONITOR_ENGINE_EXECUTE_H

#include "base/data/arena.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "monitor/engine/change.h"
#include "monitor/engine/tool.h"

/*
 * The life of a request: parse, check, execute or define, reply. See the architecture, "The life of a request".
 */

struct clock_offset;
struct csr;
struct event;
struct message;
struct message_queue;
struct process;
struct service;

enum { REPLY_RESULTS_LIMIT = REPLY_SIZE_LIMIT - (8 << 20) }; /* beyond it results are refused: room for errors */

/* In flags: how many events raised each other before this request, which is part of a list (EVENT_CHAIN_LIMIT). */
#define EXECUTE_CHAIN UINT32_C(0xff000000)
static inline uint32_t execute_chain(unsigned chain)
{
    return (uint32_t)(chain < 255 ? chain : 255) << 24;
}

struct queue_messages {
    struct message_queue *queue;
    struct message **items;
    size_t count;
    struct queue_messages *next;
};

struct execution {
    uint64_t id;
    struct monitor *monitor;
    struct session *session;
    struct tool *tool;
    struct arena arena;
    const struct event *event;
    struct csr *csr;
    const struct event_list *list; /* without an event: of which one it is the list (event.h) */
    unsigned chain;                /* without an event: of those that it raises */
    const struct execution *outer; /* that ran when this one began */
    struct process **attached;     /* what [] meant when it was first needed */
    size_t attached_count;
    bool attached_known;
    struct queue_messages *messages; /* also for the whole execution: what is in the queues that were read */
    struct reply_builder reply;
    struct changed_jobs changed;
    struct later *later; /* of an unconditional request: it may wait; NULL: not */
};

/* A request that was parsed and checked, before anything of it is executed. Whoever takes it takes the arena (and leaves
 * ARENA_INIT). */
struct checked_request {
    uint32_t id, flags;
    struct span text;        /* in the arena */
    struct arena *arena;     /* the tree, its text and the services */
    struct request *request; /* not in the arena itself: copy it */
    struct service *event;   /* NULL: unconditional */
    struct service **services;
};

/* Of a request that was defined at the monitor of its tool (monitor/tree/conditional.h). */
struct csr_home {
    struct span token;                /* as the tool knows it */
    bool far;                         /* its list is executed there */
    const struct clock_offset *clock; /* of that host; NULL: it is this one */
};

/* Handles one request of a session; every reply goes through the session. `flags` are omis_request's. */
void execute_request(struct session *session, uint32_t id, uint32_t flags, struct span text);

/* The same for a part of a conditional request. */
void execute_define(struct session *session, uint32_t id, uint32_t flags, struct span text,
                    const struct csr_home *home);

/* It was blocked by a lock: its request that waits goes on, or its next ones. Between monitor_enter and monitor_leave. */
void execute_unblocked(struct session *session);

/* The session ends: what it waits for is not wanted any more. */
void execute_cancel(struct session *session);

/* Runs a conditional request's actions for an event and sends the reply. */
void execute_triggered(struct csr *csr, const struct event *event);

/* Sends what was built; if memory ran out while building it, a reply that says so. */
void reply_send(struct session *session, uint32_t id, bool last, bool droppable, const struct reply_builder *reply);

/* Answers with only element 0. */
void reply_status(struct session *session, uint32_t id, bool last, Omis_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
