/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link: carries a stream of bytes between two processes that have a unix socket each, on two machines, and knows nothing of
 * what is in it. So whatever the network or another machine does, it does to this program and not to a monitor. One end dials
 * (link_run: scry-link connect, node), the other one listens (scry-link serve), beside a monitor; on the network only if asked.
 *
 * Both ends number what they send, so a connection that broke is resumed by another one: nothing is lost or doubled. Who dialled
 * tries again, at the addresses that the name had at first. An end that was not heard for 10 s is given up and dialled again; a
 * session without a connection ends after 60 s. If scry-link serve is killed its sessions are over: a tool must know that its
 * scope is gone. TLS is 1.3 only, with certificates of the user's own authority (keys/keys.h), or a secret of 256 random bits
 * as pre-shared key (RFC 8446 2.2, with Diffie-Hellman) between `scry link await` and `join`. A refused handshake is not closed
 * at once, or the alert that says why would be lost with the bytes that nobody read.
 *
 *     transport.h   a connection: TLS, or the socket of ssh or of scry-link bridge
 *     end.h         one end of a session, which outlives its connections (wire/channel.h)
 *     this          dial.c: endpoints, and the connection to the other end; serve.c: who comes; node.c: nodes by their names; main.c: the program
 */
#ifndef SCRY_LINK_LINK_H
#define SCRY_LINK_LINK_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "link/transport.h"

enum {
    LINK_NAME = 256,
};

enum link_kind { LINK_TLS, LINK_SSH };

/* What is done about the first connection, before there is a session. */
struct link_first {
    int (*missing)(void *ctx, struct err *err); /* there is no scry, as *err says: 0 if there is one now */
    void (*begun)(void *ctx);                   /* the other end has answered */
    void *ctx;
};

/* How to reach the other end. */
struct link_endpoint {
    enum link_kind kind;
    char host[LINK_NAME]; /* a name or an address, without brackets */
    char user[LINK_NAME]; /* of ssh; "": as its configuration says */
    char job[LINK_NAME];  /* tls://HOST:PORT/JOB: the job that a key with fewer rights is for; "": none was named */
    uint16_t port;        /* 0: as ssh's configuration says */
    char shown[2 * LINK_NAME];      /* for people */
    const char *remote;             /* what ssh executes there, by the user's shell; NULL: link_remote_command */
    const struct link_first *first; /* NULL: nothing */
    const uint8_t *secret;          /* TLS_SECRET bytes that both sides have, instead of keys; NULL: keys */
};

/* Takes a name apart: tls://, ssh://. -EINVAL with err. A host or user that begins
 * with '-', or has other characters than names and addresses have, is refused: they become arguments of ssh. */
int link_endpoint_parse(const char *text, struct link_endpoint *ret_endpoint, struct err *err);
/* The same, or USER@HOST or HOST, as ssh takes it. */
int link_endpoint_node(const char *text, struct link_endpoint *ret_endpoint, struct err *err);

/*
 * A connection to the other end, made within LINK_DIAL_SECONDS, step by step: whoever has more to do waits for the descriptor
 * and the time in their own loop. The host's addresses are looked up by the first step, which blocks as long as that takes, and
 * kept for all later connections: a lookup would block longest while the network is away, when somebody dials again.
 */

struct dialler {
    const struct link_endpoint *endpoint; /* borrowed */
    struct addrinfo *addresses;           /* NULL: not looked up yet */
    const struct addrinfo *at;            /* the one that is tried; NULL: nothing is under way, or `transport` is */
    int fd;                               /* that connects */
    struct tls *tls;                      /* until the transport has it */
    struct transport *transport;          /* that greets in TLS */
    uint64_t at_until_ns, until_ns;       /* for this address, and for all */
};

/* What to wait for until the next step. */
struct dialler_wait {
    int fd;
    uint32_t events; /* POLLIN or POLLOUT, which are EPOLLIN and EPOLLOUT */
    uint64_t until_ns;
};

void dialler_init(struct dialler *dialler, const struct link_endpoint *endpoint);
void dialler_done(struct dialler *dialler);
/* Gives up what is under way. */
void dialler_stop(struct dialler *dialler);
/* Begins, or goes on. 0: the transport is there, the caller's; -EAGAIN: it goes on when that has come in *ret_wait, or its time
 * is over; else -errno with one line for people, and nothing is under way. */
int dialler_step(struct dialler *dialler, struct transport **ret_transport, struct dialler_wait *ret_wait,
                 struct err *err);
/* All steps at once, for those that have nothing else to do. */
int dialler_connect(struct dialler *dialler, struct transport **ret_transport, struct err *err);

/* Starts ssh with the command there; its streams are the connection. An error of ssh's own comes as the transport's
 * (transport_why): unknown host, key that has changed, refused, no such program. */
int link_over_ssh(const struct link_endpoint *endpoint, const char *command, struct transport **ret_transport,
                  struct err *err);
/* What is executed there: finds scry in the places where it may be, and becomes `scry-link bridge` (node.c). */
const char *link_remote_command(void);

/* Carries what comes from fd to the other end and back, until one of both closes; dials again when the connection
 * breaks. What cannot be done is said on fd by FRAME_GOODBYE. Returns an exit status. fd is closed. */
int link_run(const struct link_endpoint *endpoint, int fd);
/* Says why on fd, as a monitor does. Returns 1. */
int link_refuse(int fd, const struct err *err);

enum { LINK_LISTEN_MOST = 16 };
struct link_wishes {
    const char *listen[LINK_LISTEN_MOST]; /* HOST:PORT each */
    size_t count;
    bool awaits; /* monitors that come by themselves: scry-link await */
    bool beside; /* it ends with standard input, and says to link.log what is wrong later */
};
int link_serve(const struct link_wishes *wishes); /* scry-link serve; an exit status */
int link_open_log(const char *dir);               /* link.log in the runtime directory, or -1 */

/*
 * Nodes by their names: what a monitor has done for node_attach2, and what people ask when that does not work. A name is HOST or
 * USER@HOST (ssh, with the user's own configuration, no question asked), ssh://, tls://, or unix:PATH.
 *
 * ssh executes one script in single quotes, which every login shell passes on: it looks for scry-link of this very build first,
 * copied or at the same path as here, then beside the scry that it finds. A copy gets its name when the loader
 * finds all libraries, so nobody sees half of one, and several builds live side by side. A user begins GATE_PLACES logins at a
 * time on a machine. A name is of the node that was reached by it: what a monitor calls itself gives nobody a name.
 */

/* Carries frames between fd and the monitor of the node, or says on fd by FRAME_GOODBYE why not. An exit status. */
int node_run(const char *name, int fd);

/* Puts scry there. An exit status; says on standard error what was wrong. */
int node_install(const char *name);
/* Prints what is there, one finding a line: "ok|warn|fail NAME TEXT TAB REMEDY". 0. */
int node_look(const char *name);

#endif
