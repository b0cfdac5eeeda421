/* SPDX-License-Identifier: Apache-2.0 */
/* A profile's rows and nodes: finding them, making them, merging those of one thread into another's; and what is made of them when it
 * is asked for: functions, edges and the tree, over one thread or all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
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

/* ---- collecting by a pair of numbers ---- */

struct table {
    size_t *slots; /* index + 1 */
    size_t mask;
};

static int table_init(struct table *table, size_t most)
{
    size_t size = 16;
    while (size < most * 2)
        size *= 2;
    *table = (struct table){calloc(size, sizeof *table->slots), size - 1};
    return table->slots ? 0 : -ENOMEM;
}

static inline bool same_row(const void *rows, size_t at, uint32_t a, uint32_t b)
{
    return ((const struct profile_row *)rows)[at].function == a;
}

static inline bool same_edge(const void *edges, size_t at, uint32_t a, uint32_t b)
{
    const struct profile_edge *edge = &((const struct profile_edge *)edges)[at];
    return edge->caller == a && edge->function == b;
}

/* The place of (a, b) among the items; *used, which it then is to become, if there is none. */
static size_t table_at(struct table *table, const void *items, size_t *used, uint32_t a, uint32_t b,
                       bool (*same)(const void *, size_t, uint32_t, uint32_t))
{
    size_t at = profile_hash(a, b) & table->mask;
    for (; table->slots[at]; at = (at + 1) & table->mask)
        if (same(items, table->slots[at] - 1, a, b))
            return table->slots[at] - 1;
    table->slots[at] = *used + 1;
    return (*used)++;
}

/* Calls fn for each thread. */
static int each_thread(const struct profile *profile, int (*fn)(void *, const struct profile_thread *), void *ctx)
{
    int code = 0;
    for (const struct profile_thread *thread = profile->threads; thread && code == 0; thread = thread->hh.next)
        code = fn(ctx, thread);
    return code == 0 && profile->others ? fn(ctx, profile->others) : code;
}

/* ---- functions ---- */

struct rows {
    struct profile_row *list;
    size_t used;
    struct table table;
    uint64_t now;
};

static struct profile_row *row_at(struct rows *rows, uint32_t function)
{
    size_t before = rows->used, at = table_at(&rows->table, rows->list, &rows->used, function, 0, same_row);
    if (rows->used > before)
        rows->list[at] = (struct profile_row){.function = function, .min = UINT64_MAX};
    return &rows->list[at];
}

/* Adds the open calls' times until now. A function's total grows by its outermost call. */
static void add_open(struct rows *rows, const struct profile_thread *thread)
{
    uint32_t *seen = calloc(thread->row_count, sizeof *seen);
    for (const struct stack *stack = thread->stacks; stack && seen; stack = stack->next) {
        uint64_t inside = 0; /* of the open call in this one */
        for (size_t i = stack->depth; i-- > 1;) {
            const struct frame *frame = &stack->frames[i];
            struct profile_row *row = row_at(rows, thread->rows[frame->row].function);
            uint64_t span = profile_span(frame->time, rows->now);
            row->self += profile_span(frame->inner + inside, span);
            inside = span;
            if (++seen[frame->row] == thread->rows[frame->row].active)
                row->total += span - (thread->rows[frame->row].total - frame->row_total);
        }
    }
    free(seen);
}

static int add_rows(void *ctx, const struct profile_thread *thread)
{
    struct rows *rows = ctx;
    for (size_t i = 0; i < thread->row_count; i++) {
        const struct row *from = &thread->rows[i];
        if (!from->calls)
            continue;
        struct profile_row *row = row_at(rows, from->function);
        row->calls += from->calls;
        row->total += from->total;
        row->self += from->self;
        row->unwound += from->unwound;
        row->sum += from->sum;
        row->open += from->active;
        row->min = from->min < row->min ? from->min : row->min;
        row->max = from->max > row->max ? from->max : row->max;
        if (thread->spent) {
            profile_spent_add(&row->total_spent, &thread->spent[i].total);
            profile_spent_add(&row->self_spent, &thread->spent[i].self);
        } else { /* nothing is known of all of it */
            row->total_spent.unknown += from->total;
            row->self_spent.unknown += from->self;
        }
    }
    if (rows->now)
        add_open(rows, thread);
    return 0;
}

static int by_self(const void *a, const void *b)
{
    const struct profile_row *left = a, *right = b;
    if (left->self != right->self)
        return left->self < right->self ? 1 : -1;
    if (left->total != right->total)
        return left->total < right->total ? 1 : -1;
    return left->function < right->function ? -1 : left->function > right->function;
}

static int make_rows(const struct profile *profile, const struct profile_thread *only, uint64_t now,
                     struct profile_row **ret_rows, size_t *ret_count)
{
    size_t most = only ? only->row_count : profile->rows;
    struct rows rows = {.list = calloc(most + 1, sizeof *rows.list), .now = now};
    if (!rows.list || table_init(&rows.table, most) < 0) {
        free(rows.list);
        return -ENOMEM;
    }
    if (only)
        add_rows(&rows, only);
    else
        each_thread(profile, add_rows, &rows);
    for (size_t i = 0; i < rows.used; i++)
        if (rows.list[i].min == UINT64_MAX)
            rows.list[i].min = 0; /* none has ended */
    if (rows.used)
        qsort(rows.list, rows.used, sizeof *rows.list, by_self);
    free(rows.table.slots);
    *ret_rows = rows.list;
    *ret_count = rows.used;
    return 0;
}

int profile_rows(const struct profile *profile, uint64_t now, struct profile_row **ret_rows, size_t *ret_count)
{
    return make_rows(profile, NULL, now, ret_rows, ret_count);
}

int profile_thread_rows(const struct profile *profile, uint32_t number, uint64_t now, struct profile_row **ret_rows,
                        size_t *ret_count)
{
    const struct profile_thread *thread;
    HASH_FIND(hh, profile->threads, &number, sizeof number, thread);
    if (thread)
        return make_rows(profile, thread, now, ret_rows, ret_count);
    *ret_count = 0;
    *ret_rows = calloc(1, sizeof **ret_rows);
    return *ret_rows ? 0 : -ENOMEM;
}

/* ---- nodes with their open calls ---- */

/* Each node's total with its open calls until the thread's last event; malloc'ed. */
static uint64_t *node_totals(const struct profile_thread *thread)
{
    uint64_t *totals = malloc(thread->node_count * sizeof *totals);
    uint32_t *seen = calloc(thread->node_count, sizeof *seen);
    for (size_t i = 0; totals && i < thread->node_count; i++)
        totals[i] = thread->nodes[i].total;
    for (const struct stack *stack = thread->stacks; totals && seen && stack; stack = stack->next)
        for (size_t i = stack->depth; i-- > 1;) {
            const struct frame *frame = &stack->frames[i];
            if (++seen[frame->node] == thread->nodes[frame->node].active)
                totals[frame->node] = frame->node_total + profile_span(frame->time, thread->latest);
        }
    free(seen);
    return totals;
}

static uint32_t caller_of(const struct profile_thread *thread, const struct node *node)
{
    uint32_t row = node->parent & PROFILE_FLAT ? node->parent & ~PROFILE_FLAT : thread->nodes[node->parent].row;
    return row == PROFILE_ROOT_ROW ? PROFILE_ROOT : thread->rows[row].function;
}

/* ---- edges ---- */

struct edges {
    struct profile_edge *list;
    size_t used;
    struct table table;
};

static void add_edge(struct edges *edges, uint32_t caller, uint32_t function, uint64_t calls, uint64_t total)
{
    size_t before = edges->used, at = table_at(&edges->table, edges->list, &edges->used, caller, function, same_edge);
    if (edges->used > before)
        edges->list[at] = (struct profile_edge){.caller = caller, .function = function};
    edges->list[at].calls += calls;
    edges->list[at].total += total;
}

static int add_edges(void *ctx, const struct profile_thread *thread)
{
    _cleanup_(freep) uint64_t *totals = node_totals(thread);
    if (!totals)
        return -ENOMEM;
    if (thread->nodes[1].calls)
        add_edge(ctx, PROFILE_OTHERS, PROFILE_OTHERS, thread->nodes[1].calls, totals[1]);
    for (size_t i = 2; i < thread->node_count; i++) {
        const struct node *node = &thread->nodes[i];
        if (node->calls)
            add_edge(ctx, caller_of(thread, node), node->function, node->calls, totals[i]);
    }
    return 0;
}

static int by_edge_total(const void *a, const void *b)
{
    const struct profile_edge *left = a, *right = b;
    if (left->total != right->total)
        return left->total < right->total ? 1 : -1;
    if (left->caller != right->caller)
        return left->caller < right->caller ? -1 : 1;
    return left->function < right->function ? -1 : left->function > right->function;
}

int profile_edges(const struct profile *profile, struct profile_edge **ret_edges, size_t *ret_count)
{
    struct edges edges = {.list = calloc(profile->nodes + 1, sizeof *edges.list)};
    int code = edges.list ? table_init(&edges.table, profile->nodes) : -ENOMEM;
    if (code == 0)
        code = each_thread(profile, add_edges, &edges);
    free(edges.table.slots);
    if (code < 0) {
        free(edges.list);
        return code;
    }
    if (edges.used)
        qsort(edges.list, edges.used, sizeof *edges.list, by_edge_total);
    *ret_edges = edges.list;
    *ret_count = edges.used;
    return 0;
}

/* ---- the tree ---- */

struct branch {
    uint32_t caller, function; /* as in struct profile_edge, so that same_edge fits: caller is the parent's index */
    uint64_t calls, total;
};
_Static_assert(sizeof(struct branch) == sizeof(struct profile_edge), "a branch is looked up as an edge");

struct tree {
    struct branch *list;
    size_t used;
    struct table table;
};

static uint32_t branch_at(struct tree *tree, uint32_t parent, uint32_t function)
{
    size_t before = tree->used, at = table_at(&tree->table, tree->list, &tree->used, parent, function, same_edge);
    if (tree->used > before)
        tree->list[at] = (struct branch){parent, function, 0, 0};
    return (uint32_t)at;
}

/* Paths that found no place of their own come together in one branch below the root. */
static int add_tree(void *ctx, const struct profile_thread *thread)
{
    struct tree *tree = ctx;
    _cleanup_(freep) uint64_t *totals = node_totals(thread);
    _cleanup_(freep) uint32_t *merged = calloc(thread->node_count, sizeof *merged);
    if (!totals || !merged)
        return -ENOMEM;
    for (size_t i = 1; i < thread->node_count; i++) {
        const struct node *node = &thread->nodes[i];
        if (!node->calls)
            continue;
        if (i == 1 || node->parent & PROFILE_FLAT)
            merged[i] = branch_at(tree, 0, PROFILE_OTHERS);
        else
            merged[i] = branch_at(tree, merged[node->parent], node->function);
        tree->list[merged[i]].calls += node->calls;
        tree->list[merged[i]].total += totals[i];
    }
    return 0;
}

struct sorted {
    uint32_t parent, at;
    uint64_t total, calls;
};

/* By parent, then smallest total first: they are taken from a stack. */
static int by_parent(const void *a, const void *b)
{
    const struct sorted *left = a, *right = b;
    if (left->parent != right->parent)
        return left->parent < right->parent ? -1 : 1;
    if (left->total != right->total)
        return left->total < right->total ? -1 : 1;
    if (left->calls != right->calls)
        return left->calls < right->calls ? -1 : 1;
    return left->at < right->at ? 1 : left->at > right->at ? -1 : 0;
}

/* Branches to a preorder. */
static int tree_order(const struct tree *tree, struct profile_node **ret_nodes, size_t *ret_count)
{
    size_t count = tree->used;
    _cleanup_(freep) struct sorted *sorted = calloc(count + 1, sizeof *sorted);
    _cleanup_(freep) size_t *first = calloc(count + 2, sizeof *first);
    _cleanup_(freep) struct sorted *stack = calloc(count + 1, sizeof *stack); /* parent: the depth */
    struct profile_node *nodes = calloc(count + 1, sizeof *nodes);
    if (!sorted || !first || !stack || !nodes) {
        free(nodes);
        return -ENOMEM;
    }
    for (size_t i = 1; i < count; i++) {
        const struct branch *branch = &tree->list[i];
        sorted[i - 1] = (struct sorted){branch->caller, (uint32_t)i, branch->total, branch->calls};
        first[branch->caller + 1]++;
    }
    for (size_t i = 1; i <= count; i++)
        first[i] += first[i - 1];
    if (count > 1)
        qsort(sorted, count - 1, sizeof *sorted, by_parent);
    size_t used = 0, open = 1;
    stack[0] = (struct sorted){.parent = UINT32_MAX, .at = 0};
    while (open) {
        struct sorted top = stack[--open];
        const struct branch *branch = &tree->list[top.at];
        if (top.at)
            nodes[used++] = (struct profile_node){top.parent, branch->function, branch->calls, branch->total};
        for (size_t i = first[top.at]; i < first[top.at + 1]; i++)
            stack[open++] = (struct sorted){.parent = top.parent + 1, .at = sorted[i].at};
    }
    *ret_nodes = nodes;
    *ret_count = used;
    return 0;
}

int profile_tree(const struct profile *profile, struct profile_node **ret_nodes, size_t *ret_count)
{
    struct tree tree = {.list = calloc(profile->nodes + 2, sizeof *tree.list)};
    int code = tree.list ? table_init(&tree.table, profile->nodes + 2) : -ENOMEM;
    if (code == 0) {
        branch_at(&tree, UINT32_MAX, PROFILE_ROOT);
        code = each_thread(profile, add_tree, &tree);
    }
    if (code == 0)
        code = tree_order(&tree, ret_nodes, ret_count);
    free(tree.table.slots);
    free(tree.list);
    return code;
}
