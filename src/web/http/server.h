/* SPDX-License-Identifier: Apache-2.0 */
/* The server: what all of its parts share. One thread; libwebsockets has the loop. */
#ifndef SCRY_WEB_HTTP_SERVER_H
#define SCRY_WEB_HTTP_SERVER_H

#include <libwebsockets.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "options/options.h"
#include "web/http/head.h"

struct sessions;
struct questions;
struct address;
struct viewers;
struct follows;
struct known_job;
struct child;

enum { ORIGINS_MOST = 64, LISTENERS_MOST = 4, LISTED_MOST = 8, BLOB_TAG = 24 };

/* How somebody comes in: by an address, where only a session says who it is; by serve.sock, as the user of this server; by the
 * socket of --proxy, as a proxy that lets nobody but that user come this way. The kernel says who is at the other end of a socket. */
enum entrance { ENTRANCE_ADDRESS, ENTRANCE_OWNER, ENTRANCE_PROXY };

struct listener {
    int fd;
    enum entrance entrance;
    bool secure;
    uid_t uid;           /* who may connect to a socket */
    char path[PATH_MAX]; /* of one; it is removed in the end, */
    dev_t device;        /* if it is still this one */
    ino_t inode;
};

struct server {
    const struct options *options;
    struct lws_context *context;
    struct lws_vhost *plain, *secure, *own; /* secure: NULL without a certificate; own: of no connection */
    struct listener listeners[LISTENERS_MOST];
    size_t listener_count;
    struct connection *incoming; /* while it is given to libwebsockets */
    struct connection *all;      /* that came by an address */
    lws_sorted_usec_list_t look; /* at these */
    struct address *addresses;
    unsigned connections, connections_most; /* most: also by the limit of open files, of which others need some */
    SSL_CTX *tls;                           /* of `secure` */
    uint64_t certificate, certificate_seen; /* stamps of its files: as they were tried last, as they were seen last */
    bool certificate_refused;               /* what is in them now is not used, and this was said */
    lws_sorted_usec_list_t renewal;
    uint16_t port;
    char link[256];              /* what a link begins with */
    char *origins[ORIGINS_MOST]; /* scheme://host[:port] from which requests may come */
    size_t origin_count;
    char cookie[24];        /* its name: cookies know no ports, so each server has its own */
    char program[PATH_MAX]; /* scry */
    char user[64];
    uint64_t session_ns;
    struct sessions *sessions;
    struct questions *questions;
    struct viewers *viewers;
    struct follows *follows;
    struct known_job *known;
    struct listed {
        char tag[BLOB_TAG];  /* of the answer that was read last */
        struct json_t *jobs; /* that it has, and that may be shown; NULL: too many to be kept */
        uint64_t good_ns;    /* until then who looks for one job need not ask again */
    } listed[LISTED_MOST];   /* by source: many ask again and again for the same list */
    struct child *children;  /* all that there are */
    bool over;
};

/* Its steps, each 0 or -errno with err: listens where the options say; makes the context, with the protocols of what it watches
 * itself; finds the names under which it is reached, beside those that --origin gives. */
int server_listen(struct server *server, struct err *err);
int server_make(struct server *server, const struct lws_protocols *own_protocols, struct err *err);
int server_name_origins(struct server *server, struct err *err);

/* Headers of every answer: a list, with their colons. */
extern const struct lws_protocol_vhost_options server_headers[];

/* Calls the protocol when the descriptor can be read; it is closed with the result, or when NULL is returned. */
struct lws *server_watch(struct server *server, int fd, const char *protocol, void *opaque);

/* Is this the origin of a page of ours, or a host by which one may call the server? Without a slash at the end. */
bool server_is_origin(const struct server *server, const char *origin);
bool server_is_host(const struct server *server, const char *host);

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
