/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/export/replay.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct replay_line {
    struct call *call; /* that waits; NULL: it is `text` */
    struct buf text;
    struct replay_line *previous, *next;
};

struct replay {
    struct replay_options options;
    const struct trace *trace;
    struct calls *calls;
    struct call_visitor visitor;
    uint64_t hold_ticks, min_ticks;
    struct replay_line *first, *last; /* that are not printed yet, in the order of their times */
    struct buf out;
    FILE *file;
    bool failed;
};

/* A trace for programs: a JSON object a line for each call when it ends, and for each event. */

static void put_json_head(struct replay *replay, const struct trace_event *event, uint64_t ticks)
{
    uint64_t wall = trace_wall_ns(replay->trace, ticks);
    buf_printf(&replay->out, "{\"process\":%d,\"node\":", (int)trace_pid(replay->trace));
    const char *node = trace_node(replay->trace);
    call_put_string(&replay->out, node, strlen(node));
    if (mpi_trace_number(replay->options.mpi) >= 0)
        buf_printf(&replay->out, ",\"rank\":%d", mpi_trace_number(replay->options.mpi));
    buf_printf(
        &replay->out, ",\"thread\":%u,\"stack\":%u,\"start_seconds\":%s%.9f", event->thread->tid, event->stack,
        wall < replay->options.start_ns ? "-" : "",
        (double)(wall < replay->options.start_ns ? replay->options.start_ns - wall : wall - replay->options.start_ns) /
            1e9);
}

static void put_json_part(struct buf *out, const struct trace *trace, const char *name, const struct layout *layout,
                          enum layout_part part, const void *bytes, size_t size)
{
    size_t before = out->len;
    buf_printf(out, ",\"%s\":", name);
    if (!call_put_json(out, trace, layout, part, bytes, size)) {
        out->len = before;
        return;
    }
    buf_printf(out, ",\"%s_values\":", name);
    call_put_json_values(out, trace, layout, part, bytes, size);
}

static void json_enter(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    call->site = mpi_trace_site(replay->options.mpi, event);
    put_json_part(&call->text, replay->trace, "args", event->layout, LAYOUT_ARGS, event->values, event->values_size);
    put_json_part(&call->text, replay->trace, "caller_locals", event->caller_layout, LAYOUT_CALLER,
                  event->caller_values, event->caller_size);
    const char *caller = event->caller_layout ? layout_function(event->caller_layout, LAYOUT_CALLER) : NULL;
    if (caller) {
        buf_puts(&call->text, ",\"caller_locals_of\":");
        call_put_string(&call->text, caller, strlen(caller));
    }
}

static void json_leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    struct buf *out = &replay->out;
    char room[32];
    if (event->time - event->entry_time < replay->min_ticks && event->how == TRACE_RETURNED)
        return;
    put_json_head(replay, event, call->entry_time);
    const char *name = call_name(replay->trace, call->function, room, sizeof room);
    const struct trace_function *known = trace_function(replay->trace, call->function);
    buf_printf(out, ",\"depth\":%u,\"event\":\"call\",\"function\":", call->depth);
    call_put_string(out, name, strlen(name));
    const struct mpi_stats_site *site = call->site;
    const char *file = site ? site->file : known ? known->file : "";
    buf_puts(out, ",\"file\":");
    call_put_string(out, file, strlen(file));
    buf_printf(out, ",\"line\":%u,\"caller\":", site ? site->line : known ? known->line : 0);
    if (event->caller == UINT32_MAX && site && *site->function) {
        call_put_string(out, site->function, strlen(site->function));
    } else if (event->caller == UINT32_MAX) {
        buf_puts(out, "null");
    } else {
        name = call_name(replay->trace, event->caller, room, sizeof room);
        call_put_string(out, name, strlen(name));
    }
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(replay->trace, call->place);
    if (place) {
        buf_puts(out, ",\"from_function\":");
        call_put_string(out, place->caller, strlen(place->caller));
        buf_puts(out, ",\"from_file\":");
        call_put_string(out, place->file, strlen(place->file));
        buf_printf(out, ",\"from_line\":%" PRIu32 ",\"from_module\":", place->line);
        call_put_string(out, place->module, strlen(place->module));
        buf_printf(out, ",\"from_offset\":%" PRIu64, place->offset);
    }
    if (event->how == TRACE_EXIT_LOST)
        buf_puts(out, ",\"duration_ns\":null");
    else
        buf_printf(out, ",\"duration_ns\":%.0f", trace_ticks_ns(replay->trace, event->time - event->entry_time));
    struct call_time time;
    if (call_time(replay->trace, call, event, &time))
        buf_printf(out, ",\"cpu_ns\":%.0f,\"waiting_ns\":%.0f,\"preempted_ns\":%.0f", time.cpu_ns, time.waiting_ns,
                   time.preempted_ns);
    buf_printf(out, ",\"how\":\"%s\",\"beginning_recorded\":%s", call_how(event->how),
               event->alone || call->from_exit ? "false" : "true");
    buf_append(out, call->text.data ? call->text.data : "", call->text.len);
    _cleanup_(buf_done) struct buf signature = BUF_INIT;
    if (!mpi_trace_is_call(replay->options.mpi, call->function) &&
        call_put_signature(&signature, replay->trace, call, event) && signature.data) {
        buf_puts(out, ",\"signature\":");
        call_put_string(out, signature.data, signature.len);
    }
    put_json_part(out, replay->trace, "locals", event->layout, LAYOUT_LOCALS, event->values, event->values_size);
    put_json_part(out, replay->trace, "result", event->layout, LAYOUT_RESULT, event->values, event->values_size);
    put_json_part(out, replay->trace, "statics", event->layout, LAYOUT_STATICS, event->values, event->values_size);
    buf_puts(out, "}\n");
}

static void put_json_message(struct replay *replay, const struct trace_event *event)
{
    static const char *const kinds[] = {
        [MESSAGE_SENT] = "sent",
        [MESSAGE_RECEIVED] = "received",
        [MESSAGE_COLLECTIVE] = "collective",
        [MESSAGE_COLLECTIVE_DONE] = "collective_done",
        [MESSAGE_UNSENT] = "unsent",
        [MESSAGE_BEGIN] = "begin",
        [MESSAGE_SENT_BEFORE] = "sent_before",
        [MESSAGE_RECEIVED_BEFORE] = "received_before",
        [MESSAGE_PROBED] = "probed",
        [MESSAGE_POSTED] = "posted",
        [MESSAGE_SENT_DONE] = "sent_done",
        [MESSAGE_FREED] = "freed",
    };
    const struct record_message *message = event->message;
    put_json_head(replay, event, event->time);
    buf_printf(&replay->out, ",\"event\":\"message\",\"kind\":\"%s\",\"call\":\"%s\",\"comm\":\"%016" PRIx64 "\"",
               kinds[message->kind], mpi_text_call(message->call), message->comm);
    _cleanup_(buf_done) struct buf comm = BUF_INIT;
    mpi_trace_comm(&comm, replay->options.mpi, message->comm);
    if (comm.len) {
        buf_puts(&replay->out, ",\"comm_name\":");
        call_put_string(&replay->out, comm.data, comm.len);
    }
    if (message->peer >= 0)
        buf_printf(&replay->out, ",\"peer\":%d", message->peer);
    else
        buf_puts(&replay->out, ",\"peer\":null");
    if (message->kind <= MESSAGE_RECEIVED || (message->kind >= MESSAGE_PROBED && message->tag >= 0))
        buf_printf(&replay->out, ",\"tag\":%d", message->tag);
    buf_printf(&replay->out, ",\"bytes\":%" PRIu64 ",\"order\":%" PRIu64 "}\n", message->bytes, message->order);
}

static void json_other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
    struct replay *replay = ctx;
    struct buf *out = &replay->out;
    char room[32];
    if (event->kind == TRACE_MESSAGE) {
        if (innermost && innermost->shown)
            put_json_message(replay, event);
        return;
    }
    put_json_head(replay, event, event->time);
    if (event->kind == TRACE_SIGNAL) {
        buf_printf(out, ",\"event\":\"signal\",\"signal\":%d,\"code\":%d,\"address\":%" PRIu64 ",\"pc\":%" PRIu64,
                   event->number, event->code, event->address, event->pc);
    } else if (event->kind == TRACE_MARK) {
        buf_puts(out, ",\"event\":\"mark\",\"text\":");
        call_put_string(out, event->text, event->text_len);
    } else if (event->kind == TRACE_GAP) {
        buf_printf(out, ",\"event\":\"gap\",\"missing\":%" PRIu64, event->lost);
    } else {
        const char *name = call_name(replay->trace, event->function, room, sizeof room);
        buf_puts(out, ",\"event\":\"thinned\",\"function\":");
        call_put_string(out, name, strlen(name));
    }
    buf_puts(out, "}\n");
}

static const struct call_visitor replay_json = {.enter = json_enter, .leave = json_leave, .other = json_other};

/*
 * The beginning of a call waits until it is known whether it stands alone on its line: for its end, a call inside it,
 * or for a moment (HOLD_NS; if short calls are left out, until it is not one). Meanwhile later lines, of other threads,
 * wait behind it in a list, so that all are in the order of their times. When nothing comes any more (replay_idle), no
 * line waits.
 */

enum {
    HOLD_NS = 1000000,
    INDENT = 2,
    DEEPEST = 40, /* levels that are indented */
    FLUSH = 1 << 16,
    MESSAGES_SHOWN = 4, /* of one call */
};

enum mark { WAITING = 1, OPENED };

/* ---- pieces of a line ---- */

static void put_dim(const struct replay *replay, struct buf *out, bool on)
{
    if (replay->options.colour)
        buf_puts(out, on ? TEXT_FAINT : TEXT_PLAIN);
}

static void alarm_colour(struct replay *replay, bool on)
{
    if (replay->options.colour)
        buf_puts(&replay->out, on ? TEXT_RED : TEXT_PLAIN);
}

static void put_wall(struct replay *replay, uint64_t wall)
{
    put_dim(replay, &replay->out, true);
    if (replay->options.full_times) {
        char text[32];
        time_t seconds = (time_t)(wall / NS_PER_SECOND);
        struct tm tm;
        localtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%H:%M:%S", &tm);
        buf_printf(&replay->out, "%s.%09" PRIu64, text, wall % NS_PER_SECOND);
    } else {
        bool before = wall < replay->options.start_ns;
        uint64_t ns = before ? replay->options.start_ns - wall : wall - replay->options.start_ns;
        buf_printf(&replay->out, "%s%*" PRIu64 ".%06" PRIu64, before ? "-" : "", before ? 3 : 4, ns / NS_PER_SECOND,
                   ns % NS_PER_SECOND / 1000);
    }
    put_dim(replay, &replay->out, false);
}

static void put_time(struct replay *replay, uint64_t ticks)
{
    put_wall(replay, trace_wall_ns(replay->trace, ticks));
}

static void put_start(struct replay *replay, uint64_t ticks, const struct trace_thread *thread, uint32_t stack,
                      uint32_t depth)
{
    char name[32];
    put_time(replay, ticks);
    if (replay->options.threads || stack) {
        int len = snprintf(name, sizeof name, stack ? "[%u/%u]" : "[%u]", thread->tid, stack);
        buf_printf(&replay->out, "  %s%*s", name, len < 9 ? 9 - len : 0, "");
    }
    size_t columns = replay->options.columns;
    uint32_t deepest = columns && columns / 4 < DEEPEST ? (uint32_t)columns / 4 : DEEPEST;
    uint32_t levels = depth < deepest ? depth : deepest;
    buf_printf(&replay->out, "%*s", (int)(2 + INDENT * levels), "");
    if (depth > deepest)
        buf_printf(&replay->out, "(+%u) ", depth - deepest);
}

static void put_duration(struct replay *replay, uint64_t ticks)
{
    buf_puts(&replay->out, "  ");
    if (replay->options.full_times)
        buf_printf(&replay->out, "%.0f ns", trace_ticks_ns(replay->trace, ticks));
    else
        text_ns(&replay->out, trace_ticks_ns(replay->trace, ticks));
}

/* That it was not on a processor all the time, if that is worth a word. */
static void put_off(struct replay *replay, const struct call *call, const struct trace_event *event)
{
    struct call_time time;
    if (!call_time(replay->trace, call, event, &time) ||
        time.waiting_ns + time.preempted_ns < (time.cpu_ns + time.waiting_ns + time.preempted_ns) / 10)
        return;
    buf_puts(&replay->out, " (");
    call_put_time(&replay->out, &time);
    buf_putc(&replay->out, ')');
}

/* Where the function is, and where it was called; of a call of MPI only that. */
static void put_source(struct replay *replay, const struct call *call)
{
    const struct trace_function *known = trace_function(replay->trace, call->function);
    const char *file = call_file(replay->trace, call->function);
    if (call->site) {
        buf_puts(&replay->out, "  ");
        put_dim(replay, &replay->out, true);
        mpi_text_site(&replay->out, call->site);
        put_dim(replay, &replay->out, false);
        return;
    }
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    call_put_place(&place, replay->trace, call, false);
    if (!*file && !place.len)
        return;
    buf_puts(&replay->out, "  ");
    put_dim(replay, &replay->out, true);
    text_show(&replay->out, file);
    if (*file && known->line)
        buf_printf(&replay->out, ":%" PRIu32, known->line);
    if (place.len)
        buf_printf(&replay->out, "%sfrom %.*s", *file ? " " : "", (int)place.len, place.data);
    put_dim(replay, &replay->out, false);
}

/* Types are those of the values: of a call of MPI they are chosen, not declared. */
static void put_signature(struct replay *replay, const struct call *call, const struct trace_event *event)
{
    _cleanup_(buf_done) struct buf signature = BUF_INIT;
    if (!replay->options.types || mpi_trace_is_call(replay->options.mpi, call->function) ||
        !call_put_signature(&signature, replay->trace, call, event) || !signature.data)
        return;
    buf_puts(&replay->out, "  ");
    put_dim(replay, &replay->out, true);
    text_show(&replay->out, signature.data);
    put_dim(replay, &replay->out, false);
}

static void put_name(struct buf *out, const struct trace *trace, uint32_t function)
{
    char room[32];
    text_function(out, call_name(trace, function, room, sizeof room), call_file(trace, function));
}

/* Cuts what begins at `start` to as much as may be. */
static void cut_values(struct replay *replay, struct buf *out, size_t start)
{
    size_t room = replay->options.value_columns;
    if (!room)
        return;
    size_t len = out->len - start;
    if (out->data && text_fit(out->data + start, len, room) < len) {
        out->len = start + text_fit(out->data + start, len, room > 3 ? room - 3 : 1);
        buf_puts(out, "...");
    }
}

/* Values, as long as they may be. */
static void put_values(struct replay *replay, struct buf *out, const struct layout *layout, enum layout_part part,
                       const void *bytes, size_t size)
{
    size_t start = out->len;
    struct layout_style style = {.name_address = trace_name_address,
                                 .ctx = (void *)(uintptr_t)replay->trace,
                                 .known_first = replay->options.value_columns != 0};
    if (layout)
        layout_format(layout, part, bytes, size, &style, out);
    cut_values(replay, out, start);
}

/* Arguments. Where a call of MPI came from stands at the end of its line, if that is known. */
static void put_args(struct replay *replay, struct call *call, const struct trace_event *event)
{
    struct layout_style style = {.name_address = trace_name_address,
                                 .ctx = (void *)(uintptr_t)replay->trace,
                                 .known_first = replay->options.value_columns != 0};
    size_t start = call->text.len;
    call->site = mpi_trace_site(replay->options.mpi, event);
    if (event->layout)
        layout_format(event->layout, LAYOUT_ARGS, event->values, event->values_size, &style, &call->text);
    if (mpi_trace_is_call(replay->options.mpi, call->function))
        mpi_trace_show_values(&call->text, start, call->site != NULL);
    cut_values(replay, &call->text, start);
}

/* `  word{name = value, ...}`, or nothing if there are none. */
static void put_group(struct replay *replay, struct buf *out, const char *word, const struct layout *layout,
                      enum layout_part part, const void *bytes, size_t size)
{
    if (!layout || !layout_has(layout, part))
        return;
    size_t before = out->len;
    buf_printf(out, "  %s{", word);
    size_t start = out->len;
    put_values(replay, out, layout, part, bytes, size);
    if (out->len == start)
        out->len = before;
    else
        buf_putc(out, '}');
}

/* The monitor was started again, and the trace with the rest is not there. */
static bool is_continued(const struct trace *trace)
{
    const char *state = trace_value(trace, "state");
    return state && strcmp(state, "continued") == 0;
}

/* How the call ended: locals, result, and what is unusual. */
static void put_end(struct replay *replay, const struct call *call, const struct trace_event *event)
{
    put_group(replay, &replay->out, "", event->layout, LAYOUT_LOCALS, event->values, event->values_size);
    if (event->layout && layout_has(event->layout, LAYOUT_RESULT)) {
        buf_puts(&replay->out, "  = ");
        put_values(replay, &replay->out, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    }
    put_group(replay, &replay->out, "static ", event->layout, LAYOUT_STATICS, event->values, event->values_size);
    if (event->how == TRACE_EXIT_LOST) {
        buf_puts(&replay->out, "  returned, when is not known: the record was lost");
        return;
    }
    if (event->how == TRACE_UNWOUND)
        buf_puts(&replay->out, "  unwound (exception, longjmp or end of the thread)");
    else if (event->how == TRACE_OPEN && is_continued(replay->trace))
        buf_puts(&replay->out, "  goes on in a later trace, which is not there");
    else if (event->how == TRACE_OPEN)
        buf_puts(&replay->out, "  still open at the end");
    if (event->how != TRACE_OPEN || event->time > event->entry_time) /* else it is not known */
        put_duration(replay, event->time - event->entry_time);
    put_off(replay, call, event);
    if (event->alone)
        buf_puts(&replay->out, "  (its beginning was not recorded)");
}

/* ---- lines in the order of their times ---- */

static struct replay_line *line_add(struct replay *replay, struct call *call)
{
    struct replay_line *line = calloc(1, sizeof *line);
    if (!line) {
        replay->out.failed = true;
        return NULL;
    }
    *line = (struct replay_line){.call = call, .previous = replay->last};
    *(replay->last ? &replay->last->next : &replay->first) = line;
    replay->last = line;
    return line;
}

static void line_remove(struct replay *replay, struct replay_line *line)
{
    *(line->previous ? &line->previous->next : &replay->first) = line->next;
    *(line->next ? &line->next->previous : &replay->last) = line->previous;
    buf_done(&line->text);
    free(line);
}

/* Prints those that are whole, from the first on up to one that waits; `all`: also behind that. */
static void lines_print(struct replay *replay, bool all)
{
    for (struct replay_line *line = replay->first, *next; line && (all || !line->call); line = next) {
        next = line->next;
        if (line->call)
            continue;
        buf_append(&replay->out, line->text.data ? line->text.data : "", line->text.len);
        replay->out.failed |= line->text.failed;
        line_remove(replay, line);
    }
}

/* The line is what was written from `start` on, which stays where it is if no line before it waits. */
static void line_end(struct replay *replay, struct replay_line *line, size_t start)
{
    if (!line)
        return;
    line->call = NULL;
    if (line != replay->first && replay->out.len > start) {
        buf_append(&line->text, replay->out.data + start, replay->out.len - start);
        replay->out.len = start;
    } else if (line != replay->first) {
        line_remove(replay, line);
    } else {
        line_remove(replay, line);
        lines_print(replay, false);
    }
}

static void wait_for_end(struct replay *replay, struct call *call)
{
    call->mark = WAITING;
    call->line = line_add(replay, call);
}

static void put_beginning(struct replay *replay, struct call *call)
{
    size_t start = replay->out.len;
    call->mark = OPENED;
    put_start(replay, call->entry_time, call->thread, call->stack, call->depth);
    buf_append(&replay->out, call->text.data, call->text.len);
    buf_clear(&call->text); /* messages that come yet stand at the end */
    put_source(replay, call);
    buf_putc(&replay->out, '\n');
    line_end(replay, call->line, start);
    call->line = NULL;
}

/* Those around this one that wait, the outermost first. */
static void put_beginnings_around(struct replay *replay, const struct call *call)
{
    size_t count = 0;
    for (const struct call *around = call->around; around && around->mark == WAITING; around = around->around)
        count++;
    if (count == 1)
        put_beginning(replay, call->around);
    if (count < 2)
        return;
    _cleanup_(freep) struct call **waiting = calloc(count, sizeof(struct call *));
    if (!waiting) {
        replay->out.failed = true;
        return;
    }
    size_t at = count;
    for (struct call *around = call->around; at; around = around->around)
        waiting[--at] = around;
    for (; at < count; at++)
        put_beginning(replay, waiting[at]);
}

static void put_overdue(struct replay *replay, uint64_t now)
{
    /* a line that is whole is never the first */
    while (replay->first && now > replay->first->call->entry_time &&
           now - replay->first->call->entry_time >= replay->hold_ticks)
        put_beginning(replay, replay->first->call);
}

/* ---- text ---- */

/* The function that made a call, which need not be recorded itself, and its locals. */
static void put_caller(struct replay *replay, struct buf *out, const struct trace_event *event)
{
    _cleanup_(buf_done) struct buf locals = BUF_INIT;
    put_values(replay, &locals, event->caller_layout, LAYOUT_CALLER, event->caller_values, event->caller_size);
    if (!locals.len)
        return;
    const char *name = layout_function(event->caller_layout, LAYOUT_CALLER);
    buf_puts(out, "  in ");
    text_show(out, name ? name : "the caller");
    buf_printf(out, " {%s}", locals.data);
}

static void text_enter(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    put_overdue(replay, event->time);
    if (!replay->min_ticks)
        put_beginnings_around(replay, call);
    put_name(&call->text, replay->trace, call->function);
    buf_putc(&call->text, '(');
    put_args(replay, call, event);
    buf_putc(&call->text, ')');
    put_caller(replay, &call->text, event);
    wait_for_end(replay, call);
}

static void text_leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct replay *replay = ctx;
    put_overdue(replay, event->time);
    bool brief = event->time - event->entry_time < replay->min_ticks && event->how == TRACE_RETURNED;
    bool waiting = call->mark == WAITING;
    if (brief && waiting)
        line_end(replay, call->line, replay->out.len);
    if (brief)
        return;
    if (waiting || event->alone)
        put_beginnings_around(replay, call);
    struct replay_line *line = waiting ? call->line : line_add(replay, NULL);
    size_t start = replay->out.len;
    put_start(replay, waiting ? call->entry_time : event->time, call->thread, call->stack, call->depth);
    if (waiting) {
        buf_append(&replay->out, call->text.data, call->text.len);
    } else {
        buf_puts(&replay->out, "end of ");
        put_name(&replay->out, replay->trace, call->function);
        if (!event->alone)
            buf_append(&replay->out, call->text.data, call->text.len);
    }
    if (call->value > MESSAGES_SHOWN)
        buf_printf(&replay->out, "  and %" PRIu64 " more", call->value - MESSAGES_SHOWN);
    put_end(replay, call, event);
    if (waiting || event->alone)
        put_source(replay, call);
    put_signature(replay, call, event);
    buf_putc(&replay->out, '\n');
    line_end(replay, line, start);
}

static void put_signal(struct replay *replay, const struct trace_event *event)
{
    char name[32];
    alarm_colour(replay, true);
    buf_printf(&replay->out, "%s (%s)", text_signal(event->number, name, sizeof name), strsignal(event->number));
    alarm_colour(replay, false);
    if (event->number == SIGSEGV || event->number == SIGBUS)
        buf_printf(&replay->out, " at address 0x%" PRIx64, event->address);
    _cleanup_(buf_done) struct buf where = BUF_INIT;
    if (event->pc && trace_name_address((void *)(uintptr_t)replay->trace, event->pc, &where) && where.data) {
        buf_puts(&replay->out, ", in ");
        text_show(&replay->out, where.data);
    } else if (event->pc) {
        buf_printf(&replay->out, ", at instruction 0x%" PRIx64, event->pc);
    }
}

static void put_mark(struct replay *replay, const struct trace_event *event)
{
    _cleanup_(freep) char *text = strndup(event->text, event->text_len);
    buf_puts(&replay->out, "-- ");
    if (text)
        text_show(&replay->out, text);
}

/* What the call sends, receives or takes part in stands on its line. */
static void put_message(struct replay *replay, struct call *call, const struct record_message *message)
{
    struct buf *out = &call->text;
    if (message->kind > MESSAGE_UNSENT || call->value++ >= MESSAGES_SHOWN)
        return; /* counts of what was before the trace */
    buf_puts(out, "  ");
    put_dim(replay, out, true);
    if (message->kind == MESSAGE_SENT || message->kind == MESSAGE_RECEIVED) {
        buf_puts(out, message->kind == MESSAGE_SENT ? "-> " : "<- ");
        mpi_text_rank(out, message->peer);
        buf_printf(out, " tag %d %" PRIu64 " bytes", message->tag, message->bytes);
    } else if (message->kind == MESSAGE_UNSENT) {
        buf_puts(out, "not sent");
    } else {
        buf_printf(out, "%s number %" PRIu64,
                   message->kind == MESSAGE_COLLECTIVE ? "all:" : "all are done:", message->order);
        if (message->kind == MESSAGE_COLLECTIVE && message->bytes)
            buf_printf(out, " %" PRIu64 " bytes", message->bytes);
    }
    put_dim(replay, out, false);
}

static void text_other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
    struct replay *replay = ctx;
    put_overdue(replay, event->time);
    if (event->kind == TRACE_MESSAGE) {
        if (innermost && innermost->shown)
            put_message(replay, (struct call *)(uintptr_t)innermost, event->message);
        return;
    }
    while (!replay->min_ticks && replay->first)
        put_beginning(replay, replay->first->call);
    uint32_t depth = innermost ? innermost->depth + innermost->shown : 0;
    if (event->kind == TRACE_SIGNAL && innermost) /* what led there is shown, however short it was */
        put_beginnings_around(replay, &(struct call){.around = innermost->shown ? (struct call *)(uintptr_t)innermost
                                                                                : innermost->around});
    struct replay_line *line = line_add(replay, NULL);
    size_t start = replay->out.len;
    put_start(replay, event->time, event->thread, event->stack, depth);
    if (event->kind == TRACE_SIGNAL) {
        put_signal(replay, event);
    } else if (event->kind == TRACE_MARK) {
        put_mark(replay, event);
    } else if (event->kind == TRACE_GAP) {
        buf_printf(&replay->out, "... %" PRIu64 " records are missing here: there was no room for them", event->lost);
    } else {
        buf_puts(&replay->out, "... ");
        put_name(&replay->out, replay->trace, event->function);
        buf_puts(&replay->out, " is called so often that from here on not every call is recorded");
    }
    buf_putc(&replay->out, '\n');
    line_end(replay, line, start);
}

/* ---- feeding ---- */

int replay_new(struct replay **ret_replay, const struct trace *trace, const struct replay_options *options, FILE *out)
{
    struct replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return -ENOMEM;
    replay->options = *options;
    replay->trace = trace;
    replay->file = out;
    double ns_per_tick = trace_ticks_ns(trace, 1);
    replay->min_ticks = (uint64_t)((double)options->min_ns / ns_per_tick);
    replay->hold_ticks = (uint64_t)((double)(options->min_ns > HOLD_NS ? options->min_ns : HOLD_NS) / ns_per_tick);
    replay->visitor = options->json
                          ? replay_json
                          : (struct call_visitor){.enter = text_enter, .leave = text_leave, .other = text_other};
    replay->visitor.ctx = replay;
    if (calls_new(&replay->calls, trace, &options->filter, &replay->visitor) < 0) {
        free(replay);
        return -ENOMEM;
    }
    *ret_replay = replay;
    return 0;
}

void replay_free(struct replay *replay)
{
    if (!replay)
        return;
    calls_free(replay->calls);
    while (replay->first)
        line_remove(replay, replay->first);
    buf_done(&replay->out);
    free(replay);
}

void replay_show_threads(struct replay *replay)
{
    replay->options.threads = true;
}

static void show_json(struct buf *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show_json(&shown, text->data, text->len);
    buf_clear(text);
    buf_append(text, shown.data, shown.len);
    text->failed |= shown.failed;
}

static int replay_flush(struct replay *replay, size_t least)
{
    if (replay->out.failed)
        return -ENOMEM;
    if (replay->out.len >= least && replay->out.len) {
        if (!replay->options.json)
            text_wrap(&replay->out, 0, replay->options.columns);
        else if (isatty(fileno(replay->file)))
            show_json(&replay->out);
        if (replay->options.before)
            replay->options.before(replay->options.ctx);
        replay->failed |= fwrite(replay->out.data, 1, replay->out.len, replay->file) != replay->out.len;
        buf_clear(&replay->out);
    }
    return replay->failed ? -EIO : 0;
}

int replay_event(struct replay *replay, const struct trace_event *event)
{
    int code = calls_event(replay->calls, event);
    if (code == 0)
        code = replay_flush(replay, FLUSH);
    if (code == 0 && calls_are_over(replay->calls, event))
        return 1;
    return code;
}

static double seconds_of(const struct replay *replay, uint64_t wall)
{
    return ((double)wall - (double)replay->options.start_ns) / NS_PER_SECOND;
}

int replay_pause(struct replay *replay, uint64_t from_ns, uint64_t to_ns)
{
    bool known = to_ns != UINT64_MAX;
    if (replay->options.json) {
        buf_printf(&replay->out, "{\"process\":%d,\"node\":", (int)trace_pid(replay->trace));
        const char *node = trace_node(replay->trace);
        call_put_string(&replay->out, node, strlen(node));
        buf_printf(&replay->out,
                   ",\"event\":\"off\",\"start_seconds\":%.9f,\"end_seconds\":", seconds_of(replay, from_ns));
        if (known)
            buf_printf(&replay->out, "%.9f}\n", seconds_of(replay, to_ns));
        else
            buf_puts(&replay->out, "null}\n");
        return replay_flush(replay, FLUSH);
    }
    while (!replay->min_ticks && replay->first)
        put_beginning(replay, replay->first->call);
    put_wall(replay, from_ns);
    buf_puts(&replay->out, "  ... recording was off from here on (scry set)");
    if (known) {
        buf_puts(&replay->out, ", until ");
        if (replay->options.full_times)
            put_wall(replay, to_ns);
        else
            buf_printf(&replay->out, "%.6f", seconds_of(replay, to_ns));
    }
    buf_putc(&replay->out, '\n');
    return replay_flush(replay, FLUSH);
}

int replay_idle(struct replay *replay)
{
    while (!replay->min_ticks && replay->first)
        put_beginning(replay, replay->first->call);
    lines_print(replay, true);
    return replay_flush(replay, 0);
}
