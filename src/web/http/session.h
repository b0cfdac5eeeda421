/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_HTTP_SESSION_H
#define SCRY_WEB_HTTP_SESSION_H

#include "base/data/buf.h"
#include "base/system/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- a limit of requests: so many a second, of which some may be saved up ---- */

struct allowance {
    double left;
    uint64_t at_ns; /* CLOCK_MONOTONIC: so many were left then */
};

/* May there be one more, now? Then it is counted. */
static inline bool allowance_take(struct allowance *allowance, double a_second, double saved_most)
{
    uint64_t now_ns = clock_now_ns();
    allowance->left += (double)(now_ns - allowance->at_ns) / NS_PER_SECOND * a_second;
    if (allowance->left > saved_most)
        allowance->left = saved_most;
    allowance->at_ns = now_ns;
    if (allowance->left < 1)
        return false;
    allowance->left -= 1;
    return true;
}

/*
 * ---- sessions ----
 *
 * Who may ask, and for what. A link has a token, which begins one session; a session has a secret of its own, so one
 * that somebody planted in a browser before is worth nothing. A bearer token is a session that was given to a script.
 * Secrets have 256 random bits, and all of a kind are compared each time, in constant time. They are in memory only:
 * with the server, all end.
 */

enum right { RIGHT_OBSERVE = 1, RIGHT_CONTROL = 2, RIGHT_SUBMIT = 4, RIGHT_SITE = 8, RIGHT_ALL = 15 };
enum { RIGHTS = 4, SECRET_TEXT = 43 /* characters of A-Za-z0-9_- */ };

enum secret_kind { SECRET_LINK, SECRET_SESSION, SECRET_BEARER };
struct session {
    enum secret_kind kind;
    char secret[SECRET_TEXT + 1];
    unsigned rights;            /* enum right */
    uint64_t number;            /* of all that there were, from 1: says whether it is still the same one */
    uint64_t end_ns;            /* CLOCK_MONOTONIC; 0: the place is free */
    struct allowance allowance; /* of its requests */
};

struct sessions;
struct sessions *sessions_new(void); /* NULL: out of memory */
void sessions_free(struct sessions *sessions);

/* A new one, good for so long; NULL: there are too many, or no random bits. The pointer is good until the next call. */
const struct session *session_new(struct sessions *sessions, enum secret_kind kind, unsigned rights, uint64_t ns);
/* The one of this kind that has the secret, and has not ended; NULL: none. */
struct session *session_find(struct sessions *sessions, enum secret_kind kind, struct span secret);
bool session_lives(struct sessions *sessions, uint64_t number);

/* Takes one of the requests that a session may make: 50 a second, of which 600 can be saved up. false: there is none. */
bool session_take(struct session *session);

#endif
