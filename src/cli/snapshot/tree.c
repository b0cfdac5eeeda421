/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1
#include "cli/snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/grow.h"

struct stack_interned { /* a frame that many nodes have */
    const char *key;
    struct stack_frame frame;
    uint32_t number;
    UT_hash_handle hh;
};

struct stack_heard { /* what one process has in a variable */
    const struct stack_variable *variable;
    uint32_t order; /* of the variable in its function */
    struct stack_member member;
};

void stack_tree_init(struct stack_tree *tree)
{
    *tree = (struct stack_tree){.arena = ARENA_INIT};
    tree->root = arena_zalloc(&tree->arena, 1, sizeof *tree->root);
    tree->failed = !tree->root;
}

static const char *text_keep(struct stack_tree *tree, const char *text)
{
    const char *copy = arena_dup(&tree->arena, text, strlen(text));
    tree->failed |= !copy;
    return copy ? copy : "";
}

static const struct stack_interned *frame_intern(struct stack_tree *tree, const struct stack_frame *frame)
{
    struct buf key = BUF_INIT;
    struct stack_interned *found = NULL;
    buf_append(&key, &frame->line, sizeof frame->line);
    /* on several nodes a program may lie in several places: where its source is known, that says what it is */
    const char *module = *frame->function && *frame->file ? "" : frame->module;
    for (int i = 0; i < 4; i++) {
        const char *const texts[] = {frame->language, frame->function, frame->file, module};
        buf_append(&key, texts[i], strlen(texts[i]) + 1);
    }
    tree->failed |= key.failed;
    if (!tree->failed)
        HASH_FIND(hh, tree->frames, key.data, key.len, found);
    if (!found && !tree->failed && (found = arena_zalloc(&tree->arena, 1, sizeof *found))) {
        found->key = arena_dup(&tree->arena, key.data, key.len);
        found->number = ++tree->frame_count;
        found->frame = (struct stack_frame){.language = text_keep(tree, frame->language),
                                            .function = text_keep(tree, frame->function),
                                            .file = text_keep(tree, frame->file),
                                            .module = text_keep(tree, frame->module),
                                            .line = frame->line};
        if (found->key)
            HASH_ADD_KEYPTR(hh, tree->frames, found->key, key.len, found);
        tree->failed |= !found->key || !found->hh.tbl;
    }
    tree->failed |= !found;
    buf_done(&key);
    return tree->failed ? NULL : found;
}

enum { NODE_KEY = 2 * sizeof(uint32_t) };

static struct stack_node *child_of(struct stack_tree *tree, struct stack_node *parent,
                                   const struct stack_interned *frame)
{
    struct stack_node *node = NULL;
    const uint32_t key[2] = {parent->number, frame->number};
    HASH_FIND(hh, tree->nodes, key, NODE_KEY, node);
    if (node)
        return node;
    node = arena_zalloc(&tree->arena, 1, sizeof *node);
    uint32_t *kept = arena_alloc(&tree->arena, NODE_KEY);
    if (node && kept) {
        memcpy(kept, key, NODE_KEY);
        node->frame = frame->frame;
        node->frame_number = frame->number;
        node->number = ++tree->node_count;
        node->parent = parent;
        HASH_ADD_KEYPTR(hh, tree->nodes, kept, NODE_KEY, node);
    }
    if (!node || !node->hh.tbl) {
        tree->failed = true;
        return NULL;
    }
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    return node;
}

static void add_members(struct stack_tree *tree, struct stack_node *node, const struct stack_seen *seen)
{
    if (!GROW_TO(node->members, node->member_count + seen->process_count, node->member_room)) {
        tree->failed = true;
        return;
    }
    for (size_t i = 0; i < seen->process_count; i++)
        node->members[node->member_count++] = (struct stack_member){seen->processes[i], seen->threads};
    node->threads += (uint64_t)seen->threads * seen->process_count;
    node->running += (uint64_t)seen->running * seen->process_count;
}

/* Its place among the variables of the function, which are few. */
static uint32_t order_of(const struct stack_node *node, const char *name, uint32_t next)
{
    for (size_t i = 0; i < node->heard_count; i++) {
        if (strcmp(node->heard[i].variable->name, name) == 0)
            return node->heard[i].order;
        next = node->heard[i].order >= next ? node->heard[i].order + 1 : next;
    }
    return next;
}

static void add_variables(struct stack_tree *tree, struct stack_node *node, const struct stack_frame *frame,
                          const struct stack_seen *seen)
{
    for (size_t i = 0; i < frame->variable_count; i++) {
        const struct stack_variable *variable = &frame->variables[i];
        uint32_t order = order_of(node, variable->name, (uint32_t)i);
        if (!GROW_TO(node->heard, node->heard_count + seen->process_count, node->heard_room)) {
            tree->failed = true;
            return;
        }
        for (size_t k = 0; k < seen->process_count; k++)
            node->heard[node->heard_count++] =
                (struct stack_heard){variable, order, {seen->processes[k], seen->threads}};
    }
}

void stack_tree_add(struct stack_tree *tree, const struct stack_seen *seen)
{
    struct stack_node *node = tree->root;
    for (size_t i = seen->frame_count; node && !tree->failed; i--) {
        add_members(tree, node, seen);
        if (i == 0)
            break;
        const struct stack_interned *frame = frame_intern(tree, &seen->frames[i - 1]);
        node = frame ? child_of(tree, node, frame) : NULL;
        if (node)
            add_variables(tree, node, &seen->frames[i - 1], seen);
    }
    if (node && !tree->failed)
        node->ended += (uint64_t)seen->threads * seen->process_count;
}

/* ---- the end ---- */

static int by_process(const void *a, const void *b)
{
    uint32_t left = ((const struct stack_member *)a)->process, right = ((const struct stack_member *)b)->process;
    return left < right ? -1 : left > right;
}

static void unite_members(struct stack_node *node)
{
    size_t used = 0;
    if (!node->member_count)
        return;
    qsort(node->members, node->member_count, sizeof *node->members, by_process);
    for (size_t i = 1; i < node->member_count; i++)
        if (node->members[i].process == node->members[used].process)
            node->members[used].threads += node->members[i].threads;
        else
            node->members[++used] = node->members[i];
    node->member_count = used + 1;
}

static int by_value(const void *a, const void *b)
{
    const struct stack_heard *left = a, *right = b;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    int values = strcmp(left->variable->value, right->variable->value);
    return values ? values : by_process(&left->member, &right->member);
}

static int by_holder(const void *a, const void *b)
{
    return by_process(((const struct stack_value *)a)->members, ((const struct stack_value *)b)->members);
}

/* A value from heard[from] on; returns its end. */
static size_t take_value(const struct stack_node *node, size_t from, struct stack_member **inout_members,
                         struct stack_value *ret_value)
{
    struct stack_member *members = *inout_members, *last = members;
    size_t end = from;
    *ret_value = (struct stack_value){.variable = node->heard[from].variable, .members = members};
    for (; end < node->heard_count && node->heard[end].order == node->heard[from].order &&
           strcmp(node->heard[end].variable->value, node->heard[from].variable->value) == 0;
         end++) {
        const struct stack_member *member = &node->heard[end].member;
        if (end > from && last->process == member->process)
            last->threads += member->threads;
        else
            *(last = (*inout_members)++) = *member;
        ret_value->threads += member->threads;
    }
    ret_value->member_count = (size_t)(*inout_members - members);
    return end;
}

static bool unite_values(struct stack_tree *tree, struct stack_node *node)
{
    if (!node->heard_count)
        return true;
    qsort(node->heard, node->heard_count, sizeof *node->heard, by_value);
    struct stack_member *members = arena_alloc(&tree->arena, node->heard_count * sizeof *members);
    node->values = arena_alloc(&tree->arena, node->heard_count * sizeof *node->values);
    if (!members || !node->values)
        return false;
    for (size_t i = 0, end, first = 0; i < node->heard_count; i = end) {
        end = take_value(node, i, &members, &node->values[node->value_count++]);
        if (end < node->heard_count && node->heard[end].order == node->heard[i].order)
            continue;
        qsort(node->values + first, node->value_count - first, sizeof *node->values, by_holder);
        first = node->value_count;
    }
    free(node->heard);
    node->heard = NULL;
    node->heard_count = node->heard_room = 0;
    return true;
}

/* By the first process; of the same one what more processes do comes first. */
static int by_members(const void *a, const void *b)
{
    const struct stack_node *left = *(struct stack_node *const *)a, *right = *(struct stack_node *const *)b;
    uint32_t first = left->member_count ? left->members[0].process : 0;
    uint32_t second = right->member_count ? right->members[0].process : 0;
    if (first != second)
        return first < second ? -1 : 1;
    if (left->member_count != right->member_count)
        return left->member_count > right->member_count ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

static bool sort_children(struct stack_node *node)
{
    size_t count = 0;
    for (const struct stack_node *child = node->first; child; child = child->next)
        count++;
    if (count < 2)
        return true;
    struct stack_node **list = calloc(count, sizeof *list);
    if (!list)
        return false;
    count = 0;
    for (struct stack_node *child = node->first; child; child = child->next)
        list[count++] = child;
    qsort(list, count, sizeof *list, by_members);
    for (size_t i = 0; i < count; i++)
        list[i]->next = i + 1 < count ? list[i + 1] : NULL;
    node->first = list[0];
    node->last = list[count - 1];
    free(list);
    return true;
}

bool stack_tree_finish(struct stack_tree *tree)
{
    if (tree->failed)
        return false;
    unite_members(tree->root);
    for (struct stack_node *node = tree->nodes; node; node = node->hh.next)
        unite_members(node);
    bool good = sort_children(tree->root);
    for (struct stack_node *node = tree->nodes; node && good; node = node->hh.next)
        good = sort_children(node) && unite_values(tree, node);
    tree->failed |= !good;
    return good;
}

void stack_tree_done(struct stack_tree *tree)
{
    if (tree->root)
        free(tree->root->members);
    for (struct stack_node *node = tree->nodes; node; node = node->hh.next) {
        free(node->members);
        free(node->heard);
    }
    HASH_CLEAR(hh, tree->nodes);
    HASH_CLEAR(hh, tree->frames);
    arena_done(&tree->arena);
}
