/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_PARTS_LOCK_H
#define SCRY_MONITOR_PARTS_LOCK_H

#include "lang/request.h"
#include "monitor/engine/object.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A node that is locked (specification 7.2.3): while somebody has the lock, only the requests of his session are
 * executed. Others wait, and so do the lists of events, with the objects of these. Lists that were interrupted (call_later) go
 * on afterwards. A lock ends with its claim, and after LOCK_LIMIT_NS at the latest.
 */

struct csr;
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

/* Waits for its turn; `granted` is called at once, or later. The session is set. */
void lock_claim(struct lock_claim *claim);
/* Gives the lock back, or does not wait any more. */
void lock_drop(struct lock_claim *claim);

/* For struct monitor_parts: it waits for nothing, and its claims are lost. */
void lock_session_ends(struct session *session);

/* A monitor starts (0 or -ENOMEM), and ends. */
int lock_start(struct monitor *monitor);
void lock_done(struct monitor *monitor);

/*
 * Whether a list can be executed where its event is (near), or only where its tool is (far, tell.h): if it works on objects
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

#endif
