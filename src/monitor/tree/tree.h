/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitors of other nodes, as one system: a request names objects, never places.
 *
 * Towards another monitor we are a tool like any other: we say hello, attach, request. So a node's monitor keeps for each tool
 * of the whole system what it keeps for its own (scope, suspend counts, conditional requests), and releases it when the
 * connection is lost. There is no second protocol and no second set of rules. What the other monitor does for its tools comes
 * in as connections of the daemon (struct tree_server). The engine knows nothing of all this but one hook. The home of a tool
 * is the monitor that it is connected to; any monitor may be one.
 *
 * An edge is a connection between two monitors, a stream of frames. How bytes get there is the business of scry-link.
 *
 *   greeting   PEER: versions, host, and the instance, 128 random bits made at the start; answered by PEER, or by GOODBYE with
 *              why. By the instance a monitor sees that it has reached itself, or a node to which it has an edge.
 *   sessions   `via` in a frame's header: each is a connection as a tool has it. Who connected uses odd numbers.
 *   rights     go one way: who connected has proved who he is, and may do everything there. The other way nothing was proved:
 *              that side gets no sessions. A tool there that wants this node attaches it by its name.
 *   alive      PING after EDGE_ASK_S of silence; after EDGE_SILENT_S the node "does not answer": what waits for it is answered
 *              with an error that says since when. It stays until the link gives it up.
 *   pressure   requests of a session wait while much waits for the peer. An edge is always read from, or two monitors with
 *              much to say would wait for each other.
 *
 * A node's number is each monitor's own: itself is 1, others get the next in the order in which it learns of them (NODE,
 * NODE_GONE). Tokens are translated at each edge (lang/token.h). So monitors that already run can be joined, and nobody hands
 * out numbers. A tool of several processes has a random id, which its home knows; monitors never tell ids to those that they
 * attach. Sessions keep a monitor, edges do not: a tree ends with its tools.
 *
 *   slice.h, far.c               a request over nodes: cut, sent, and its answers put together; in braces all nodes that it
 *                                touches are locked
 *   conditional.c, far_event.c   conditional requests, and their lists over nodes
 *   reach.c                      how a node is reached: scry-link, or a monitor below that has fewer nodes (EDGE_FANOUT)
 *
 * What it costs is measured by test/system/test_scale.py, what faults do by test_node_faults.py.
 */
#ifndef SCRY_MONITOR_TREE_TREE_H
#define SCRY_MONITOR_TREE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/data/err.h"
#include "lang/token.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"
#include "wire/frame.h"

struct checked_request;
struct event_list;
struct edge;
struct far_request;
struct stream;
struct tree;
struct via;

enum {
    EDGE_FANOUT = 32, /* more are attached by monitors below */
};

/* ---- for the daemon ---- */

/* How the sessions of an edge's peer become connections. */
struct tree_server {
    /* A frame of the session `via` of the peer's; its first is CONFINE, HELLO or, after all was closed, a late one. */
    void (*frame)(void *ctx, struct edge *edge, const struct frame *frame);
    /* Something for the tool's error handler (an encoded reply). */
    void (*error)(void *ctx, struct tool *tool, struct span encoded);
    /* Output of the edge has been taken: sessions that waited for room go on. */
    void (*room)(void *ctx, struct edge *edge);
    /* A frame that goes through (tree_relay); after GOODBYE and NULL (the way is gone) there are no more. */
    void (*relayed)(void *ctx, void *relay, const struct frame *frame);
    /* The edge goes: its sessions end. */
    void (*gone)(void *ctx, struct edge *edge);
    void *ctx;
};

/* Sets monitor->tree. 0 or -ENOMEM. */
int tree_new(struct monitor *monitor, const struct tree_server *server);
void tree_free(struct tree *tree); /* closes all edges; NULL is fine */

/* A connection said PEER: from here on it is an edge (the stream is taken in any case), or is refused with GOODBYE. Whose key
 * it came by is copied. */
void tree_take(struct tree *tree, struct stream *stream_take, const struct frame *peer, const struct confinement *who);
const struct confinement *edge_who(const struct edge *edge);

/* Sends something in a session of the peer's. */
void edge_send(struct edge *edge, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, struct span payload);
size_t edge_waiting(const struct edge *edge); /* bytes that it has not taken */
/* A frame in a session of the peer's that is none of a tool's; false: nobody knows it. */
bool tree_asked(struct edge *edge, struct session *session, const struct frame *frame);
/* A session of the peer's has said hello: it wants to know our nodes from here on. */
void edge_tell_nodes(struct edge *edge);

/* Another session there, which is not ours: of a tool's other process (tool_id of omis_init), whose home is behind that edge.
 * Frames go through as they are, so its tokens are those of the home. NULL: out of memory, or the edge is not up. */
struct via *tree_relay(struct edge *edge, void *relay);
void tree_relay_send(struct via *via, const struct frame *frame);
void tree_relay_end(struct via *via);

/* ---- nodes ---- */

enum { TREE_NAME_SIZE = 256, TREE_INSTANCE_SIZE = 16, TREE_HERE = 1 /* our own number */ };

struct tree_node {
    uint32_t number;   /* in our tokens */
    uint32_t theirs;   /* its number behind the edge */
    struct edge *edge; /* the way to it; NULL: it is gone, or is this node */
    unsigned char instance[TREE_INSTANCE_SIZE];
    char name[TREE_NAME_SIZE];
    char why[160]; /* it is gone */
    char *asked;   /* the name by which node_attach2 found it last; NULL */
    UT_hash_handle hh;
};

/* The node of a number or a token's text ("n_3", "p_3_17"); NULL: there never was one. */
struct tree_node *tree_node(struct tree *tree, uint32_t number);
/* The next one in the order of numbers, beginning with NULL; also those that are gone. */
struct tree_node *tree_next_node(struct tree *tree, const struct tree_node *node);

/* ---- edges ---- */

/* The next edge beginning with NULL, by place ascending; only those that can be used. */
struct edge *tree_next_edge(struct tree *tree, const struct edge *edge);
struct edge *tree_edge(struct tree *tree, int place); /* NULL: none */
bool edge_is_ours(
    const struct edge *edge); /* we have attached the node there: it has no rights here, while who attached us
                                             * has all */
unsigned *edge_wrong_ids(struct edge *edge); /* how often it asked for a tool that is not there: the daemon counts */
int edge_place(const struct edge *edge);     /* its number, from 1, never used again */
/* True: nothing was heard for EDGE_SILENT_S. Says so for people, with the node's token and since when. */
bool edge_is_silent(const struct edge *edge, char *ret_why, size_t size);
/* From their numbers to ours; their number of one of our nodes, 0: they do not know it. */
struct renumber edge_renumber(struct edge *edge);
uint32_t edge_theirs(struct edge *edge, uint32_t number);

/* ---- a tool's session behind an edge ---- */

/* Opened when it is first needed; nothing is waited for. NULL: out of memory, or the edge cannot be used. */
struct via *tree_via(struct tool *tool, struct edge *edge);
/* The one that is there, or NULL. */
struct via *tree_find_via(const struct tool *tool, const struct edge *edge);
struct edge *via_edge(const struct via *via);

/* One reply, in our numbers; `last`: no more will come. Or, with `lost`, why none will come (last is true): the monitor
 * does not answer, or is gone. It may forget itself. Called from the loop, never from within via_request. */
typedef void via_reply_fn(void *ctx, bool last, struct span reply, const char *lost);

/* How long a reply is waited for: until the edge is silent for EDGE_SILENT_S, or as long as there is the edge. */
enum via_timeout { VIA_ANSWER, VIA_STAND };

/* Sends REQUEST, DEFINE ... with head and text as the payload; tokens in it are theirs already. Returns its id, or 0 with
 * err: the edge is silent (VIA_ANSWER), or out of memory. */
uint32_t via_request(struct via *via, uint8_t type, struct span head, struct span text, enum via_timeout timeout,
                     via_reply_fn *fn, void *ctx, struct err *err);
/* Nobody wants its replies any more. */
void via_forget(struct via *via, uint32_t id);
/* Sends a frame without an answer. */
void via_send(struct via *via, uint8_t type, uint32_t id, struct span payload);

/* ---- requests ---- */

/* Executes an unconditional request for a tool, over nodes where it concerns some, and hands over its one reply in our
 * numbers, from the loop. `session` is who asks; when it ends, tree_forget must have been called. `list`: of which event it
 * is the list, borrowed; NULL. NULL: out of memory. */
typedef void far_reply_fn(void *ctx, struct span reply);
struct far_request *tree_execute(struct session *session, const struct event_list *list, uint32_t flags,
                                 struct span text, far_reply_fn *fn, void *ctx);
void tree_forget(struct far_request *request); /* nobody waits for its reply any more */

/* Attaches a node by its name (node_attach2). `fn` gets its token, or a status and why not: at once, then NULL is returned,
 * or from the loop. */
typedef void tree_attached_fn(void *ctx, const char *token, Omis_status status, const char *why);
struct attaching;
struct attaching *tree_attach(struct tool *tool, const char *name, tree_attached_fn *fn, void *ctx);
void tree_attach_forget(struct attaching *attaching);
/* Begins with what tree_attach will ask for: many nodes are reached at the same time. false: it is begun already, or cannot be
 * now. */
bool tree_attach_ahead(struct tool *tool, const char *name);

/* Conditional requests and locks over nodes begin; lock_start was before. */
void conditional_start(struct tree *tree);

#endif
