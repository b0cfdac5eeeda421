/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_HTTP_CONNECTION_H
#define SCRY_WEB_HTTP_CONNECTION_H

#include "base/data/err.h"
#include "base/data/hash.h"
#include "web/http/head.h"
#include "web/http/server.h"

#include <libwebsockets.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Where people come in: the sockets that are listened at, and who is at the other end of a connection. There is a limit
 * of connections, and a lower one for each address, so that one machine cannot keep out the others.
 */

struct connection {
    UT_hash_handle hh; /* by fd */
    int fd;
    enum entrance entrance;
    bool secure;
    struct address *address; /* NULL: it came by a unix socket */
    struct lws *wsi;
    struct connection *prev, *next;
    uint64_t allowed;  /* bytes that it may send, beside those that answers and time allow */
    uint64_t begun_ns; /* CLOCK_MONOTONIC */
    struct head head;
    const struct head_refusal *refusal; /* of what came last; nothing more of it is read. NULL: none */
    bool answering, refused;            /* a request is being answered; the refusal is written */
};
/* Removes the files of both. */
void sockets_remove(const struct server *server);

/* Frees what is known of addresses. */
void connections_done(struct server *server);

/* Protocols of the context. */
int on_listener(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);

/* Of the two callbacks about connections of HTTP. */
void connection_began(struct server *server, struct lws *wsi);
void connection_ended(struct server *server, struct lws *wsi);
struct connection *connection_of(struct lws *wsi);

/* What it sends must be requests and their bodies: frames of HTTP/2 that are neither, which libwebsockets answers by itself,
 * would keep the server busy at next to no cost. So all bytes are counted at the socket, and those that nothing explains end
 * the connection: a request (by_session: of somebody who is known), or a piece of a body, explains some. */
void connection_allow_request(struct connection *connection, bool by_session);
void connection_allow_body(struct connection *connection, size_t len);

/* Takes one of the requests that an address may make without a session. false: there is none. */
bool connection_take(struct connection *connection);

#endif
