/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far lists: of conditional requests whose actions concern other nodes (doc/explain/nodes.md). The event is told to the
 * session, which executes the list where its tool is; the object of the event waits until the session releases it, or
 * ends, or for TELL_LIMIT_NS at most. After that nothing waits for this session until it releases something again.
 */
#ifndef SCRY_MONITOR_PARTS_TELL_H
#define SCRY_MONITOR_PARTS_TELL_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
