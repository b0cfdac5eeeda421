/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: raised where they are detected, matched against the enabled conditional requests of their service, whose
 * action lists then run (specification 7.2.3). The object of the event waits (hold) until all lists, and those of user
 * events raised from them, are done.
 */
#ifndef SCRY_MONITOR_ENGINE_EVENT_H
#define SCRY_MONITOR_ENGINE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "lang/value.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/object.h"

struct agent_event;
struct process;
struct scry_code;
struct thread;
struct trace_need;

enum {
    EVENT_CHAIN_LIMIT = 64,      /* events raised by action lists, one by the other */
    EVENT_CASCADE_LIMIT = 10000, /* all that come of one event: lists that raise two each are 2^64 at that depth */
};

/* What $node, $proc and $thread name of an event that has no object of ours: "" is none. It may be on another node. */
struct event_source {
    char node[TOKEN_TEXT_SIZE], process[TOKEN_TEXT_SIZE], thread[TOKEN_TEXT_SIZE];
};

/* What a list needs of its event where it is executed as a request (monitor/tree). */
struct event_list {
    struct event_source source;
    uint64_t time_ns;
};

struct event {
    struct service *service;
    struct process *process;    /* NULL: cannot be attributed to one */
    struct thread *thread;      /* likewise */
    struct event_source source; /* of a user event: its node, with resume 0 all, of the event it was raised from */
    struct scry_object *object; /* where it occurred, for the reply's object list; NULL: the undefined object */
    uint64_t time_ns;
    const struct value *outputs; /* service specific context parameters, in the order of the signature */
    size_t output_count;
    int first_par;                  /* of services with open outputs: the number of outputs[0] in parN */
    const struct tracer_event *raw; /* where the tracer saw it */
    const struct agent_event *seen; /* where an agent raised it (monitor/recorder/agents.h) */
    const struct event_told {
        const char *where; /* as event_place says */
        bool (*value)(const struct event_told *told, struct span name, struct value *ret_value);
    } * told;       /* what is left of it, for one request (monitor/parts/parts.h); NULL: all is there */
    unsigned chain; /* set by event_queue: raised by a list, which ran for an event raised by a list, ... */
};

/* How an event service works. A pointer to this is the `event` of its row. */
struct event_ops {
    const char *object_class; /* "p", "t", "e": what its objects are; its first argument names them */
    /* Checks the arguments when a request is defined and keeps what it made of them in csr->event_data (in csr->arena).
     * 0, or a status with err. May be NULL. */
    Omis_status (*define)(struct csr *csr, struct err *err);
    /* What the tracer must do for it. NULL: nothing. */
    void (*need)(struct csr *csr, struct process *process, struct trace_need *need);
    /* What it would like to get if the process is traced for another reason. NULL: nothing. */
    void (*wish)(struct trace_need *need);
    /* Other mechanisms. NULL: none. 0, -errno, or 1: it will be in place later, csr_target_ready is called then. */
    int (*arm)(struct csr *csr, struct process *process, struct err *err);
    void (*disarm)(struct csr *csr, struct process *process);
    /* What arm did not find may come later: csr_target_ready is called then, and disarm in any case. */
    bool may_come;
    /* Beyond its objects: does this event match? NULL: yes. */
    bool (*match)(const struct csr *csr, const struct event *event);
    /* Its lists can be lowered: adds what has to hold for the event itself, before the list. 0, or -1: cannot be. NULL:
     * programs do not run where the event happens. */
    int (*lower)(struct csr *csr, struct scry_code *code);
    /* The program or the filter of an armed request changed. NULL: tracing_update sees it. */
    void (*relowered)(struct csr *csr, struct process *process);
    /* Programs of it can post user events to the monitor (CODE_POST). */
    bool posts;
    /* par0, par1, ... of this request, beside the service's named outputs: how many, and the value of one. */
    unsigned (*param_count)(const struct csr *csr);
    bool (*param)(const struct csr *csr, const struct event *event, unsigned number, struct value *ret_value);
    /* Context parameters whose names the signature does not have: may there be one, and its value. NULL: there are
     * none.
     */
    bool (*knows)(struct span name);
    bool (*named)(const struct csr *csr, const struct event *event, struct span name, struct value *ret_value);
    /* The parameter of programs (CODE_PARAM) that a context parameter of this request is; -1: programs do not have it.
     * NULL: parN is the N-th. */
    int (*lower_param)(struct csr *csr, struct span name);
    /* A request of it was enabled, or is not any more. What it raises, it queues (event_queue). NULL: nobody asks. */
    void (*turned)(struct csr *csr);
};

static inline const struct event_ops *event_ops_of(const struct service *service)
{
    return service->row->event;
}

/* Runs the action lists of all matching conditional requests, now. Must be between monitor_enter and monitor_leave. */
void event_raise(struct monitor *monitor, struct event *event);

/* Raises it when the running action list has ended. Outputs are copied. The object of the event that the running list
 * belongs to stays held until this one is done, too. -ENOMEM; -ELOOP and -EOVERFLOW when events that raise each other
 * came to EVENT_CHAIN_LIMIT and EVENT_CASCADE_LIMIT: without these two requests could keep the monitor busy for ever.
 */
int event_queue(struct monitor *monitor, const struct event *event);

/* Releases these threads, which are being inspected (runstate_inspect), when what was queued before is done. The list is
 * malloc'ed, and taken. -ENOMEM. */
int event_queue_end_inspections(struct monitor *monitor, struct thread **threads_take, size_t count);

unsigned event_queue_length(const struct monitor *monitor);

/* Runs what was queued. */
void event_run_queue(struct monitor *monitor);

/* The source of user events that its lists raise. */
struct event_source event_source_of(const struct monitor *monitor, const struct event *event);

/* The token of the object where it happened: of a user event that of the event it was raised from, if that is known. */
const char *event_place(const struct event *event);

/* The value of a context parameter. false: there is none of this name. */
bool event_param(const struct event *event, const struct csr *csr, struct span name, struct value *ret_value);

/* ---- holds ---- */

/* The object of an event waits until all lists are done. Whoever detected the event and makes the object wait begins a
 * hold before it raises the event, and ends it when the lists have run. A list that is executed later, or on another
 * node, keeps it until then. */

/* At the start of what its owner allocated. */
struct hold {
    unsigned users;
    void (*release)(struct hold *hold); /* lets the object go on, and frees the hold */
    struct hold *outer;                 /* of an event that is handled at this moment, too */
};

/* From here on lists may keep it. With NULL nothing waits, and nothing can be kept: it ran out of memory. */
void hold_begin(struct monitor *monitor, struct hold *hold);
/* The lists have run: releases it, unless it is kept. `hold`: as of hold_begin. */
void hold_end(struct monitor *monitor, struct hold *hold);

/* Of the event whose lists run; NULL: nobody waits. Each one that is kept is dropped once. */
struct hold *hold_keep(struct monitor *monitor);
void hold_drop(struct hold *hold); /* NULL is fine */

/* What is said where one has no value, with its name. */
#define EVENT_PARAM_MISSING "the event context parameter $%.*s is not set by this event"

/* parN -> N; -1 if it is no such name. */
int event_par_number(struct span name);

/* Whether a parameter name can exist for events of this service (at definition). */
bool event_param_known(const struct service *service, struct span name);

#endif
