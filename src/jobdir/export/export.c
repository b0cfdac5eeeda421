/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/export/export.h"

#include "base/data/cleanup.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void export_put_field(struct buf *out, const char *text, size_t len);

/* A line a call, in the order in which they end, as RFC 4180 has it (lines end with CR LF). */

static int export_begin(struct exporter *exporter)
{
    buf_puts(&exporter->text,
             "process,thread,depth,function,file,line,start_s,duration_ns,how,args,locals,result,rank,caller,signature,"
             "from_function,from_file,from_line,statics,cpu_ns,waiting_ns,preempted_ns\r\n");
    return 0;
}

static void export_enter(void *ctx, struct call *call, const struct trace_event *event)
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

static void export_leave(void *ctx, struct call *call, const struct trace_event *event)
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

const struct export_format export_csv = {
    .name = "csv",
    .messages = EXPORT_WITH_MESSAGES,
    .begin = export_begin,
    .visitor = {.enter = export_enter, .leave = export_leave},
};

/*
 * A line a message of MPI, in the order in which they were sent, as RFC 4180 has it (lines end with CR LF). Messages
 * with one end only have the columns of the other one empty, and a state that says why.
 */

struct line {
    int64_t time;
    uint32_t rank, index;
    bool got; /* a receive without a send */
};

static int by_time(const void *a, const void *b)
{
    const struct line *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->got != right->got)
        return right->got ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static const char *state_of(uint64_t other, bool got)
{
    if (other == MPI_OTHER_AMBIGUOUS)
        return "ambiguous";
    if (other == MPI_OTHER_FOREIGN)
        return "other_program";
    if (other == MPI_OTHER_FAILED)
        return "failed";
    return other != MPI_OTHER_NONE ? "matched" : got ? "unsent" : "unreceived";
}

static void put_seconds(struct buf *out, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    buf_printf(out, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", size / 1000000000, size % 1000000000);
}

static void put_place(struct buf *out, const struct mpi_messages *messages, const struct mpi_end *end)
{
    if (!end) {
        buf_puts(out, ",,");
        return;
    }
    const struct mpi_place *place = messages->place_list[end->place];
    buf_printf(out, ",%s,", mpi_text_call(place->key.call));
    export_put_field(out, place->where, strlen(place->where));
}

static void put_line(struct exporter *exporter, const struct line *line)
{
    const struct mpi_messages *messages = exporter->messages;
    const struct mpi_message_rank *rank = &messages->ranks[line->rank], *other = NULL;
    const struct mpi_end *own = line->got ? &rank->got[line->index] : &rank->sent[line->index], *peer = NULL;
    struct buf *out = &exporter->text;
    ptrdiff_t at = mpi_messages_at(messages, rank->world, own->comm, own->peer);
    if (at >= 0)
        other = &messages->ranks[at];
    if (other && own->other < MPI_OTHER_FOREIGN)
        peer = &other->got[own->other];
    int32_t far = other ? other->rank : mpi_rank_shown(own->peer);
    const struct mpi_message_rank *from = line->got ? other : rank, *to = line->got ? rank : other;
    const struct mpi_end *sent = line->got ? NULL : own, *got = line->got ? own : peer;
    const char *comm = messages->comm_list[own->comm]->name;
    buf_printf(out, "%" PRIu32 ",%d,%d,", (from ? from : rank)->world + 1, line->got ? far : rank->rank,
               line->got ? rank->rank : far);
    export_put_field(out, comm, strlen(comm));
    buf_printf(out, ",%d,%" PRIu64 ",", own->tag, own->bytes);
    if (sent)
        put_seconds(out, sent->begin);
    buf_putc(out, ',');
    if (got)
        put_seconds(out, got->end);
    buf_putc(out, ',');
    if (sent && got)
        buf_printf(out, "%" PRId64, got->end - sent->begin);
    buf_printf(out, ",%s", state_of(own->other, line->got));
    put_place(out, messages, sent);
    put_place(out, messages, got);
    buf_putc(out, ',');
    if (to)
        buf_printf(out, "%" PRIu32, to->world + 1);
    buf_puts(out, "\r\n");
    export_flush(exporter, false);
}

static bool is_in_window(const struct exporter *exporter, int64_t time)
{
    return time >= exporter->from_ns && time <= exporter->to_ns;
}

static size_t lines_gather(const struct exporter *exporter, struct line *lines)
{
    const struct mpi_messages *messages = exporter->messages;
    size_t count = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        for (size_t k = 0; k < rank->sent_count; k++) {
            if (!is_in_window(exporter, rank->sent[k].begin))
                continue;
            if (lines)
                lines[count] = (struct line){rank->sent[k].begin, (uint32_t)i, (uint32_t)k, false};
            count++;
        }
        for (size_t k = 0; k < rank->got_count; k++) {
            if (rank->got[k].other < MPI_OTHER_FOREIGN || !is_in_window(exporter, rank->got[k].end))
                continue;
            if (lines)
                lines[count] = (struct line){rank->got[k].end, (uint32_t)i, (uint32_t)k, true};
            count++;
        }
    }
    return count;
}

static int write_messages(struct exporter *exporter)
{
    buf_puts(&exporter->text, "program,from,to,comm,tag,bytes,sent_s,received_s,latency_ns,state,send_call,send_at,"
                              "receive_call,receive_at,to_program\r\n");
    size_t count = lines_gather(exporter, NULL);
    _cleanup_(freep) struct line *lines = malloc((count + 1) * sizeof *lines);
    if (!lines)
        return -ENOMEM;
    lines_gather(exporter, lines);
    if (count)
        qsort(lines, count, sizeof *lines, by_time);
    for (size_t i = 0; i < count && !exporter->failed; i++)
        put_line(exporter, &lines[i]);
    return 0;
}

const struct export_format export_messages = {
    .name = "messages",
    .messages = EXPORT_MESSAGES_ONLY,
    .begin = write_messages,
};

/* What the formats share. */

enum { FLUSH = 1 << 16 };

static const struct export_format *const formats[] = {
    &export_chrome,   &export_folded,  &export_folded_cpu, &export_folded_waiting, &export_csv,
    &export_messages, &export_samples, &export_pprof,      &export_speedscope,     &export_spacetime};

const struct export_format *export_format_at(size_t index)
{
    return index < sizeof formats / sizeof *formats ? formats[index] : NULL;
}

const struct export_format *export_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

/* Programs read the text as it is; a terminal is a person's, and obeys some of it. */
static void escape_for_terminal(struct buf *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    for (char *rest = text->data, *line; rest && (line = strsep(&rest, "\n"));) {
        text_show(&shown, line);
        if (rest)
            buf_putc(&shown, '\n');
    }
    buf_clear(text);
    buf_append(text, shown.data, shown.len);
}

void export_flush(struct exporter *exporter, bool all)
{
    struct buf *text = &exporter->text;
    if (text->failed && !exporter->failed) {
        exporter->failed = true;
        exporter->error = ENOMEM;
    }
    if (text->len < (all ? 1 : FLUSH))
        return;
    if (isatty(fileno(exporter->out)))
        escape_for_terminal(text);
    if (!exporter->failed && fwrite(text->data, 1, text->len, exporter->out) != text->len) {
        exporter->failed = true;
        exporter->error = errno;
    }
    buf_clear(text);
}

uint64_t export_ns(const struct exporter *exporter, uint64_t ticks)
{
    if (exporter->messages) {
        int64_t ns = timeline_ns(&exporter->messages->timeline, exporter->number, ticks);
        return ns > 0 ? (uint64_t)ns : 0;
    }
    uint64_t wall = trace_wall_ns(exporter->trace, ticks);
    return wall > exporter->start_ns ? wall - exporter->start_ns : 0;
}

/* A field as RFC 4180 has it: quoted where it has to be. */
static void export_put_field(struct buf *out, const char *text, size_t len)
{
    bool plain = true;
    for (size_t i = 0; i < len && plain; i++)
        plain = text[i] != '"' && text[i] != ',' && text[i] != '\n' && text[i] != '\r';
    if (plain && !(len && (text[0] == ' ' || text[len - 1] == ' '))) {
        buf_append(out, text, len);
        return;
    }
    buf_putc(out, '"');
    for (const char *end = text + len; text < end;) {
        const char *quote = memchr(text, '"', (size_t)(end - text));
        size_t part = quote ? (size_t)(quote - text) + 1 : (size_t)(end - text);
        buf_append(out, text, part);
        if (quote)
            buf_putc(out, '"');
        text += part;
    }
    buf_putc(out, '"');
}

const char *export_program(const struct trace *trace)
{
    const char *exe = trace_value(trace, "exe");
    return exe && *exe ? text_base(exe) : "?";
}
