/* SPDX-License-Identifier: Apache-2.0 */
/* What a report keeps of single calls: the slowest ones with their arguments, and where a program crashed. */
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
