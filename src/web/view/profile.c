/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/*
 * The functions of each process, as the report adds them up. Nanoseconds are integers, of which those of all processes
 * together are what the report says: each is cut so that no part of one is lost or added.
 */

static int by_rank(const void *a, const void *b)
{
    const struct job_traced *left = *(const struct job_traced *const *)a, *right = *(const struct job_traced *const *)b;
    if ((left->who.rank < 0) != (right->who.rank < 0))
        return left->who.rank < 0 ? 1 : -1;
    if (left->who.rank >= 0 && left->who.program != right->who.program)
        return left->who.program < right->who.program ? -1 : 1;
    if (left->who.rank >= 0 && left->who.rank != right->who.rank)
        return left->who.rank < right->who.rank ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void put_process(struct buf *out, const struct job_traced *process, size_t number)
{
    buf_printf(out, "%s{\"process\":%zu,\"node\":", number ? "," : "", number);
    char node[256];
    snprintf(node, sizeof node, "%.*s", (int)(text_base(process->key) - process->key - 1), process->key);
    view_put_text(out, node);
    buf_printf(out, ",\"pid\":%d", (int)process->pid);
    if (process->who.rank >= 0)
        buf_printf(out, ",\"rank\":%" PRId32 ",\"world\":%" PRIu32, process->who.rank, process->who.program - 1);
    else
        buf_puts(out, ",\"rank\":null,\"world\":null");
    buf_puts(out, ",\"name\":");
    view_put_text(out, text_base(process->exe));
    buf_putc(out, '}');
}

/* Each the difference of two sums without their fractions, so that all add up to what the report says, `all`. */
static void put_times(struct buf *out, const struct job_functions *functions, const struct job_function *function,
                      const struct job_traced *const *processes, size_t count, const char *name, size_t at, double all)
{
    double sum = 0;
    int64_t before = 0;
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        const struct job_function_process *cell = job_functions_of(functions, function, processes[i]);
        sum += cell ? *(const double *)((const char *)cell + at) : 0;
        int64_t now = view_ns(i + 1 < count ? sum : all);
        buf_printf(out, "%s%" PRId64, i ? "," : "", now - before);
        before = now;
    }
    buf_putc(out, ']');
}

static void put_function(struct buf *out, const struct job_functions *functions, const struct job_function *function,
                         const struct job_traced *const *processes, size_t count)
{
    buf_puts(out, "{\"name\":");
    view_put_text(out, function->name);
    buf_puts(out, ",\"file\":");
    view_put_text(out, function->file);
    buf_printf(out, ",\"line\":%" PRIu32 ",\"calls\":[", function->line);
    for (size_t i = 0; i < count; i++) {
        const struct job_function_process *cell = job_functions_of(functions, function, processes[i]);
        buf_printf(out, "%s%" PRIu64, i ? "," : "", cell ? cell->calls : 0);
    }
    buf_putc(out, ']');
    put_times(out, functions, function, processes, count, "total_ns", offsetof(struct job_function_process, total_ns),
              function->total_ns);
    put_times(out, functions, function, processes, count, "self_ns", offsetof(struct job_function_process, self_ns),
              function->self_ns);
    buf_putc(out, '}');
}

/* The processes of profiles and trees in the order of their numbers, malloc'ed: ranks first. NULL: no memory. */
static const struct job_traced **profile_processes(const struct view *view, size_t *ret_count)
{
    const struct job_functions *functions = view->report.functions;
    size_t count = HASH_COUNT(functions->traced), used = 0;
    const struct job_traced **processes = calloc(count + 1, sizeof(struct job_traced *));
    for (const struct job_traced *each = functions->traced; processes && each; each = each->hh.next)
        processes[used++] = each;
    if (processes)
        qsort(processes, count, sizeof(struct job_traced *), by_rank);
    *ret_count = count;
    return processes;
}

int answer_profile(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    const struct job_functions *functions = view->report.functions;
    size_t count;
    _cleanup_(freep) const struct job_traced **processes = profile_processes(view, &count);
    if (!processes)
        return err_set(err, -ENOMEM, "out of memory");
    buf_puts(out, "{\"processes\":[");
    for (size_t i = 0; i < count; i++)
        put_process(out, processes[i], i);
    buf_puts(out, "],\"functions\":[");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next) {
        buf_puts(out, each == functions->functions ? "" : ",");
        put_function(out, functions, each, processes, count);
    }
    _cleanup_(freep) char *python = view->python ? json_dumps(view->python, JSON_COMPACT) : NULL;
    buf_printf(out, "],\"python_functions\":%s", python ? python : "[]");
    buf_printf(out, ",\"incomplete\":%s,\"notes\":", functions->incomplete ? "true" : "false");
    view_put_notes(out, view);
    buf_putc(out, '}');
    return 0;
}

/*
 * The call tree of processes, from the profiles that the report makes of their traces. Nodes are merged by the path of
 * functions that leads to them. Where there are more than are asked for, the ones with the least time are added to one
 * node "(others)" below the same parent. Of functions of Python only sums over all processes are known: they stand side by
 * side below "(Python)", each with the time of its own.
 */

enum {
    TREE_NODES = 4 << 20, /* kept of all processes together */
    TREE_DEPTH = 1 << 10,
    TREE_PYTHON = VIEW_FUNCTIONS, /* stands for "(Python)"; then its functions in their order */
};

struct tree_node {
    uint32_t function, depth; /* function: UINT32_MAX: others */
    uint64_t calls;
    double total_ns;
};

struct tree {                /* of one trace */
    char *process;           /* NODE/PID */
    struct tree_node *nodes; /* preorder */
    size_t count;
    struct tree *next;
};

void tree_free(struct view *view)
{
    for (struct tree *tree = view->trees, *next; tree; tree = next) {
        next = tree->next;
        free(tree->process);
        free(tree->nodes);
        free(tree);
    }
    view->trees = NULL;
}

void tree_take(void *ctx, const struct job_traced *process, const struct trace *trace, const struct profile *profile)
{
    struct view *view = ctx;
    _cleanup_(freep) struct profile_node *nodes = NULL;
    size_t count, kept = 0;
    for (const struct tree *tree = view->trees; tree; tree = tree->next)
        kept += tree->count;
    if (profile_tree(profile, &nodes, &count) < 0 || kept + count > TREE_NODES) {
        view_note(view, "the call tree is too large: some processes are not in it");
        return;
    }
    struct tree *tree = calloc(1, sizeof *tree);
    struct tree_node *list = calloc(count + 1, sizeof *list);
    char *name = strdup(process->key);
    if (!tree || !list || !name) {
        free(tree);
        free(list);
        free(name);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct view_function *function =
            nodes[i].function == PROFILE_OTHERS ? NULL : view_function_in(view, trace, nodes[i].function);
        list[i] = (struct tree_node){function ? function->number : UINT32_MAX, nodes[i].depth, nodes[i].calls,
                                     trace_ticks_ns(trace, nodes[i].total)};
    }
    *tree = (struct tree){name, list, count, view->trees};
    view->trees = tree;
}

/* ---- merging ---- */

struct merged {
    struct {
        uint32_t parent, function; /* parent: index + 1; 0: the root */
    } key;
    uint32_t index, shown; /* shown: index among those that are given + 1; 0: not */
    uint64_t calls;
    double total_ns, inside_ns;
    UT_hash_handle hh;
};

struct merging {
    struct merged *nodes, **list; /* parents before their children */
    size_t count, room;
};

static struct merged *node_of(struct merging *merging, uint32_t parent, uint32_t function)
{
    struct merged *node, key = {.key = {parent, function}};
    HASH_FIND(hh, merging->nodes, &key.key, sizeof key.key, node);
    if (node)
        return node;
    if (!GROW(merging->list, merging->count, merging->room) || !(node = calloc(1, sizeof *node)))
        return NULL;
    node->key = key.key;
    node->index = (uint32_t)merging->count;
    merging->list[merging->count++] = node;
    HASH_ADD(hh, merging->nodes, key, sizeof node->key, node);
    return node;
}

static int trees_merge(struct merging *merging, const struct tree *tree)
{
    uint32_t path[TREE_DEPTH + 1] = {0}; /* by depth: the parent of what is there */
    for (size_t i = 0; i < tree->count; i++) {
        const struct tree_node *from = &tree->nodes[i];
        if (from->depth >= TREE_DEPTH)
            continue;
        struct merged *node = node_of(merging, path[from->depth], from->function);
        if (!node)
            return -ENOMEM;
        node->calls += from->calls;
        node->total_ns += from->total_ns;
        if (node->key.parent)
            merging->list[node->key.parent - 1]->inside_ns += from->total_ns;
        path[from->depth + 1] = node->index + 1;
    }
    return 0;
}

static int merge_python(struct merging *merging, const json_t *python)
{
    size_t i;
    const json_t *row;
    struct merged *all = json_array_size(python) ? node_of(merging, 0, TREE_PYTHON) : NULL;
    json_array_foreach(python, i, row)
    {
        struct merged *node = all ? node_of(merging, all->index + 1, (uint32_t)(TREE_PYTHON + 1 + i)) : NULL;
        if (!node)
            return -ENOMEM;
        node->calls = (uint64_t)json_integer_value(json_object_get(row, "calls"));
        node->total_ns = json_number_value(json_object_get(row, "self_ns"));
        all->total_ns += node->total_ns;
        all->inside_ns += node->total_ns;
    }
    return 0;
}

static int by_total(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left > right ? -1 : left < right;
}

/* Nodes with less time than this are joined with others. No node has more than its parent, so parents stay. */
static double least_shown(const struct merging *merging, size_t limit)
{
    if (merging->count <= limit)
        return -1;
    double *totals = malloc(merging->count * sizeof *totals), least = INFINITY;
    for (size_t i = 0; totals && i < merging->count; i++)
        totals[i] = merging->list[i]->total_ns;
    if (totals) {
        qsort(totals, merging->count, sizeof *totals, by_total);
        least = totals[limit];
    }
    free(totals);
    return least;
}

static struct view_function function_of(const struct view *view, const struct merged *node)
{
    uint32_t number = node->key.function;
    if (number < TREE_PYTHON)
        return *view->function_list[number];
    struct view_function function = {.name = number == UINT32_MAX ? "(others)" : "(Python)", .file = ""};
    const json_t *row = number == UINT32_MAX ? NULL : json_array_get(view->python, number - TREE_PYTHON - (size_t)1);
    if (row) {
        int64_t line = json_integer_value(json_object_get(row, "line"));
        function.name = json_string_value(json_object_get(row, "function"));
        function.file = json_string_value(json_object_get(row, "file"));
        function.line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
    }
    return function;
}

static void put_node(struct buf *out, const struct view *view, const struct merged *node, uint32_t parent, bool first)
{
    const struct view_function function = function_of(view, node);
    double self_ns = node->total_ns > node->inside_ns ? node->total_ns - node->inside_ns : 0;
    buf_puts(out, first ? "{\"function\":" : ",{\"function\":");
    view_put_text(out, function.name);
    buf_puts(out, ",\"file\":");
    view_put_text(out, function.file);
    buf_printf(out, ",\"line\":%" PRIu32 ",\"class\":\"%s\",\"parent\":", function.line,
               view_class_name(function.class));
    if (parent)
        buf_printf(out, "%" PRIu32, parent - 1);
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}", node->calls,
               view_ns(node->total_ns), view_ns(self_ns));
}

/* Small ones below one parent, together. */
static void put_others(struct buf *out, const struct view *view, const struct merging *merging, uint32_t shown)
{
    _cleanup_(freep) struct merged *others = calloc(merging->count + 1, sizeof *others); /* by parent + 1 */
    for (size_t i = 0; others && i < merging->count; i++) {
        const struct merged *node = merging->list[i];
        uint32_t parent = node->key.parent;
        if (node->shown || (parent && !merging->list[parent - 1]->shown))
            continue;
        others[parent].calls += node->calls;
        others[parent].total_ns += node->total_ns;
    }
    for (size_t i = 0; others && i <= merging->count; i++)
        if (others[i].calls) {
            others[i].key.function = UINT32_MAX;
            put_node(out, view, &others[i], i ? merging->list[i - 1]->shown : 0, shown++ == 0);
        }
}

static void put_tree(struct buf *out, const struct view *view, struct merging *merging, size_t limit)
{
    double least = least_shown(merging, limit);
    uint32_t shown = 0;
    buf_puts(out, "{\"nodes\":[");
    for (size_t i = 0; i < merging->count; i++) {
        struct merged *node = merging->list[i];
        uint32_t parent = node->key.parent ? merging->list[node->key.parent - 1]->shown : 0;
        if (node->total_ns <= least || (node->key.parent && !parent))
            continue;
        put_node(out, view, node, parent, shown == 0);
        node->shown = ++shown;
    }
    put_others(out, view, merging, shown);
    buf_printf(out, "],\"joined\":%zu,\"notes\":", merging->count - shown);
    view_put_notes(out, view);
    buf_putc(out, '}');
}

int answer_tree(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    size_t count;
    struct merging merging = {0};
    _cleanup_(freep) const struct job_traced **processes = profile_processes(view, &count);
    _cleanup_(freep) bool *wanted = calloc(count + 1, sizeof *wanted);
    if (!processes || !wanted)
        return err_set(err, -ENOMEM, "out of memory");
    int code = asked_numbers(asked->processes, count, wanted, err);
    for (const struct tree *tree = view->trees; tree && code == 0; tree = tree->next) {
        bool is = !asked->processes;
        for (size_t i = 0; i < count && !is; i++)
            is = wanted[i] && strcmp(processes[i]->key, tree->process) == 0;
        if (is)
            code = trees_merge(&merging, tree);
    }
    if (code == 0 && !asked->processes)
        code = merge_python(&merging, view->python);
    if (code == 0)
        put_tree(out, view, &merging, (size_t)asked->limit);
    HASH_FREE_ALL(merging.nodes);
    free(merging.list);
    return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
}
