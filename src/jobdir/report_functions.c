/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the traces of a job for its report. */
#include "jobdir/report_functions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "jobdir/calls.h"
#include "jobdir/profile.h"
#include "jobdir/text.h"
#include "jobdir/trace.h"

enum {
    LOOK_EVERY = 1 << 16, /* events between looks at the clock */
    SHOWN_TEXT = 400,     /* bytes of arguments kept of a slow call */
    SHOWN_FRAMES = 20,
    LIMIT_CRASHES = 100,
    LIMIT_PROBLEMS = 100,
};

/* A call that ended. */
struct ended {
    uint32_t function;
    enum trace_exit how;
    uint64_t entry_time, time;
};

struct recent {
    struct ended calls[FUNCTIONS_LAST];
    uint32_t count;
};

/* One trace while it is read. One that a later monitor went on with in another trace is kept open until that is read:
 * calls began here and end there, and are one. */
struct reading {
    struct reading *next;
    struct job_functions *all;
    const struct job_functions_options *options;
    struct trace *trace;
    struct profile *profile;
    struct calls *calls;
    struct recent *recent; /* by thread */
    size_t recent_room;
    struct job_function **known; /* by id */
    size_t known_room;
    double least_slow_ns; /* calls that took less need not be looked at */
    bool continued;       /* the next trace of the process goes on with its open calls */
    bool goes_on;         /* with those of the trace before it */
    uint64_t last_time, events, gaps;
    int code;
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
static struct job_function *known_function(struct reading *reading, uint32_t id)
{
    if (id < reading->known_room && reading->known[id])
        return reading->known[id];
    struct job_function *function = function_of(reading->all, reading->trace, id);
    if (!function) {
        reading->code = -ENOMEM;
        return NULL;
    }
    size_t room = trace_function_count(reading->trace);
    if (id < room && room > reading->known_room) {
        struct job_function **grown = realloc(reading->known, room * sizeof(struct job_function *));
        if (grown) {
            memset(grown + reading->known_room, 0, (room - reading->known_room) * sizeof(struct job_function *));
            reading->known = grown;
            reading->known_room = room;
        }
    }
    if (id < reading->known_room)
        reading->known[id] = function;
    return function;
}

/* ---- calls ---- */

static void put_label(struct buf *out, const struct trace *trace, uint32_t id)
{
    char room[32];
    text_show(out, call_name(trace, id, room, sizeof room));
}

/* A call's values stay with it as they were recorded, and only become text if it turns out to be among the slowest. */
static void enter(void *ctx, struct call *call, const struct trace_event *event)
{
    if (!event->layout)
        return;
    call->value = (uintptr_t)event->layout;
    buf_append(&call->text, event->values, event->values_size);
}

static void put_arguments(struct buf *out, const struct trace *trace, const struct call *call)
{
    const struct layout *layout = (const struct layout *)(uintptr_t)call->value;
    call_put_values(out, trace, layout, LAYOUT_ARGS, call->text.data, call->text.len);
    if (out->len > SHOWN_TEXT) {
        out->len = text_fit(out->data, out->len, SHOWN_TEXT);
        buf_puts(out, "...");
    }
}

static void slow_call_done(struct job_slow_call *call)
{
    free(call->arguments);
    free(call->result);
    *call = (struct job_slow_call){0};
}

/* Where a call that took so long comes into the list: its place is made free. The number of the list's length: it does
 * not come into it. */
static size_t slow_place(struct job_functions *all, const struct job_function *function, double ns)
{
    size_t count = all->slowest_count, own = 0, drop = count;
    for (size_t i = 0; i < count; i++)
        own += all->slowest[i].function == function;
    if (own >= FUNCTIONS_SLOWEST_EACH) {
        while (all->slowest[--drop].function != function)
            ;
    } else if (count == FUNCTIONS_SLOWEST) {
        drop = count - 1;
    }
    if (drop < count && all->slowest[drop].ns >= ns)
        return FUNCTIONS_SLOWEST;
    if (drop < count)
        slow_call_done(&all->slowest[drop]);
    else
        all->slowest_count++;
    size_t place = drop;
    for (; place && all->slowest[place - 1].ns < ns; place--)
        all->slowest[place] = all->slowest[place - 1];
    return place;
}

static double seconds_of(const struct reading *reading, uint64_t ticks)
{
    uint64_t wall = trace_wall_ns(reading->trace, ticks), start = reading->options->start_ns;
    return wall >= start ? (double)(wall - start) / 1e9 : -(double)(start - wall) / 1e9;
}

static void keep_slow(struct reading *reading, const struct call *call, const struct trace_event *event, double ns)
{
    struct job_functions *all = reading->all;
    const struct job_function *function = known_function(reading, call->function);
    if (!function)
        return;
    size_t place = slow_place(all, function, ns);
    if (place == FUNCTIONS_SLOWEST)
        return;
    _cleanup_(buf_done) struct buf arguments = BUF_INIT, result = BUF_INIT;
    put_arguments(&arguments, reading->trace, call);
    call_put_values(&result, reading->trace, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    all->slowest[place] = (struct job_slow_call){.function = function,
                                                 .ns = ns,
                                                 .start_seconds = seconds_of(reading, call->entry_time),
                                                 .pid = trace_pid(reading->trace),
                                                 .tid = event->thread->tid,
                                                 .how = call_how(event->how),
                                                 .arguments = arguments.len ? strdup(arguments.data) : NULL,
                                                 .result = result.len ? strdup(result.data) : NULL};
    reading->least_slow_ns = all->slowest_count == FUNCTIONS_SLOWEST ? all->slowest[FUNCTIONS_SLOWEST - 1].ns : 0;
}

static void remember(struct reading *reading, const struct trace_event *event)
{
    size_t index = event->thread->index;
    if (index >= reading->recent_room) {
        size_t room = reading->recent_room ? reading->recent_room : 8;
        while (room <= index)
            room *= 2;
        struct recent *grown = realloc(reading->recent, room * sizeof *grown);
        if (!grown)
            return;
        memset(grown + reading->recent_room, 0, (room - reading->recent_room) * sizeof *grown);
        reading->recent = grown;
        reading->recent_room = room;
    }
    struct recent *recent = &reading->recent[index];
    recent->calls[recent->count++ % FUNCTIONS_LAST] =
        (struct ended){event->function, event->how, event->entry_time, event->time};
}

static void leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct reading *reading = ctx;
    if (event->how == TRACE_OPEN && reading->continued)
        return;
    struct job_function *function = event->how == TRACE_OPEN ? known_function(reading, call->function) : NULL;
    if (function)
        function->open++;
    else
        remember(reading, event);
    if (event->how == TRACE_EXIT_LOST || (event->how == TRACE_OPEN && event->time == event->entry_time))
        return; /* how long it took is not known */
    double ns = trace_ticks_ns(reading->trace, event->time - event->entry_time);
    if (ns > reading->least_slow_ns || reading->all->slowest_count < FUNCTIONS_SLOWEST)
        keep_slow(reading, call, event, ns);
}

/* ---- crashes ---- */

static char *stack_text(const struct reading *reading, const struct call *innermost)
{
    struct buf out = BUF_INIT;
    size_t depth = 0;
    for (const struct call *call = innermost; call; call = call->parent, depth++) {
        if (depth >= SHOWN_FRAMES)
            continue; /* only counted */
        put_label(&out, reading->trace, call->function);
        _cleanup_(buf_done) struct buf arguments = BUF_INIT;
        put_arguments(&arguments, reading->trace, call);
        buf_printf(&out, "(%s)", arguments.data ? arguments.data : "");
        const char *file = call_file(reading->trace, call->function);
        if (*file) {
            buf_puts(&out, "  ");
            text_show(&out, file);
            buf_printf(&out, ":%" PRIu32, trace_function(reading->trace, call->function)->line);
        }
        buf_putc(&out, '\n');
    }
    if (depth > SHOWN_FRAMES)
        buf_printf(&out, "... and %zu more around it\n", depth - SHOWN_FRAMES);
    return out.failed ? (buf_done(&out), NULL) : buf_take(&out);
}

static char *last_text(const struct reading *reading, const struct trace_event *event)
{
    struct buf out = BUF_INIT;
    size_t index = event->thread->index;
    const struct recent *recent = index < reading->recent_room ? &reading->recent[index] : NULL;
    uint32_t count = recent ? recent->count : 0;
    for (uint32_t i = 0; i < count && i < FUNCTIONS_LAST; i++) {
        const struct ended *call = &recent->calls[(count - 1 - i) % FUNCTIONS_LAST];
        put_label(&out, reading->trace, call->function);
        buf_puts(&out, call->how == TRACE_UNWOUND ? "()  unwound after " : "()  took ");
        call_put_ns(&out, trace_ticks_ns(reading->trace, call->time - call->entry_time));
        buf_puts(&out, ", ended ");
        call_put_ns(&out, trace_ticks_ns(reading->trace, event->time - call->time));
        buf_puts(&out, " before\n");
    }
    return out.failed ? (buf_done(&out), NULL) : buf_take(&out);
}

static void other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
    struct reading *reading = ctx;
    struct job_functions *all = reading->all;
    if (event->kind == TRACE_GAP)
        reading->gaps += event->lost;
    if (event->kind != TRACE_SIGNAL || all->crash_count >= LIMIT_CRASHES)
        return;
    struct job_crash_calls *grown = realloc(all->crashes, (all->crash_count + 1) * sizeof *grown);
    if (!grown) {
        reading->code = -ENOMEM;
        return;
    }
    all->crashes = grown;
    grown[all->crash_count++] = (struct job_crash_calls){.pid = trace_pid(reading->trace),
                                                         .tid = event->thread->tid,
                                                         .signal = event->number,
                                                         .address = event->address,
                                                         .seconds = seconds_of(reading, event->time),
                                                         .stack = stack_text(reading, innermost),
                                                         .last = last_text(reading, event)};
}

/* ---- one trace ---- */

/* Threads go by their serial numbers: they are the same in the traces of a process that follow each other. */
static inline void feed_profile(struct profile *profile, const struct trace_event *event, bool continued)
{
    uint32_t thread = event->thread->serial;
    if (event->kind == TRACE_ENTRY)
        profile_enter(profile, thread, event->stack, event->function, event->time);
    else if (event->kind != TRACE_EXIT)
        return;
    else if (event->how == TRACE_OPEN && continued)
        return;
    else if (event->alone)
        profile_leave_of(profile, thread, event->stack, event->function, event->entry_time, event->time);
    else if (event->how == TRACE_RETURNED || event->how == TRACE_OPEN)
        profile_leave(profile, thread, event->stack, event->time);
    else if (event->how == TRACE_UNWOUND)
        profile_unwind(profile, thread, event->stack, 1, event->time);
    else if (event->how == TRACE_EXIT_LOST)
        profile_lost(profile, thread, event->stack, 1);
}

static int read_events(struct reading *reading, struct trace_cursor *cursor, uint64_t deadline_ns)
{
    struct trace_event event;
    int code;
    while ((code = trace_next(cursor, &event)) == 1 && reading->code == 0) {
        reading->events++;
        reading->last_time = event.time;
        feed_profile(reading->profile, &event, reading->continued);
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

static int add_rows(struct reading *reading)
{
    _cleanup_(freep) struct profile_row *rows = NULL;
    size_t count;
    if (profile_rows(reading->profile, reading->last_time, &rows, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct job_function *function = known_function(reading, rows[i].function);
        if (!function)
            return -ENOMEM;
        double min = trace_ticks_ns(reading->trace, rows[i].min), max = trace_ticks_ns(reading->trace, rows[i].max);
        if (min < function->min_ns || function->calls == function->counted)
            function->min_ns = min;
        if (max > function->max_ns)
            function->max_ns = max;
        function->calls += rows[i].calls;
        function->unwound += rows[i].unwound;
        function->open += rows[i].open;
        function->sum_ns += trace_ticks_ns(reading->trace, rows[i].sum);
        function->total_ns += trace_ticks_ns(reading->trace, rows[i].total);
        function->self_ns += trace_ticks_ns(reading->trace, rows[i].self);
        reading->all->self_ns += trace_ticks_ns(reading->trace, rows[i].self);
    }
    return 0;
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
            key.key.caller = known_function(reading, edges[i].caller);
        key.key.function = known_function(reading, edges[i].function);
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

static void add_problem(void *ctx, const char *text)
{
    struct job_functions *all = ctx;
    size_t index;
    json_t *known;
    json_array_foreach(all->problems, index, known)
    {
        if (strcmp(json_string_value(known), text) == 0)
            return;
    }
    if (json_array_size(all->problems) < LIMIT_PROBLEMS)
        json_array_append_new(all->problems, text_json(text));
}

static uint64_t max_count(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What the writer counted; of a trace that goes on, or was damaged, what was read counts. */
static void add_counts(struct reading *reading)
{
    struct job_functions *all = reading->all;
    const struct trace *trace = reading->trace;
    const char *text;
    uint64_t events = trace_number(trace, "events"), discarded = trace_number(trace, "discarded");
    all->processes += !reading->goes_on;
    all->events += events ? events : reading->events;
    all->discarded += discarded ? discarded : reading->gaps;
    all->bytes += trace_number(trace, "bytes");
    all->functions_omitted += trace_number(trace, "functions_omitted");
    all->threads_omitted += trace_number(trace, "threads_omitted");
    all->too_deep += trace_number(trace, "too_deep");
    all->overwritten += trace_number(trace, "overwritten");
    all->thinned += trace_number(trace, "thinned");
    all->min_time_ns = max_count(all->min_time_ns, trace_number(trace, "min_time"));
    uint64_t max_depth = trace_number(trace, "max_depth");
    if (max_depth && (!all->max_depth || max_depth < all->max_depth))
        all->max_depth = max_depth;
    all->cost_seconds += (double)trace_number(trace, "cost_ns") / 1e9;
    for (size_t i = 0; (text = trace_problem(trace, i)); i++)
        add_problem(all, text);
    text = trace_value(trace, "state");
    if (reading->options->all_ended && (!text || strcmp(text, "running") == 0)) {
        char unwritten[160];
        snprintf(unwritten, sizeof unwritten,
                 "the trace of process %d was not written to its end: was the disk full, or the monitor killed?",
                 (int)trace_pid(trace));
        add_problem(all, unwritten);
    }
}

static void add_count(void *ctx, uint32_t id, uint64_t calls, uint64_t ticks, uint64_t thinned)
{
    struct reading *reading = ctx;
    struct job_function *function = known_function(reading, id);
    if (!function)
        return;
    function->calls += calls;
    function->counted += calls;
    function->thinned += thinned;
    function->total_ns += trace_ticks_ns(reading->trace, ticks);
}

/* What was learned of the functions, once all of it was read. */
static int reading_finish(struct reading *reading)
{
    int code = add_rows(reading);
    if (code == 0)
        code = add_edges(reading);
    if (code == 0)
        code = trace_each_count(reading->trace, add_count, reading);
    return code;
}

static void reading_free(struct reading *reading)
{
    if (!reading)
        return;
    profile_free(reading->profile);
    free(reading->recent);
    free(reading->known);
    trace_close(reading->trace);
    free(reading);
}

/* The names are those of the first trace: the next one names only what was called later. */
static int name_rows(struct reading *reading)
{
    _cleanup_(freep) struct profile_row *rows = NULL;
    size_t count;
    if (profile_rows(reading->profile, 0, &rows, &count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (!known_function(reading, rows[i].function))
            return -ENOMEM;
    return 0;
}

static void function_drop(struct job_functions *all, struct job_function *function)
{
    HASH_DEL(all->functions, function);
    free(function->key);
    free(function->strings);
    free(function);
}

/* Functions for which the trace before this one had only a number, because its monitor was killed too early. */
static void name_again(struct reading *reading)
{
    struct job_functions *all = reading->all;
    for (uint32_t id = 0; id < reading->known_room; id++) {
        struct job_function *number = reading->known[id];
        const struct trace_function *now = trace_function(reading->trace, id);
        if (!number || !now || strncmp(number->name, "0x", 2) != 0 || strncmp(now->name, "0x", 2) == 0)
            continue;
        struct job_function *named = function_of(all, reading->trace, id);
        if (!named)
            continue;
        reading->known[id] = named;
        bool others = number->calls || number->open || number->thinned; /* of another process, with the same number */
        for (size_t i = 0; i < all->slowest_count; i++) {
            struct job_slow_call *slow = &all->slowest[i];
            if (slow->function == number && slow->pid == trace_pid(reading->trace))
                slow->function = named;
            others |= slow->function == number;
        }
        if (!others)
            function_drop(all, number);
    }
}

/* Goes on where the trace before this one of the process ended, if there was one. */
static void take_over(struct reading *reading, struct reading **kept)
{
    for (struct reading **at = kept; *at; at = &(*at)->next) {
        struct reading *former = *at;
        if (trace_pid(former->trace) != trace_pid(reading->trace) ||
            strcmp(trace_node(former->trace), trace_node(reading->trace)) != 0)
            continue;
        *at = former->next;
        reading->profile = former->profile;
        reading->known = former->known;
        reading->known_room = former->known_room;
        reading->last_time = former->last_time;
        reading->goes_on = true;
        former->profile = NULL;
        former->known = NULL;
        reading_free(former);
        name_again(reading);
        return;
    }
}

static int read_trace(struct reading *reading, uint64_t deadline_ns, struct err *err)
{
    struct trace_cursor *cursor = NULL;
    const struct call_visitor visitor = {.enter = enter, .leave = leave, .other = other, .ctx = reading};
    struct job_functions *all = reading->all;
    reading->least_slow_ns = all->slowest_count == FUNCTIONS_SLOWEST ? all->slowest[FUNCTIONS_SLOWEST - 1].ns : 0;
    int code = reading->profile ? 0 : profile_new(&reading->profile, 0);
    if (code == 0)
        code = calls_new(&reading->calls, reading->trace, &(struct call_filter){0}, &visitor);
    if (code == 0)
        code = trace_cursor_new(&cursor, reading->trace, false, err);
    if (code == 0)
        code = read_events(reading, cursor, deadline_ns);
    if (code == 0)
        add_counts(reading);
    if (code == 0)
        code = reading->continued ? name_rows(reading) : reading_finish(reading);
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
    add_problem(all, why->text[0] ? why->text : "a trace cannot be read");
    return 0;
}

static int load_one(struct job_functions *all, const char *path, const struct job_functions_options *options,
                    uint64_t deadline_ns, struct reading **kept)
{
    struct err here = {0};
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading)
        return -ENOMEM;
    int code = trace_open(&reading->trace, path, add_problem, all, &here);
    if (code < 0 || (options->process && trace_pid(reading->trace) != options->process)) {
        reading_free(reading);
        return told(all, code, &here);
    }
    const char *state = trace_value(reading->trace, "state");
    reading->all = all;
    reading->options = options;
    reading->continued = state && strcmp(state, "continued") == 0;
    take_over(reading, kept);
    code = read_trace(reading, deadline_ns, &here);
    if (code == 0 && reading->continued) {
        reading->next = *kept;
        *kept = reading;
        return 0;
    }
    reading_free(reading);
    return told(all, code, &here);
}

/* Those that nothing followed: what was open in them stays so. */
static int finish_kept(struct job_functions *all, struct reading *kept)
{
    int code = 0;
    for (struct reading *next; kept; kept = next) {
        next = kept->next;
        if (code == 0)
            code = told(all, reading_finish(kept), &(struct err){0});
        reading_free(kept);
    }
    return code;
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
    json_t *problems = json_array();
    if (!all || !problems)
        code = err_set(err, -ENOMEM, "out of memory");
    else
        all->problems = problems;
    struct reading *kept = NULL;
    for (size_t i = 0; i < count; i++) {
        if (code == 0 && !all->incomplete)
            code = load_one(all, paths[i], options, deadline_ns, &kept);
        free(paths[i]);
    }
    free(paths);
    int finished = finish_kept(all, kept);
    code = code == 0 ? finished : code;
    if (code < 0) {
        job_functions_free(all);
        return err_set(err, code, "out of memory");
    }
    HASH_SRT(hh, all->functions, by_self);
    HASH_SRT(hh, all->edges, by_total);
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
    struct job_edge *edge, *next_edge;
    HASH_ITER(hh, functions->edges, edge, next_edge)
    {
        HASH_DEL(functions->edges, edge);
        free(edge);
    }
    for (size_t i = 0; i < functions->slowest_count; i++)
        slow_call_done(&functions->slowest[i]);
    for (size_t i = 0; i < functions->crash_count; i++) {
        free(functions->crashes[i].stack);
        free(functions->crashes[i].last);
    }
    free(functions->crashes);
    json_decref(functions->problems);
    free(functions);
}
