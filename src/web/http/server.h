/* SPDX-License-Identifier: Apache-2.0 */
/* The server: what all of its parts share. One thread; libwebsockets has the loop. */
#ifndef SCRY_WEB_HTTP_SERVER_H
#define SCRY_WEB_HTTP_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <libwebsockets.h>

#include "base/data/err.h"
#include "options/options.h"

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

#endif
