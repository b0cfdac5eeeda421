/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_EXTENSION_SESSION_H
#define SCRY_MONITOR_EXTENSION_SESSION_H

#include "base/data/buf.h"

#include <omis.h>
#include <scry/ext.h>
#include <stdint.h>

/*
 * omis_request inside the monitor (specification 6.3): extensions request in just the same way as a tool does, and for
 * the tool that they serve at the moment: with its scope, and with what they make belonging to it. For this a tool that
 * an extension requests something for has one more session, without a connection.
 *
 * A request without a callback is executed at once, inside the action list that the extension's handler belongs to, and
 * as a part of it: it may not wait (call_later), as in braces. One with a callback is executed, and its replies are
 * handed out, from the loop, when no action list runs: nothing of an extension is ever entered while something of it
 * runs, but for what it asks for itself.
 */

struct monitor;
struct tool;

/* omis_request (7.1.1). Replies are freed with local_reply_free. */
Omis_reply ext_request(struct monitor *monitor, struct span text, void (*callback)(Omis_reply reply, void *param),
                       void *param, Omis_flags flags);

/* The tool that the running code of an extension serves: whose request or event it handles, whose reply it gets; while
 * it is registered, the extension itself. NULL: none. */
struct tool *ext_tool(struct monitor *monitor);

/* Timers and descriptors of extensions: each belongs to an object, is for its tool, and ends with it at the latest. */

/* NULL: out of memory, or the kernel refused. */
struct scry_watch *ext_watch_timer(struct scry_object *object, uint64_t period_ns,
                                   void (*fn)(struct scry_object *object));
struct scry_watch *ext_watch_fd(struct scry_object *object, int fd, uint32_t events,
                                void (*fn)(struct scry_object *object, int fd, unsigned events));
void ext_watch_end(struct scry_watch *watch);

#endif
