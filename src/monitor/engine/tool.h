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
#include <omis.h>
#include <stddef.h>

#include "base/data/buf.h"
#include "monitor/engine/object.h"
#include "base/data/arena.h"
#include "base/data/err.h"

struct monitor;
struct param_type;
struct scry_object;
struct service;
struct session;
struct tool;
struct value;
struct event_list;
struct process;

/* ---- confinement ---- */

/*
 * Tools that may not do everything: those of people who speak with the job through a broker (publish/control.c). Such a
 * tool is confined to one job, and to some rights. It is the tool that is confined, not a request: so everything that is
 * made for it is, now and later: its conditional requests, their actions, what extensions request for it.
 *
 *     services     each has a right, by its row (scry/ext.h); held when a request is checked, and when an action runs
 *     jobs         arguments named `job`: only one's own, and "" means that one
 *     processes    attached only if the job has them, as its scry run follows it
 *     others       objects of other tools do not exist: their events, requests, held messages, jobs
 *     memory       of the monitor, which may be the job's: so much as in the limits below
 *
 * Nothing here can be undone for a tool: a second confinement may only take more away.
 */

/* Of one tool that is confined: who may only observe must not be able to end the monitor, or the job, by its memory. */
enum {
    CONFINED_OBJECTS = 512,           /* it has at once: conditional requests, user events, objects of extensions */
    CONFINED_TEXT_BYTES = 256 << 10,  /* of all its conditional requests; in memory it may be 20 times as much */
    CONFINED_PARAMS_BYTES = 16 << 10, /* of a user event, in memory */
    CONFINED_CASCADE = 256,           /* events that come of one event */
    CONFINED_REPLY_BYTES = 8 << 20,   /* of one reply */
};

struct confinement {
    unsigned rights;
    char *job;    /* its directory; NULL: it is not confined, and who it is is known all the same */
    char *who;    /* whose key it is, for people */
    char *serial; /* of the key */
};

/* Takes copies. A zeroed confinement is filled, another one is lowered: the same job, and the rights that both have. No job,
 * with all rights, only says who it is. -EPERM: another job; -EINVAL: no right, or no directory; -ENOMEM. */
int confine(struct confinement *confinement, unsigned rights, const char *job, const char *who, const char *serial,
            struct err *err);
void confinement_done(struct confinement *confinement);
/* Of another connection. -ENOMEM. */
int confinement_copy_name(struct confinement *confinement, const struct confinement *other);
/* Gives them to a tool that has none yet (moves them), or compares: a tool has one confinement for all its
 * connections. -EPERM. */
int confine_tool(struct tool *tool, struct confinement *confinement_take, struct err *err);

/* All of them return OMIS_OK for a tool that is not confined, else a status with err. */
Omis_status confine_right(const struct tool *tool, enum right right, const char *what, struct err *err);
Omis_status confine_service(const struct tool *tool, const struct service *service, struct err *err);
/* Arguments that name a job. *args may be replaced by a copy in the arena. A context parameter is not looked at: the
 * values that it gets are. */
Omis_status confine_args(const struct tool *tool, const struct service *service, struct arena *arena,
                         const struct value **args, size_t argc, struct err *err);
/* Whether an argument names a job. */
bool confine_names_job(const struct param_type *param);
Omis_status confine_process(const struct tool *tool, pid_t pid, struct err *err);
Omis_status confine_object(const struct tool *tool, struct scry_object *object, struct err *err);

/* Whether it may have one more object, a conditional request with so many bytes of text (0: another object).
 * OMIS_NO_MEMORY. */
Omis_status confine_room(const struct tool *tool, size_t text_bytes, struct err *err);
/* Whether a call makes an object: then confine_room is asked. */
bool confine_makes_object(const struct service *service);
Omis_status confine_params(const struct tool *tool, const struct value *params, struct err *err);

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
    struct confinement confined;       /* job NULL: it is not */
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
