/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/analysis/messages_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/mpi/trace.h"
#include "jobdir/text/text.h"
#include "shm/mpi_told.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a reader of messages is to know, a line each: reports and pictures say it. */

void mpi_messages_place(struct buf *out, const struct mpi_place *place)
{
    buf_puts(out, mpi_text_call(place->key.call));
    if (place->where[0])
        buf_printf(out, ", %s", place->where);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- what is missing, what was corrected ---- */

struct telling {
    const struct mpi_messages *messages;
    void (*fn)(void *ctx, const char *line);
    void *ctx;
};

static void telling_line(const struct telling *telling, struct buf *line)
{
    if (line->data && !line->failed)
        telling->fn(telling->ctx, line->data);
    buf_clear(line);
}

static void tell_missing(const struct telling *telling, struct buf *line)
{
    const struct mpi_messages *messages = telling->messages;
    uint64_t late = 0, broken = 0, lossy = 0, lost = 0, thinned = 0, stopped = 0, freed = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        late += !messages->ranks[i].from_start;
        broken += messages->ranks[i].from_start && messages->ranks[i].gap_end != INT64_MIN;
        lossy += messages->ranks[i].lost > messages->ranks[i].freed;
        lost += messages->ranks[i].lost - messages->ranks[i].freed;
        freed += messages->ranks[i].freed;
        thinned += messages->ranks[i].thinned;
        stopped += messages->ranks[i].stopped;
    }
    if (late || broken) {
        if (late)
            buf_printf(line, "the trace of %" PRIu64 " rank%s begins after MPI_Init", late, plural(late));
        if (broken)
            buf_printf(line, "%s%" PRIu64 " rank%s not traced for some time", late ? ", " : "", broken,
                       broken == 1 ? " was" : "s were");
        buf_puts(line,
                 ": messages of two ranks are matched from the moment on when, by what both have counted, none was "
                 "under way between them; `scry run --mpi trace` records all from the start");
        telling_line(telling, line);
    }
    if (lossy) {
        buf_printf(line,
                   "records of %" PRIu64 " rank%s are missing (%" PRIu64 "): their channels are matched up to there",
                   lossy, plural(lossy), lost);
        telling_line(telling, line);
    }
    if (freed) {
        buf_printf(line,
                   "%" PRIu64
                   " receive%s given up by MPI_Request_free: what was received is not seen, and what that rank "
                   "received from there on is ambiguous",
                   freed, freed == 1 ? " was" : "s were");
        telling_line(telling, line);
    }
    if (stopped) {
        buf_printf(line,
                   "recording of %" PRIu64
                   " rank%s was switched off before the last calls of MPI: what has no other end up "
                   "to there is ambiguous",
                   stopped, plural(stopped));
        telling_line(telling, line);
    }
    if (thinned) {
        buf_printf(line,
                   "calls of %" PRIu64
                   " rank%s were left out (--min-time, --rate, --max-depth), but none of their messages: "
                   "waiting is judged of recorded calls only",
                   thinned, plural(thinned));
        telling_line(telling, line);
    }
    if (messages->sent_unsure || messages->got_unsure) {
        buf_printf(line,
                   "%" PRIu64 " sends and %" PRIu64
                   " receives are ambiguous: which send is which receive's cannot be told for sure",
                   messages->sent_unsure, messages->got_unsure);
        telling_line(telling, line);
    }
    if (messages->unreceived || messages->unsent) {
        buf_printf(line,
                   "%" PRIu64 " message%s sent but not received, %" PRIu64 " received but not sent, by the traces",
                   messages->unreceived, messages->unreceived == 1 ? " was" : "s were", messages->unsent);
        telling_line(telling, line);
    }
    if (messages->foreign) {
        buf_printf(line, "%" PRIu64 " sends and receives are of ranks without a trace here, or of another program",
                   messages->foreign);
        telling_line(telling, line);
    }
    if (messages->unkept) {
        buf_printf(line, "%" PRIu64 " records beyond the first %d million were not looked at", messages->unkept,
                   MPI_ENDS_LIMIT >> 20);
        telling_line(telling, line);
    }
    if (messages->unranked) {
        buf_printf(line, "%" PRIu64 " process%s of an unknown rank %s left out", messages->unranked,
                   messages->unranked == 1 ? "" : "es", messages->unranked == 1 ? "is" : "are");
        telling_line(telling, line);
    }
}

static void put_offset(struct buf *out, double ns)
{
    buf_putc(out, ns < 0 ? '-' : '+');
    text_ns(out, ns < 0 ? -ns : ns);
}

static void put_bound(struct buf *out, const struct timeline_host *host)
{
    if (host->bound_ns < 0)
        return;
    buf_puts(out, "; at most ");
    text_ns(out, host->bound_ns);
    buf_puts(out, " wrong");
}

static void tell_clocks(const struct telling *telling, struct buf *line)
{
    const struct timeline *timeline = &telling->messages->timeline;
    for (size_t i = 0; timeline->host_count > 1 && i < timeline->host_count; i++) {
        const struct timeline_host *host = &timeline->hosts[i];
        buf_puts(line, "clock of ");
        text_show(line, host->name);
        switch (host->how) {
        case TIMELINE_REFERENCE:
            buf_puts(line, ": the others are moved to it");
            break;
        case TIMELINE_BOTH_WAYS:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, " at the start and ");
            put_offset(line, host->offset_end_ns);
            buf_puts(line, " at the end, by the least delays of messages in both directions");
            put_bound(line, host);
            break;
        case TIMELINE_ONCE:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", by the least delays of messages in both directions (too few to see it drift)");
            put_bound(line, host);
            break;
        case TIMELINE_ONE_WAY:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", as far as its messages in one direction need it");
            break;
        case TIMELINE_KNOWN:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", as the monitors found while the job ran");
            put_bound(line, host);
            break;
        case TIMELINE_AS_IT_IS:
            buf_puts(line, ": as it is, for no messages connect it with the others");
            break;
        }
        telling_line(telling, line);
    }
    if (timeline->early && timeline->host_count > 1) {
        buf_printf(line, "by the hosts' own clocks %" PRIu64 " message%s arrived before they were sent",
                   timeline->early, plural(timeline->early));
        telling_line(telling, line);
    }
    if (timeline->corrected) {
        buf_printf(line, "%" PRIu64 " message%s that still did %s moved behind their sends, by up to ",
                   timeline->corrected, plural(timeline->corrected), timeline->corrected == 1 ? "was" : "were");
        text_ns(line, (double)timeline->largest_ns);
        telling_line(telling, line);
    }
}

void mpi_messages_notes(const struct mpi_messages *messages, void (*fn)(void *ctx, const char *line), void *ctx)
{
    const struct telling telling = {messages, fn, ctx};
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    tell_clocks(&telling, &line);
    tell_missing(&telling, &line);
}

/* Reading the trace of one rank: the ends of messages, the parts of collective operations, and in which calls. */

enum {
    LOOK_EVERY = 1 << 16,  /* events between looks at the progress */
    DONE_LOOK_BACK = 4096, /* collectives begun since, at most, when a non-blocking one is complete */
    CALL_NOT_LOOKED = UINT16_MAX,
};
_Static_assert((int)CALL_COUNT < (int)CALL_NOT_LOOKED, "numbers of calls fit into 16 bits");

/* ---- one trace ---- */

struct pending { /* its end is that of the call */
    uint32_t kind;
    size_t index;
};

struct track {    /* one stack of calls, and the outermost call of MPI on it */
    uint64_t key; /* thread index << 32 | stack */
    bool inside, any;
    uint32_t depth, place, call;
    int64_t begin;
    struct pending *pending;
    size_t count, room;
    UT_hash_handle hh;
};

struct reader {
    struct mpi_messages *messages;
    const struct mpi_messages_options *options;
    struct mpi_message_rank *rank;
    struct trace *trace;
    uint32_t program;
    uint16_t *calls; /* by function */
    size_t call_room;
    struct track *tracks, *last;
    struct mpi_layout_site *sites;
    struct mpi_posted *posted;
    size_t *kept, limit; /* ends and parts, of all ranks */
    uint64_t events;
    int code;
};

static uint32_t call_of(struct reader *reader, uint32_t function)
{
    if (function < reader->call_room && reader->calls[function] != CALL_NOT_LOOKED)
        return reader->calls[function];
    const struct trace_function *known = trace_function(reader->trace, function);
    uint32_t call = known ? mpi_function_call(known->address) : (uint32_t)CALL_NONE;
    if (function < reader->call_room)
        reader->calls[function] = (uint16_t)call;
    return call;
}

static struct track *track_of(struct reader *reader, const struct trace_event *event)
{
    uint64_t key = (uint64_t)event->thread->index << 32 | event->stack;
    if (reader->last && reader->last->key == key)
        return reader->last;
    struct track *track;
    HASH_FIND(hh, reader->tracks, &key, sizeof key, track);
    if (!track) {
        track = calloc(1, sizeof *track);
        if (!track) {
            reader->code = -ENOMEM;
            return NULL;
        }
        track->key = key;
        HASH_ADD(hh, reader->tracks, key, sizeof track->key, track);
    }
    reader->last = track;
    return track;
}

/* ---- places ---- */

static uint32_t place_add(struct mpi_messages *messages, const struct mpi_place_key *key)
{
    struct mpi_place *place;
    HASH_FIND(hh, messages->places, key, sizeof *key, place);
    if (place)
        return place->index;
    place = calloc(1, sizeof *place);
    if (!place)
        return UINT32_MAX;
    place->key = *key;
    place->index = HASH_COUNT(messages->places);
    HASH_ADD(hh, messages->places, key, sizeof place->key, place);
    return place->index;
}

static uint32_t place_of(struct reader *reader, uint32_t call, uint64_t site)
{
    uint32_t place =
        place_add(reader->messages, &(struct mpi_place_key){.site = site, .call = call, .program = reader->program});
    if (place == UINT32_MAX)
        reader->code = -ENOMEM;
    return place;
}

/* ---- events ---- */

static uint32_t comm_of(struct reader *reader, uint64_t identity)
{
    struct mpi_messages *messages = reader->messages;
    const struct mpi_comm_key key = {identity, reader->rank->world};
    struct mpi_message_comm *comm;
    HASH_FIND(hh, messages->comms, &key, sizeof key, comm);
    if (comm)
        return comm->index;
    comm = calloc(1, sizeof *comm);
    if (!comm) {
        reader->code = -ENOMEM;
        return 0;
    }
    comm->key = key;
    comm->index = HASH_COUNT(messages->comms);
    HASH_ADD(hh, messages->comms, key, sizeof comm->key, comm);
    return comm->index;
}

static void wait_for_end(struct reader *reader, struct track *track, uint32_t kind, size_t index)
{
    if (!GROW(track->pending, track->count, track->room)) {
        reader->code = -ENOMEM;
        return;
    }
    track->pending[track->count++] = (struct pending){kind, index};
}

static int64_t *end_of(struct mpi_message_rank *rank, const struct pending *pending)
{
    if (pending->kind == MESSAGE_SENT)
        return &rank->sent[pending->index].end;
    if (pending->kind == MESSAGE_RECEIVED)
        return &rank->got[pending->index].end;
    if (pending->kind == MESSAGE_PROBED)
        return &rank->probes[pending->index].end;
    if (pending->kind == MESSAGE_SENT_DONE)
        return &rank->dones[pending->index].end;
    return &rank->parts[pending->index].end;
}

/* ---- what one call begins and another one completes ---- */

/* The receive that is complete now. */
static void add_post(struct reader *reader, uint64_t order, size_t got)
{
    struct mpi_message_rank *rank = reader->rank;
    struct mpi_post post = {.got = (uint32_t)got};
    if (!mpi_posted_take(&reader->posted, order, &post))
        return;
    if (!GROW(rank->posts, rank->post_count, rank->post_room)) {
        reader->code = -ENOMEM;
        return;
    }
    rank->posts[rank->post_count++] = post;
}

/* In a call for completion: others note it when they find out by the way. */
static void add_done(struct reader *reader, struct track *track, size_t index, bool part, int64_t now)
{
    struct mpi_message_rank *rank = reader->rank;
    if (!track->inside || call_infos[track->call].class != CALL_CLASS_COMPLETION)
        return;
    if (!GROW(rank->dones, rank->done_count, rank->done_room)) {
        reader->code = -ENOMEM;
        return;
    }
    rank->dones[rank->done_count] = (struct mpi_done){track->begin, now, track->place, (uint32_t)index, part};
    wait_for_end(reader, track, MESSAGE_SENT_DONE, rank->done_count++);
}

/* ---- ends and parts ---- */

static void add_end(struct reader *reader, struct track *track, const struct record_message *message,
                    const struct mpi_end *end)
{
    struct mpi_message_rank *rank = reader->rank;
    bool sent = message->kind == MESSAGE_SENT, probed = message->kind == MESSAGE_PROBED;
    struct mpi_end **list = sent ? &rank->sent : probed ? &rank->probes : &rank->got;
    size_t *count = sent ? &rank->sent_count : probed ? &rank->probe_count : &rank->got_count;
    size_t *room = sent ? &rank->sent_room : probed ? &rank->probe_room : &rank->got_room;
    if (!GROW(*list, *count, *room)) {
        reader->code = -ENOMEM;
        return;
    }
    (*list)[*count] = *end;
    if (track->inside)
        wait_for_end(reader, track, message->kind, *count);
    if (message->kind == MESSAGE_RECEIVED && reader->posted)
        add_post(reader, message->order, *count);
    ++*count;
}

static void add_part(struct reader *reader, struct track *track, const struct record_message *message,
                     const struct mpi_end *end)
{
    struct mpi_message_rank *rank = reader->rank;
    if (!GROW(rank->parts, rank->part_count, rank->part_room)) {
        reader->code = -ENOMEM;
        return;
    }
    rank->parts[rank->part_count] = (struct mpi_part){.begin = end->begin,
                                                      .end = end->end,
                                                      .order = message->order,
                                                      .bytes = message->bytes,
                                                      .comm = end->comm,
                                                      .place = end->place,
                                                      .root = message->peer,
                                                      .call = message->call < CALL_COUNT ? message->call : CALL_NONE};
    if (track->inside)
        wait_for_end(reader, track, MESSAGE_COLLECTIVE, rank->part_count);
    rank->part_count++;
}

/* A non-blocking one ends with the call that completes it. */
static void complete_part(struct reader *reader, struct track *track, const struct record_message *message, int64_t now)
{
    struct mpi_message_rank *rank = reader->rank;
    uint32_t comm = comm_of(reader, message->comm);
    for (size_t i = rank->part_count; i && rank->part_count - i < DONE_LOOK_BACK; i--) {
        struct mpi_part *part = &rank->parts[i - 1];
        if (part->order != message->order || part->comm != comm)
            continue;
        part->end = now;
        if (track->inside)
            wait_for_end(reader, track, MESSAGE_COLLECTIVE, i - 1);
        add_done(reader, track, i - 1, true, now);
        return;
    }
}

static void complete_send(struct reader *reader, struct track *track, uint64_t order, int64_t now)
{
    const struct mpi_message_rank *rank = reader->rank;
    for (size_t i = rank->sent_count; i && rank->sent_count - i < DONE_LOOK_BACK; i--)
        if (rank->sent[i - 1].order == order) {
            add_done(reader, track, i - 1, false, now);
            return;
        }
}

/* ---- recording begins while the program runs ---- */

static void begin_late(struct mpi_message_rank *rank, const struct record_message *message, int64_t now)
{
    rank->gap_twice = rank->gap_end != INT64_MIN || rank->from_start;
    if (rank->gap_end == INT64_MIN)
        rank->gap_order = rank->from_start ? message->order : 0;
    rank->gap_end = now;
    rank->gap_sent = rank->sent_count;
    rank->gap_got = rank->got_count;
    rank->counted = message->bytes == 1;
    rank->before_count = 0;
}

static void take_before(struct reader *reader, const struct record_message *message)
{
    struct mpi_message_rank *rank = reader->rank;
    if (!GROW(rank->before, rank->before_count, rank->before_room)) {
        reader->code = -ENOMEM;
        return;
    }
    bool sent = message->kind == MESSAGE_SENT_BEFORE;
    rank->before[rank->before_count++] = (struct mpi_message_before){.comm = comm_of(reader, message->comm),
                                                                     .peer = message->peer,
                                                                     .sent = sent ? message->order : 0,
                                                                     .got = sent ? 0 : message->order};
}

/* A send that was recorded as posted, and has failed. */
static void take_back(struct mpi_message_rank *rank, uint64_t order)
{
    for (size_t i = rank->sent_count; i && rank->sent_count - i < DONE_LOOK_BACK; i--)
        if (rank->sent[i - 1].order == order) {
            rank->sent[i - 1].peer = MPIA_RANK_NULL;
            rank->failed++;
            return;
        }
    rank->lost++; /* which one is not known */
}

/* What was posted before there were numbers has its time in place of one; that is before all numbers, unless there was
 * a time with numbers before. */
static uint64_t order_of(const struct mpi_message_rank *rank, const struct record_message *message)
{
    bool before = message->order >> 63;
    return message->order == 0 || (before && rank->gap_twice) ? MPI_ORDER_UNKNOWN : message->order;
}

static bool take_other(struct reader *reader, struct track *track, const struct record_message *message, int64_t now)
{
    switch (message->kind) {
    case MESSAGE_COLLECTIVE_DONE:
        complete_part(reader, track, message, now);
        return true;
    case MESSAGE_POSTED:
        if (track->inside && !mpi_posted_add(&reader->posted, message->order, track->begin, track->place))
            reader->code = -ENOMEM;
        return true;
    case MESSAGE_SENT_DONE:
        complete_send(reader, track, message->order, now);
        return true;
    case MESSAGE_FREED:
        reader->rank->lost++; /* of that receive nothing is recorded; its number is nowhere */
        reader->rank->freed++;
        return true;
    case MESSAGE_UNSENT:
        take_back(reader->rank, message->order);
        return true;
    case MESSAGE_BEGIN:
        begin_late(reader->rank, message, now);
        return true;
    case MESSAGE_SENT_BEFORE:
    case MESSAGE_RECEIVED_BEFORE:
        take_before(reader, message);
        return true;
    default:
        return false;
    }
}

static void take_message(struct reader *reader, struct track *track, const struct trace_event *event, int64_t now)
{
    const struct record_message *message = event->message;
    if (take_other(reader, track, message, now))
        return;
    if (*reader->kept >= reader->limit) {
        reader->rank->unkept++;
        reader->rank->lost++; /* what comes later cannot be matched */
        return;
    }
    ++*reader->kept;
    uint32_t call = message->call < CALL_COUNT ? message->call : CALL_NONE;
    struct mpi_end end = {.begin = track->inside ? track->begin : now,
                          .end = now,
                          .bytes = message->bytes,
                          .order = message->order,
                          .comm = comm_of(reader, message->comm),
                          .place = track->inside ? track->place : place_of(reader, call, 0),
                          .peer = message->peer,
                          .tag = message->tag};
    if (message->kind == MESSAGE_COLLECTIVE) {
        add_part(reader, track, message, &end);
    } else {
        end.order = order_of(reader->rank, message);
        add_end(reader, track, message, &end);
    }
}

static void take_entry(struct reader *reader, struct track *track, const struct trace_event *event, int64_t now)
{
    uint32_t call = call_of(reader, event->function);
    if (call == CALL_NONE || (track->inside && event->depth > track->depth))
        return;
    if (call_info(call)->waits == CALL_WAITS_START) {
        reader->rank->from_start = true;
        reader->rank->init_begin = now;
    }
    if (call == CALL_MPI_Finalize)
        reader->rank->final_begin = now;
    track->inside = track->any = true;
    track->depth = event->depth;
    track->begin = now;
    track->call = call;
    track->place = place_of(reader, call, mpi_layout_site_of(&reader->sites, event));
    track->count = 0;
}

/* Nothing says that the call is over: the process was killed in it, or is in it still. Of several threads the one that
 * is in it for the longest time. */
static void note_open(struct mpi_message_rank *rank, const struct track *track)
{
    if (rank->in_call && rank->in_since <= track->begin)
        return;
    rank->in_call = true;
    rank->in_place = track->place;
    rank->in_since = track->begin;
}

static void take_exit(struct reader *reader, struct track *track, const struct trace_event *event, int64_t now)
{
    if (call_info(call_of(reader, event->function))->waits == CALL_WAITS_START) {
        reader->rank->from_start = true;
        reader->rank->init_end = now;
    }
    if (!track->inside || event->depth > track->depth)
        return;
    if (event->how == TRACE_OPEN)
        note_open(reader->rank, track);
    for (size_t i = 0; i < track->count; i++)
        *end_of(reader->rank, &track->pending[i]) = now;
    if (!track->count)
        mpi_messages_unjudged(reader->messages, track->call, now - track->begin);
    track->inside = false;
    track->count = 0;
}

static void take_event(struct reader *reader, const struct trace_event *event)
{
    if (event->kind == TRACE_GAP)
        reader->rank->lost += event->lost;
    else if (event->kind == TRACE_THINNED && call_of(reader, event->function) != CALL_NONE)
        reader->rank->thinned = true;
    if (event->kind != TRACE_ENTRY && event->kind != TRACE_EXIT && event->kind != TRACE_MESSAGE)
        return;
    struct track *track = track_of(reader, event);
    if (!track)
        return;
    int64_t now = timeline_raw(&reader->messages->timeline, reader->rank->trace, event->time);
    if (now > reader->rank->finish)
        reader->rank->finish = now;
    if (event->kind == TRACE_ENTRY)
        take_entry(reader, track, event, now);
    else if (event->kind == TRACE_EXIT)
        take_exit(reader, track, event, now);
    else
        take_message(reader, track, event, now);
}

static void reader_done(struct reader *reader)
{
    HASH_FREE_ALL(reader->tracks, free(each->pending));
    mpi_layout_sites_free(&reader->sites);
    mpi_posted_free(&reader->posted);
    free(reader->calls);
    reader->calls = NULL;
    reader->last = NULL;
}

/* What the writer says is missing. Calls that the user has left out are not: their messages are there. */
static uint64_t lost_by_writer(const struct trace *trace)
{
    uint64_t lost = 0;
    for (; trace; trace = trace_rest(trace))
        lost += trace_number(trace, "discarded") + trace_number(trace, "overwritten") +
                trace_number(trace, "threads_omitted");
    return lost;
}

static bool calls_left_out(const struct trace *trace)
{
    for (; trace; trace = trace_rest(trace))
        if (trace_number(trace, "thinned") || trace_number(trace, "min_time") || trace_number(trace, "max_depth"))
            return true;
    return false;
}

/* Of `count` traces the share of the time that this one takes is told. */
static int read_events(struct reader *reader, size_t count, struct err *err)
{
    struct trace_cursor *cursor = NULL;
    struct trace_event event;
    reader->call_room = trace_function_count(reader->trace);
    reader->calls = malloc((reader->call_room + 1) * sizeof *reader->calls);
    if (!reader->calls)
        return -ENOMEM;
    memset(reader->calls, 0xff, reader->call_room * sizeof *reader->calls);
    int code = trace_cursor_new(&cursor, reader->trace, false, err);
    while (code == 0 && (code = trace_next(cursor, &event)) == 1) {
        take_event(reader, &event);
        code = reader->code;
        if (++reader->events % LOOK_EVERY == 0 && reader->options->progress) {
            uint64_t done, all;
            trace_cursor_progress(cursor, &done, &all);
            reader->options->progress(reader->options->ctx,
                                      ((double)reader->rank->trace + (all ? (double)done / (double)all : 1)) /
                                          (double)count);
        }
    }
    trace_cursor_free(cursor);
    for (const struct track *track = reader->tracks; track; track = track->hh.next)
        reader->rank->threads += track->any && (uint32_t)track->key == 0; /* other stacks are of the same threads */
    return code;
}

int mpi_messages_read(struct mpi_messages *messages, struct mpi_message_rank *rank, struct trace *trace, size_t count,
                      size_t *kept, const struct mpi_messages_options *options, struct err *err)
{
    struct reader reader = {.messages = messages,
                            .options = options,
                            .rank = rank,
                            .trace = trace,
                            .kept = kept,
                            .limit = options->limit ? options->limit : MPI_ENDS_LIMIT,
                            .program = mpi_messages_program(trace_value(trace, "exe"))};
    int code = read_events(&reader, count, err);
    uint64_t said = lost_by_writer(trace);
    if (said > rank->lost)
        rank->lost = said;
    rank->thinned |= calls_left_out(trace);
    /* MPI_Init may be one of those; had others gone by before, a record would say so */
    rank->from_start |= rank->thinned && rank->gap_end == INT64_MIN && !rank->lost;
    rank->stopped = rank->stats && rank->stats->unrecorded;
    reader_done(&reader);
    return code;
}
