/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_TREE_CONDITIONAL_H
#define SCRY_MONITOR_TREE_CONDITIONAL_H

#include "monitor/tree/tree.h"

/*
 * Conditional requests over nodes: one lives at its home, and has a part behind each edge that leads to nodes of its event
 * definition (DEFINE, with the token that the tool knows). If the list concerns only the node of the event (parts/near.h) it
 * runs there. Else the event is told to the home (parts/tell.h), which executes the list over the nodes (far_event.c). Enabling
 * and the like go to all parts; a node that does not answer is an error of that answer, and does it when it answers again.
 * What the parts say of it until then is one reply. A request that is part of an event's list says how many events raised each
 * other before it, so chains over nodes end, too (EVENT_CHAIN_LIMIT). `$time` is translated at each edge
 * (base/system/clock.h). What locks several nodes is in locks.c.
 */

struct call_text;
struct csr;
struct event;
struct session;
struct told;

/* Sets the hooks. */
void conditional_start(struct tree *tree);

/* ---- far_event.c ---- */

/* For csr->elsewhere of requests whose tool is here: executes the list over nodes if it concerns others. */
bool far_event_elsewhere(struct csr *csr, const struct event *event);
/* EVENT of a part: its list is executed here, or, if the request is a part itself, at the next monitor. */
void far_event_came(struct csr *csr, struct via *via, struct span payload);
void far_events_end(struct session *session); /* nobody waits for their lists */

/* Keeps a reply about a change of state, ours or that of a part, until gather_end sends one of all. false: it is none. */
bool gather(const struct csr *csr, struct span reply);
void gather_end(const struct csr *csr);

/* ---- locks.c ---- */

bool locks_take(struct tree *tree, struct far_request *request, const int *places, size_t count);
void locks_give(struct tree *tree, struct far_request *request);
bool locks_came(struct via *via, const struct frame *frame); /* LOCK, UNLOCK in a session of ours */
void locks_lost(struct via *via);
bool locks_asked(struct session *session, const struct frame *frame); /* in a session of another monitor's tool */

#endif
