/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that is locked (specification 7.2.3): while somebody has the lock, only the requests of his session are
 * executed. Others wait, and so do the lists of events, with the objects of these. Lists that were interrupted (call_later) go
 * on afterwards. A lock ends with its claim, and after LOCK_LIMIT_NS at the latest.
 */
#ifndef SCRY_MONITOR_PARTS_LOCK_H
#define SCRY_MONITOR_PARTS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct csr;
struct deferred_list;
struct event;
struct loop_source;
struct monitor;
struct session;

/* Embedded in what its user has. */
struct lock_claim {
    struct session *session;
    void (*granted)(struct lock_claim *claim);
    void (*lost)(struct lock_claim *claim); /* after LOCK_LIMIT_NS, or with the session; it is over */
    bool waits, owns;
    struct lock_claim *next;
};

struct lock { /* of a monitor */
    struct lock_claim *owner, *waiting;
    struct session *blocked; /* that have requests, in their order */
    struct deferred_list *events, *last_event;
    struct loop_source *timer, *turn;
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
