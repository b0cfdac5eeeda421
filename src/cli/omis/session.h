/* SPDX-License-Identifier: Apache-2.0 */
/* The tool session of `scry omis`: numbers requests from 1, and prints each reply when it comes. */
#ifndef SCRY_CLI_OMIS_SESSION_H
#define SCRY_CLI_OMIS_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <omis.h>

#include "base/data/buf.h"

struct omis_session {
    bool json, color;
    Omis_flags flags;                 /* of every request */
    void (*before_output)(void *ctx); /* the shell clears its prompt; may be NULL */
    void (*after_output)(void *ctx);
    void (*seen)(void *ctx, Omis_reply reply);
    void *ctx;
    uint32_t requests;                 /* sent so far: the number of the last one */
    uint32_t awaited;                  /* the request whose first reply is awaited, or 0 */
    uint64_t replies;                  /* after the first one to their request */
    bool failed;                       /* some status was an error */
    volatile sig_atomic_t interrupted; /* set by a signal handler: omis_session_ask returns */
    int interrupt_fd;                  /* then readable, so that no poll misses it; -1: none */
};

/* Connects; url NULL: to this node's monitor. A process has one session. On failure prints why and returns false. */
bool omis_session_open(struct omis_session *session, const char *url, bool start);

/* Sends a request and prints replies until its first one has come, or was suppressed by its flags. Does not wait for a
 * request that is buffered (OMIS_BUFFER_REQUEST). */
void omis_session_ask(struct omis_session *session, struct span text);

/* Sends the buffered requests and prints replies until all are answered. */
void omis_session_flush(struct omis_session *session);

/* The same for one request, but returns the reply (never NULL); it is neither printed nor counted. */
Omis_reply omis_session_query(struct omis_session *session, const char *text);

/* Prints replies until `replies` more have come (if not 0) or the time is over (if not 0). */
void omis_session_listen(struct omis_session *session, uint64_t replies, uint64_t time_ns);

/* Call it when omis_fd() is readable. False: the connection is lost, which was printed. */
bool omis_session_handle(struct omis_session *session);

/* Returns the exit status: EXIT_ERRORS if any status was an error or the connection was lost. */
int omis_session_close(struct omis_session *session);

#endif
