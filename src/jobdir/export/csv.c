/* SPDX-License-Identifier: Apache-2.0 */
/* A line a call, in the order in which they end, as RFC 4180 has it (lines end with CR LF). */
#include <inttypes.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/export/export.h"

static int begin(struct exporter *exporter)
{
    buf_puts(&exporter->text,
             "process,thread,depth,function,file,line,start_s,duration_ns,how,args,locals,result,rank,caller,signature,"
             "from_function,from_file,from_line,statics,cpu_ns,waiting_ns,preempted_ns\r\n");
    return 0;
}

static void enter(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    call->site = mpi_trace_site(exporter->mpi, event);
    call_put_values(&call->text, exporter->trace, event->layout, LAYOUT_ARGS, event->values, event->values_size);
    if (mpi_trace_is_call(exporter->mpi, call->function))
        mpi_trace_show_values(&call->text, 0, call->site != NULL);
}

static void put_values(struct exporter *exporter, const struct trace_event *event, enum layout_part part)
{
    _cleanup_(buf_done) struct buf values = BUF_INIT;
    call_put_values(&values, exporter->trace, event->layout, part, event->values, event->values_size);
    buf_putc(&exporter->text, ',');
    export_put_field(&exporter->text, values.data ? values.data : "", values.len);
}

/* Who made the call, recorded or not; else the recorded call around it. */
static void put_caller(struct exporter *exporter, const struct call *call, const struct trace_event *event)
{
    char room[32];
    const char *caller = call->caller_layout ? layout_function(call->caller_layout, LAYOUT_CALLER) : NULL;
    if (!caller && event->caller != UINT32_MAX)
        caller = call_name(exporter->trace, event->caller, room, sizeof room);
    if (!caller)
        caller = call->site ? call->site->function : "";
    buf_putc(&exporter->text, ',');
    export_put_field(&exporter->text, caller, strlen(caller));
}

static void leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    struct buf *out = &exporter->text;
    const struct trace_function *known = trace_function(exporter->trace, call->function);
    char room[32];
    const char *name = call_name(exporter->trace, call->function, room, sizeof room);
    uint64_t start = export_ns(exporter, event->entry_time);
    buf_printf(out, "%d,%u,%u,", (int)trace_pid(exporter->trace), call->thread->tid, call->depth);
    export_put_field(out, name, strlen(name));
    buf_putc(out, ',');
    const struct mpi_stats_site *site = call->site; /* of a call of MPI: where it came from */
    const char *file = site ? site->file : known ? known->file : "";
    uint32_t line = site ? site->line : known ? known->line : 0;
    export_put_field(out, file, strlen(file));
    buf_printf(out, ",%u,%" PRIu64 ".%09" PRIu64 ",", line, start / 1000000000, start % 1000000000);
    if (event->how != TRACE_EXIT_LOST)
        buf_printf(out, "%.0f", trace_ticks_ns(exporter->trace, event->time - event->entry_time));
    buf_printf(out, ",%s,", call_how(event->how));
    export_put_field(out, call->text.data ? call->text.data : "", call->text.len);
    put_values(exporter, event, LAYOUT_LOCALS);
    put_values(exporter, event, LAYOUT_RESULT);
    if (mpi_trace_number(exporter->mpi) >= 0)
        buf_printf(out, ",%d", mpi_trace_number(exporter->mpi));
    else
        buf_putc(out, ',');
    put_caller(exporter, call, event);
    _cleanup_(buf_done) struct buf signature = BUF_INIT;
    if (!mpi_trace_is_call(exporter->mpi, call->function)) /* whose values are chosen, not declared */
        call_put_signature(&signature, exporter->trace, call, event);
    buf_putc(out, ',');
    export_put_field(out, signature.data ? signature.data : "", signature.len);
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(exporter->trace, call->place);
    buf_putc(out, ',');
    export_put_field(out, place ? place->caller : "", place ? strlen(place->caller) : 0);
    buf_putc(out, ',');
    export_put_field(out, place ? place->file : "", place ? strlen(place->file) : 0);
    buf_putc(out, ',');
    if (place && place->line)
        buf_printf(out, "%" PRIu32, place->line);
    put_values(exporter, event, LAYOUT_STATICS);
    struct call_time time;
    if (call_time(exporter->trace, call, event, &time))
        buf_printf(out, ",%.0f,%.0f,%.0f\r\n", time.cpu_ns, time.waiting_ns, time.preempted_ns);
    else
        buf_puts(out, ",,,\r\n");
    export_flush(exporter, false);
}

static void other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
}

const struct export_format export_csv = {
    .name = "csv",
    .messages = EXPORT_WITH_MESSAGES,
    .begin = begin,
    .visitor = {.enter = enter, .leave = leave, .other = other},
};
