/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Trace Event Format of chrome://tracing, which Perfetto reads, too ("Trace Event Format", section JSON Object
 * Format): a B and an E event for each call, times in microseconds, values in args. A stack that is not the thread's
 * own (a coroutine, a signal's stack) is a thread of its own there, for calls have to nest on each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "jobdir/export/export.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

enum { OTHER_STACKS = 1000000000, OTHER_PROCESSES = 10000000 };

struct seen_thread {
    uint64_t key; /* thread index << 32 | stack */
    uint32_t number;
    UT_hash_handle hh;
};

struct seen_process {
    int pid;
    UT_hash_handle hh;
};

struct arrow { /* of a message: where the slices of its two ends are; pid 0: not shown */
    int from_pid, to_pid;
    uint32_t from_thread, to_thread;
};

struct chrome {
    bool any;
    struct arrow *arrows; /* by number of the send */
    size_t arrow_count;
    int pid; /* as the file has it: a later program of the same process has one of its own */
    struct seen_process *processes;
    struct seen_thread *threads; /* of this trace */
    struct seen_thread *last;
    uint32_t next_stack;
    const struct mpi_message_rank *rank; /* NULL: it is none */
};

static void comma(struct exporter *exporter)
{
    struct chrome *chrome = exporter->state;
    buf_puts(&exporter->text, chrome->any ? ",\n" : "\n");
    chrome->any = true;
}

static void put_string(struct exporter *exporter, const char *text)
{
    call_put_string(&exporter->text, text, strlen(text));
}

static void put_us_of_ns(struct exporter *exporter, uint64_t ns)
{
    buf_printf(&exporter->text, "%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
}

static void put_us(struct exporter *exporter, uint64_t ticks)
{
    put_us_of_ns(exporter, export_ns(exporter, ticks));
}

static int chrome_begin(struct exporter *exporter)
{
    exporter->state = calloc(1, sizeof(struct chrome));
    buf_puts(&exporter->text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    return exporter->state ? 0 : -ENOMEM;
}

static void put_arrow_end(struct exporter *exporter, const char *phase, uint64_t number, int pid, uint32_t thread,
                          const struct mpi_end *of, int64_t ns)
{
    comma(exporter);
    buf_printf(&exporter->text,
               "{\"ph\":\"%s\",\"bp\":\"e\",\"cat\":\"mpi\",\"name\":\"message\",\"id\":%" PRIu64
               ",\"pid\":%d,\"tid\":%u,\"ts\":",
               phase, number, pid, thread);
    put_us_of_ns(exporter, ns > 0 ? (uint64_t)ns : 0);
    buf_printf(&exporter->text, ",\"args\":{\"tag\":%d,\"bytes\":%" PRIu64 "}}", of->tag, of->bytes);
    export_flush(exporter, false);
}

/* The arrows ("Flow events") of which both ends are shown, each bound to the slice of its call: it begins where the
 * call that sent begins and ends where the one that received ends. Both ends have the number of the send. */
static void put_arrows(struct exporter *exporter)
{
    const struct mpi_messages *messages = exporter->messages;
    const struct chrome *chrome = exporter->state;
    for (size_t i = 0; chrome->arrows && i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        for (size_t k = 0; k < rank->sent_count; k++) {
            const struct mpi_end *send = &rank->sent[k];
            const struct arrow *arrow = &chrome->arrows[rank->sent_before + k];
            if (!arrow->from_pid || !arrow->to_pid)
                continue;
            ptrdiff_t other = mpi_messages_at(messages, rank->world, send->comm, send->peer);
            put_arrow_end(exporter, "s", rank->sent_before + k, arrow->from_pid, arrow->from_thread, send, send->begin);
            put_arrow_end(exporter, "f", rank->sent_before + k, arrow->to_pid, arrow->to_thread, send,
                          messages->ranks[other].got[send->other].end);
        }
    }
}

static int chrome_end(struct exporter *exporter)
{
    put_arrows(exporter);
    buf_puts(&exporter->text, "\n]}\n");
    return 0;
}

static void forget_threads(struct chrome *chrome)
{
    HASH_FREE_ALL(chrome->threads);
    chrome->last = NULL;
}

static void chrome_done(struct exporter *exporter)
{
    struct chrome *chrome = exporter->state;
    if (!chrome)
        return;
    forget_threads(chrome);
    free(chrome->arrows);
    HASH_FREE_ALL(chrome->processes);
    free(chrome);
}

static int chrome_trace_begin(struct exporter *exporter)
{
    struct chrome *chrome = exporter->state;
    struct seen_process *process;
    chrome->pid = (int)trace_pid(exporter->trace);
    chrome->rank = NULL;
    HASH_FIND_INT(chrome->processes, &chrome->pid, process);
    if (process)
        chrome->pid = OTHER_PROCESSES + (int)exporter->number;
    process = calloc(1, sizeof *process);
    if (!process)
        return -ENOMEM;
    process->pid = chrome->pid;
    HASH_ADD_INT(chrome->processes, pid, process);
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    const struct mpi_message_rank *rank = mpi_messages_of_trace(exporter->messages, exporter->number);
    int32_t number = rank ? rank->rank : mpi_trace_number(exporter->mpi);
    if (number >= 0)
        buf_printf(&name, "rank %d (%s), %s %d", number, trace_node(exporter->trace), export_program(exporter->trace),
                   (int)trace_pid(exporter->trace));
    else
        buf_printf(&name, "%s %d on %s", export_program(exporter->trace), (int)trace_pid(exporter->trace),
                   trace_node(exporter->trace));
    if (rank) {
        chrome->rank = rank;
        comma(exporter);
        buf_printf(&exporter->text,
                   "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%zu}}",
                   chrome->pid, (size_t)(rank - exporter->messages->ranks));
    }
    comma(exporter);
    buf_printf(&exporter->text, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":", chrome->pid);
    put_string(exporter, name.data ? name.data : "");
    buf_puts(&exporter->text, "}}");
    return 0;
}

static int chrome_trace_end(struct exporter *exporter)
{
    forget_threads(exporter->state);
    return 0;
}

static uint32_t thread_number(struct exporter *exporter, const struct trace_thread *thread, uint32_t stack)
{
    struct chrome *chrome = exporter->state;
    uint64_t key = (uint64_t)thread->index << 32 | stack;
    if (chrome->last && chrome->last->key == key)
        return chrome->last->number;
    struct seen_thread *seen;
    HASH_FIND(hh, chrome->threads, &key, sizeof key, seen);
    if (!seen) {
        seen = calloc(1, sizeof *seen);
        if (!seen) {
            exporter->text.failed = true;
            return thread->tid;
        }
        seen->key = key;
        seen->number = stack ? OTHER_STACKS + chrome->next_stack++ : thread->tid;
        HASH_ADD(hh, chrome->threads, key, sizeof seen->key, seen);
        comma(exporter);
        buf_printf(&exporter->text,
                   "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":", chrome->pid,
                   seen->number);
        if (stack)
            buf_printf(&exporter->text, "\"thread %u, stack %u\"}}", thread->tid, stack);
        else
            buf_printf(&exporter->text, "\"thread %u\"}}", thread->tid);
    }
    chrome->last = seen;
    return seen->number;
}

static void put_head(struct exporter *exporter, const char *phase, uint64_t ticks, const struct trace_thread *thread,
                     uint32_t stack)
{
    uint32_t number = thread_number(exporter, thread, stack);
    comma(exporter);
    buf_printf(&exporter->text, "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":", phase,
               ((struct chrome *)exporter->state)->pid, number);
    put_us(exporter, ticks);
}

static void put_name(struct exporter *exporter, uint32_t function)
{
    char room[32];
    buf_puts(&exporter->text, ",\"name\":");
    put_string(exporter, call_name(exporter->trace, function, room, sizeof room));
}

/* Puts `,"name":{...}` or nothing. */
static bool put_part(struct exporter *exporter, const char *name, bool first, const struct layout *layout,
                     enum layout_part part, const void *bytes, size_t size)
{
    size_t before = exporter->text.len;
    buf_printf(&exporter->text, "%s\"%s\":", first ? "" : ",", name);
    if (call_put_json(&exporter->text, exporter->trace, layout, part, bytes, size))
        return true;
    exporter->text.len = before;
    return false;
}

static void chrome_enter(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    const struct trace_function *known = trace_function(exporter->trace, call->function);
    put_head(exporter, "B", event->time, call->thread, call->stack);
    put_name(exporter, call->function);
    buf_puts(&exporter->text, ",\"args\":{");
    bool any = put_part(exporter, "arguments", true, event->layout, LAYOUT_ARGS, event->values, event->values_size);
    const char *caller = event->caller_layout ? layout_function(event->caller_layout, LAYOUT_CALLER) : NULL;
    const struct mpi_stats_site *site = mpi_trace_site(exporter->mpi, event); /* of a call of MPI: where it came from */
    caller = !caller && site && *site->function ? site->function : caller;
    any |= put_part(exporter, "caller_locals", !any, event->caller_layout, LAYOUT_CALLER, event->caller_values,
                    event->caller_size);
    if (caller) {
        buf_puts(&exporter->text, any ? ",\"caller\":" : "\"caller\":");
        put_string(exporter, caller);
        any = true;
    }
    const char *file = site ? site->file : known ? known->file : "";
    if (*file) {
        _cleanup_(buf_done) struct buf source = BUF_INIT;
        buf_printf(&source, "%s:%u", file, site ? site->line : known->line);
        buf_puts(&exporter->text, any ? ",\"source\":" : "\"source\":");
        put_string(exporter, source.data ? source.data : "");
        any = true;
    }
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    if (call_put_place(&place, exporter->trace, call, true) && place.data) {
        buf_puts(&exporter->text, any ? ",\"from\":" : "\"from\":");
        put_string(exporter, place.data);
    }
    buf_puts(&exporter->text, "}}");
    export_flush(exporter, false);
}

static void chrome_leave(void *ctx, struct call *call, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    put_head(exporter, event->alone ? "X" : "E", event->alone ? event->entry_time : event->time, call->thread,
             call->stack);
    if (event->alone) {
        uint64_t ns = export_ns(exporter, event->time) - export_ns(exporter, event->entry_time);
        put_name(exporter, call->function);
        buf_printf(&exporter->text, ",\"dur\":%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
    }
    buf_puts(&exporter->text, ",\"args\":{");
    bool any = put_part(exporter, "locals", true, event->layout, LAYOUT_LOCALS, event->values, event->values_size);
    any |= put_part(exporter, "result", !any, event->layout, LAYOUT_RESULT, event->values, event->values_size);
    any |= put_part(exporter, "statics", !any, event->layout, LAYOUT_STATICS, event->values, event->values_size);
    if (event->how != TRACE_RETURNED)
        buf_printf(&exporter->text, "%s\"ended\":\"%s\"", any ? "," : "", call_how(event->how));
    any |= event->how != TRACE_RETURNED;
    struct call_time time;
    if (call_time(exporter->trace, call, event, &time))
        buf_printf(&exporter->text, "%s\"cpu_ns\":%.0f,\"waiting_ns\":%.0f,\"preempted_ns\":%.0f", any ? "," : "",
                   time.cpu_ns, time.waiting_ns, time.preempted_ns);
    buf_puts(&exporter->text, "}}");
    export_flush(exporter, false);
}

static bool make_arrows(struct exporter *exporter)
{
    struct chrome *chrome = exporter->state;
    if (chrome->arrows)
        return true;
    for (size_t i = 0; i < exporter->messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &exporter->messages->ranks[i];
        size_t end = rank->sent_before + rank->sent_count;
        chrome->arrow_count = end > chrome->arrow_count ? end : chrome->arrow_count;
    }
    chrome->arrows = calloc(chrome->arrow_count + 1, sizeof *chrome->arrows);
    exporter->text.failed |= !chrome->arrows;
    return chrome->arrows != NULL;
}

/* A call that left no record (--rate, --min-time), though its message did: a point for the arrow to be bound to. */
static void put_unrecorded(struct exporter *exporter, const struct trace_event *event, uint32_t thread)
{
    comma(exporter);
    buf_printf(&exporter->text, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":", ((struct chrome *)exporter->state)->pid,
               thread);
    put_us(exporter, event->time);
    buf_puts(&exporter->text, ",\"dur\":0.001,\"name\":");
    put_string(exporter, mpi_text_call(event->message->call));
    buf_puts(&exporter->text, ",\"args\":{\"recorded\":false}}");
}

/* One end of an arrow. */
static void note_arrow(struct exporter *exporter, const struct trace_event *event, bool recorded)
{
    const struct mpi_messages *messages = exporter->messages;
    struct chrome *chrome = exporter->state;
    const struct mpi_message_rank *rank = chrome->rank, *from = rank;
    bool sent = event->message->kind == MESSAGE_SENT;
    uint64_t at = event->message_number;
    if (!rank || event->message->kind > MESSAGE_RECEIVED || at >= (sent ? rank->sent_count : rank->got_count))
        return;
    const struct mpi_end *end = sent ? &rank->sent[at] : &rank->got[at];
    if (end->other >= MPI_OTHER_FOREIGN)
        return;
    ptrdiff_t other = mpi_messages_at(messages, rank->world, end->comm, end->peer);
    if (other < 0 || !make_arrows(exporter))
        return;
    if (!sent) {
        from = &messages->ranks[other];
        at = end->other;
    }
    const struct mpi_end *send = &from->sent[at], *receive = sent ? &messages->ranks[other].got[end->other] : end;
    if (send->begin < exporter->from_ns || receive->begin < exporter->from_ns || send->begin > exporter->to_ns ||
        receive->begin > exporter->to_ns)
        return; /* the call at one of its ends is not shown */
    uint32_t thread = thread_number(exporter, event->thread, event->stack);
    struct arrow *arrow = &chrome->arrows[from->sent_before + at];
    *(sent ? &arrow->from_pid : &arrow->to_pid) = chrome->pid;
    *(sent ? &arrow->from_thread : &arrow->to_thread) = thread;
    if (!recorded)
        put_unrecorded(exporter, event, thread);
}

static bool is_mpi_call(const struct exporter *exporter, const struct call *call)
{
    const struct trace_function *known = call ? trace_function(exporter->trace, call->function) : NULL;
    return known && !*known->file && strncmp(known->name, "MPI_", 4) == 0;
}

static void chrome_other(void *ctx, const struct call *innermost, const struct trace_event *event)
{
    struct exporter *exporter = ctx;
    struct buf *out = &exporter->text;
    char name[32];
    if (event->kind == TRACE_MESSAGE) {
        bool recorded = is_mpi_call(exporter, innermost);
        if (recorded ? innermost->shown : !exporter->chosen)
            note_arrow(exporter, event, recorded);
        return;
    }
    put_head(exporter, "i", event->time, event->thread, event->stack);
    buf_puts(out, ",\"s\":\"t\",\"name\":");
    if (event->kind == TRACE_SIGNAL) {
        put_string(exporter, text_signal(event->number, name, sizeof name));
        buf_printf(out, ",\"args\":{\"address\":\"0x%" PRIx64 "\",\"code\":%d}}", event->address, event->code);
    } else if (event->kind == TRACE_MARK) {
        call_put_string(out, event->text, event->text_len);
        buf_puts(out, "}");
    } else if (event->kind == TRACE_GAP) {
        buf_printf(out, "\"events missing\",\"args\":{\"missing\":%" PRIu64 "}}", event->lost);
    } else {
        buf_puts(out, "\"rate limited\",\"args\":{\"function\":");
        put_string(exporter, call_name(exporter->trace, event->function, name, sizeof name));
        buf_puts(out, "}}");
    }
    export_flush(exporter, false);
}

const struct export_format export_chrome = {
    .name = "chrome",
    .messages = EXPORT_WITH_MESSAGES,
    .begin = chrome_begin,
    .trace_begin = chrome_trace_begin,
    .trace_end = chrome_trace_end,
    .end = chrome_end,
    .done = chrome_done,
    .visitor = {.enter = chrome_enter, .leave = chrome_leave, .other = chrome_other},
};
