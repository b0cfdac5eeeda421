/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of conditional requests that run elsewhere, or later: where their objects are (near or far), what is kept and told
 * of their event, and the lock of a node, for which they wait.
 */
#ifndef SCRY_MONITOR_PARTS_PARTS_H
#define SCRY_MONITOR_PARTS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "lang/request.h"
#include "lang/value.h"
#include "monitor/engine/event.h"
#include "monitor/engine/object.h"

struct csr;
struct event;
struct hold;
struct loop_source;
struct monitor;
struct session;

/* ---- near or far ---- */

/*
 * Whether a list can be executed where its event is (near), or only where its tool is (far): if it works on objects
 * of other nodes, or on conditional requests and user events, which live at the home, or has a token that the node has no
 * number for. Pure.
 */

/* At a node that is not its tool's home: the list works only on the event's own objects, on nothing, or on tokens with
 * this node's number. `services` are those of the actions. */
bool near_request(const struct request *request, struct service *const *services, uint32_t node);

/* At home, the parameters' values put in: it works on nothing that is at another node. */
bool near_home(const struct request *request, struct service *const *services, uint32_t node);

/* Whether it uses the parameter. */
bool near_uses(const struct request *request, const char *param);

/* ---- what is told of an event ---- */

/*
 * What an action list needs of an event when it is not executed where and when the event is handled: because its node
 * is locked, or because the list concerns other nodes. The object of the event waits
 * until it is freed.
 */

struct told {
    struct event_told as_event; /* first */
    struct arena arena;
    char where[TOKEN_TEXT_SIZE]; /* for the reply's list of objects */
    uint64_t time_ns;
    unsigned chain;
    struct span *names;   /* of the parameters that the list uses, in the order of its text; */
    struct value *values; /* one that the event does not set is a VALUE_PARAM, still */
    size_t count;
    struct event_source source;
    struct hold *hold; /* NULL: nobody waits */
};

/* Keeps what `csr` needs of the event that is handled. NULL: out of memory. */
struct told *told_new(const struct csr *csr, const struct event *event);
void told_free(struct told *told); /* NULL is fine */

/* For another monitor, in the request language: where, time, chain, source and values. */
void told_print(struct buf *out, const struct told *told);
/* What another monitor printed, of a request with the same text; foreign bytes. -EBADMSG or -ENOMEM. */
int told_read(struct told **ret_told, const struct csr *csr, struct span text);

/* The event again, which lists of `csr` can be executed for. It borrows `told`. */
void told_event(const struct told *told, const struct csr *csr, struct event *ret_event);

/* The value of a parameter; false: the event does not set it. A substitute_fn: ctx is a struct told. */
bool told_value(const void *ctx, struct span name, struct value *ret_value);

/* ---- far lists ---- */

/*
 * Far lists: of conditional requests whose actions concern other nodes. The event is told to the
 * session, which executes the list where its tool is; the object of the event waits until the session releases it, or
 * ends, or for TELL_LIMIT_NS at most. After that nothing waits for this session until it releases something again.
 */

/* The same with what is known of the event. */
void told_send(struct csr *csr, struct told *told_take);

/* The list is done, as the session says. A number that is over is fine, so is 0. */
void tell_release(struct session *session, uint32_t number);

/* ---- the lock ---- */

/*
 * A node that is locked (specification 7.2.3): while somebody has the lock, only the requests of his session are
 * executed. Others wait, and so do the lists of events, with the objects of these. Lists that were interrupted (call_later) go
 * on afterwards. A lock ends with its claim, and after LOCK_LIMIT_NS at the latest.
 */

/* Embedded in what its user has. */
struct lock_claim {
    struct session *session;
    void (*granted)(struct lock_claim *claim);
    void (*lost)(struct lock_claim *claim); /* after LOCK_LIMIT_NS, or with the session; it is over */
    bool waits, owns;
    struct lock_claim *next;
};

/* Waits for its turn; `granted` is called at once, or later. The session is set. */
void lock_claim(struct lock_claim *claim);
/* Gives the lock back, or does not wait any more. */
void lock_drop(struct lock_claim *claim);

/* For struct monitor_parts: it waits for nothing, and its claims are lost. */
void lock_session_ends(struct session *session);

/* A monitor starts (0 or -ENOMEM), and ends. */
int lock_start(struct monitor *monitor);
void lock_done(struct monitor *monitor);

#endif
