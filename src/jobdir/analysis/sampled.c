/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/sampled.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum { DEEPEST = 512, NAME_MOST = 64 };

/* ---- one document ---- */

struct document {
    const json_t *functions, *processes, *nodes;
};

static struct document document_of(const json_t *json)
{
    return (struct document){json_object_get(json, "functions"), json_object_get(json, "processes"),
                             json_object_get(json, "nodes")};
}

struct node {
    int64_t parent; /* a node before it; < 0: -1 - its process */
    size_t function;
    uint64_t samples;
};

/* false: it makes no sense. */
static bool node_at(const struct document *document, size_t at, struct node *ret_node)
{
    const json_t *json = json_array_get(document->nodes, at);
    json_int_t parent = json_integer_value(json_array_get(json, 0)),
               function = json_integer_value(json_array_get(json, 1)),
               samples = json_integer_value(json_array_get(json, 2));
    if (!json_is_array(json) || parent >= (json_int_t)at || function < 0 ||
        function >= (json_int_t)json_array_size(document->functions) || samples < 0 ||
        parent < -(json_int_t)json_array_size(document->processes))
        return false;
    *ret_node = (struct node){parent, (size_t)function, (uint64_t)samples};
    return true;
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
    struct known *known;
    size_t room;
    struct counted *lines;
    size_t line_count, line_room;
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
    if (sampled->count == gather->room) {
        size_t room = gather->room ? 2 * gather->room : 64;
        struct sampled_function *grown = realloc(sampled->functions, room * sizeof *grown);
        sampled->functions = grown ? grown : sampled->functions;
        gather->room = grown ? room : gather->room;
    }
    if (!known || sampled->count == gather->room) {
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

/* In a function that calls itself a sample counts once. */
static bool is_inside_itself(const struct node *nodes, size_t at)
{
    unsigned deep = 0;
    for (int64_t outer = nodes[at].parent; outer >= 0 && deep++ < DEEPEST; outer = nodes[outer].parent)
        if (nodes[outer].function == nodes[at].function)
            return true;
    return false;
}

static int64_t process_of(const struct node *nodes, size_t at)
{
    int64_t outer = nodes[at].parent;
    while (outer >= 0)
        outer = nodes[outer].parent;
    return -1 - outer;
}

static void waits_add(struct gather *gather, const json_t *json, const struct node *nodes, size_t count,
                      const size_t *places)
{
    const json_t *wait;
    size_t i;
    json_array_foreach(json_object_get(json, "waits"), i, wait)
    {
        json_int_t node = json_is_integer(json_array_get(wait, 0)) ? json_integer_value(json_array_get(wait, 0)) : -1;
        enum waiting_for what = waiting_of_word(json_string_value(json_array_get(wait, 1)));
        double seconds = json_number_value(json_array_get(wait, 2));
        if (node < 0 || (size_t)node >= count || !what || !(seconds > 0 && seconds < 1e12))
            continue;
        struct sampled_function *function = &gather->sampled->functions[places[nodes[node].function]];
        function->waiting_seconds += seconds;
        function->waits[what] += seconds;
        gather->sampled->waiting_seconds += seconds;
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

static int by_function(const void *a, const void *b)
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
    qsort(gather->lines, gather->line_count, sizeof *gather->lines, by_function);
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

static void document_add(struct gather *gather, const json_t *json)
{
    struct sampled *sampled = gather->sampled;
    const struct document document = document_of(json);
    size_t functions = json_array_size(document.functions), count = json_array_size(document.nodes), used = 0;
    _cleanup_(freep) struct node *nodes = calloc(count + 1, sizeof *nodes);
    _cleanup_(freep) uint64_t *sums = calloc(count + 1, sizeof *sums);
    _cleanup_(freep) size_t *places = calloc(functions + 1, sizeof *places);
    _cleanup_(freep) int64_t *last = calloc(functions + 1, sizeof *last); /* 1 + the process that was counted last */
    gather->failed |= !nodes || !sums || !places || !last;
    if (gather->failed)
        return;
    while (used < count && node_at(&document, used, &nodes[used]))
        used++;
    for (size_t i = 0; i < functions; i++) {
        const struct sampled_function function = function_at(&document, i);
        places[i] = function_known(gather, &function);
        gather->failed |= places[i] == SIZE_MAX;
    }
    for (size_t i = used; !gather->failed && i-- > 0;) {
        sums[i] += nodes[i].samples;
        if (nodes[i].parent >= 0)
            sums[nodes[i].parent] += sums[i];
    }
    for (size_t i = 0; !gather->failed && i < used; i++) {
        struct sampled_function *function = &sampled->functions[places[nodes[i].function]];
        int64_t process = 1 + process_of(nodes, i);
        function->self += nodes[i].samples;
        function->total += is_inside_itself(nodes, i) ? 0 : sums[i];
        function->processes += sums[i] && last[nodes[i].function] != process;
        last[nodes[i].function] = sums[i] ? process : last[nodes[i].function];
    }
    if (!gather->failed)
        waits_add(gather, json, nodes, used, places);
    if (!gather->failed)
        lines_add(gather, json, functions, places);
    sampled->hz = (unsigned)member_count(json, "hz");
    sampled->kernel |= json_is_true(json_object_get(json, "kernel"));
    const char *refused = json_string_value(json_object_get(json, "refused"));
    sampled->refused = refused ? refused : sampled->refused;
    sampled->samples += member_count(json, "samples");
    sampled->lost += member_count(json, "lost");
    sampled->cpu_seconds += member_number(json, "cpu_seconds");
    sampled->cost_seconds += member_number(json, "cost_seconds");
    json_array_append(sampled->documents, (json_t *)json);
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
    json_t *json = json_loadb(text, len, 0, NULL);
    if (json_is_object(json))
        document_add(gather, json);
    json_decref(json);
    return gather->failed ? -ENOMEM : 0;
}

static int by_self(const void *a, const void *b)
{
    const struct sampled_function *left = a, *right = b;
    if (left->self != right->self)
        return left->self > right->self ? -1 : 1;
    return left->total != right->total ? (left->total > right->total ? -1 : 1) : 0;
}

int sampled_read(struct sampled **ret_sampled, const char *jobdir, bool parts)
{
    struct gather gather = {.sampled = calloc(1, sizeof *gather.sampled)};
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
    struct known *known, *next;
    HASH_ITER(hh, gather.known, known, next)
    {
        HASH_DEL(gather.known, known);
        free(known->key);
        free(known);
    }
    if (code == 0 && (!json_array_size(sampled->documents) || !sampled->hz))
        code = -ENOENT;
    if (code < 0) {
        sampled_free(sampled);
        return code;
    }
    sampled->seconds = (double)sampled->samples / sampled->hz;
    for (size_t i = 0; i < sampled->count; i++) {
        struct sampled_function *function = &sampled->functions[i];
        function->self_seconds = (double)function->self / sampled->hz;
        function->total_seconds = (double)function->total / sampled->hz;
    }
    if (sampled->count)
        qsort(sampled->functions, sampled->count, sizeof *sampled->functions, by_self);
    *ret_sampled = sampled;
    return 0;
}

void sampled_free(struct sampled *sampled)
{
    if (!sampled)
        return;
    free(sampled->functions);
    free(sampled->lines);
    json_decref(sampled->documents);
    free(sampled);
}

/* ---- for people ---- */

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
            text_show(out, text_base(function->file));
            if (function->line)
                buf_printf(out, ":%u", (unsigned)function->line);
            buf_putc(out, ')');
        } else if (*module) {
            buf_puts(out, " (");
            text_show(out, module);
            buf_putc(out, ')');
        }
    } else if (*module && strncmp(module, "anon", 4) != 0) {
        buf_puts(out, "in ");
        text_show(out, module);
    } else {
        buf_puts(out, "code of no file");
    }
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

static void put_path(struct buf *out, const struct document *document, const struct node *nodes, size_t at)
{
    size_t chain[DEEPEST], depth = 0;
    int64_t outer = (int64_t)at;
    for (; outer >= 0 && depth < DEEPEST; outer = nodes[outer].parent)
        chain[depth++] = (size_t)outer;
    while (outer >= 0)
        outer = nodes[outer].parent;
    folded_put_step(out, text_at(json_array_get(document->processes, (size_t)(-1 - outer)), 1));
    while (depth) {
        const struct sampled_function function = function_at(document, nodes[chain[--depth]].function);
        buf_putc(out, ';');
        put_function(out, &function);
    }
    buf_printf(out, " %llu\n", (unsigned long long)nodes[at].samples);
}

void sampled_put_folded(struct buf *out, const struct sampled *sampled)
{
    size_t i;
    json_t *json;
    json_array_foreach(sampled->documents, i, json)
    {
        const struct document document = document_of(json);
        size_t count = json_array_size(document.nodes), used = 0;
        _cleanup_(freep) struct node *nodes = calloc(count + 1, sizeof *nodes);
        out->failed |= !nodes;
        while (nodes && used < count && node_at(&document, used, &nodes[used]))
            used++;
        for (size_t at = 0; at < used; at++)
            if (nodes[at].samples)
                put_path(out, &document, nodes, at);
    }
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

/* `first`: the number of the document's first function; `process`: of the string of its first process. */
static void put_sample(struct buf *out, const struct node *nodes, size_t at, uint64_t first, uint64_t process,
                       uint64_t period_ns)
{
    _cleanup_(buf_done) struct buf message = BUF_INIT, list = BUF_INIT;
    unsigned depth = 0;
    for (int64_t outer = (int64_t)at; outer >= 0 && depth++ < DEEPEST; outer = nodes[outer].parent)
        put_varint(&list, first + nodes[outer].function);
    put_message(&message, 1, &list);
    put_varint(&list, nodes[at].samples);
    put_varint(&list, nodes[at].samples * period_ns);
    put_message(&message, 2, &list);
    put_number(&list, 1, STRING_PROCESS);
    put_number(&list, 2, process + (uint64_t)process_of(nodes, at));
    put_message(&message, 3, &list);
    put_message(out, 2, &message);
}

void sampled_put_pprof(struct buf *out, const struct sampled *sampled)
{
    static const char *const texts[STRINGS] = {"", "samples", "count", "cpu", "nanoseconds", "process"};
    uint64_t strings = 0, first = 1, period_ns = UINT64_C(1000000000) / sampled->hz;
    size_t i;
    json_t *json;
    put_value_type(out, 1, STRING_SAMPLES, STRING_COUNT);
    put_value_type(out, 1, STRING_CPU, STRING_NANOSECONDS);
    put_value_type(out, 11, STRING_CPU, STRING_NANOSECONDS);
    put_number(out, 12, period_ns);
    while (strings < STRINGS)
        put_string(out, &strings, texts[strings]);
    json_array_foreach(sampled->documents, i, json)
    {
        const struct document document = document_of(json);
        size_t count = json_array_size(document.nodes), functions = json_array_size(document.functions), used = 0;
        _cleanup_(freep) struct node *nodes = calloc(count + 1, sizeof *nodes);
        out->failed |= !nodes;
        while (nodes && used < count && node_at(&document, used, &nodes[used]))
            used++;
        for (size_t at = 0; at < functions; at++) {
            const struct sampled_function function = function_at(&document, at);
            put_place(out, first + at, &function, &strings);
        }
        const uint64_t process = strings;
        for (size_t at = 0; at < json_array_size(document.processes); at++)
            put_string(out, &strings, text_at(json_array_get(document.processes, at), 1));
        for (size_t at = 0; at < used; at++)
            if (nodes[at].samples)
                put_sample(out, nodes, at, first, process, period_ns);
        first += functions;
    }
}
