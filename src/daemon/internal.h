/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about connections know of each other: connection.c (one of them), server.c (accepts them), carried.c (those
 * that come from other monitors, or go there). */
#ifndef SCRY_DAEMON_INTERNAL_H
#define SCRY_DAEMON_INTERNAL_H

#include <uthash.h>

#include "daemon/connection.h"
#include "monitor/engine/tool.h"
#include "monitor/tree/tree.h"
#include "wire/stream.h"

struct connection {
    struct session session; /* first: the engine knows only this */
    struct server *server;
    struct stream *stream; /* its own; NULL: it is a session of another monitor's, that an edge carries */
    struct edge *edge;     /* which; NULL once that has gone */
    uint16_t via;          /* and its number there */
    bool guest;            /* it brought its tool here: the tool's home is behind that edge */
    struct via *relay;     /* its tool's home is another monitor: all goes there; NULL */
    struct buf hello;      /* the payload with which that is looked for */
    uint32_t hello_id;
    int tried;                        /* the last edge that it was looked for behind */
    bool welcome;                     /* it was found */
    struct frame_reader queue;        /* of an edge's: what came and was not handled */
    struct loop_source *ready_source; /* requests that came or waited have their turn */
    uint64_t dropped;
    bool closing;                /* close when everything is sent */
    bool broken;                 /* the peer is gone, or violates the protocol */
    bool parted;                 /* of an edge's: GOODBYE was sent */
    struct confinement confined; /* asked for, until it has a tool */
    struct connection *next, *previous;
    struct carried { /* by edge and number */
        const struct edge *edge;
        uint64_t via;
    } key;
    UT_hash_handle hh;
};

struct server {
    struct loop *loop;
    struct monitor *monitor;
    int fd, reserve_fd; /* reserve: to refuse when all descriptors are used */
    struct loop_source *source;
    struct connection *connections, *carried; /* carried: those of edges, hash by edge and number */
    size_t count;
    pid_t refused; /* the process that was last refused for too many */
    void (*idle)(void *ctx, bool stop);
    void *ctx;
    bool stop_wanted;
};

/* ---- connection.c ---- */

struct connection *connection_new(struct server *server); /* without a stream; NULL: out of memory */
void connection_free(struct connection *connection);
/* Takes its own stream (in connection->stream) over. */
void connection_read(struct connection *connection);
/* Its next turn comes after all others. */
void connection_queue_turn(struct connection *connection);
/* What it sends can be left out, and is counted: it is not read. */
bool connection_full(struct session *session);
void connection_handle_frame(struct connection *connection, const struct frame *frame);
void connection_send(struct connection *connection, uint8_t type, uint8_t flags, uint32_t id, struct span payload);
size_t connection_waiting(const struct connection *connection); /* bytes that the peer has not taken */

/* ---- carried.c ---- */

/* The tool's home is another monitor: the connection is one to that. false: it is here. */
bool carried_relay(struct connection *connection, const struct frame *hello, uint32_t id);
/* For another monitor that this one has an edge to. */
struct tree_server carried_server(struct server *server);

#endif
