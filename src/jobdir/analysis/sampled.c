/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/sampled.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/file.h"
#include "jobdir/mpi/waiting.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum {
    DEEPEST = 512,
    NAME_MOST = 64,
    SPEEDSCOPE_PROCESSES = 200,
    SPANS_MOST = 1 << 16,
    HZ_MOST = 1000000,
    THREADS_MOST = 1 << 12
};

/* ---- one document ---- */

struct document {
    const json_t *functions, *processes, *nodes;
};

static struct document document_of(const json_t *json)
{
    return (struct document){json_object_get(json, "functions"), json_object_get(json, "processes"),
                             json_object_get(json, "nodes")};
}

static const char *text_at(const json_t *list, size_t at)
{
    const char *text = json_string_value(json_array_get(list, at));
    return text ? text : "";
}

static struct sampled_function function_at(const struct document *document, size_t at)
{
    const json_t *json = json_array_get(document->functions, at);
    json_int_t line = json_integer_value(json_array_get(json, 3));
    struct sampled_function function = {.name = json_string_value(json_array_get(json, 0)),
                                        .module = text_at(json, 1),
                                        .file = text_at(json, 2),
                                        .line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0};
    const char *language = json_string_value(json_array_get(json, 4));
    function.language = language ? language : "native";
    return function;
}

/* ---- all of them ---- */

struct known { /* a function by what it is called in all documents */
    char *key;
    size_t at;
    UT_hash_handle hh;
};

struct counted { /* of a document */
    size_t function;
    struct sampled_line line;
};

struct gather {
    struct sampled *sampled;
    const char *jobdir;
    struct known *known;
    struct counted *lines;
    size_t line_count, line_room;
    size_t room, node_room, process_room, wait_room, cell_room, thread_room, share_room;
    bool failed;
};

static size_t function_known(struct gather *gather, const struct sampled_function *function)
{
    struct sampled *sampled = gather->sampled;
    struct known *known;
    char *key;
    if (asprintf(&key, "%s\n%s\n%s\n%u", function->name ? function->name : "", function->module, function->file,
                 (unsigned)function->line) < 0)
        return SIZE_MAX;
    HASH_FIND_STR(gather->known, key, known);
    if (known) {
        free(key);
        return known->at;
    }
    known = calloc(1, sizeof *known);
    if (!known || !GROW(sampled->functions, sampled->count, gather->room)) {
        free(known);
        free(key);
        return SIZE_MAX;
    }
    known->key = key;
    known->at = sampled->count;
    sampled->functions[sampled->count++] = *function;
    HASH_ADD_KEYPTR(hh, gather->known, known->key, strlen(known->key), known);
    return known->at;
}

static void processes_add(struct gather *gather, const struct document *document, const char *part)
{
    struct sampled *sampled = gather->sampled;
    size_t i;
    json_t *json;
    json_array_foreach(document->processes, i, json)
    {
        gather->failed |= !GROW(sampled->processes, sampled->process_count, gather->process_room);
        if (gather->failed)
            return;
        sampled->processes[sampled->process_count++] = (struct sampled_process){
            .part = part, .name = text_at(json, 1), .pid = json_integer_value(json_array_get(json, 0))};
    }
}

/* false: it makes no sense, or there is no memory. `places`: of the document's functions; `nodes`, `processes`: how many there were
 * before the document's. */
static bool node_add(struct gather *gather, const struct document *document, const json_t *json, const size_t *places,
                     size_t nodes, size_t processes)
{
    struct sampled *sampled = gather->sampled;
    json_int_t parent = json_integer_value(json_array_get(json, 0)),
               function = json_integer_value(json_array_get(json, 1)),
               samples = json_integer_value(json_array_get(json, 2));
    if (!json_is_array(json) || parent >= (json_int_t)(sampled->node_count - nodes) || function < 0 ||
        function >= (json_int_t)json_array_size(document->functions) || samples < 0 ||
        parent < -(json_int_t)json_array_size(document->processes))
        return false;
    gather->failed |= !GROW(sampled->nodes, sampled->node_count, gather->node_room);
    if (gather->failed)
        return false;
    parent += parent < 0 ? -(json_int_t)processes : (json_int_t)nodes;
    sampled->nodes[sampled->node_count++] =
        (struct sampled_node){.parent = parent,
                              .function = places[function],
                              .process = parent < 0 ? (size_t)(-1 - parent) : sampled->nodes[parent].process,
                              .self = (uint64_t)samples};
    return true;
}

static void waits_add(struct gather *gather, const json_t *list, size_t nodes)
{
    struct sampled *sampled = gather->sampled;
    const json_t *json;
    size_t i;
    json_array_foreach(list, i, json)
    {
        json_int_t node = json_is_integer(json_array_get(json, 0)) ? json_integer_value(json_array_get(json, 0)) : -1;
        enum waiting_for what = waiting_of_word(json_string_value(json_array_get(json, 1)));
        double seconds = json_number_value(json_array_get(json, 2));
        if (node < 0 || (size_t)node >= sampled->node_count - nodes || !what || !(seconds > 0 && seconds < 1e12))
            continue;
        gather->failed |= !GROW(sampled->waits, sampled->wait_count, gather->wait_room);
        if (gather->failed)
            return;
        sampled->waits[sampled->wait_count++] = (struct sampled_wait){nodes + (size_t)node, what, seconds};
        sampled->nodes[nodes + (size_t)node].own_seconds += seconds;
    }
}

static void lines_add(struct gather *gather, const json_t *json, size_t functions, const size_t *places)
{
    const json_t *line;
    size_t i;
    json_array_foreach(json_object_get(json, "lines"), i, line)
    {
        json_int_t numbers[4];
        for (size_t k = 0; k < 4; k++)
            numbers[k] = json_is_integer(json_array_get(line, k)) ? json_integer_value(json_array_get(line, k)) : -1;
        if (numbers[0] < 0 || (size_t)numbers[0] >= functions || numbers[1] <= 0 || numbers[1] > UINT32_MAX ||
            numbers[2] < 0 || numbers[3] < numbers[2])
            continue;
        if (!GROW(gather->lines, gather->line_count, gather->line_room)) {
            gather->failed = true;
            return;
        }
        gather->lines[gather->line_count++] =
            (struct counted){places[numbers[0]], {(uint32_t)numbers[1], (uint64_t)numbers[2], (uint64_t)numbers[3]}};
    }
}

static int by_line(const void *a, const void *b)
{
    const struct counted *left = a, *right = b;
    if (left->function != right->function)
        return left->function < right->function ? -1 : 1;
    return left->line.line < right->line.line ? -1 : left->line.line > right->line.line;
}

/* Gives each function its lines. */
static void lines_join(struct gather *gather)
{
    struct sampled *sampled = gather->sampled;
    struct sampled_line *lines = calloc(gather->line_count + 1, sizeof *lines), *last = lines;
    sampled->lines = lines;
    gather->failed |= !lines;
    if (!lines || !gather->line_count)
        return;
    qsort(gather->lines, gather->line_count, sizeof *gather->lines, by_line);
    for (size_t i = 0; i < gather->line_count; i++) {
        const struct counted *counted = &gather->lines[i];
        struct sampled_function *function = &sampled->functions[counted->function];
        if (!function->line_count)
            function->lines = last;
        if (!function->line_count || last[-1].line != counted->line.line) {
            *last++ = counted->line;
            function->line_count++;
        } else {
            last[-1].self += counted->line.self;
            last[-1].total += counted->line.total;
        }
    }
}

/* Numbers at a place of a list, none below 0. */
static bool numbers_at(const json_t *list, size_t at, size_t count, json_int_t *ret_numbers)
{
    for (size_t k = 0; k < count; k++) {
        const json_t *number = json_array_get(list, at + k);
        ret_numbers[k] = json_is_integer(number) ? json_integer_value(number) : -1;
        if (ret_numbers[k] < 0)
            return false;
    }
    return true;
}

static void cells_add(struct gather *gather, const json_t *spans, size_t nodes)
{
    struct sampled *sampled = gather->sampled;
    const json_t *list = json_object_get(spans, "cells");
    double width = json_number_value(json_object_get(spans, "seconds"));
    if (!(width > 0 && width < 1e12))
        return;
    for (size_t i = 0; i + 4 <= json_array_size(list); i += 4) {
        json_int_t numbers[4];
        if (!numbers_at(list, i, 4, numbers) || numbers[0] >= SPANS_MOST ||
            (size_t)numbers[1] >= sampled->node_count - nodes)
            continue;
        gather->failed |= !GROW(sampled->cells, sampled->cell_count, gather->cell_room);
        if (gather->failed)
            return;
        double from = width * (double)numbers[0];
        sampled->cells[sampled->cell_count++] = (struct sampled_cell){nodes + (size_t)numbers[1], from, from + width,
                                                                      (uint64_t)numbers[2], (double)numbers[3] / 1000};
    }
}

/* Of the samples of some documents, which lie together. */
struct extent {
    size_t nodes, lines, cells, threads, shares;
    uint64_t samples;
};

static struct extent extent_now(const struct gather *gather)
{
    const struct sampled *sampled = gather->sampled;
    return (struct extent){.nodes = sampled->node_count,
                           .lines = gather->line_count,
                           .cells = sampled->cell_count,
                           .threads = sampled->thread_count,
                           .shares = sampled->share_count,
                           .samples = sampled->samples};
}

static uint64_t scaled(uint64_t count, double factor)
{
    return (uint64_t)((double)count * factor + 0.5);
}

/* A node without events has units of another length (profile/main.c). From now on all have the shorter one. */
static void units_join(struct gather *gather, const struct extent *before, unsigned hz)
{
    struct sampled *sampled = gather->sampled;
    const struct extent none = {0}, all = extent_now(gather);
    bool grows = hz > sampled->hz;
    const struct extent *from = grows ? &none : before, *to = grows ? before : &all;
    double factor = !sampled->hz ? 1 : grows ? (double)hz / sampled->hz : (double)sampled->hz / hz;
    for (size_t i = from->nodes; factor > 1 && i < to->nodes; i++)
        sampled->nodes[i].self = scaled(sampled->nodes[i].self, factor);
    for (size_t i = from->cells; factor > 1 && i < to->cells; i++)
        sampled->cells[i].samples = scaled(sampled->cells[i].samples, factor);
    for (size_t i = from->threads; factor > 1 && i < to->threads; i++)
        sampled->threads[i].samples = scaled(sampled->threads[i].samples, factor);
    for (size_t i = from->shares; factor > 1 && i < to->shares; i++)
        sampled->shares[i].samples = scaled(sampled->shares[i].samples, factor);
    for (size_t i = from->lines; factor > 1 && i < to->lines; i++) {
        struct sampled_line *line = &gather->lines[i].line;
        line->self = scaled(line->self, factor);
        line->total = scaled(line->total, factor);
    }
    sampled->samples += scaled(to->samples - from->samples, factor) - (to->samples - from->samples);
    sampled->hz = grows ? hz : sampled->hz;
}

/* `processes`, `nodes`: how many there were before the document's. */
static void threads_add(struct gather *gather, const json_t *list, size_t processes, size_t nodes)
{
    struct sampled *sampled = gather->sampled;
    const json_t *json;
    size_t i;
    json_array_foreach(list, i, json)
    {
        json_int_t number[2], samples, share[3];
        double seconds = json_number_value(json_array_get(json, 4));
        const json_t *cells = json_array_get(json, 5);
        if (i == THREADS_MOST || !numbers_at(json, 0, 2, number) || !numbers_at(json, 3, 1, &samples) ||
            (size_t)number[0] >= sampled->process_count - processes || !(seconds >= 0 && seconds < 1e12))
            break;
        gather->failed |= !GROW(sampled->threads, sampled->thread_count, gather->thread_room);
        if (gather->failed)
            return;
        struct sampled_thread *thread = &sampled->threads[sampled->thread_count++];
        *thread = (struct sampled_thread){.process = processes + (size_t)number[0],
                                          .name = text_at(json, 2),
                                          .tid = number[1],
                                          .samples = (uint64_t)samples,
                                          .waiting_seconds = seconds,
                                          .first = sampled->share_count};
        for (size_t at = 0; numbers_at(cells, at, 3, share); at += 3) {
            if ((size_t)share[0] >= sampled->node_count - nodes ||
                sampled->nodes[nodes + (size_t)share[0]].process != thread->process)
                continue;
            gather->failed |= !GROW(sampled->shares, sampled->share_count, gather->share_room);
            if (gather->failed)
                return;
            sampled->shares[sampled->share_count++] =
                (struct sampled_share){nodes + (size_t)share[0], (uint64_t)share[1], (double)share[2] / 1000};
        }
        thread->shares = sampled->share_count - thread->first;
    }
}

static void document_add(struct gather *gather, json_t *json, const char *part)
{
    struct sampled *sampled = gather->sampled;
    const struct document document = document_of(json);
    const struct extent before = extent_now(gather);
    const uint64_t hz = member_count(json, "hz");
    size_t functions = json_array_size(document.functions), nodes = sampled->node_count,
           processes = sampled->process_count, i;
    if (!hz || hz > HZ_MOST)
        return;
    _cleanup_(freep) size_t *places = calloc(functions + 1, sizeof *places);
    const json_t *node;
    gather->failed |= !places;
    for (i = 0; !gather->failed && i < functions; i++) {
        const struct sampled_function function = function_at(&document, i);
        places[i] = function_known(gather, &function);
        gather->failed |= places[i] == SIZE_MAX;
    }
    if (gather->failed)
        return;
    processes_add(gather, &document, part);
    json_array_foreach(document.nodes, i, node)
    {
        if (gather->failed || !node_add(gather, &document, node, places, nodes, processes))
            break;
    }
    waits_add(gather, json_object_get(json, "waits"), nodes);
    lines_add(gather, json, functions, places);
    cells_add(gather, json_object_get(json, "spans"), nodes);
    threads_add(gather, json_object_get(json, "threads"), processes, nodes);
    sampled->kernel |= json_is_true(json_object_get(json, "kernel"));
    const char *refused = json_string_value(json_object_get(json, "refused"));
    sampled->refused = refused ? refused : sampled->refused;
    sampled->samples += member_count(json, "samples");
    sampled->lost += member_count(json, "lost");
    units_join(gather, &before, (unsigned)hz);
    sampled->cpu_seconds += member_number(json, "cpu_seconds");
    sampled->cost_seconds += member_number(json, "cost_seconds");
    json_object_del(json, "nodes");
    json_object_del(json, "waits");
    json_object_del(json, "lines");
    json_object_del(json, "spans");
}

static int read_one(void *ctx, const char *dir)
{
    struct gather *gather = ctx;
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t len;
    if (snprintf(path, sizeof path, "%s/profile.json", dir) >= (int)sizeof path ||
        file_read_plain(path, &text, &len) < 0)
        return 0;
    json_t *json = json_loadb(text, len, 0, NULL), *part = text_json(dir == gather->jobdir ? "" : text_base(dir));
    if (json_is_object(json) && part && json_object_set(json, "part", part) == 0 &&
        json_array_append(gather->sampled->documents, json) == 0)
        document_add(gather, json, json_string_value(part));
    json_decref(part);
    json_decref(json);
    return gather->failed ? -ENOMEM : 0;
}

/* ---- what they come to ---- */

/* In a function that calls itself a sample counts once. */
static bool is_inside_itself(const struct sampled_node *nodes, size_t at)
{
    unsigned deep = 0;
    for (int64_t outer = nodes[at].parent; outer >= 0 && deep++ < DEEPEST; outer = nodes[outer].parent)
        if (nodes[outer].function == nodes[at].function)
            return true;
    return false;
}

/* A caller has what it called. */
static void totals_add(struct sampled_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        nodes[i].total = nodes[i].self;
        nodes[i].seconds = nodes[i].own_seconds;
    }
    for (size_t i = count; i-- > 0;)
        if (nodes[i].parent >= 0) {
            nodes[nodes[i].parent].total += nodes[i].total;
            nodes[nodes[i].parent].seconds += nodes[i].seconds;
        }
}

struct pair { /* a function in a process that has samples in it; or, instead, below another function */
    uint64_t function, process, self;
};

static int by_function(const void *a, const void *b)
{
    const struct pair *left = a, *right = b;
    if (left->function != right->function)
        return left->function < right->function ? -1 : 1;
    return left->process < right->process ? -1 : left->process > right->process;
}

/* In how many processes each function is, and which one has most samples in each process. */
static void pairs_count(struct sampled *sampled, struct pair *pairs, size_t count)
{
    _cleanup_(freep) uint64_t *most = calloc(sampled->process_count + 1, sizeof *most);
    for (size_t i = 0; i < sampled->process_count; i++)
        sampled->processes[i].most = SAMPLED_PROGRAM;
    if (count)
        qsort(pairs, count, sizeof *pairs, by_function);
    for (size_t i = 0, next; most && i < count; i = next) {
        struct sampled_process *process = &sampled->processes[pairs[i].process];
        uint64_t self = 0;
        for (next = i; next < count && by_function(&pairs[i], &pairs[next]) == 0; next++)
            self += pairs[next].self;
        sampled->functions[pairs[i].function].processes++;
        if (self <= most[pairs[i].process])
            continue;
        most[pairs[i].process] = self;
        process->most = pairs[i].function;
    }
}

/* Code of a library without its source, or of the system: what of the program has called it says more. */
static bool is_of_library(const struct sampled_function *function)
{
    static const char *const places[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
    if (strcmp(function->language, "native") != 0)
        return false;
    if (strncmp(function->module, "[vdso", 5) == 0)
        return true;
    if (!strstr(text_base(function->module), ".so"))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strncmp(function->module, places[i], strlen(places[i])) == 0)
            return true;
    return !*function->file;
}

/* Of the program as its author knows it: not of the kernel, nor of an interpreter. */
static bool is_of_program(const struct sampled_function *function)
{
    bool interpreter = !*function->file && strcmp(function->language, "native") == 0 &&
                       strncmp(text_base(function->module), "python", strlen("python")) == 0;
    return function->name && *function->file != '<' && strcmp(function->language, "kernel") != 0 && !interpreter &&
           !is_of_library(function) && !function_is_start(function->name);
}

static bool is_chosen(const struct sampled_node *node, const bool *processes)
{
    return !processes || processes[node->process];
}

/* Below which function of the program each one of a library is most. `pairs` has room for each node. */
static void below_count(struct sampled *sampled, const bool *processes, struct pair *pairs)
{
    size_t count = 0;
    for (size_t i = 0; i < sampled->count; i++)
        sampled->functions[i].below = SAMPLED_PROGRAM;
    for (size_t i = 0; i < sampled->node_count; i++) {
        const struct sampled_node *node = &sampled->nodes[i];
        unsigned deep = 0;
        int64_t above = node->parent;
        if (!node->self || !is_chosen(node, processes) || !is_of_library(&sampled->functions[node->function]))
            continue;
        while (above >= 0 && deep++ < DEEPEST && !is_of_program(&sampled->functions[sampled->nodes[above].function]))
            above = sampled->nodes[above].parent;
        if (above >= 0 && deep < DEEPEST)
            pairs[count++] = (struct pair){node->function, sampled->nodes[above].function, node->self};
    }
    if (count)
        qsort(pairs, count, sizeof *pairs, by_function);
    for (size_t i = 0, next; i < count; i = next) {
        struct sampled_function *function = &sampled->functions[pairs[i].function];
        uint64_t self = 0;
        for (next = i; next < count && by_function(&pairs[i], &pairs[next]) == 0; next++)
            self += pairs[next].self;
        if (function->below == SAMPLED_PROGRAM || self > function->below_samples) {
            function->below = pairs[i].process;
            function->below_samples = self;
        }
    }
}

static int by_self(const void *a, const void *b)
{
    const struct sampled_function *left = a, *right = b;
    if (left->self != right->self)
        return left->self > right->self ? -1 : 1;
    if (left->total != right->total)
        return left->total > right->total ? -1 : 1;
    return left->place < right->place ? -1 : left->place > right->place;
}

/* The most expensive first; nodes go on meaning the same. */
static int functions_sort(struct sampled *sampled)
{
    _cleanup_(freep) size_t *now = calloc(sampled->count + 1, sizeof *now);
    if (!now)
        return -ENOMEM;
    for (size_t i = 0; i < sampled->count; i++)
        sampled->functions[i].place = i;
    if (sampled->count)
        qsort(sampled->functions, sampled->count, sizeof *sampled->functions, by_self);
    for (size_t i = 0; i < sampled->count; i++)
        now[sampled->functions[i].place] = i;
    for (size_t i = 0; i < sampled->node_count; i++)
        sampled->nodes[i].function = now[sampled->nodes[i].function];
    for (size_t i = 0; i < sampled->process_count; i++)
        if (sampled->processes[i].most != SAMPLED_PROGRAM)
            sampled->processes[i].most = now[sampled->processes[i].most];
    for (size_t i = 0; i < sampled->thread_count; i++)
        if (sampled->threads[i].most != SAMPLED_PROGRAM)
            sampled->threads[i].most = now[sampled->threads[i].most];
    for (size_t i = 0; i < sampled->count; i++)
        if (sampled->functions[i].below != SAMPLED_PROGRAM)
            sampled->functions[i].below = now[sampled->functions[i].below];
    return 0;
}

static void function_clear(struct sampled_function *function)
{
    function->self = function->total = function->processes = 0;
    function->waiting_seconds = 0;
    memset(function->waits, 0, sizeof function->waits);
}

void sampled_shift(struct sampled *sampled, const char *part, double seconds)
{
    const char *last = NULL; /* cells of a document lie together, and its processes have one text */
    bool its = false;
    for (size_t i = 0; i < sampled->cell_count; i++) {
        struct sampled_cell *cell = &sampled->cells[i];
        const char *from = sampled->processes[sampled->nodes[cell->node].process].part;
        if (from != last && its)
            return;
        its = from == last ? its : strcmp(from, part) == 0;
        last = from;
        if (!its)
            continue;
        cell->from += seconds;
        cell->to += seconds;
    }
}

static void window_choose(struct sampled *sampled, const struct sampled_window *window)
{
    for (size_t i = 0; i < sampled->node_count; i++) {
        sampled->nodes[i].self = 0;
        sampled->nodes[i].own_seconds = 0;
    }
    for (size_t i = 0; i < sampled->cell_count; i++) {
        const struct sampled_cell *cell = &sampled->cells[i];
        double middle = (cell->from + cell->to) / 2;
        if (middle < window->from || middle >= window->to)
            continue;
        sampled->nodes[cell->node].self += cell->samples;
        sampled->nodes[cell->node].own_seconds += cell->seconds;
    }
    totals_add(sampled->nodes, sampled->node_count);
    sampled->wait_count = 0;
}

void sampled_choose_threads(struct sampled *sampled, const bool *threads)
{
    for (size_t i = 0; i < sampled->node_count; i++) {
        sampled->nodes[i].self = 0;
        sampled->nodes[i].own_seconds = 0;
    }
    for (size_t i = 0; i < sampled->thread_count; i++) {
        const struct sampled_share *share = sampled->shares ? &sampled->shares[sampled->threads[i].first] : NULL;
        for (size_t k = 0; threads[i] && k < sampled->threads[i].shares; k++) {
            sampled->nodes[share[k].node].self += share[k].samples;
            sampled->nodes[share[k].node].own_seconds += share[k].seconds;
        }
    }
    totals_add(sampled->nodes, sampled->node_count);
    sampled->wait_count = sampled->cell_count = 0;
}

static void waits_sum(struct sampled *sampled, const bool *processes)
{
    for (size_t i = 0; i < sampled->node_count; i++)
        if (is_chosen(&sampled->nodes[i], processes)) {
            sampled->functions[sampled->nodes[i].function].waiting_seconds += sampled->nodes[i].own_seconds;
            sampled->waiting_seconds += sampled->nodes[i].own_seconds;
        }
    for (size_t i = 0; i < sampled->wait_count; i++) {
        const struct sampled_wait *wait = &sampled->waits[i];
        if (is_chosen(&sampled->nodes[wait->node], processes))
            sampled->functions[sampled->nodes[wait->node].function].waits[wait->what] += wait->seconds;
    }
}

int sampled_choose(struct sampled *sampled, const bool *processes, const struct sampled_window *window)
{
    _cleanup_(freep) struct pair *pairs = calloc(sampled->node_count + 1, sizeof *pairs);
    size_t pair_count = 0;
    uint64_t samples = 0;
    if (!pairs)
        return -ENOMEM;
    if (window)
        window_choose(sampled, window);
    for (size_t i = 0; i < sampled->count; i++)
        function_clear(&sampled->functions[i]);
    for (size_t i = 0; i < sampled->node_count; i++) {
        const struct sampled_node *node = &sampled->nodes[i];
        struct sampled_function *function = &sampled->functions[node->function];
        if (!is_chosen(node, processes))
            continue;
        samples += node->self;
        function->self += node->self;
        function->total += is_inside_itself(sampled->nodes, i) ? 0 : node->total;
        if (node->total)
            pairs[pair_count++] = (struct pair){node->function, node->process, node->self};
    }
    pairs_count(sampled, pairs, pair_count);
    below_count(sampled, processes, pairs);
    sampled->waiting_seconds = 0;
    waits_sum(sampled, processes);
    if (processes || window)
        sampled->samples = samples;
    sampled->seconds = (double)sampled->samples / sampled->hz;
    for (size_t i = 0; i < sampled->count; i++) {
        struct sampled_function *function = &sampled->functions[i];
        function->self_seconds = (double)function->self / sampled->hz;
        function->total_seconds = (double)function->total / sampled->hz;
    }
    return functions_sort(sampled);
}

static void processes_sum(struct sampled *sampled)
{
    for (size_t i = 0; i < sampled->node_count; i++) {
        struct sampled_process *process = &sampled->processes[sampled->nodes[i].process];
        process->samples += sampled->nodes[i].self;
        process->waiting_seconds += sampled->nodes[i].own_seconds;
    }
    for (size_t i = 0; i < sampled->process_count; i++)
        sampled->processes[i].seconds = (double)sampled->processes[i].samples / sampled->hz;
}

/* 0 or -ENOMEM. */
static int threads_sum(struct sampled *sampled)
{
    struct spent {
        uint64_t samples;
        double seconds;
    } *spent = calloc(sampled->count + 1, sizeof *spent);
    if (!spent)
        return -ENOMEM;
    for (size_t i = 0; i < sampled->thread_count; i++) {
        struct sampled_thread *thread = &sampled->threads[i];
        const struct sampled_share *shares = thread->shares ? &sampled->shares[thread->first] : NULL;
        size_t most = SAMPLED_PROGRAM;
        for (size_t k = 0; k < thread->shares; k++) {
            size_t function = sampled->nodes[shares[k].node].function;
            spent[function].samples += shares[k].samples;
            spent[function].seconds += shares[k].seconds;
            if (most == SAMPLED_PROGRAM || spent[function].samples > spent[most].samples ||
                (!thread->samples && spent[function].seconds > spent[most].seconds))
                most = function;
        }
        for (size_t k = 0; k < thread->shares; k++)
            spent[sampled->nodes[shares[k].node].function] = (struct spent){0, 0};
        thread->most = most;
        thread->seconds = (double)thread->samples / sampled->hz;
    }
    free(spent);
    return 0;
}

int sampled_read(struct sampled **ret_sampled, const char *jobdir, bool parts)
{
    struct gather gather = {.sampled = calloc(1, sizeof *gather.sampled), .jobdir = jobdir};
    struct sampled *sampled = gather.sampled;
    *ret_sampled = NULL;
    if (!sampled || !(sampled->documents = json_array())) {
        sampled_free(sampled);
        return -ENOMEM;
    }
    int code = parts ? job_dirs_each(jobdir, read_one, &gather) : read_one(&gather, jobdir);
    lines_join(&gather);
    code = gather.failed ? -ENOMEM : code;
    free(gather.lines);
    HASH_FREE_ALL(gather.known, free(each->key));
    if (code == 0 && (!json_array_size(sampled->documents) || !sampled->hz))
        code = -ENOENT;
    if (code == 0) {
        totals_add(sampled->nodes, sampled->node_count);
        processes_sum(sampled);
        code = threads_sum(sampled);
    }
    if (code == 0)
        code = sampled_choose(sampled, NULL, NULL);
    if (code < 0) {
        sampled_free(sampled);
        return code;
    }
    *ret_sampled = sampled;
    return 0;
}

void sampled_free(struct sampled *sampled)
{
    if (!sampled)
        return;
    free(sampled->functions);
    free(sampled->processes);
    free(sampled->nodes);
    free(sampled->waits);
    free(sampled->lines);
    free(sampled->cells);
    free(sampled->threads);
    free(sampled->shares);
    json_decref(sampled->documents);
    free(sampled);
}

/* ---- one tree of many ---- */

struct joint { /* a node of it, by its place */
    struct joint_key {
        int64_t parent;
        uint64_t function; /* UINT64_MAX: the program */
        char program[16];  /* as the kernel has it */
    } key;
    size_t at;
    UT_hash_handle hh;
};

struct joining {
    const struct sampled *sampled;
    struct joint *joints;
    struct sampled_node *nodes;
    size_t count, room;
};

/* SIZE_MAX: no memory. */
static size_t joint_of(struct joining *joining, int64_t parent, const struct sampled_node *node, bool program)
{
    struct joint_key key;
    struct joint *joint;
    memset(&key, 0, sizeof key); /* with its padding: it is hashed */
    key.parent = parent;
    key.function = program ? UINT64_MAX : node->function;
    if (program)
        strncpy(key.program, joining->sampled->processes[node->process].name, sizeof key.program - 1);
    HASH_FIND(hh, joining->joints, &key, sizeof key, joint);
    if (joint)
        return joint->at;
    if (!GROW(joining->nodes, joining->count, joining->room) || !(joint = calloc(1, sizeof *joint)))
        return SIZE_MAX;
    memcpy(&joint->key, &key, sizeof key);
    joint->at = joining->count;
    joining->nodes[joining->count++] =
        (struct sampled_node){parent, program ? SAMPLED_PROGRAM : node->function, .process = node->process};
    HASH_ADD(hh, joining->joints, key, sizeof joint->key, joint);
    return joint->at;
}

/* Python's own that import: who reads a tree wants to see what imports what. */
static bool is_of_import(const struct sampled_function *function)
{
    static const char own[] = "<frozen importlib.";
    return strncmp(function->file, own, sizeof own - 1) == 0;
}

int sampled_merge(const struct sampled *sampled, const bool *processes, bool brief, struct sampled_node **ret_nodes,
                  size_t *ret_count)
{
    struct joining joining = {.sampled = sampled};
    _cleanup_(freep) size_t *places = calloc(sampled->node_count + 1, sizeof *places);
    size_t i = 0;
    for (; places && i < sampled->node_count; i++) {
        const struct sampled_node *node = &sampled->nodes[i];
        if (!is_chosen(node, processes))
            continue;
        size_t above = node->parent < 0 ? joint_of(&joining, -1, node, true) : places[node->parent];
        bool left_out =
            brief && above != SIZE_MAX &&
            (joining.nodes[above].function == node->function || is_of_import(&sampled->functions[node->function]) ||
             function_is_start(sampled->functions[node->function].name));
        places[i] = left_out || above == SIZE_MAX ? above : joint_of(&joining, (int64_t)above, node, false);
        if (places[i] == SIZE_MAX)
            break;
        joining.nodes[places[i]].self += node->self;
        joining.nodes[places[i]].own_seconds += node->own_seconds;
    }
    HASH_FREE_ALL(joining.joints, );
    if (!places || i < sampled->node_count) {
        free(joining.nodes);
        return -ENOMEM;
    }
    totals_add(joining.nodes, joining.count);
    *ret_nodes = joining.nodes;
    *ret_count = joining.count;
    return 0;
}

/* ---- for people ---- */

/* Its last part; of a file that each package has, with the package. */
static const char *source_shown(const char *path)
{
    static const char *const each[] = {"__init__.py", "__main__.py", NULL};
    const char *base = text_base(path), *shown = base;
    if (!text_begins_with_one(base, each) || base == path)
        return base;
    for (shown--; shown > path && shown[-1] != '/';)
        shown--;
    return shown;
}

/* Without what Python puts into the names of its extensions, as in _umath.cpython-311-x86_64-linux-gnu.so. */
static void put_module(struct buf *out, const char *base)
{
    const char *tag = strstr(base, ".cpython-");
    _cleanup_(freep) char *plain = tag ? strndup(base, (size_t)(tag - base)) : NULL;
    text_show(out, plain ? plain : base);
    if (plain)
        buf_puts(out, ".so");
}

void sampled_put_name(struct buf *out, const struct sampled_function *function)
{
    const char *module = text_base(function->module);
    if (strcmp(function->language, "kernel") == 0) {
        buf_puts(out, "the kernel");
        return;
    }
    if (function->name) {
        size_t start = out->len;
        text_show(out, function->name);
        if (out->len - start > NAME_MOST && !out->failed) { /* of templates in templates */
            out->len = start + NAME_MOST;
            while (out->len > start && ((unsigned char)out->data[out->len] & 0xc0) == 0x80)
                out->len--; /* not in the midst of a character */
            buf_puts(out, "...");
        }
        if (*function->file) {
            buf_puts(out, " (");
            text_show(out, source_shown(function->file));
            if (function->line && strcmp(function->name, "<module>") != 0) /* each of them begins at line 1 */
                buf_printf(out, ":%u", (unsigned)function->line);
            buf_putc(out, ')');
        } else if (*module) {
            buf_puts(out, " (");
            put_module(out, module);
            buf_putc(out, ')');
        }
    } else if (*module && strncmp(module, "anon", 4) != 0) {
        buf_puts(out, "in ");
        put_module(out, module);
    } else {
        buf_puts(out, "code of no file");
    }
}

void sampled_put_below(struct buf *out, const struct sampled *sampled, const struct sampled_function *function)
{
    static const double NEARLY_ALL = 0.9;
    if (function->below == SAMPLED_PROGRAM)
        return;
    sampled_put_name(out, &sampled->functions[function->below]);
    buf_puts(out, (double)function->below_samples < NEARLY_ALL * (double)function->self ? " and others" : "");
}

bool sampled_put_stood(struct buf *out, const char *jobdir, int64_t pid, double seconds)
{
    static const double MOST = 0.8; /* of the time: looks are some tenths of a second apart */
    struct sampled *sampled;
    const struct sampled_wait *found = NULL;
    size_t count = 0;
    if (sampled_read(&sampled, jobdir, false) < 0)
        return false;
    for (size_t i = 0; i < sampled->wait_count; i++) {
        const struct sampled_wait *wait = &sampled->waits[i];
        const struct sampled_node *node = &sampled->nodes[wait->node];
        if (wait->seconds < MOST * seconds || sampled->processes[node->process].pid != pid)
            continue;
        found = wait;
        count++;
    }
    size_t function = count == 1 ? sampled->nodes[found->node].function : SAMPLED_PROGRAM;
    bool known = function != SAMPLED_PROGRAM && found->what != WAITING_MPI;
    if (known) {
        if (found->what == WAITING_SLEEP)
            buf_puts(out, "sleeps in ");
        else
            buf_printf(out, "waits for %s in ", waiting_text(found->what));
        sampled_put_name(out, &sampled->functions[function]);
    }
    sampled_free(sampled);
    return known;
}

void folded_put_step(struct buf *out, const char *text)
{
    size_t start = out->len;
    text_show(out, text);
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == ';')
            out->data[i] = ':';
}

static void put_function(struct buf *out, const struct sampled_function *function)
{
    const char *module = text_base(function->module);
    folded_put_step(out, function->name ? function->name : *module ? module : "?");
}

static void put_path(struct buf *out, const struct sampled *sampled, size_t at)
{
    size_t chain[DEEPEST], depth = 0;
    for (int64_t outer = (int64_t)at; outer >= 0 && depth < DEEPEST; outer = sampled->nodes[outer].parent)
        chain[depth++] = (size_t)outer;
    folded_put_step(out, sampled->processes[sampled->nodes[at].process].name);
    while (depth) {
        buf_putc(out, ';');
        put_function(out, &sampled->functions[sampled->nodes[chain[--depth]].function]);
    }
    buf_printf(out, " %llu\n", (unsigned long long)sampled->nodes[at].self);
}

void sampled_put_folded(struct buf *out, const struct sampled *sampled)
{
    for (size_t at = 0; at < sampled->node_count; at++)
        if (sampled->nodes[at].self)
            put_path(out, sampled, at);
}

/* ---- pprof: fields of protobuf, by their numbers in profile.proto ---- */

enum { STRING_EMPTY, STRING_SAMPLES, STRING_COUNT, STRING_CPU, STRING_NANOSECONDS, STRING_PROCESS, STRINGS };

static void put_varint(struct buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_putc(out, (char)(value | 0x80));
    buf_putc(out, (char)value);
}

static void put_number(struct buf *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(struct buf *out, unsigned field, const char *bytes, size_t len)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, len);
    if (len)
        buf_append(out, bytes, len);
}

/* Empties the message. */
static void put_message(struct buf *out, unsigned field, struct buf *message)
{
    out->failed |= message->failed;
    put_bytes(out, field, message->data, message->len);
    buf_clear(message);
}

static uint64_t put_string(struct buf *out, uint64_t *count, const char *text)
{
    put_bytes(out, 6, text, strlen(text));
    return (*count)++;
}

static void put_value_type(struct buf *out, unsigned field, unsigned type, unsigned unit)
{
    _cleanup_(buf_done) struct buf message = BUF_INIT;
    put_number(&message, 1, type);
    put_number(&message, 2, unit);
    put_message(out, field, &message);
}

/* A function, and the one place in it that is known: that of its first line. */
static void put_place(struct buf *out, uint64_t id, const struct sampled_function *function, uint64_t *strings)
{
    _cleanup_(buf_done) struct buf message = BUF_INIT, line = BUF_INIT;
    const char *module = text_base(function->module);
    uint64_t name = put_string(out, strings, function->name ? function->name : *module ? module : "?");
    uint64_t file = put_string(out, strings, *function->file ? function->file : function->module);
    put_number(&message, 1, id);
    put_number(&message, 2, name);
    put_number(&message, 3, name);
    put_number(&message, 4, file);
    put_number(&message, 5, function->line);
    put_message(out, 5, &message);
    put_number(&line, 1, id);
    put_number(&line, 2, function->line);
    put_number(&message, 1, id);
    put_message(&message, 4, &line);
    put_message(out, 4, &message);
}

/* `process`: of the string of the first process. */
static void put_sample(struct buf *out, const struct sampled *sampled, size_t at, uint64_t process, uint64_t period_ns)
{
    _cleanup_(buf_done) struct buf message = BUF_INIT, list = BUF_INIT;
    const struct sampled_node *nodes = sampled->nodes;
    unsigned depth = 0;
    for (int64_t outer = (int64_t)at; outer >= 0 && depth++ < DEEPEST; outer = nodes[outer].parent)
        put_varint(&list, 1 + nodes[outer].function);
    put_message(&message, 1, &list);
    put_varint(&list, nodes[at].self);
    put_varint(&list, nodes[at].self * period_ns);
    put_message(&message, 2, &list);
    put_number(&list, 1, STRING_PROCESS);
    put_number(&list, 2, process + nodes[at].process);
    put_message(&message, 3, &list);
    put_message(out, 2, &message);
}

void sampled_put_pprof(struct buf *out, const struct sampled *sampled)
{
    static const char *const texts[STRINGS] = {"", "samples", "count", "cpu", "nanoseconds", "process"};
    uint64_t strings = 0, period_ns = UINT64_C(1000000000) / sampled->hz;
    put_value_type(out, 1, STRING_SAMPLES, STRING_COUNT);
    put_value_type(out, 1, STRING_CPU, STRING_NANOSECONDS);
    put_value_type(out, 11, STRING_CPU, STRING_NANOSECONDS);
    put_number(out, 12, period_ns);
    while (strings < STRINGS)
        put_string(out, &strings, texts[strings]);
    for (size_t at = 0; at < sampled->count; at++)
        put_place(out, 1 + at, &sampled->functions[at], &strings);
    const uint64_t process = strings;
    for (size_t at = 0; at < sampled->process_count; at++)
        put_string(out, &strings, sampled->processes[at].name);
    for (size_t at = 0; at < sampled->node_count; at++)
        if (sampled->nodes[at].self)
            put_sample(out, sampled, at, process, period_ns);
}

/* ---- speedscope ---- */

static void put_text(struct buf *out, const char *name, const char *text)
{
    json_t *json = text_json(text);
    buf_printf(out, "\"%s\":", name);
    text_dump_json(out, json, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(json);
}

static void put_frames(struct buf *out, const struct sampled *sampled)
{
    buf_puts(out, "\"shared\":{\"frames\":[");
    for (size_t i = 0; i < sampled->count; i++) {
        const struct sampled_function *function = &sampled->functions[i];
        const char *module = text_base(function->module);
        buf_puts(out, i ? ",\n{" : "\n{");
        put_text(out, "name", function->name ? function->name : *module ? module : "?");
        if (*function->file || *function->module) {
            buf_putc(out, ',');
            put_text(out, "file", *function->file ? function->file : function->module);
        }
        if (function->line)
            buf_printf(out, ",\"line\":%u", (unsigned)function->line);
        buf_putc(out, '}');
    }
    /* programs stand above what they executed */
    for (size_t i = 0; i < sampled->process_count; i++) {
        buf_puts(out, i || sampled->count ? ",\n{" : "\n{");
        put_text(out, "name", sampled->processes[i].name);
        buf_putc(out, '}');
    }
    buf_puts(out, "\n]}");
}

static bool is_in_profile(const struct sampled_node *node, size_t process, bool waiting)
{
    return (process == SIZE_MAX || node->process == process) && (waiting ? node->own_seconds > 0 : node->self > 0);
}

/* From outside, numbers of frames. */
static void put_stack(struct buf *out, const struct sampled *sampled, size_t at, bool program)
{
    size_t chain[DEEPEST], depth = 0;
    for (int64_t outer = (int64_t)at; outer >= 0 && depth < DEEPEST; outer = sampled->nodes[outer].parent)
        chain[depth++] = sampled->nodes[outer].function;
    buf_putc(out, '[');
    if (program)
        buf_printf(out, "%zu,", sampled->count + sampled->nodes[at].process);
    while (depth) {
        buf_printf(out, "%zu", chain[--depth]);
        if (depth)
            buf_putc(out, ',');
    }
    buf_putc(out, ']');
}

/* Of a process; SIZE_MAX: of all. */
static void put_profile(struct buf *out, const struct sampled *sampled, const char *name, size_t process, bool waiting)
{
    double all = 0;
    bool first = true;
    buf_puts(out, "{\"type\":\"sampled\",");
    put_text(out, "name", name);
    buf_puts(out, ",\"unit\":\"seconds\",\"samples\":[");
    for (size_t at = 0; at < sampled->node_count; at++)
        if (is_in_profile(&sampled->nodes[at], process, waiting)) {
            buf_puts(out, first ? "\n" : ",\n");
            put_stack(out, sampled, at, process == SIZE_MAX);
            first = false;
        }
    buf_puts(out, "],\"weights\":[");
    first = true;
    for (size_t at = 0; at < sampled->node_count; at++)
        if (is_in_profile(&sampled->nodes[at], process, waiting)) {
            double seconds = waiting ? sampled->nodes[at].own_seconds : (double)sampled->nodes[at].self / sampled->hz;
            buf_printf(out, "%s%.9g", first ? "" : ",", seconds);
            all += seconds;
            first = false;
        }
    buf_printf(out, "],\"startValue\":0,\"endValue\":%.9g}", all);
}

void sampled_put_speedscope(struct buf *out, const struct sampled *sampled, const char *title)
{
    buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"scry\",");
    put_text(out, "name", title);
    buf_puts(out, ",\"activeProfileIndex\":0,");
    put_frames(out, sampled);
    buf_puts(out, ",\"profiles\":[\n");
    put_profile(out, sampled, "on a processor", SIZE_MAX, false);
    if (sampled->waiting_seconds > 0) {
        buf_puts(out, ",\n");
        put_profile(out, sampled, "waiting", SIZE_MAX, true);
    }
    for (size_t i = 0; sampled->process_count > 1 && i < sampled->process_count && i < SPEEDSCOPE_PROCESSES; i++) {
        const struct sampled_process *process = &sampled->processes[i];
        _cleanup_(buf_done) struct buf name = BUF_INIT;
        if (!process->samples)
            continue;
        buf_printf(&name, "%s %lld%s%s", process->name, (long long)process->pid, *process->part ? " on " : "",
                   process->part);
        buf_puts(out, ",\n");
        put_profile(out, sampled, name.data ? name.data : "?", i, false);
    }
    buf_puts(out, "\n]}\n");
}
