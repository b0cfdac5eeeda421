/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry's own tools need from libomis beyond <omis.h> and <scry/omis.h>. Only in the static library (client_dep);
 * the shared one exports nothing but omis_*. As with <omis.h>: one thread at a time.
 */
#ifndef SCRY_CLIENT_CLIENT_H
#define SCRY_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <scry/omis.h>

#include "base/data/buf.h"

typedef void client_callback_fn(Omis_reply reply, void *param);

/* omis_request for a text of known length: it may contain anything, also incomplete binary data. */
Omis_reply client_request(struct span text, client_callback_fn *callback, void *param, Omis_flags flags);

/* Sends a request that was put together (lang/value.h), frees it, and waits for the answer. NULL: out of memory. */
Omis_reply client_ask(struct buf *text_take);

/* For _cleanup_(omis_reader_freep). */
static inline void omis_reader_freep(struct omis_reader **reader)
{
    omis_reader_free(*reader);
}

/* omis_init for a tool that needs a running monitor: a new one would know no jobs. Returns whether there is a
 * connection; if not, client_error() says why. */
bool client_join(void);
/* The same for the monitor of a job behind a broker, through it (client/connect.c). The URL may hold a password. */
bool client_join_job(const char *url);

/* Begins omis_finalize, which then has to wait less. Nothing else may be asked any more. */
void client_leave(void);

/* Why the last omis_init of this process failed, for people; "" if it did not. Valid until the next omis_init. */
const char *client_error(void);

/* For the next omis_init: how long to wait for a monitor's greeting (default 10 s); less if it is stopped. */
void client_set_timeout(unsigned limit_ms);

/* Why no answer can be expected from the monitor, asked at `since_ns` (CLOCK_MONOTONIC), for people: it is stopped, or
 * could have answered within `limit_ms`. NULL: wait on. Valid until the next call. */
const char *client_hangs(uint64_t since_ns, unsigned limit_ms);

/* Did it fail because a monitor did not answer in time? client_error() has the monitor. */
bool client_timed_out(void);
/* Did it fail because no monitor runs, and none should be started? */
bool client_found_none(void);

/* false before omis_init, after omis_finalize, and when the library has noticed that the connection is lost. */
bool client_connected(void);

/* true while callbacks wait for replies: of requests under way, and of conditional requests. */
bool client_pending(void);

/* The number of requests with a callback that wait for their first reply, sent or buffered (OMIS_BUFFER_REQUEST).
 * Suppressed replies and expired requests do not count. */
size_t client_unanswered(void);

/* Sends the requests that OMIS_BUFFER_REQUEST has buffered. */
void client_send(void);

/* Makes a reply with one element, for errors that never reached the monitor. omis_reply_free frees it; never NULL. */
Omis_reply client_reply(Omis_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
