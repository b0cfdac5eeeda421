/* SPDX-License-Identifier: Apache-2.0 */
/* A profile's rows and nodes: finding them, making them, merging those of one thread into another's. */
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "jobdir/trace/profile_internal.h"

enum { FIRST_ROOM = 16 };

/* ---- hashes of indexes ---- */

static bool index_grow(struct index *index, size_t size)
{
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    free(index->slots);
    *index = (struct index){slots, size - 1};
    return true;
}

static void index_put(struct index *index, uint32_t hash, uint32_t value)
{
    size_t at = hash & index->mask;
    while (index->slots[at])
        at = (at + 1) & index->mask;
    index->slots[at] = value + 1;
}

/* ---- rows ---- */

static uint32_t row_find(const struct profile_thread *thread, uint32_t function)
{
    const struct index *index = &thread->by_function;
    for (size_t at = profile_hash(function, 0) & index->mask; index->slots[at]; at = (at + 1) & index->mask)
        if (thread->rows[index->slots[at] - 1].function == function)
            return index->slots[at] - 1;
    return UINT32_MAX;
}

static bool row_room(struct profile_thread *thread)
{
    size_t before = thread->row_room;
    if (!GROW(thread->rows, thread->row_count, thread->row_room))
        return false;
    if (thread->spent && thread->row_room > before) {
        struct row_spent *spent = realloc(thread->spent, thread->row_room * sizeof *spent);
        if (spent)
            memset(spent + before, 0, (thread->row_room - before) * sizeof *spent);
        else
            free(thread->spent); /* then it is not known */
        thread->spent = spent;
    }
    if (thread->row_count * 2 < thread->by_function.mask)
        return true;
    if (!index_grow(&thread->by_function, (thread->by_function.mask + 1) * 2))
        return false;
    for (size_t i = 0; i < thread->row_count; i++)
        index_put(&thread->by_function, profile_hash(thread->rows[i].function, 0), (uint32_t)i);
    return true;
}

uint32_t profile_row_of(struct profile *profile, struct profile_thread *thread, uint32_t function)
{
    uint32_t found = row_find(thread, function);
    if (found != UINT32_MAX)
        return found;
    if (thread->row_count > profile->limit || profile->rows >= PROFILE_SHARE * profile->limit || !row_room(thread))
        return 0;
    uint32_t made = (uint32_t)thread->row_count++;
    profile->rows++;
    thread->rows[made] = (struct row){.function = function, .min = UINT64_MAX};
    index_put(&thread->by_function, profile_hash(function, 0), made);
    return made;
}

/* ---- nodes ---- */

static uint32_t node_find(const struct profile_thread *thread, uint32_t parent, uint32_t function)
{
    const struct index *index = &thread->by_path;
    for (size_t at = profile_hash(function, parent) & index->mask; index->slots[at]; at = (at + 1) & index->mask) {
        const struct node *node = &thread->nodes[index->slots[at] - 1];
        if (node->function == function && node->parent == parent)
            return index->slots[at] - 1;
    }
    return UINT32_MAX;
}

static bool node_room(struct profile_thread *thread)
{
    if (!GROW(thread->nodes, thread->node_count, thread->node_room))
        return false;
    if (thread->node_count * 2 < thread->by_path.mask)
        return true;
    if (!index_grow(&thread->by_path, (thread->by_path.mask + 1) * 2))
        return false;
    for (size_t i = 0; i < thread->node_count; i++)
        index_put(&thread->by_path, profile_hash(thread->nodes[i].function, thread->nodes[i].parent), (uint32_t)i);
    return true;
}

/* The nearest of the context's nodes that is of this function, itself last; `made` if there is none. */
static uint32_t context_of(const struct profile_thread *thread, uint32_t context, uint32_t function, uint32_t made)
{
    for (uint32_t at = context; at > 1 && !(at & PROFILE_FLAT); at = thread->nodes[at].parent)
        if (thread->nodes[at].function == function)
            return at;
    return made;
}

/* Nodes are numbered in the order they are made: a parent's number is smaller than its callees'. */
static uint32_t node_make(struct profile *profile, struct profile_thread *thread, uint32_t parent, uint32_t row)
{
    if (!node_room(thread))
        return UINT32_MAX;
    uint32_t function = thread->rows[row].function, made = (uint32_t)thread->node_count++;
    profile->nodes++;
    thread->nodes[made] = (struct node){.function = function, .parent = parent, .row = row};
    thread->nodes[made].context = parent & PROFILE_FLAT ? 1 : context_of(thread, parent, function, made);
    index_put(&thread->by_path, profile_hash(function, parent), made);
    return made;
}

/* When there are too many paths, what is new is counted by its edge: who called what. When there are too many of
 * these, too, only the function's row remains. */
uint32_t profile_node_of(struct profile *profile, struct profile_thread *thread, uint32_t context, uint32_t caller_row,
                         uint32_t row)
{
    uint32_t function = thread->rows[row].function, found;
    bool room = profile->nodes < PROFILE_SHARE * profile->limit;
    if (context != 1) {
        if ((found = node_find(thread, context, function)) != UINT32_MAX)
            return found;
        if (room && thread->node_count - thread->flat_count < profile->limit) {
            found = node_make(profile, thread, context, row);
            return found == UINT32_MAX ? 1 : found;
        }
    }
    uint32_t parent = PROFILE_FLAT | caller_row;
    if ((found = node_find(thread, parent, function)) != UINT32_MAX)
        return found;
    if (thread->flat_count >= profile->limit || !room)
        return 1;
    found = node_make(profile, thread, parent, row);
    thread->flat_count += found != UINT32_MAX;
    return found == UINT32_MAX ? 1 : found;
}

/* ---- threads ---- */

static bool thread_init(struct profile_thread *thread)
{
    if (!index_grow(&thread->by_function, FIRST_ROOM) || !index_grow(&thread->by_path, FIRST_ROOM) ||
        !row_room(thread) || !node_room(thread))
        return false;
    thread->rows[0] = (struct row){.function = PROFILE_OTHERS, .min = UINT64_MAX};
    thread->row_count = 1;
    index_put(&thread->by_function, profile_hash(PROFILE_OTHERS, 0), 0);
    thread->nodes[0] = (struct node){.function = PROFILE_ROOT, .parent = PROFILE_ROOT, .row = PROFILE_ROOT_ROW};
    thread->nodes[1] = (struct node){.function = PROFILE_OTHERS, .parent = PROFILE_ROOT, .context = 1};
    thread->node_count = 2;
    return true;
}

struct profile_thread *profile_thread_new(struct profile *profile, uint32_t number)
{
    struct profile_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->number = number;
    if (thread_init(thread)) {
        if (profile->spends)
            thread->spent = calloc(thread->row_room, sizeof *thread->spent);
        profile->rows++;
        profile->nodes += 2;
        return thread;
    }
    profile_thread_free(NULL, thread);
    return NULL;
}

void profile_thread_free(struct profile *profile, struct profile_thread *thread)
{
    if (!thread)
        return;
    if (profile) {
        profile->rows -= thread->row_count;
        profile->nodes -= thread->node_count;
    }
    free(thread->rows);
    free(thread->spent);
    free(thread->nodes);
    free(thread->by_function.slots);
    free(thread->by_path.slots);
    free(thread);
}

static uint32_t merge_row(struct profile *profile, struct profile_thread *to, const struct row *from)
{
    uint32_t at = from->function == PROFILE_OTHERS ? 0 : profile_row_of(profile, to, from->function);
    struct row *row = &to->rows[at];
    row->calls += from->calls;
    row->total += from->total;
    row->self += from->self;
    row->unwound += from->unwound;
    row->sum += from->sum;
    row->min = from->min < row->min ? from->min : row->min;
    row->max = from->max > row->max ? from->max : row->max;
    return at;
}

static uint32_t merged_caller(const uint32_t *rows, uint32_t row)
{
    return row == PROFILE_ROOT_ROW ? row : rows[row];
}

/* Where a node of `from` is counted. Its parent has been placed before. */
static uint32_t merge_node(struct profile *profile, const struct profile_thread *from, size_t at, const uint32_t *rows,
                           const uint32_t *nodes)
{
    struct profile_thread *to = profile->others;
    const struct node *node = &from->nodes[at];
    if (at == 1)
        return 1;
    if (node->parent & PROFILE_FLAT)
        return profile_node_of(profile, to, 1, merged_caller(rows, node->parent & ~PROFILE_FLAT), rows[node->row]);
    return profile_node_of(profile, to, to->nodes[nodes[node->parent]].context,
                           merged_caller(rows, from->nodes[node->parent].row), rows[node->row]);
}

void profile_thread_merge(struct profile *profile, const struct profile_thread *from)
{
    struct profile_thread *to = profile->others;
    uint32_t *rows = calloc(from->row_count, sizeof *rows), *nodes = calloc(from->node_count, sizeof *nodes);
    for (size_t i = 0; i < from->row_count; i++) {
        uint32_t at = merge_row(profile, to, &from->rows[i]);
        if (from->spent && to->spent) {
            profile_spent_add(&to->spent[at].total, &from->spent[i].total);
            profile_spent_add(&to->spent[at].self, &from->spent[i].self);
        }
        if (rows)
            rows[i] = at;
    }
    for (size_t i = 1; i < from->node_count && rows && nodes; i++) {
        const struct node *node = &from->nodes[i];
        nodes[i] = merge_node(profile, from, i, rows, nodes);
        to->nodes[nodes[i]].calls += node->calls;
        to->nodes[nodes[i]].total += node->total;
    }
    free(rows);
    free(nodes);
}
