/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LINK_SERVE_H
#define SCRY_LINK_SERVE_H

#include "link/end.h"

#include <limits.h>

/* scry-link serve: guests, who have not said hello yet, and sessions; what await.c has of them, too. */

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

#endif
