/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request over nodes: cut into what each place gets, and the answers put together. Pure.
 */
#ifndef SCRY_MONITOR_TREE_SLICE_H
#define SCRY_MONITOR_TREE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/token.h"
#include "monitor/engine/object.h"

/* ---- slices ---- */

/*
 * Cuts a request over nodes into what each edge gets: phases at each `;`, for all nodes have answered then, and in a phase one
 * slice for each place that some action concerns, with the tokens that lie there. Where an action goes: to the nodes of its
 * objects; with the empty list to all nodes of the tool; to the home, if it works on no object, or on conditional requests
 * and user events, which live there. Behind an edge a slice is a request like others, and may be cut again.
 * Who lies where is asked for by functions.
 */

enum {
    CUT_CALL_LIMIT = 4 << 20,  /* actions in all slices of one request */
    CUT_SIZE_LIMIT = 256 << 20 /* bytes of all of them */
};

enum { PLACE_HOME = 0, PLACE_UNKNOWN = -1 }; /* others: numbers of edges, from 1 */

struct slice_map {
    void *ctx;
    /* Where the objects of a node are: PLACE_HOME, the number of an edge, or PLACE_UNKNOWN: no node has this number. */
    int (*place_of)(void *ctx, uint32_t node);
    /* The number that the node has behind that edge; 0: it is not known there. */
    uint32_t (*theirs)(void *ctx, int place, uint32_t node);
    /* Whether the objects of a class are on nodes: "n", and all that is in it (convert_class_can(class, "n", false)). Of
     * others, the empty list means those at the home. */
    bool (*on_nodes)(void *ctx, const char *class_name);
    /* Whether an action attaches a node of the tool's that is none yet: its objects' when it is executed. */
    bool (*attaches)(void *ctx, const struct call_text *call);
    /* The places that have nodes of the tool, ascending: what the empty list means. */
    const int *places;
    size_t place_count;
};

/* What one place has to do in one phase. */
struct slice {
    int place;
    size_t *actions; /* their numbers in the request, from 0, ascending */
    size_t action_count;
    struct buf text; /* the request, with the tokens of that place */
};

struct phase {
    size_t first, count;  /* actions of the request */
    struct slice *slices; /* ascending by place */
    size_t slice_count;
};

struct cut {
    struct phase *phases;
    size_t phase_count;
    size_t end; /* the action after those that were cut: where other nodes may be meant from there on, else all were */
    /* Tokens of no known node, which nobody is asked about: the caller answers for them, action by action. */
    struct unknown_token {
        size_t action;
        struct span token;
    } * unknown;
    size_t unknown_count;
};

/*
 * `services` are those of the actions, as the check has found them; it has also brought the arguments into shape. An
 * action that works on no object goes to the home. One with a list of tokens goes to each place that some of them lie
 * at, with these only; with the empty list, to all places of the tool (without any, to the home, which knows what that
 * means). A list of which nothing is left goes nowhere. u_0 and what is no token are the home's to answer.
 * It begins with the action `from`, and ends before one with the empty list when an earlier one attaches a node: that is
 * to be cut when those before it were executed. In braces all is cut at once. What is braced stays braced. A request that concerns one place only goes there as it is, with its ';' in one phase, so
 * nothing comes between. All is in the arena but the texts, which cut_done frees. 0, -E2BIG (a limit below) or -ENOMEM;
 * then there is nothing to free.
 */
int cut_request(struct arena *arena, const struct request *request, struct service *const *services, size_t from,
                const struct slice_map *map, struct cut *ret_cut);
void cut_done(struct cut *cut);

/* ---- answers ---- */

/*
 * Puts the answers of several places together: for each action all results, in the order of the
 * objects that were asked for; equal results become one entry with all their objects.
 */

struct merge; /* of one request */

/* 0 or -ENOMEM. merge_free takes NULL. */
int merge_new(struct merge **ret_merge, size_t action_count);
void merge_free(struct merge *merge);

/* An answer: encoded as reply.h has it, element n + 1 is that of the action actions[n]. Element 0 is the place's word on
 * its slice as a whole: an error there becomes one of each of its actions, with `node` (its token) as the object. Bytes
 * are copied. -EBADMSG: foreign bytes that are none, or not of so many actions; nothing was added. -ENOMEM. */
int merge_add(struct merge *merge, struct span reply, const size_t *actions, size_t action_count, struct span node);

/* Whether all places refused, with the same words: then that is the word on the request as a whole. Not after
 * merge_fail. */
bool merge_is_refused(const struct merge *merge, struct reply_part *ret_why);

/* The place does not answer: an entry for each of these actions, with these objects (tokens with commas between). 0 or
 * -ENOMEM. */
int merge_fail(struct merge *merge, const size_t *actions, size_t action_count, struct span objects, Omis_status status,
               struct span why);

/*
 * Appends elements 1 and up to a reply whose element 0 is there. `order` is the request: its lists say in which order
 * results stand. Objects that are in none (threads of a process) stand where the first one of their node does, and
 * else by the numbers of the nodes; never by who answered first. Of one node, they keep the order in which it gave
 * them. Results without object come last, of equal errors one; an OK among them is dropped when others are there. An action that nobody
 * answered gets an OK without object (7.3.1). Takes about linear time.
 */
void merge_finish(struct merge *merge, const struct request *order, struct reply_builder *reply);

#endif
