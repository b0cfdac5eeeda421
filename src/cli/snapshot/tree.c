/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1
#include "cli/snapshot/tree.h"

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

void stack_tree_init(struct stack_tree *tree)
{
    *tree = (struct stack_tree){.arena = ARENA_INIT};
    tree->root = arena_zalloc(&tree->arena, 1, sizeof *tree->root);
    tree->failed = !tree->root;
}

static const char *keep(struct stack_tree *tree, const char *text)
{
    const char *copy = arena_dup(&tree->arena, text, strlen(text));
    tree->failed |= !copy;
    return copy ? copy : "";
}

static const struct stack_interned *intern(struct stack_tree *tree, const struct stack_frame *frame)
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
        found->frame = (struct stack_frame){.language = keep(tree, frame->language),
                                            .function = keep(tree, frame->function),
                                            .file = keep(tree, frame->file),
                                            .module = keep(tree, frame->module),
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

void stack_tree_add(struct stack_tree *tree, const struct stack_seen *seen)
{
    struct stack_node *node = tree->root;
    for (size_t i = seen->frame_count; node && !tree->failed; i--) {
        add_members(tree, node, seen);
        if (i == 0)
            break;
        const struct stack_interned *frame = intern(tree, &seen->frames[i - 1]);
        node = frame ? child_of(tree, node, frame) : NULL;
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
        good = sort_children(node);
    tree->failed |= !good;
    return good;
}

void stack_tree_done(struct stack_tree *tree)
{
    if (tree->root)
        free(tree->root->members);
    for (struct stack_node *node = tree->nodes; node; node = node->hh.next)
        free(node->members);
    HASH_CLEAR(hh, tree->nodes);
    HASH_CLEAR(hh, tree->frames);
    arena_done(&tree->arena);
}
