/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_PARTS_TELL_H
#define SCRY_MONITOR_PARTS_TELL_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "lang/value.h"
#include "monitor/engine/event.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Far lists: of conditional requests whose actions concern other nodes (near.h). The event is told to the
 * session, which executes the list where its tool is; the object of the event waits until the session releases it, or
 * ends, or for TELL_LIMIT_NS at most. After that nothing waits for this session until it releases something again.
 */

struct csr;
struct event;
struct hold;
struct session;
struct told;

/* For csr->elsewhere. */
bool tell_event(struct csr *csr, const struct event *event);

/* The same with what is known of the event. */
void tell(struct csr *csr, struct told *told_take);

/* The list is done, as the session says. A number that is over is fine, so is 0. */
void tell_release(struct session *session, uint32_t number);
/* The session ends. */
void tell_end(struct session *session);

/*
 * What an action list needs of an event when it is not executed where and when the event is handled: because its node
 * is locked (lock.h), or because the list concerns other nodes (near.h). The object of the event waits
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

#endif
