/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BROKER_LINK_H
#define SCRY_BROKER_LINK_H

#include "base/data/err.h"
#include "base/data/buf.h"
#include "base/system/loop.h"
#include "broker/url.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A connection to a broker (MQTT 3.1.1, libmosquitto) in an event loop. It connects again by itself, sooner at first, then
 * every 10 s, and once a minute or less often after ten tries in a row of which no connection lasted, with some chance in
 * it so that a thousand jobs do not come at once. Of several hosts it tries the next after each failure. Nothing blocks: a thread looks up names and connects.
 *
 * What is published is in flight until the broker has acknowledged it (QoS 1), or the system has taken it (QoS 0). If the
 * connection is lost meanwhile, the link sends it again on the next one, in the same order and before `connected` is
 * called. So a message with QoS 1 may come twice, and none is missing. There is no queue on disk, for the job directory
 * is one: whoever publishes keeps the rest until `published` makes room.
 */

enum {
    LINK_MESSAGE_BYTES = 512 << 10, /* of one message, at most (NATS takes 1 MB); longer ones that come are dropped */
    LINK_IN_FLIGHT = 64,            /* messages; more are -EAGAIN */
};

struct link;

/* All are called from the loop, `published` never inside of link_publish. link_close may be called in each; and nothing is
 * called after it. `subscribed` and `message` may be NULL. */
struct link_events {
    /* session_present: the broker still has the subscriptions and messages of a session that is kept. Subscribe here. */
    void (*connected)(void *ctx, bool session_present);
    void (*lost)(void *ctx, const char *why); /* also for each attempt that failed; it tries again by itself */
    void (*published)(void *ctx, int id);     /* QoS 1: the broker has it. QoS 0: it was handed to the system */
    void (*subscribed)(void *ctx, int id, bool granted);
    void (*message)(void *ctx, const char *topic, struct span payload, bool retained);
};

struct link_options {
    const struct broker_url *url; /* copied */
    const char *client;           /* unique at this broker: a second one with the same name ends the first */
    const char *what;             /* who that is ("recorder"): lives as long as the connection */
    bool keep_session;            /* the broker keeps subscriptions, and QoS 1 messages, while we are away */
    uint16_t keepalive_seconds;   /* 0: 15 */
    const char *will_topic;       /* NULL: none. Retained, QoS 1 */
    struct span will;
    const struct link_events *events;
    void *ctx;
};

/* Begins to connect when the loop runs. 0, -EINVAL, -ENOMEM. */
int link_open(struct link **ret_link, struct loop *loop, const struct link_options *options, struct err *err);
/* NULL is fine. What is in flight is forgotten. says: DISCONNECT is sent, and the broker forgets the will. Without,
 * the will is published. */
void link_close(struct link *link, bool says);
/* The last thing that a program does: ends it at once if a thread still tries to connect, for exit() would free what
 * OpenSSL has from under it. Else it returns. */
void link_leave(int status);
/* In `lost`: it was refused for a reason that does not go away by itself: who the broker is, or a file of ours. It is tried again
 * all the same. */
bool link_is_in_vain(const struct link *link);
/* Whether it was ever up: then what is in vain now may be somebody's work on the broker. */
bool link_has_been_up(const struct link *link);
/* If it waits before it tries again: it does so now. For who will not be there much longer. */
void link_hurry(struct link *link);
bool link_is_up(const struct link *link);
unsigned link_in_flight(const struct link *link);

/* *ret_id (or NULL) is what `published` gets. 0, -ENOTCONN, -EAGAIN (too much in flight: wait for `published`), -EMSGSIZE,
 * -EINVAL (a topic with + or #), -ENOMEM. The payload is copied. */
int link_publish(struct link *link, const char *topic, struct span payload, int qos, bool retain, int *ret_id);
/* Once for each `connected`, unless a session that is kept is there. *ret_id (or NULL) is what `subscribed` gets. 0,
 * -ENOTCONN, -EINVAL, -ENOMEM. */
int link_subscribe(struct link *link, const char *pattern, int qos, int *ret_id);
int link_unsubscribe(struct link *link, const char *pattern);

#endif
