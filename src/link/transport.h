/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LINK_TRANSPORT_H
#define SCRY_LINK_TRANSPORT_H

#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "keys/keys.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A connection of the link, in both directions: of TLS, or of a socket that has no need of it. Never blocks. */

struct tls;

struct transport {
    int fd;
    SSL *ssl;          /* NULL: the bytes as they are */
    struct tls *tls;   /* that only this one uses, or NULL */
    bool shaken;       /* the handshake is over */
    bool wants_output; /* TLS waits for room, whatever it does */
    pid_t child;       /* ssh; 0: none */
    int errors;        /* its standard error; -1: none */
    char said[4096];   /* the last that came there */
    size_t said_len;
    char host[520]; /* of ssh, for people */
    bool noisy;     /* something may stand before what the other end says: a shell's greeting */
};

struct transport *transport_new_take(int fd); /* NULL without memory: the descriptor is closed */
void transport_free(struct transport *transport);
DEFINE_FREEP(transport, transport_free)
/* What was written is to arrive, which neither ssh that is ended nor a socket with unread bytes that is closed sees to: says
 * that nothing more comes, and waits until the other end has closed, STREAM_LINGER_MS at most. */
void transport_linger(struct transport *transport);

/* Bytes; 0: it has ended; -EAGAIN: when there is something to read (or write: wants_output); -EPIPE and others with err. */
ssize_t transport_read(struct transport *transport, void *bytes, size_t len, struct err *err);
ssize_t transport_write(struct transport *transport, const void *bytes, size_t len, struct err *err);
/* 0: the handshake is over; -EAGAIN; another -errno with err. */
int transport_shake(struct transport *transport, struct err *err);
/* Why it has ended, if ssh says why; else *err is left as it is. */
void transport_why(struct transport *transport, struct err *err);

/* ---- TLS ---- */

enum { TLS_SECRET = 32 };
/* struct tls: one side, its key and whom it trusts. */
/* The key is borrowed. `listens`: it must have all rights for all jobs, or nobody would take it. */
int tls_new(struct tls **ret_tls, const struct key *key, bool listens, struct err *err);
/* For two sides that have nothing but a secret (a pre-shared key, RFC 8446 2.2, always with Diffie-Hellman). */
int tls_new_shared(struct tls **ret_tls, const uint8_t secret[TLS_SECRET], bool listens, struct err *err);
void tls_free(struct tls *tls);
DEFINE_FREEP(tls, tls_free)
int tls_transport(struct tls *tls, int fd_take, struct transport **ret_transport, struct err *err);
struct truster *tls_truster(struct tls *tls);
/* Whose key the other side has shown in the handshake, if it is trusted (still). */
bool tls_peer(const struct tls *tls, const struct transport *transport, struct key_about *ret_about);

#endif
