/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_OMIS_SHELL_H
#define SCRY_CLI_OMIS_SHELL_H

#include "base/data/buf.h"

#include <omis.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Splits a stream into requests, one a line. A newline inside binary data (LENGTH#BYTES) ends nothing. One inside a
 * string does, since a string cannot contain it: so a forgotten quote costs only one line. */

/* Zero-initialised is ready. */
struct omis_lines {
    struct buf bytes;
    size_t used; /* of bytes, by the line handed out last */
    size_t at;   /* scanned up to here */
    enum { LINES_PLAIN, LINES_WORD, LINES_NUMBER, LINES_STRING, LINES_ESCAPE } state;
    size_t number; /* LINES_NUMBER: its value so far */
};

void omis_lines_feed(struct omis_lines *lines, const char *bytes, size_t len);

/* Returns the next whole line without its newline, and at the end of the stream (`last`) also an incomplete one. It is
 * borrowed until the next call. */
bool omis_lines_next(struct omis_lines *lines, bool last, struct span *ret_line);

void omis_lines_done(struct omis_lines *lines);

/* The tool session of `scry omis`: numbers requests from 1, and prints each reply when it comes. */

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

/* Prints replies until `replies` more have come (if not 0) or the time is over (if not 0). */
void omis_session_listen(struct omis_session *session, uint64_t replies, uint64_t time_ns);

/* Call it when omis_fd() is readable. False: the connection is lost, which was printed. */
bool omis_session_handle(struct omis_session *session);

/* Returns the exit status: EXIT_ERRORS if any status was an error or the connection was lost. */
int omis_session_close(struct omis_session *session);

/* The shell of `scry omis`: line editing with history and completion (libedit). Replies of conditional requests appear
 * above the prompt when they come. */

/* Runs until `quit`, end of file, or loss of the connection. */
void omis_shell_run(struct omis_session *session);

/* Lists and explains services, as the monitor itself describes them (`services`, `extensions`,
 * `scry_service_get_info`). */

/* Prints one line for each service: text, or in a JSON session an object with name, kind, signature, class, doc, state.
 */
bool omis_services_list(struct omis_session *session);

#endif
