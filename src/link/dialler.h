/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the other end, made within LINK_DIAL_SECONDS, step by step: whoever has more to do waits for the descriptor
 * and the time in their own loop. The host's addresses are looked up by the first step, which blocks as long as that takes, and
 * kept for all later connections: a lookup would block longest while the network is away, when somebody dials again.
 */
#ifndef SCRY_LINK_DIALLER_H
#define SCRY_LINK_DIALLER_H

#include <netdb.h>

#include "link/link.h"

struct dialler {
    const struct link_way *way;     /* borrowed */
    struct addrinfo *addresses;     /* NULL: not looked up yet */
    const struct addrinfo *at;      /* the one that is tried; NULL: nothing is under way, or `transport` is */
    int fd;                         /* that connects */
    struct tls *tls;                /* until the transport has it */
    struct transport *transport;    /* that greets in TLS */
    uint64_t at_until_ns, until_ns; /* for this address, and for all */
};

/* What to wait for until the next step. */
struct dialler_wait {
    int fd;
    uint32_t events; /* POLLIN or POLLOUT, which are EPOLLIN and EPOLLOUT */
    uint64_t until_ns;
};

void dialler_init(struct dialler *dialler, const struct link_way *way);
void dialler_done(struct dialler *dialler);
/* Gives up what is under way. */
void dialler_stop(struct dialler *dialler);
/* Begins, or goes on. 0: the transport is there, the caller's; -EAGAIN: it goes on when that has come in *ret_wait, or its time
 * is over; else -errno with one line for people, and nothing is under way. */
int dialler_step(struct dialler *dialler, struct transport **ret_transport, struct dialler_wait *ret_wait,
                 struct err *err);
/* All steps at once, for those that have nothing else to do. */
int dialler_connect(struct dialler *dialler, struct transport **ret_transport, struct err *err);

#endif
