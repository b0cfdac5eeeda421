/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many stacks as one prefix tree, as STAT makes it (D. C. Arnold et al., "Stack Trace Analysis for Large Scale
 * Debugging", IPDPS 2007): frames that stacks have in common, from where the threads began inwards, are one node, which
 * has the processes whose threads are there. Pure.
 */
#ifndef SCRY_CLI_SNAPSHOT_TREE_H
#define SCRY_CLI_SNAPSHOT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "base/data/arena.h"

struct stack_variable { /* of a frame, as one thread has it; all texts are borrowed until stack_tree_done */
    const char *name, *type, *value; /* name "": value says why there are none */
};

struct stack_frame {
    const char *language; /* native, python, note */
    const char *function, *file, *module;
    unsigned line;                          /* 0: not known */
    const struct stack_variable *variables; /* no part of what tells frames apart */
    size_t variable_count;
};

struct stack_member {
    uint32_t process; /* its place in the list of all */
    uint32_t threads; /* of it */
};

struct stack_value { /* of a variable, and whose it is */
    const struct stack_variable *variable;
    const struct stack_member *members; /* in order, once each */
    size_t member_count;
    uint64_t threads;
};

struct stack_node {
    struct stack_frame frame;
    struct stack_node *parent; /* NULL: the root, which has no frame */
    struct stack_node *first, *last, *next;
    struct stack_member *members; /* once each and in order, after stack_tree_finish */
    size_t member_count, member_room;
    uint64_t threads, running; /* here or further in */
    uint64_t ended;            /* threads that have this as their innermost frame */
    struct stack_value
        *values; /* after stack_tree_finish: those of a variable next to each other, by the first process */
    size_t value_count;
    struct stack_heard *heard; /* until then */
    size_t heard_count, heard_room;
    uint32_t number; /* in the order in which nodes were made; the root is 0 */
    uint32_t frame_number;
    UT_hash_handle hh;
};

struct stack_tree {
    struct arena arena;
    struct stack_node *root;
    struct stack_node *nodes; /* hash by parent and frame; all but the root, in the order of their numbers */
    struct stack_interned *frames;
    uint32_t node_count, frame_count;
    bool failed; /* out of memory */
};

/* So many threads of each of these processes are in these frames, innermost first. The texts are copied. */
struct stack_seen {
    const uint32_t *processes;
    size_t process_count;
    const struct stack_frame *frames;
    size_t frame_count;
    uint32_t threads, running;
};

void stack_tree_init(struct stack_tree *tree);
void stack_tree_add(struct stack_tree *tree, const struct stack_seen *seen);
/* After the last: sorts members and children, these by their first process. false: it has failed. */
bool stack_tree_finish(struct stack_tree *tree);
void stack_tree_done(struct stack_tree *tree);

#endif
