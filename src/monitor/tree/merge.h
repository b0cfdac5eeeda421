/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the answers of several places together: for each action all results, in the order of the
 * objects that were asked for; equal results become one entry with all their objects. Pure.
 */
#ifndef SCRY_MONITOR_TREE_MERGE_H
#define SCRY_MONITOR_TREE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "lang/reply.h"
#include "lang/request.h"

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
