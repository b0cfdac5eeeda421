/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room know of each other. */
#ifndef SCRY_MONITOR_TREE_INTERNAL_H
#define SCRY_MONITOR_TREE_INTERNAL_H

#include <uthash.h>

#include "monitor/tree/tree.h"
#include "wire/stream.h"

struct csr;
struct event;

/* A number of theirs, of a node that we know, too. */
struct known_node {
    uint32_t theirs, ours;
    UT_hash_handle hh;
};

enum edge_state {
    EDGE_GREETS, /* we said PEER, and wait for theirs */
    EDGE_UP,
    EDGE_GONE, /* is freed when nobody is in it any more */
};

struct edge {
    struct tree *tree;
    struct stream *stream;
    struct loop_source *turn; /* frames that were not handled have theirs, or the end has */
    enum edge_state state;
    bool ours; /* we connected: our sessions have odd numbers */
    bool told; /* it gets NODE of what we know */
    bool silent, greeted;
    int place;
    struct tree_node *node; /* at its other end; NULL while it greets */
    char version[64];
    uint64_t heard_ns, asked_ns;
    struct clock_offset clock;
    struct known_node *known; /* hash by theirs */
    struct via *vias;         /* of our tools, hash by number */
    uint16_t last_via;
    unsigned wrong_ids;     /* of tools, that it asked for */
    char why[256];          /* it goes */
    char *asked;            /* the name for which it was made; NULL */
    struct confinement who; /* whose key it came by; a name alone, or nobody's */
    struct edge *next;
};

struct tree {
    struct monitor *monitor;
    struct tree_server server;
    unsigned char instance[TREE_INSTANCE_SIZE];
    struct tree_node **nodes; /* by number - 1; the first is this one */
    size_t node_count, node_cap;
    struct tree_node *by_instance; /* hash */
    struct edge *edges;            /* ascending by place */
    int last_place;
    struct loop_source *alive; /* a timer, while there are edges */
    struct attaching *attaching;
    struct loop_source *placing; /* what waits for monitors below has its turn */
    struct far_request *requests;
};

struct via_pending {
    uint32_t id;
    enum via_timeout timeout;
    via_reply_fn *fn;
    void *ctx;
    UT_hash_handle hh;
};

/* A tool's session behind an edge. */
struct via {
    struct edge *edge;
    struct tool *tool; /* NULL: it has gone, and GOODBYE is waited for */
    void *relay;       /* or whose frames go through as they are (tree_relay) */
    uint16_t number;
    bool making; /* node_attach2 is not answered yet */
    uint32_t last_id;
    struct via_pending *pending; /* hash by id */
    struct via *next;            /* of the tool */
    UT_hash_handle hh;           /* of the edge, by number */
};

/* ---- edge.c ---- */

/* Says PEER on a connected socket (taken). reach_greeted is called once, from the loop. NULL: out of memory. */
struct edge *edge_connect(struct tree *tree, int fd_take, const char *name);
/* It goes: from the loop's next step on, or at once where nobody is in it. */
void edge_close(struct edge *edge, const char *why);
void edge_note(struct edge *edge, uint8_t type, uint32_t id, struct span payload); /* a frame of its own */

/* ---- nodes.c ---- */

int nodes_init(struct tree *tree);
void nodes_done(struct tree *tree);
/* What another monitor says, for people: without what terminals obey. */
void nodes_text(char *ret_text, size_t size, struct span text);
/* The node of an instance; made if it is not known. NULL: out of memory. */
struct tree_node *nodes_meet(struct tree *tree, const unsigned char *instance, struct span name);
/* It can be reached by this edge, as `theirs`: the first way counts. Tells the other edges. */
void nodes_route(struct tree *tree, struct tree_node *node, struct edge *edge, uint32_t theirs);
void nodes_edge_gone(struct edge *edge, const char *why);
void nodes_came(struct edge *edge, const struct frame *frame); /* NODE, NODE_GONE */

/* ---- far.c ---- */

void far_print_state(const struct tree *tree, struct buf *out);
bool far_take(struct session *session, struct checked_request *request);
void far_cancel(struct session *session);

/* ---- reach.c ---- */

/* A connected socket, or -errno with err. What else goes wrong, the greeting tells. */
int dial(struct tree *tree, const char *name, struct err *err);

/* ---- reach.c ---- */

void reach_tool_gone(struct tree *tree, const struct tool *tool);
/* An edge of ours leads to this node, or to none. */
void reach_greeted(struct edge *edge, struct tree_node *node, const char *why);

/* ---- edge.c: sessions ---- */

bool tree_keep_vias(
    struct tool *tool); /* there is where its sessions are kept; false: out of memory, or it is confined */

/* ---- state ---- */

void tree_print_state(void *ctx, struct buf *out);

/* ---- nodes.c ---- */

struct request;
struct slice_map;

/* For cut_request: with the places that have nodes of the tool now, in the arena. false: out of memory. */
bool places_map(struct tool *tool, struct arena *arena, struct slice_map *ret_map);
/* Whether a token of another node is among the arguments. */
bool places_mention_others(const struct request *request);
/* Whether it attaches another node by its name, before its last action. */
bool places_grow(const struct tool *tool, const struct request *request);

/* ---- conditional.c ---- */

void conditional_came(struct via *via, const struct frame *frame); /* in a session of ours: EVENT, LOCK */
/* An edge does not answer any more. Its sessions' requests with a timeout were told before. */
void conditional_silent(void);
/* A node can be reached, or no more; the tool has one more session (a node of it may be covered by []). */
void conditional_opened(struct via *via);
/* In a session of another monitor's tool: DEFINE, RELEASE, LOCK, UNLOCK. false: it is none. Answers go by session->reply and
 * session->other. */
bool conditional_asked(struct edge *edge, struct session *session, const struct frame *frame);

/* ---- far_event.c ---- */

/* For csr->elsewhere of requests whose tool is here: executes the list over nodes if it concerns others. */
bool far_event_elsewhere(struct csr *csr, const struct event *event);
/* EVENT of a part: its list is executed here, or, if the request is a part itself, at the next monitor. */
void far_event_came(struct csr *csr, struct via *via, struct span payload);
void far_events_end(struct session *session); /* nobody waits for their lists */

/* Keeps a reply about a change of state, ours or that of a part, until gather_end sends one of all. false: it is none. */
bool gather(const struct csr *csr, struct span reply);
void gather_end(const struct csr *csr);

/* ---- far.c: locks ---- */

bool locks_came(struct via *via, const struct frame *frame); /* LOCK, UNLOCK in a session of ours */
void locks_lost(struct via *via);
bool locks_asked(struct session *session, const struct frame *frame); /* in a session of another monitor's tool */

#endif
