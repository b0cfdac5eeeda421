/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools and their scope (specification 5.5): what a tool attached, its conditional requests, its suspend counts. A tool
 * has one session (connection), or several when it is distributed (7.1.3). When the last one closes, everything is
 * released.
 */
#ifndef SCRY_MONITOR_ENGINE_TOOL_H
#define SCRY_MONITOR_ENGINE_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "base/data/buf.h"
#include "monitor/engine/confine.h"
#include "monitor/engine/object.h"

struct event_list;
struct process;

/* One tool's attachment to one process, in two lists. */
struct attachment {
    struct tool *tool;
    struct process *process;
    struct attachment *next_of_tool, *previous_of_tool, *next_of_process;
};

struct tool {
    uint32_t id;
    struct monitor *monitor;
    unsigned sessions;
    bool node_attached;
    bool spread; /* it has, or comes from, other nodes: the first process does not bring this one along */
    struct attachment *attachments, *last_attachment;
    size_t attachment_count;
    struct scry_object *owned;         /* its user events, conditional requests, extension objects */
    struct ext_session *ext;           /* what extensions request for it; NULL: nothing yet */
    void (*on_end)(struct tool *tool); /* ends that, before all others; NULL: nothing to do */
    struct confinement confined;       /* job NULL: it is not (monitor/engine/confine.h) */
    struct tool_data *data;            /* what they keep about it (tool_set_data) */
    UT_hash_handle hh;
};

/* A connection, as the engine sees it. Embedded in the daemon's own struct, which fills in the functions. */
struct session {
    struct tool *tool;
    pid_t peer_pid; /* nobody may attach to the requesting tool; 0: unknown */
    /* Sends a reply; the bytes are borrowed. droppable: may be left out (and counted) if the tool does not read. */
    void (*reply)(struct session *session, uint32_t request_id, bool last, bool droppable, struct span encoded);
    /* For the tool's error handler: errors without a request, debugging output. */
    void (*error)(struct session *session, struct span encoded);
    /* The request that waits for an answer (call_later); the session's next ones may not be executed before `ready` was
     * called. NULL: none does. A session without `ready` is always answered at once. */
    struct later *waiting;
    void (*ready)(struct session *session);
    /* The same for a request whose answer comes from other nodes (monitor/tree). */
    struct far_request *away;
    /* Sends another frame (wire/frame.h) to whose session it is; NULL: it is no other monitor's. */
    void (*other)(struct session *session, uint8_t type, uint32_t id, struct span payload);
    /* Whose session it is does not read: what can be left out is (and counted). NULL: never. */
    bool (*full)(struct session *session);
    bool blocked; /* by a lock: requests or the one that waits go on when it is over (monitor/parts/parts.h) */
    struct session *next_blocked;
    const struct event_list *list; /* of this event are all its requests the list (event.h); NULL: of none */
    struct told_hold *told;        /* what waits for answers of whose session it is (monitor/parts/parts.h) */
    bool mute;                     /* one was waited for too long, and none has come since */
};

static inline bool session_waits(const struct session *session)
{
    return session->waiting || session->away;
}

struct tool *tool_find(struct monitor *monitor, uint32_t id); /* NULL: there is none */
/* Joins the tool `id`, or a new one with id 0. NULL: no such tool, or out of memory. */
struct tool *tool_join(struct monitor *monitor, uint32_t id);

/* A new one, with the id that it has at its home, another monitor, unless that is taken here; 0: any. NULL: out of memory. */
struct tool *tool_make(struct monitor *monitor, uint32_t id);

/* The session ends: deletes its conditional requests; with the tool's last session, releases all it held. */
void tool_leave(struct session *session);

/* The same for a tool whose one session is no connection: an extension that is a tool itself (specification 6.1). */
void tool_end(struct tool *tool);

/* State per tool, of extensions: by the address of anything of theirs. `destroy` is called when the tool has gone,
 * after all its objects, or when other data take the place; NULL: nothing to do. NULL where there is none; 0 or
 * -ENOMEM. */
void *tool_data(const struct tool *tool, const void *key);
int tool_set_data(struct tool *tool, const void *key, void *data_take, void (*destroy)(void *data));

struct attachment *tool_attachment(const struct tool *tool, const struct process *process);

/* Tells the session's error handler something. */
void session_error(struct session *session, Omis_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
