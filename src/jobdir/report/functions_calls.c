/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls in a report: the slowest ones with their arguments, and where a program crashed. Kept while traces are read; shown. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/text/text.h"

enum {
    SHOWN_TEXT = 400, /* bytes of arguments kept of a slow call */
    SHOWN_FRAMES = 20,
    LIMIT_CRASHES = 100,
};

/* ---- the slowest calls ---- */

static void put_label(struct buf *out, const struct trace *trace, uint32_t id)
{
    char room[32];
    text_show(out, call_name(trace, id, room, sizeof room));
}

/* A call's values stay with it as they were recorded, and only become text if it turns out to be among the slowest. */
void report_call_begins(void *ctx, struct call *call, const struct trace_event *event)
{
    if (!event->layout)
        return;
    call->value = (uintptr_t)event->layout;
    buf_append(&call->text, event->values, event->values_size);
}

/* Returns where a call of MPI came from, or NULL. */
static const struct mpi_stats_site *put_arguments(struct buf *out, const struct reading *reading,
                                                  const struct call *call)
{
    const struct layout *layout = (const struct layout *)(uintptr_t)call->value;
    const struct trace_event begin = {
        .function = call->function, .layout = layout, .values = call->text.data, .values_size = call->text.len};
    const struct mpi_stats_site *site = mpi_trace_site(reading->mpi, &begin);
    size_t start = out->len;
    call_put_values(out, reading->trace, layout, LAYOUT_ARGS, call->text.data, call->text.len);
    if (mpi_trace_is_call(reading->mpi, call->function))
        mpi_trace_show_values(out, start, site != NULL);
    if (out->len > SHOWN_TEXT) {
        out->len = text_fit(out->data, out->len, SHOWN_TEXT);
        buf_puts(out, "...");
    }
    return site;
}

static void slow_call_done(struct job_slow_call *call)
{
    free(call->arguments);
    free(call->result);
    free(call->where);
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
    const struct job_function *function = report_function(reading, call->function);
    if (!function)
        return;
    size_t place = slow_place(all, function, ns);
    if (place == FUNCTIONS_SLOWEST)
        return;
    _cleanup_(buf_done) struct buf arguments = BUF_INIT, result = BUF_INIT, where = BUF_INIT;
    const struct mpi_stats_site *site = put_arguments(&arguments, reading, call);
    if (site)
        mpi_text_site(&where, site);
    call_put_values(&result, reading->trace, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    all->slowest[place] = (struct job_slow_call){.function = function,
                                                 .ns = ns,
                                                 .start_seconds = seconds_of(reading, call->entry_time),
                                                 .pid = trace_pid(reading->trace),
                                                 .tid = event->thread->tid,
                                                 .how = call_how(event->how),
                                                 .arguments = arguments.len ? strdup(arguments.data) : NULL,
                                                 .result = result.len ? strdup(result.data) : NULL,
                                                 .where = where.len ? strdup(where.data) : NULL,
                                                 .who = report_who(reading)};
    all->slowest[place].timed = call_time(reading->trace, call, event, &all->slowest[place].time);
    reading->least_slow_ns = all->slowest_count == FUNCTIONS_SLOWEST ? all->slowest[FUNCTIONS_SLOWEST - 1].ns : 0;
}

static void remember(struct reading *reading, const struct trace_event *event)
{
    size_t index = event->thread->index;
    if (!GROW_ZERO_TO(reading->recent, index + 1, reading->recent_room))
        return;
    struct recent *recent = &reading->recent[index];
    recent->calls[recent->count++ % FUNCTIONS_LAST] =
        (struct ended){event->function, event->how, event->entry_time, event->time};
}

void report_call_ends(void *ctx, struct call *call, const struct trace_event *event)
{
    struct reading *reading = ctx;
    bool dated = event->how != TRACE_OPEN && event->how != TRACE_EXIT_LOST;
    struct job_function *function = dated ? NULL : report_function(reading, call->function);
    if (function) {
        function->open += event->how == TRACE_OPEN;
        function->lost += event->how == TRACE_EXIT_LOST;
    }
    if (event->how != TRACE_OPEN)
        remember(reading, event);
    bool known = event->how != TRACE_EXIT_LOST && (event->how != TRACE_OPEN || event->time != event->entry_time);
    double ns = known ? trace_ticks_ns(reading->trace, event->time - event->entry_time) : 0;
    report_site_call(reading, call, ns);
    if (!known)
        return;
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
        const struct mpi_stats_site *site = put_arguments(&arguments, reading, call);
        buf_printf(&out, "(%s)", arguments.data ? arguments.data : "");
        const char *file = call_file(reading->trace, call->function);
        if (site) {
            buf_puts(&out, "  ");
            mpi_text_site(&out, site);
        } else if (*file) {
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
        text_ns(&out, trace_ticks_ns(reading->trace, call->time - call->entry_time));
        buf_puts(&out, ", ended ");
        text_ns(&out, trace_ticks_ns(reading->trace, event->time - call->time));
        buf_puts(&out, " before\n");
    }
    return out.failed ? (buf_done(&out), NULL) : buf_take(&out);
}

void report_other_event(void *ctx, const struct call *innermost, const struct trace_event *event)
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

void report_calls_free(struct job_functions *all)
{
    for (size_t i = 0; i < all->slowest_count; i++)
        slow_call_done(&all->slowest[i]);
    for (size_t i = 0; i < all->crash_count; i++) {
        free(all->crashes[i].stack);
        free(all->crashes[i].last);
    }
    free(all->crashes);
}

/* Single calls that a report shows: the slowest ones, and those that threads were in when they crashed. */

enum { SHOWN_VALUES = 100 /* characters of a slow call's arguments, and of its result */ };

/* ---- the slowest ---- */

struct slow_row {
    const struct job_slow_call *call;
    const struct job_function *function;
    int32_t world;
    double cpu_ns, waiting_ns, preempted_ns; /* < 0: not known */
};

static const struct field slow_function_fields[] = {{"name", FIELD_TEXT, FIELD_AT(struct job_function, name)},
                                                    {"file", FIELD_TEXT, FIELD_AT(struct job_function, file)},
                                                    {"line", FIELD_COUNT, FIELD_AT(struct job_function, line)},
                                                    {0}};

static const struct field slow_call_fields[] = {
    {"duration_ns", FIELD_NS, FIELD_AT(struct job_slow_call, ns)},
    {"start_seconds", FIELD_SECONDS, FIELD_AT(struct job_slow_call, start_seconds), .about = "since the job's start"},
    {"pid", FIELD_COUNT, FIELD_AT(struct job_slow_call, pid)},
    {"thread", FIELD_COUNT, FIELD_AT(struct job_slow_call, tid)},
    {"how", FIELD_CHOICE, FIELD_AT(struct job_slow_call, how), .choices = "returned|unwound|open"},
    {"arguments", FIELD_TEXT, FIELD_AT(struct job_slow_call, arguments), FIELD_OR_NULL,
     .about = "as text; null: not recorded"},
    {"result", FIELD_TEXT, FIELD_AT(struct job_slow_call, result), FIELD_OR_NULL,
     .about = "as text; null: not recorded"},
    {"where", FIELD_TEXT, FIELD_AT(struct job_slow_call, where), FIELD_OR_NULL,
     .about = "where a call of MPI came from"},
    {"rank", FIELD_INTEGER, FIELD_AT(struct job_slow_call, who.rank), FIELD_NEGATIVE_IS_NULL, .about = "of MPI"},
    {0}};

static const struct field slow_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct slow_row, function), FIELD_POINTER, .of = slow_function_fields},
    {"", FIELD_PART, FIELD_AT(struct slow_row, call), FIELD_POINTER, .of = slow_call_fields},
    {"world", FIELD_INTEGER, FIELD_AT(struct slow_row, world), FIELD_NEGATIVE_IS_NULL,
     .about = "which MPI_COMM_WORLD of the job its rank is of, from 0"},
    {"cpu_ns", FIELD_NS, FIELD_AT(struct slow_row, cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, on a processor; null: that is not known"},
    {"waiting_ns", FIELD_NS, FIELD_AT(struct slow_row, waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, waiting: off the processors by its own will; null: that is not known"},
    {"preempted_ns", FIELD_NS, FIELD_AT(struct slow_row, preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, off the processors though it could have run; null: that is not known"},
    {0}};

static json_t *slowest_json(const void *row, const void *all)
{
    const struct job_functions *functions = row;
    json_t *list = json_array();
    for (size_t i = 0; i < functions->slowest_count; i++) {
        const struct job_slow_call *call = &functions->slowest[i];
        struct slow_row slow = {call, call->function, (int32_t)call->who.program - 1, -1, -1, -1};
        if (call->timed) {
            slow.cpu_ns = call->time.cpu_ns;
            slow.waiting_ns = call->time.waiting_ns;
            slow.preempted_ns = call->time.preempted_ns;
        }
        json_array_append_new(list, fields_json(slow_fields, &slow, row));
    }
    return list;
}

/* As far as they fit into a line that people read; --json has more of them. */
static void put_values(struct buf *out, const char *before, const char *values, const char *behind)
{
    size_t len = values ? strlen(values) : 0, shown = len ? text_fit(values, len, SHOWN_VALUES) : 0;
    buf_printf(out, "%s%.*s%s%s", before, (int)shown, len ? values : "", shown < len ? "..." : "", behind);
}

static void put_slowest(struct buf *out, const struct job_functions *functions)
{
    if (!functions->slowest_count)
        return;
    buf_printf(out, "\nSlowest calls, at most %d of a function\n", FUNCTIONS_SLOWEST_EACH);
    report_put_not_whole(out, functions, false);
    for (size_t i = 0; i < functions->slowest_count; i++) {
        const struct job_slow_call *call = &functions->slowest[i];
        text_ns_in(out, call->ns, 11);
        buf_printf(out, "  at %.6f s  ", call->start_seconds);
        text_function(out, call->function->name, call->function->file);
        put_values(out, "(", call->arguments, ")");
        if (call->result)
            put_values(out, " = ", call->result, "");
        if (call->timed && call->time.cpu_ns < 0.9 * call->ns) {
            buf_puts(out, "  ");
            call_put_time(out, &call->time);
        }
        report_put_source(out, call->function);
        if (call->where)
            buf_printf(out, "  %s", call->where);
        if (strcmp(call->how, "returned") != 0)
            buf_printf(out, "  %s", strcmp(call->how, "open") == 0 ? "still open at the end" : call->how);
        buf_puts(out, call->who.rank >= 0 ? "  " : "");
        if (call->who.rank >= 0)
            mpi_text_who(out, report_shown_who(functions, call->who));
        else if (functions->processes > 1 || call->tid != (uint32_t)call->pid)
            buf_printf(out, "  pid %d", (int)call->pid);
        if (call->tid != (uint32_t)call->pid)
            buf_printf(out, " thread %u", call->tid);
        buf_putc(out, '\n');
    }
}

/* ---- crashes are shown ---- */

static json_t *lines_json(const char *lines)
{
    json_t *list = json_array();
    for (const char *line = lines; line && *line;) {
        const char *end = strchr(line, '\n');
        _cleanup_(freep) char *copy = end ? strndup(line, (size_t)(end - line)) : strdup(line);
        json_array_append_new(list, text_json(copy));
        line = end ? end + 1 : NULL;
    }
    return list;
}

static json_t *open_calls_json(const void *row, const void *all)
{
    return lines_json(((const struct job_crash_calls *)row)->stack);
}

static json_t *last_calls_json(const void *row, const void *all)
{
    return lines_json(((const struct job_crash_calls *)row)->last);
}

static const struct field crash_fields[] = {
    {"pid", FIELD_COUNT, FIELD_AT(struct job_crash_calls, pid)},
    {"thread", FIELD_COUNT, FIELD_AT(struct job_crash_calls, tid)},
    {"signal", FIELD_COUNT, FIELD_AT(struct job_crash_calls, signal)},
    {"address", FIELD_INTEGER, FIELD_AT(struct job_crash_calls, address)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct job_crash_calls, seconds), .about = "since the job's start"},
    {"open_calls", FIELD_LIST, .json = open_calls_json, .of = fields_texts, .about = "innermost first"},
    {"last_calls", FIELD_LIST, .json = last_calls_json, .of = fields_texts,
     .about = "that ended before, the latest first"},
    {0}};

static void put_lines(struct buf *out, const char *lines)
{
    for (const char *line = lines; line && *line;) {
        const char *end = strchr(line, '\n');
        int len = end ? (int)(end - line) : (int)strlen(line);
        buf_printf(out, "    %.*s\n", len, line);
        line = end ? end + 1 : NULL;
    }
}

bool job_functions_crash(struct buf *out, const struct job_functions *functions, pid_t pid, size_t most)
{
    for (size_t i = 0; functions && i < functions->crash_count; i++) {
        const char *line = functions->crashes[i].stack;
        if (functions->crashes[i].pid != pid || !line || !*line)
            continue;
        for (size_t shown = 0; most && line && *line; shown++) {
            const char *end = strchr(line, '\n');
            if (shown == most && end && end[1]) {
                buf_puts(out, "    ... and those around it\n");
                break;
            }
            size_t len = end ? (size_t)(end - line) : strlen(line), room = text_fit(line, len, SHOWN_VALUES);
            buf_printf(out, "    %s %.*s%s\n", shown ? "in" : "  ", (int)room, line, room < len ? "..." : "");
            line = end ? end + 1 : NULL;
        }
        return true;
    }
    return false;
}

static void put_crashes(struct buf *out, const struct job_functions *functions)
{
    for (size_t i = 0; i < functions->crash_count; i++) {
        const struct job_crash_calls *crash = &functions->crashes[i];
        char name[32];
        buf_printf(out, "\nCrash of process %d, thread %u: %s at %.6f s, address 0x%" PRIx64 "\n", (int)crash->pid,
                   crash->tid, text_signal(crash->signal, name, sizeof name), crash->seconds, crash->address);
        if (crash->stack && crash->stack[0])
            buf_puts(out, "  open calls, the innermost first\n");
        put_lines(out, crash->stack);
        if (crash->last && crash->last[0])
            buf_puts(out, "  the last ones that ended\n");
        put_lines(out, crash->last);
    }
}

void report_slowest_text(struct buf *out, const struct job_functions *functions)
{
    put_slowest(out, functions);
    put_crashes(out, functions);
}

/* Of a struct job_functions. */
const struct field report_slowest_fields[] = {
    {"slowest_calls", FIELD_LIST, .json = slowest_json, .of = slow_fields,
     .about = "the ten that took longest, at most three of a function"},
    {"crash_calls", FIELD_LIST, FIELD_ROWS(struct job_functions, crashes, crash_count), .of = crash_fields,
     .about = "of traced threads that got a fatal signal"},
    {0}};
