/* SPDX-License-Identifier: Apache-2.0 */
/* scry-link serve: what its files share. serve.c has the guests, who have not said hello yet; sessions.c the sessions. */
#ifndef SCRY_LINK_SERVE_H
#define SCRY_LINK_SERVE_H

#include <limits.h>

#include "link/end.h"

enum {
    SERVE_SESSIONS = 1024,    /* at once */
    SERVE_KEY_SESSIONS = 128, /* of one key */
    SERVE_GUESTS = 256,      /* connections on which nobody has said hello yet; the oldest is dropped for another one */
    SERVE_OVER = 256,        /* sessions that are over are remembered */
    SERVE_BYTES = 256 << 20, /* under way from monitors, of all sessions */
};

struct link_session;
struct guest;

struct serve {
    struct loop *loop;
    struct key *key; /* NULL: it does not listen on the network, or has a secret instead */
    struct tls *tls;
    bool awaits; /* await.h */
    unsigned port;
    char secret[2 * TLS_SECRET + 1];
    char dir[PATH_MAX]; /* the runtime directory */
    struct link_session *sessions;
    unsigned count;
    uint8_t over[SERVE_OVER][CHANNEL_SESSION];
    unsigned over_next;
    struct guest *guests, **guests_last; /* the oldest first */
    unsigned guest_count;
    struct loop_source *timer;
    uint64_t idle_ns; /* 0: it does not end by itself */
    uint64_t looked_ns, busy_ns;
    /* a monitor that is being started for the sessions that wait */
    pid_t starter;
    int starter_fd, starter_errors;
    struct loop_source *starter_source;
};

/* Who has said hello takes or begins a session, or is told why not. `who`: NULL for a user's own process on this machine.
 * Frees the transport in any case. */
void sessions_take(struct serve *serve, struct transport *transport, const struct key_about *who,
                   const struct hello *hello, struct span early);
/* Once a second or so: those that nobody came back to end, and those whose key is not taken any more. */
void sessions_tick(struct serve *serve, uint64_t now, bool keys_too);
void sessions_end(struct serve *serve, const char *why);

#endif
