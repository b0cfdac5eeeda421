/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the traces of a job for its report. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/record/model.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/trace/trace.h"

enum {
    LOOK_EVERY = 1 << 16, /* events between looks at the clock */
    LIMIT_PROBLEMS = 100,
    UNWATCHED_NAMES = 3,
};

/* ---- functions by name ---- */

static struct job_function *function_of(struct job_functions *all, const struct trace *trace, uint32_t id)
{
    char room[32];
    const struct trace_function *known = trace_function(trace, id);
    const char *name = id == PROFILE_OTHERS ? "(others)" : call_name(trace, id, room, sizeof room);
    const char *file = known ? known->file : "";
    char *key;
    int len = asprintf(&key, "%s\t%s\t%" PRIu32, name, file, known ? known->line : 0);
    if (len < 0)
        return NULL;
    struct job_function *function;
    HASH_FIND(hh, all->functions, key, (size_t)len, function);
    if (function) {
        free(key);
        return function;
    }
    function = calloc(1, sizeof *function);
    char *strings = strdup(key);
    if (!function || !strings) {
        free(function);
        free(strings);
        free(key);
        return NULL;
    }
    function->key = key;
    function->strings = strings;
    function->name = strings;
    function->file = strings + strlen(name) + 1;
    strings[strlen(name)] = strings[strlen(name) + 1 + strlen(file)] = '\0';
    function->line = known ? known->line : 0;
    HASH_ADD_KEYPTR(hh, all->functions, function->key, (size_t)len, function);
    return function;
}

/* The same by a cache over the ids of this trace. */
struct job_function *report_function(struct reading *reading, uint32_t id)
{
    if (id < reading->known_room && reading->known[id])
        return reading->known[id];
    struct job_function *function = function_of(reading->all, reading->trace, id);
    if (!function) {
        reading->code = -ENOMEM;
        return NULL;
    }
    if (id < trace_function_count(reading->trace) && GROW_ZERO_TO(reading->known, (size_t)id + 1, reading->known_room))
        reading->known[id] = function;
    return function;
}

/* ---- processes of which it is not known when they had a processor, so that their CPU times are missing ---- */

/* Whether the name is in the list "a, b". */
static bool has_unwatched_name(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = names, *end; at; at = end ? end + strlen(", ") : NULL) {
        end = strstr(at, ", ");
        if ((end ? (size_t)(end - at) : strlen(at)) == len && memcmp(at, name, len) == 0)
            return true;
    }
    return false;
}

static int add_unwatched_for(struct job_functions *all, const char *why, const char *name)
{
    struct job_unwatched *known;
    HASH_FIND_STR(all->unwatched_for, why, known);
    if (!known) {
        known = calloc(1, sizeof *known);
        if (!known || !(known->why = strdup(why)) || !(known->names = strdup(name))) {
            free(known ? known->why : NULL);
            free(known);
            return -ENOMEM;
        }
        HASH_ADD_KEYPTR(hh, all->unwatched_for, known->why, strlen(known->why), known);
        known->programs = 1;
    } else if (known->programs <= UNWATCHED_NAMES && !has_unwatched_name(known->names, name)) {
        char *names;
        const char *more = known->programs++ == UNWATCHED_NAMES ? "..." : name;
        if (asprintf(&names, "%s, %s", known->names, more) < 0)
            return -ENOMEM;
        free(known->names);
        known->names = names;
    }
    known->processes++;
    return 0;
}

static void report_add_once(json_t *list, json_t *item_take);

/* Notes a trace if its process was not watched all the time. 0 or -ENOMEM. */
static int add_unwatched(struct job_functions *all, const struct trace *trace)
{
    const char *why = trace_value(trace, "switches_missing"), *exe = trace_value(trace, "exe");
    const char *name = exe && *exe ? text_base(exe) : "?"; /* "": /proc was not mounted, or not ours */
    if (!why && trace_number(trace, "switches_from"))
        return 0;
    why = why ? why : "its trace does not have it";
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "%s: %s", name, why);
    if (text.failed)
        return -ENOMEM;
    report_add_once(all->unwatched, text_json(text.data));
    bool gone = trace_number(trace, "switches_gone") != 0;
    return add_unwatched_for(all, gone ? "gone before they could be watched" : why, name);
}

void report_unwatched_text(struct buf *out, const struct job_functions *functions)
{
    for (const struct job_unwatched *each = functions->unwatched_for; each; each = each->hh.next) {
        buf_puts(out, "  cpu and waiting: not known of all of ");
        if (each->processes > 1)
            buf_printf(out, "%zu processes (", each->processes);
        text_show(out, each->names);
        buf_puts(out, each->processes > 1 ? "): " : ": ");
        text_show(out, each->why);
        buf_putc(out, '\n');
    }
}

/* ---- one trace ---- */

/* Where packets are missing: such a call is one of those that were counted there. */
static void note_alone(struct reading *reading, uint32_t function)
{
    if (function < trace_function_count(reading->trace) &&
        GROW_ZERO_TO(reading->alone, (size_t)function + 1, reading->alone_room))
        reading->alone[function]++;
}

static int read_events(struct reading *reading, struct trace_cursor *cursor, uint64_t deadline_ns)
{
    struct trace_event event;
    int code;
    while ((code = trace_next(cursor, &event)) == 1 && reading->code == 0) {
        reading->events++;
        reading->last_time = event.time;
        if (event.spent)
            profile_spent_now(reading->profile, event.spent);
        profile_feed(reading->profile, &event);
        if (event.alone)
            note_alone(reading, event.function);
        code = calls_event(reading->calls, &event);
        if (code < 0)
            return code;
        if (reading->events % LOOK_EVERY == 0) {
            uint64_t done, all;
            if (deadline_ns && clock_now_ns() > deadline_ns) {
                reading->all->incomplete = true;
                return 0;
            }
            trace_cursor_progress(cursor, &done, &all);
            if (reading->options->progress)
                reading->options->progress(reading->options->ctx, all ? (double)done / (double)all : 1);
        }
    }
    return code < 0 ? code : reading->code;
}

struct mpi_who report_who(struct reading *reading)
{
    int32_t rank = mpi_trace_number(reading->mpi);
    if (rank < 0)
        return (struct mpi_who){.rank = -1};
    if (!reading->who.program) {
        const struct mpi_stats *stats = mpi_trace_stats(reading->options->stats, reading->trace);
        const char *name = mpi_trace_world(reading->trace, stats);
        reading->who = (struct mpi_who){rank, mpi_programs_number(&reading->all->programs, name) + 1};
    }
    return reading->who;
}

static int compare_ranks(struct mpi_who a, struct mpi_who b)
{
    if (a.program != b.program)
        return a.program < b.program ? -1 : 1;
    return a.rank < b.rank ? -1 : a.rank > b.rank;
}

static int note_rank(struct reading *reading)
{
    struct job_functions *all = reading->all;
    struct mpi_who who = report_who(reading);
    size_t at = 0;
    while (at < all->rank_count && compare_ranks(all->ranks[at], who) < 0)
        at++;
    if (who.rank < 0 || (at < all->rank_count && compare_ranks(all->ranks[at], who) == 0))
        return 0;
    struct mpi_who *grown = realloc(all->ranks, (all->rank_count + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    memmove(grown + at + 1, grown + at, (all->rank_count++ - at) * sizeof *grown);
    grown[at] = who;
    all->ranks = grown;
    return 0;
}

static int add_to_rank(struct reading *reading, const struct job_function *function, uint64_t calls, double total_ns,
                       double self_ns)
{
    struct job_function_rank *cell, key = {.key = {function, report_who(reading)}};
    if (key.key.who.rank < 0 || !calls)
        return 0;
    HASH_FIND(hh, reading->all->by_rank, &key.key, sizeof key.key, cell);
    if (!cell) {
        cell = calloc(1, sizeof *cell);
        if (!cell)
            return -ENOMEM;
        cell->key = key.key;
        HASH_ADD(hh, reading->all->by_rank, key, sizeof cell->key, cell);
    }
    cell->calls += calls;
    cell->total_ns += total_ns;
    cell->self_ns += self_ns;
    return 0;
}

static int add_to_process(struct reading *reading, const struct job_function *function, uint64_t calls, double total_ns,
                          double self_ns)
{
    struct job_function_process *cell, key = {.key = {function, reading->process}};
    if (!reading->options->by_process || !calls)
        return 0;
    HASH_FIND(hh, reading->all->by_process, &key.key, sizeof key.key, cell);
    if (!cell) {
        cell = calloc(1, sizeof *cell);
        if (!cell)
            return -ENOMEM;
        cell->key = key.key;
        HASH_ADD(hh, reading->all->by_process, key, sizeof cell->key, cell);
    }
    cell->calls += calls;
    cell->total_ns += total_ns;
    cell->self_ns += self_ns;
    return 0;
}

const struct job_function_process *job_functions_of(const struct job_functions *functions,
                                                    const struct job_function *function,
                                                    const struct job_traced *process)
{
    struct job_function_process *cell, key = {.key = {function, process}};
    HASH_FIND(hh, functions->by_process, &key.key, sizeof key.key, cell);
    return cell;
}

/* What was learned of a function in this trace, for its process and rank. */
static int add_to_parts(struct reading *reading, const struct job_function *function, uint64_t calls, double total_ns,
                        double self_ns)
{
    int code = add_to_rank(reading, function, calls, total_ns, self_ns);
    return code < 0 ? code : add_to_process(reading, function, calls, total_ns, self_ns);
}

bool job_cpu_ns(double ns, const struct job_spent *spent, double *ret_ns)
{
    double cpu_ns = ns - spent->waiting_ns - spent->preempted_ns - spent->unknown_ns;
    *ret_ns = cpu_ns > 0 ? cpu_ns : 0;
    return spent->unknown_ns <= ns / 100;
}

static void add_spent(const struct trace *trace, struct job_spent *to, const struct profile_spent *more)
{
    to->waiting_ns += trace_ticks_ns(trace, more->waiting);
    to->preempted_ns += trace_ticks_ns(trace, more->preempted);
    to->unknown_ns += trace_ticks_ns(trace, more->unknown);
}

static int add_rows(struct reading *reading)
{
    _cleanup_(freep) struct profile_row *rows = NULL;
    size_t count;
    if (profile_rows(reading->profile, reading->last_time, &rows, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct job_function *function = report_function(reading, rows[i].function);
        if (!function)
            return -ENOMEM;
        double min = trace_ticks_ns(reading->trace, rows[i].min), max = trace_ticks_ns(reading->trace, rows[i].max);
        if (min < function->min_ns || function->calls == function->counted + function->unkept)
            function->min_ns = min;
        if (max > function->max_ns)
            function->max_ns = max;
        function->calls += rows[i].calls;
        function->unwound += rows[i].unwound;
        function->open += rows[i].open;
        function->sum_ns += trace_ticks_ns(reading->trace, rows[i].sum);
        function->total_ns += trace_ticks_ns(reading->trace, rows[i].total);
        function->self_ns += trace_ticks_ns(reading->trace, rows[i].self);
        add_spent(reading->trace, &function->total_spent, &rows[i].total_spent);
        add_spent(reading->trace, &function->self_spent, &rows[i].self_spent);
        reading->all->self_ns += trace_ticks_ns(reading->trace, rows[i].self);
        if (add_to_parts(reading, function, rows[i].calls, trace_ticks_ns(reading->trace, rows[i].total),
                         trace_ticks_ns(reading->trace, rows[i].self)) < 0)
            return -ENOMEM;
    }
    return note_rank(reading);
}

static int add_edges(struct reading *reading)
{
    _cleanup_(freep) struct profile_edge *edges = NULL;
    size_t count;
    if (profile_edges(reading->profile, &edges, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct job_edge *edge, key = {0};
        if (edges[i].caller != PROFILE_ROOT)
            key.key.caller = report_function(reading, edges[i].caller);
        key.key.function = report_function(reading, edges[i].function);
        if (!key.key.function || (edges[i].caller != PROFILE_ROOT && !key.key.caller))
            return -ENOMEM;
        HASH_FIND(hh, reading->all->edges, &key.key, sizeof key.key, edge);
        if (!edge) {
            edge = calloc(1, sizeof *edge);
            if (!edge)
                return -ENOMEM;
            edge->key = key.key;
            HASH_ADD(hh, reading->all->edges, key, sizeof edge->key, edge);
        }
        edge->calls += edges[i].calls;
        edge->total_ns += trace_ticks_ns(reading->trace, edges[i].total);
    }
    return 0;
}

/* Adds an item to a list of at most 100, unless it is there. */
static void report_add_once(json_t *list, json_t *item_take)
{
    size_t index;
    json_t *known;
    bool there = json_array_size(list) >= LIMIT_PROBLEMS;
    json_array_foreach(list, index, known)
    {
        there = there || json_equal(known, item_take);
    }
    if (!there)
        json_array_append(list, item_take);
    json_decref(item_take);
}

static void add_unread(void *ctx, const char *text)
{
    struct job_functions *all = ctx;
    report_add_once(all->problems, note_json(&NOTE(trace_unread, .reason = text)));
}

/* What the writer counted; of a trace that goes on, or was damaged, what was read counts. */
static int add_counts(struct job_functions *all, const struct trace *trace)
{
    struct kept_note problem;
    all->events += trace_number(trace, "events");
    all->discarded += trace_number(trace, "discarded");
    all->bytes += trace_number(trace, "bytes");
    all->functions_omitted += trace_number(trace, "functions_omitted");
    all->threads_omitted += trace_number(trace, "threads_omitted");
    all->waits_ran_out += trace_number(trace, "waits_ran_out");
    all->waits_dropped += trace_number(trace, "waits_dropped");
    all->too_deep += trace_number(trace, "too_deep");
    all->overwritten += trace_number(trace, "overwritten");
    all->thinned += trace_number(trace, "thinned");
    all->tallied += trace_number(trace, "tallied");
    all->min_time_ns = job_most(all->min_time_ns, trace_number(trace, "min_time"));
    all->limited |= trace_value(trace, "limited") != NULL;
    all->min_time_partly |= trace_value(trace, "min_time_least") != NULL;
    uint64_t max_depth = trace_number(trace, "max_depth");
    if (max_depth && (!all->max_depth || max_depth < all->max_depth))
        all->max_depth = max_depth;
    all->cost_seconds += (double)trace_number(trace, "cost_ns") / 1e9;
    for (size_t i = 0; trace_problem(trace, i, &problem); i++)
        report_add_once(all->problems, note_json(&problem.note));
    return add_unwatched(all, trace);
}

/* A process that executed another program has a trace of each. */
static int add_process(struct reading *reading)
{
    struct job_functions *all = reading->all;
    const struct trace *trace = reading->trace;
    char *key;
    int len = asprintf(&key, "%s/%d", trace_node(trace), (int)trace_pid(trace));
    if (len < 0)
        return -ENOMEM;
    struct job_traced *known;
    HASH_FIND(hh, all->traced, key, (size_t)len, known);
    if (known) {
        free(key);
    } else {
        known = calloc(1, sizeof *known);
        if (!known) {
            free(key);
            return -ENOMEM;
        }
        *known = (struct job_traced){.key = key, .pid = trace_pid(trace), .index = all->processes++};
        HASH_ADD_KEYPTR(hh, all->traced, known->key, (size_t)len, known);
    }
    reading->process = known;
    struct mpi_who who = report_who(reading);
    const char *exe = trace_value(trace, "exe");
    char *copy = strdup(exe ? exe : "");
    if (!copy)
        return -ENOMEM;
    free(known->exe);
    known->exe = copy;
    if (who.rank >= 0 || !known->who.program)
        known->who = who;
    return 0;
}

bool job_functions_traced(const struct job_functions *functions, const char *node, pid_t pid)
{
    _cleanup_(freep) char *key = NULL;
    struct job_traced *known = NULL;
    if (asprintf(&key, "%s/%d", node ? node : "", (int)pid) < 0)
        return false;
    HASH_FIND_STR(functions->traced, key, known);
    return known;
}

static void add_all_counts(struct reading *reading)
{
    struct job_functions *all = reading->all;
    uint64_t events = all->events, discarded = all->discarded, overwritten = all->overwritten;
    for (const struct trace *trace = reading->trace; trace; trace = trace_rest(trace))
        if (add_counts(all, trace) < 0)
            reading->code = -ENOMEM;
    if (all->events == events)
        all->events += reading->events;
    if (all->discarded == discarded)
        all->discarded +=
            reading->gaps -
            (reading->gaps < all->overwritten - overwritten ? reading->gaps : all->overwritten - overwritten);
    const char *state = trace_value(reading->trace, "state");
    if (reading->options->all_ended && (!state || strcmp(state, "running") == 0)) {
        all->unfinished++;
        report_add_once(all->problems, note_json(&NOTE(trace_unfinished, .pid = (uint64_t)trace_pid(reading->trace))));
    }
}

static void add_count(void *ctx, const struct trace_count *count)
{
    struct reading *reading = ctx;
    struct job_function *function = report_function(reading, count->function);
    if (!function)
        return;
    uint64_t alone = count->function < reading->alone_room ? reading->alone[count->function] : 0;
    uint64_t unkept = count->unkept > alone ? count->unkept - alone : 0;
    function->calls += count->calls + unkept;
    function->unkept += unkept;
    function->counted += count->calls;
    function->thinned += count->thinned;
    if (trace_number(reading->trace, "tallied"))
        function->tallied += count->thinned;
    function->calls_at_least |= count->at_least;
    reading->all->calls_at_least |= count->at_least;
    function->open += count->open;
    function->total_ns += trace_ticks_ns(reading->trace, count->ticks);
    function->total_spent.unknown_ns += trace_ticks_ns(reading->trace, count->ticks);
    if (add_to_parts(reading, function, count->calls + unkept, trace_ticks_ns(reading->trace, count->ticks), 0) < 0)
        reading->code = -ENOMEM;
}

/* What was learned of the functions, once all of it was read. The last trace counts from the first one's beginning. */
static int reading_finish(struct reading *reading)
{
    struct trace *last = reading->trace;
    while (trace_rest(last))
        last = trace_rest(last);
    int code = add_rows(reading);
    if (code == 0)
        code = add_edges(reading);
    if (code == 0)
        code = trace_each_count(last, add_count, reading);
    return code;
}

static void reading_free(struct reading *reading)
{
    if (!reading)
        return;
    profile_free(reading->profile);
    free(reading->recent);
    free(reading->known);
    free(reading->alone);
    free(reading->sites);
    mpi_trace_free(reading->mpi);
    trace_close(reading->trace);
    free(reading);
}

static void function_drop(struct job_functions *all, struct job_function *function)
{
    HASH_DEL(all->functions, function);
    free(function->key);
    free(function->strings);
    free(function);
}

static int read_trace(struct reading *reading, uint64_t deadline_ns, struct err *err)
{
    struct trace_cursor *cursor = NULL;
    const struct call_visitor visitor = {
        .enter = report_call_begins, .leave = report_call_ends, .other = report_other_event, .ctx = reading};
    struct job_functions *all = reading->all;
    reading->least_slow_ns = all->slowest_count == FUNCTIONS_SLOWEST ? all->slowest[FUNCTIONS_SLOWEST - 1].ns : 0;
    int code = profile_new(&reading->profile, 0);
    if (code == 0)
        code = mpi_trace_new(&reading->mpi, reading->trace, mpi_trace_stats(reading->options->stats, reading->trace));
    if (code == 0)
        code = calls_new(&reading->calls, reading->trace, &(struct call_filter){0}, &visitor);
    if (code == 0)
        code = trace_cursor_new(&cursor, reading->trace, false, err);
    if (code == 0)
        code = read_events(reading, cursor, deadline_ns);
    if (code == 0)
        code = add_process(reading);
    if (code == 0)
        add_all_counts(reading);
    if (code == 0)
        code = reading->code;
    if (code == 0)
        code = reading_finish(reading);
    if (code == 0 && reading->options->profiled)
        reading->options->profiled(reading->options->profiled_ctx, reading->process, reading->trace, reading->profile);
    trace_cursor_free(cursor);
    calls_free(reading->calls);
    reading->calls = NULL;
    return code;
}

/* ---- all of them ---- */

static int by_self(const struct job_function *a, const struct job_function *b)
{
    if (a->self_ns != b->self_ns)
        return a->self_ns > b->self_ns ? -1 : 1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->key, b->key);
}

static int by_total(const struct job_edge *a, const struct job_edge *b)
{
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return a->calls > b->calls ? -1 : a->calls < b->calls;
}

static int told(struct job_functions *all, int code, const struct err *why)
{
    if (code == 0 || code == -ENOMEM)
        return code;
    add_unread(all, why->text[0] ? why->text : "a trace cannot be read");
    return 0;
}

static bool is_wanted(const struct trace *trace, const struct job_functions_options *options)
{
    return (!options->process || trace_pid(trace) == options->process) &&
           (!options->only_stats || mpi_trace_stats(options->stats, trace));
}

/* The first of these traces; those that go on with it become NULL among the others. */
static int load_one(struct job_functions *all, char **paths, size_t count, const struct job_functions_options *options,
                    uint64_t deadline_ns)
{
    struct err here = {0};
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading)
        return -ENOMEM;
    int code = trace_open(&reading->trace, paths[0], add_unread, all, &here);
    if (code < 0 || !is_wanted(reading->trace, options)) {
        reading_free(reading);
        return told(all, code, &here);
    }
    trace_append_all(reading->trace, paths + 1, count - 1, add_unread, all);
    reading->all = all;
    reading->options = options;
    code = read_trace(reading, deadline_ns, &here);
    reading_free(reading);
    return told(all, code, &here);
}

/* The estimate has the time in it in which a thread was not on a processor while it recorded, and what came before a
 * call's time: more than all took it cannot be. */
static void bound_cost(struct job_functions *all, double cpu_seconds)
{
    double most = cpu_seconds > 0 ? cpu_seconds : all->cost_seconds, self = all->self_ns / 1e9;
    bool is_all = !all->incomplete && !all->overwritten && !all->discarded && !all->thinned && !all->min_time_ns &&
                  !all->max_depth && self > 0;
    for (const struct job_function *each = all->functions; each; each = each->hh.next)
        is_all = is_all && !each->counted;
    if (is_all && self < most)
        most = self;
    all->cost_bounded = all->cost_seconds > most;
    if (all->cost_bounded)
        all->cost_seconds = most;
}

int job_functions_load(struct job_functions **ret_functions, const char *jobdir,
                       const struct job_functions_options *options, struct err *err)
{
    char **paths;
    size_t count;
    uint64_t deadline_ns = options->budget_ns ? clock_now_ns() + options->budget_ns : 0;
    int code = trace_list(jobdir, &paths, &count, err);
    if (code < 0)
        return code;
    struct job_functions *all = calloc(1, sizeof *all);
    if (!all || !(all->problems = json_array()) || !(all->unwatched = json_array()))
        code = err_set(err, -ENOMEM, "out of memory");
    if (code == 0)
        mpi_programs_init(&all->programs, options->stats);
    for (size_t i = 0; i < count; i++) {
        if (code == 0 && paths[i] && all->incomplete)
            all->unread++;
        else if (code == 0 && paths[i])
            code = load_one(all, paths + i, count - i, options, deadline_ns);
        free(paths[i]);
    }
    free(paths);
    if (code < 0) {
        job_functions_free(all);
        return err_set(err, code, "out of memory");
    }
    HASH_SRT(hh, all->functions, by_self);
    HASH_SRT(hh, all->edges, by_total);
    report_sites_sort(all);
    bound_cost(all, options->cpu_seconds);
    *ret_functions = all;
    return 0;
}

void job_functions_free(struct job_functions *functions)
{
    if (!functions)
        return;
    struct job_function *function, *next;
    HASH_ITER(hh, functions->functions, function, next)
    {
        function_drop(functions, function);
    }
    HASH_FREE_ALL(functions->edges);
    HASH_FREE_ALL(functions->traced, free(each->key); free(each->exe));
    HASH_FREE_ALL(functions->by_process);
    HASH_FREE_ALL(functions->unwatched_for, free(each->why); free(each->names));
    json_decref(functions->unwatched);
    HASH_FREE_ALL(functions->by_rank);
    report_sites_free(functions);
    free(functions->ranks);
    mpi_programs_done(&functions->programs);
    report_calls_free(functions);
    json_decref(functions->problems);
    free(functions);
}
