/* SPDX-License-Identifier: Apache-2.0 */
/* The tool session of `scry omis`: requests are numbered from 1, each reply is printed when it comes. */
#ifndef SCRY_CLI_OMIS_SESSION_H
#define SCRY_CLI_OMIS_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <omis.h>

#include "base/span.h"

struct omis_session {
    /* how */
    bool json, color;
    Omis_flags flags;                 /* of every request */
    void (*before_output)(void *ctx); /* for the shell, which has a prompt on the screen; may be NULL */
    void (*after_output)(void *ctx);
    void (*seen)(void *ctx, Omis_reply reply);
    void *ctx;
    /* state */
    uint32_t requests;                 /* sent so far: the number of the last one */
    uint32_t awaited;                  /* the number of the one whose first reply is waited for, or 0 */
    uint64_t replies;                  /* that came unasked, after the first one to their request */
    bool failed;                       /* some status was an error */
    volatile sig_atomic_t interrupted; /* set by a signal handler: omis_session_ask returns */
    int interrupt_fd;                  /* which then makes this readable, so that no poll misses it; -1: none */
};

/* Connects; url NULL: this node's monitor. There is one session in a process. Prints why not and returns false. */
bool omis_session_open(struct omis_session *session, const char *url, bool start);

/* Sends a request and prints what comes until its first reply was there, or was suppressed as its flags say. One that
 * is kept back (OMIS_BUFFER_REQUEST) is not waited for. */
void omis_session_ask(struct omis_session *session, struct span text);

/* Sends what was kept back and prints what comes until all of it was answered. */
void omis_session_flush(struct omis_session *session);

/* The same, but the reply is handed to the caller (never NULL) and neither printed nor counted. */
Omis_reply omis_session_query(struct omis_session *session, const char *text);

/* Prints what comes until `replies` more replies have come (if not 0) or the time is over (if not 0). */
void omis_session_listen(struct omis_session *session, uint64_t replies, uint64_t time_ns);

/* To be called when omis_fd() is readable. False when the connection is lost (which was printed). */
bool omis_session_handle(struct omis_session *session);

/* Returns the exit status: EXIT_ERRORS if any status was an error or the connection was lost. */
int omis_session_close(struct omis_session *session);

#endif
