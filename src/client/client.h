/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry's own tools need of libomis beyond <omis.h> and <scry/omis.h>. Present in the static form only
 * (client_dep); the shared library exports omis_* and nothing else. The same rule as for <omis.h> holds: one thread at
 * a time.
 */
#ifndef SCRY_CLIENT_CLIENT_H
#define SCRY_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <scry/omis.h>

#include "base/buf.h"
#include "base/span.h"

typedef void client_callback_fn(Omis_reply reply, void *param);

/* omis_request for a text whose length is known: it may hold anything, also binary data that is cut short. */
Omis_reply client_request(struct span text, client_callback_fn *callback, void *param, Omis_flags flags);

/* Sends a request that was put together (lang/put.h), frees it, and waits for the answer. NULL: out of memory. */
Omis_reply client_ask(struct buf *text_take);

/* For _cleanup_(omis_reader_freep). */
static inline void omis_reader_freep(struct omis_reader **reader)
{
    omis_reader_free(*reader);
}

/* omis_init for a tool that needs a monitor only where one runs: one that must be started now knows of no job. Whether
 * there is a connection; if not, client_error() says why. */
bool client_join(void);

/* Why the last omis_init of this process failed, for people; "" when it did not. Valid until the next omis_init. */
const char *client_error(void);

/* For the next omis_init: a monitor that does not greet is given up after so long (10 s), or soon when it is stopped.
 */
void client_set_patience(unsigned limit_ms);

/* NULL, or why no answer is to be expected, for people: the monitor, asked at `since_ns` (CLOCK_MONOTONIC), is stopped,
 * or could have answered within `limit_ms`. Valid until the next call. */
const char *client_hangs(uint64_t since_ns, unsigned limit_ms);

/* Whether it failed because a monitor gave no answer in time; client_error() says which. */
bool client_timed_out(void);
/* Whether it failed because no monitor runs, and none was to be started. */
bool client_found_none(void);

/* The identifier that the monitor gave this tool, 0 when there is no connection. */
int client_tool_id(void);

/* false before omis_init, after omis_finalize and as soon as the library has noticed that the connection is lost. */
bool client_connected(void);

/* true while callbacks of requests that were not answered for the last time (FRAME_LAST) are registered: answers to
 * requests under way, and conditional requests that are defined. */
bool client_pending(void);

/* How many requests with a callback have not had their first reply, sent or kept back (OMIS_BUFFER_REQUEST). One that
 * was suppressed, or whose time was over, counts as had. */
size_t client_unanswered(void);

/* Sends what OMIS_BUFFER_REQUEST keeps back. */
void client_send(void);

/* A reply made here, with one element: the form in which the library reports what never reached the monitor. Freed by
 * omis_reply_free; never NULL. */
Omis_reply client_reply(Omis_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
