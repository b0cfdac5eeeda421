/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools that may not do everything: those of people who speak with the job through a broker (publish/control.h). Such a
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
#ifndef SCRY_MONITOR_ENGINE_CONFINE_H
#define SCRY_MONITOR_ENGINE_CONFINE_H

#include <omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "base/data/err.h"
#include "base/data/buf.h"

struct monitor;
struct param_type;
struct scry_object;
struct service;
struct session;
struct tool;
struct value;

/* Bits; the first three are those of keys (keys/keys.h). Who may do anything may observe. */
enum right {
    RIGHT_OBSERVE = 1,
    RIGHT_CONTROL = 2,
    RIGHT_MEMORY = 4,
    RIGHT_LOCAL = 8, /* only of tools on this node that are not confined */
};
const char *right_name(enum right right); /* "observe", ... */

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

#endif
