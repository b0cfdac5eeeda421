/* SPDX-License-Identifier: Apache-2.0 */
/* Messages out of the trace: the tables, and .mpi_trace of the report (doc/reference/report.schema.json). What all rows
 * belong to is the struct mpi_messages. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/calls.h"

enum { SHOWN_WAITS = 15, SHOWN_LEFT = 10, SHOWN_OPEN = 20 };

/* ---- calls ---- */

static const struct field place_fields[] = {
    {"call", FIELD_TEXT, FIELD_NAMED(struct mpi_place, key.call, mpi_text_call)},
    {"where", FIELD_TEXT, FIELD_AT(struct mpi_place, where), .about = "function and line; empty if not known"},
    {0}};

static const struct mpi_place *place_of(const struct mpi_messages *messages, uint32_t place)
{
    return messages->place_list[place];
}

static void put_place(struct buf *out, const void *at, const void *row, const void *all)
{
    mpi_messages_place(out, *(const struct mpi_place *const *)at);
}

static void put_who(struct buf *out, const struct mpi_messages *messages, uint32_t world, int32_t rank)
{
    mpi_text_who(out, (struct mpi_who){rank, messages->worlds > 1 ? world + 1 : 0});
}

/* On the time line, in nanoseconds. */
static void put_time(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.4f s", (double)*(const int64_t *)at / 1e9);
}

/* ---- clocks ---- */

static json_t *how_json(const void *row, const void *all)
{
    return json_string(timeline_how_name(((const struct timeline_host *)row)->how));
}

static json_t *start_json(const void *row, const void *all)
{
    return json_real(timeline_compared_seconds(row, false));
}

static json_t *end_json(const void *row, const void *all)
{
    return json_real(timeline_compared_seconds(row, true));
}

static json_t *bound_json(const void *row, const void *all)
{
    double ns = ((const struct timeline_host *)row)->bound_ns;
    return ns < 0 ? json_null() : json_real(ns);
}

static const struct field host_fields[] = {
    {"host", FIELD_TEXT, FIELD_AT(struct timeline_host, name)},
    {"how", FIELD_CHOICE, .json = how_json, .choices = "reference|both_ways|once|one_way|as_it_is|known",
     .about = "how the offset was found"},
    {"start_seconds", FIELD_NUMBER, .json = start_json,
     .about =
         "when its clock was first compared: since the job's start, by the reference's clock, whatever its own said"},
    {"start_offset_ns", FIELD_NUMBER, FIELD_AT(struct timeline_host, offset_start_ns),
     .about = "what was added to its own times then"},
    {"end_seconds", FIELD_NUMBER, .json = end_json, .about = "and last"},
    {"end_offset_ns", FIELD_NUMBER, FIELD_AT(struct timeline_host, offset_end_ns)},
    {"bound_ns", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = bound_json,
     .about = "so far the offsets may be off; null: nothing bounds that"},
    {0}};

static const struct field clock_fields[] = {
    {"hosts", FIELD_LIST, FIELD_ROWS(struct timeline, hosts, host_count), .of = host_fields},
    {"arrived_too_early", FIELD_COUNT, FIELD_AT(struct timeline, early), .about = "messages, by the hosts' own clocks"},
    {"corrected", FIELD_COUNT, FIELD_AT(struct timeline, corrected),
     .about = "messages that the offsets left so, moved one by one"},
    {"largest_correction_ns", FIELD_NS, FIELD_AT(struct timeline, largest_ns)},
    {0}};

/* ---- ranks ---- */

struct rank_row {
    const struct mpi_message_rank *rank;
    uint64_t sent;
    bool interrupted;
};

struct in_row { /* the call that it is in */
    const struct mpi_place *place;
    int64_t since;
};

static const struct field in_place_fields[] = {
    {"call", FIELD_TEXT, FIELD_NAMED(struct mpi_place, key.call, mpi_text_call)},
    {"where", FIELD_TEXT, FIELD_AT(struct mpi_place, where)},
    {0}};

static const struct field in_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct in_row, place), FIELD_POINTER, .of = in_place_fields},
    {"since_seconds", FIELD_SECONDS, FIELD_AT(struct in_row, since)},
    {0}};

static json_t *in_json(const void *row, const void *all)
{
    const struct mpi_message_rank *rank = row;
    if (!rank->in_call)
        return json_null();
    const struct in_row in = {place_of(all, rank->in_place), rank->in_since};
    return fields_json(in_fields, &in, all);
}

static void put_rank(struct buf *out, const void *at, const void *row, const void *all)
{
    put_who(out, all, ((const struct mpi_message_rank *)row)->world, *(const int32_t *)at);
}

static void put_in(struct buf *out, const void *at, const void *row, const void *all)
{
    mpi_messages_place(out, place_of(all, *(const uint32_t *)at));
}

static const struct field who_fields[] = {
    {"program", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, world),
     .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"rank", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, rank),
     .column = FIELD_COLUMN(1, 2, -42, .whole = true, .text = put_rank)},
    {"node", FIELD_TEXT, FIELD_AT(struct mpi_message_rank, node)},
    {"pid", FIELD_INTEGER, FIELD_AT(struct mpi_message_rank, pid)},
    {"received", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, got_count)},
    {"collectives", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, part_count)},
    {"from_start", FIELD_BOOL, FIELD_AT(struct mpi_message_rank, from_start),
     .about = "its trace begins before MPI_Init has returned"},
    {"missing_records", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, lost)},
    {"ends_in", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = in_json, .of = in_fields,
     .about = "the call of MPI in which its trace ends: it was killed there, or is in it still"},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct mpi_message_rank, in_since),
     .column = FIELD_COLUMN(2, 1, 10, "since", .text = put_time)},
    {.type = FIELD_SHOWN, FIELD_AT(struct mpi_message_rank, in_place), .column = FIELD_COLUMN(3, 2, 0, .text = put_in)},
    {0}};

static const struct field rank_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct rank_row, rank), FIELD_POINTER, .of = who_fields},
    {"sent", FIELD_COUNT, FIELD_AT(struct rank_row, sent)},
    {"interrupted", FIELD_BOOL, FIELD_AT(struct rank_row, interrupted),
     .about = "it begins so, but calls went by later that were not traced"},
    {0}};

static json_t *ranks_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    json_t *list = json_array();
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        const struct rank_row one = {rank, rank->sent_count - rank->failed,
                                     rank->from_start && rank->gap_end != INT64_MIN};
        json_array_append_new(list, fields_json(rank_fields, &one, all));
    }
    return list;
}

static void report_put_open(struct buf *out, const struct mpi_messages *messages)
{
    static const struct field_table table = {who_fields, "Ranks whose trace ends inside of a call of MPI", SHOWN_OPEN};
    _cleanup_(freep) const struct mpi_message_rank **list = calloc(messages->rank_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < messages->rank_count; i++)
        if (messages->ranks[i].in_call)
            list[count++] = &messages->ranks[i];
    fields_table(out, &table, list, count, 0, messages);
}

/* ---- waits ---- */

struct wait_row {
    const struct mpi_wait *wait;
    const struct mpi_place *waits, *cause;
    const char *kind;
    const struct mpi_message_rank *for_rank;
    int32_t rank;
    double rank_ns;
};

static const struct field wait_times_fields[] = {
    {"count", FIELD_COUNT, FIELD_AT(struct mpi_wait, count), .column = FIELD_COLUMN(2, 0, 8, "count")},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_wait, total_ns), .column = FIELD_COLUMN(3, 1, 10, "total")},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_wait, max_ns), .column = FIELD_COLUMN(4, 1, 10, "longest")},
    {0}};

static void put_cause(struct buf *out, const void *at, const void *row, const void *all)
{
    static const char *const names[] = {[MPI_WAIT_LATE_SENDER] = "send that began later",
                                        [MPI_WAIT_LATE_RECEIVER] = "receive that began later",
                                        [MPI_WAIT_COLLECTIVE] = "last to come",
                                        [MPI_WAIT_ROOT] = "root",
                                        [MPI_WAIT_MEMBERS] = "others"};
    const struct wait_row *of = row;
    double share = of->wait->total_ns > 0 ? 100 * of->rank_ns / (double)of->wait->total_ns : 0;
    buf_printf(out, "the %s: ", names[of->wait->key.kind]);
    put_who(out, all, of->for_rank->world, of->rank);
    if (share < 99.5)
        buf_printf(out, " (%.0f %%)", share);
    if (of->cause != of->waits) {
        buf_puts(out, " in ");
        mpi_messages_place(out, of->cause);
    }
}

static const struct field wait_fields[] = {
    {"kind", FIELD_CHOICE, FIELD_AT(struct wait_row, kind),
     .choices = "late_sender|late_receiver|collective|root|members"},
    {"waits", FIELD_OBJECT, FIELD_AT(struct wait_row, waits), FIELD_POINTER, .of = place_fields,
     .about = "the call that waited"},
    {"for", FIELD_OBJECT, FIELD_AT(struct wait_row, cause), FIELD_POINTER, .of = place_fields,
     .about = "the call that it waited for"},
    {"", FIELD_PART, FIELD_AT(struct wait_row, wait), FIELD_POINTER, .of = wait_times_fields},
    {"for_rank", FIELD_COUNT, FIELD_AT(struct wait_row, rank), .about = "the rank that was waited for most"},
    {"for_rank_ns", FIELD_NS, FIELD_AT(struct wait_row, rank_ns)},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct wait_row, waits),
     .column = FIELD_COLUMN(1, 2, -54, "Waiting by call site", .text = put_place)},
    {.type = FIELD_SHOWN, FIELD_AT(struct wait_row, cause), .column = FIELD_COLUMN(5, 2, 0, "for", .text = put_cause)},
    {0}};

static struct wait_row wait_row_of(const struct mpi_messages *messages, const struct mpi_wait *wait)
{
    size_t most = 0;
    for (size_t i = 1; i < messages->rank_count; i++)
        if (wait->by_rank[i] > wait->by_rank[most])
            most = i;
    return (struct wait_row){.wait = wait,
                             .waits = place_of(messages, wait->key.place),
                             .cause = place_of(messages, wait->key.cause),
                             .kind = mpi_wait_name((enum mpi_wait_kind)wait->key.kind),
                             .for_rank = &messages->ranks[most],
                             .rank = messages->ranks[most].rank,
                             .rank_ns = wait->by_rank[most]};
}

static json_t *waits_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    json_t *list = json_array();
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next) {
        const struct wait_row one = wait_row_of(messages, wait);
        json_array_append_new(list, fields_json(wait_fields, &one, all));
    }
    return list;
}

static void report_put_waits(struct buf *out, const struct mpi_messages *messages)
{
    size_t count = HASH_COUNT(messages->waits), used = 0;
    struct wait_row rows[SHOWN_WAITS];
    if (count) {
        buf_puts(out, "  lost: ");
        text_ns(out, (double)mpi_messages_waited_ns(messages));
        buf_puts(out, " in which ranks waited for each other, all together\n");
    }
    for (const struct mpi_wait *wait = messages->waits; wait && used < SHOWN_WAITS; wait = wait->hh.next)
        rows[used++] = wait_row_of(messages, wait);
    fields_table(out,
                 &(struct field_table){wait_fields, .most = SHOWN_WAITS, .more = " with less time (--json lists them)"},
                 rows, count, sizeof *rows, messages);
}

struct unjudged_row {
    const char *call;
    bool blocks;
    uint64_t count;
    int64_t ns;
};

static const struct field unjudged_fields[] = {{"call", FIELD_TEXT, FIELD_AT(struct unjudged_row, call)},
                                               {"blocks", FIELD_BOOL, FIELD_AT(struct unjudged_row, blocks),
                                                .about = "false: it looked in vain (MPI_Test, MPI_Iprobe ...)"},
                                               {"count", FIELD_COUNT, FIELD_AT(struct unjudged_row, count)},
                                               {"total_ns", FIELD_NS, FIELD_AT(struct unjudged_row, ns)},
                                               {0}};

static json_t *unjudged_json(const void *row, const void *all)
{
    const struct mpi_unjudged *unjudged = ((const struct mpi_messages *)row)->unjudged;
    json_t *list = json_array();
    for (uint32_t call = 0; call < CALL_COUNT; call++) {
        const struct unjudged_row one = {mpi_text_call(call), mpi_waiting_of(call) == MPI_WAITS, unjudged[call].count,
                                         unjudged[call].ns};
        if (one.count)
            json_array_append_new(list, fields_json(unjudged_fields, &one, all));
    }
    return list;
}

/* ---- messages ---- */

struct slow_row {
    int32_t from, to, tag;
    const char *comm;
    uint64_t bytes;
    int64_t sent, received, ns;
    const struct mpi_place *send, *receive;
};

static void put_latency(struct buf *out, const void *at, const void *row, const void *all)
{
    text_ns(out, (double)*(const int64_t *)at);
}

static void put_calls(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct slow_row *slow = row;
    mpi_messages_place(out, slow->send);
    if (slow->receive != slow->send) {
        buf_puts(out, " -> ");
        mpi_messages_place(out, slow->receive);
    }
}

static const struct field slow_fields[] = {
    {"from", FIELD_COUNT, FIELD_AT(struct slow_row, from), .column = FIELD_COLUMN(3, 1, 6, "from")},
    {"to", FIELD_COUNT, FIELD_AT(struct slow_row, to), .column = FIELD_COLUMN(4, 1, 6, "to")},
    {"comm", FIELD_TEXT, FIELD_AT(struct slow_row, comm)},
    {"tag", FIELD_INTEGER, FIELD_AT(struct slow_row, tag), .column = FIELD_COLUMN(5, 1, 10, "tag")},
    {"bytes", FIELD_BYTES, FIELD_AT(struct slow_row, bytes), .column = FIELD_COLUMN(6, 1, 8, "size")},
    {"sent_seconds", FIELD_SECONDS, FIELD_AT(struct slow_row, sent),
     .column = FIELD_COLUMN(2, 1, 10, "sent at", .text = put_time)},
    {"received_seconds", FIELD_SECONDS, FIELD_AT(struct slow_row, received)},
    {"latency_ns", FIELD_INTEGER, FIELD_AT(struct slow_row, ns),
     .column = FIELD_COLUMN(1, 1, 10, "      took", .text = put_latency)},
    {"send", FIELD_OBJECT, FIELD_AT(struct slow_row, send), FIELD_POINTER, .of = place_fields,
     .about = "the call that posted it"},
    {"receive", FIELD_OBJECT, FIELD_AT(struct slow_row, receive), FIELD_POINTER, .of = place_fields,
     .about = "the call that completed it"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(7, 2, 0, "calls", .text = put_calls)},
    {0}};

static struct slow_row slow_row_of(const struct mpi_messages *messages, const struct mpi_slow *slow)
{
    const struct mpi_message_rank *from = &messages->ranks[slow->from], *to = &messages->ranks[slow->to];
    const struct mpi_end *sent = &from->sent[slow->sent], *got = &to->got[sent->other];
    return (struct slow_row){.from = from->rank,
                             .to = to->rank,
                             .tag = sent->tag,
                             .comm = messages->comm_list[sent->comm]->name,
                             .bytes = sent->bytes,
                             .sent = sent->begin,
                             .received = got->end,
                             .ns = slow->ns,
                             .send = place_of(messages, sent->place),
                             .receive = place_of(messages, got->place)};
}

static json_t *slowest_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    json_t *list = json_array();
    for (size_t i = 0; i < messages->slowest_count; i++) {
        const struct slow_row one = slow_row_of(messages, &messages->slowest[i]);
        json_array_append_new(list, fields_json(slow_fields, &one, all));
    }
    return list;
}

static void report_put_slowest(struct buf *out, const struct mpi_messages *messages)
{
    if (!messages->slowest_count)
        return;
    buf_puts(out, "\nMessages that took longest, from the begin of the send to the end of the receive\n");
    fields_title(out, slow_fields, messages);
    for (size_t i = 0; i < messages->slowest_count; i++) {
        const struct slow_row one = slow_row_of(messages, &messages->slowest[i]);
        fields_row(out, slow_fields, &one, messages);
    }
}

static json_t *comm_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = all;
    return text_json(messages->comm_list[((const struct mpi_left *)row)->comm]->name);
}

static void put_channel(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_messages *messages = all;
    const struct mpi_left *left = row;
    put_who(out, messages, left->world, left->from);
    buf_puts(out, " to ");
    if (left->to_world != left->world)
        put_who(out, messages, left->to_world, left->to);
    else
        buf_printf(out, "%d", left->to);
    buf_printf(out, ", tag %d on %s", left->tag, messages->comm_list[left->comm]->name);
}

static const struct field left_fields[] = {
    {"program", FIELD_COUNT, FIELD_AT(struct mpi_left, world)},
    {"comm", FIELD_TEXT, .json = comm_json},
    {"from", FIELD_INTEGER, FIELD_AT(struct mpi_left, from)},
    {"to", FIELD_INTEGER, FIELD_AT(struct mpi_left, to)},
    {"tag", FIELD_INTEGER, FIELD_AT(struct mpi_left, tag)},
    {"unreceived", FIELD_COUNT, FIELD_AT(struct mpi_left, sent),
     .column = FIELD_COLUMN(1, 0, 35, "Messages with one end only     sent")},
    {"unsent", FIELD_COUNT, FIELD_AT(struct mpi_left, got), .column = FIELD_COLUMN(2, 1, 8, "received")},
    {"ambiguous_sent", FIELD_COUNT, FIELD_AT(struct mpi_left, sent_unsure),
     .column = FIELD_COLUMN(3, 1, 12, "ambiguous (sent,")},
    {"ambiguous_received", FIELD_COUNT, FIELD_AT(struct mpi_left, got_unsure),
     .column = FIELD_COLUMN(4, 1, 13, "received)")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 2, 0, "channel", .text = put_channel)},
    {0}};

static json_t *left_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    return fields_list(left_fields, messages->left, messages->left_count, sizeof *messages->left, all);
}

static void report_put_left(struct buf *out, const struct mpi_messages *messages)
{
    size_t count = messages->left_count < SHOWN_LEFT ? messages->left_count : SHOWN_LEFT;
    fields_table(out, &(struct field_table){left_fields}, messages->left, count, sizeof *messages->left, messages);
    if (messages->left_channels > SHOWN_LEFT)
        buf_printf(out, "  ... and %" PRIu64 " more channels\n", messages->left_channels - SHOWN_LEFT);
}

static json_t *waited_json(const void *row, const void *all)
{
    return json_integer(mpi_messages_waited_ns(row));
}

static json_t *least_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    return messages->matched ? json_integer(messages->latency_min_ns) : json_null();
}

/* ---- all ---- */

static const struct field messages_fields[] = {
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_messages, matched), .about = "matched from send to receive"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_messages, matched_bytes), .about = "of them"},
    {"collectives", FIELD_COUNT, FIELD_AT(struct mpi_messages, collectives), .about = "operations"},
    {"unreceived", FIELD_COUNT, FIELD_AT(struct mpi_messages, unreceived),
     .about = "sends without a receive; a receive that failed, as one whose buffer was too short (MPI_ERR_TRUNCATE), "
              "is none"},
    {"unsent", FIELD_COUNT, FIELD_AT(struct mpi_messages, unsent), .about = "receives without a send"},
    {"ambiguous_sent", FIELD_COUNT, FIELD_AT(struct mpi_messages, sent_unsure),
     .about = "sends whose receive cannot be told, for records are missing"},
    {"ambiguous_received", FIELD_COUNT, FIELD_AT(struct mpi_messages, got_unsure)},
    {"other_programs", FIELD_COUNT, FIELD_AT(struct mpi_messages, foreign),
     .about = "sends and receives whose other rank has no trace here"},
    {"not_looked_at", FIELD_COUNT, FIELD_AT(struct mpi_messages, unkept), .about = "records beyond a limit"},
    {"latency_min_ns", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = least_json,
     .about = "from the begin of the send to the end of the receive"},
    {"latency_total_ns", FIELD_INTEGER, FIELD_AT(struct mpi_messages, latency_total_ns)},
    {"clocks", FIELD_OBJECT, FIELD_AT(struct mpi_messages, timeline), .of = clock_fields,
     .about = "the common time line"},
    {"ranks", FIELD_LIST, .json = ranks_json, .of = rank_fields},
    {"waited_ns", FIELD_NS, .json = waited_json, .about = "of all \"waits\": what ranks lost, all together"},
    {"waits", FIELD_LIST, .json = waits_json, .of = wait_fields, .about = "by total time"},
    {"waits_judged_ns", FIELD_NS, FIELD_AT(struct mpi_messages, judged_ns),
     .about = "time in blocking calls that are judged: they waited as long as \"waits\" says, or not"},
    {"waits_not_judged", FIELD_LIST, .json = unjudged_json, .of = unjudged_fields,
     .about = "calls of which it cannot be said whether they waited for another rank"},
    {"slowest", FIELD_LIST, .json = slowest_json, .of = slow_fields},
    {"channels_with_unmatched", FIELD_LIST, .json = left_json, .of = left_fields,
     .about = "at most 20, those with the most first"},
    {"channels_with_unmatched_count", FIELD_COUNT, FIELD_AT(struct mpi_messages, left_channels),
     .about = "how many there are"},
    {0}};

const struct field report_messages_fields[] = {
    {"mpi_trace", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = messages_fields,
     .about = "messages out of the traces of the ranks (scry run --mpi trace); null: there are none"},
    {0}};

void mpi_messages_json(json_t *report, const struct mpi_messages *messages)
{
    bool any = messages && messages->rank_count;
    json_object_set_new(report, "mpi_trace", any ? fields_json(messages_fields, messages, messages) : json_null());
}

void report_messages_json(json_t *object, const struct job_report *report)
{
    mpi_messages_json(object, report->messages);
}

/* ---- for people ---- */

enum { SHOWN_UNJUDGED = 6 };

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void put_note(void *ctx, const char *line)
{
    struct buf *out = ctx;
    buf_printf(out, "  %s\n", line);
}

/* ---- what is not judged ---- */

/* Of the calls that block, or of those that only look: the most time first. */
static size_t sort_unjudged(const struct mpi_messages *messages, enum mpi_waiting waiting, uint32_t *calls,
                            double *ret_ns)
{
    size_t count = 0;
    *ret_ns = 0;
    for (uint32_t call = 0; call < CALL_COUNT; call++) {
        if (!messages->unjudged[call].count || mpi_waiting_of(call) != waiting)
            continue;
        size_t place = count++;
        for (; place && messages->unjudged[calls[place - 1]].ns < messages->unjudged[call].ns; place--)
            calls[place] = calls[place - 1];
        calls[place] = call;
        *ret_ns += (double)messages->unjudged[call].ns;
    }
    return count;
}

static void put_unjudged_calls(struct buf *out, const struct mpi_messages *messages, const uint32_t *calls,
                               size_t count)
{
    for (size_t i = 0; i < count && i < SHOWN_UNJUDGED; i++) {
        buf_printf(out, "%s%s ", i ? ", " : "", mpi_text_call(calls[i]));
        text_ns(out, (double)messages->unjudged[calls[i]].ns);
        buf_printf(out, " (%" PRIu64 ")", messages->unjudged[calls[i]].count);
    }
    if (count > SHOWN_UNJUDGED)
        buf_printf(out, ", %zu more", count - SHOWN_UNJUDGED);
    buf_putc(out, '\n');
}

/* What the table does not show, so that nobody takes it for nothing. */
static void put_unjudged(struct buf *out, const struct mpi_messages *messages)
{
    uint32_t calls[CALL_COUNT];
    double ns, all = (double)messages->judged_ns;
    size_t count = sort_unjudged(messages, MPI_WAITS, calls, &ns);
    if (!messages->judged_ns && !count)
        return;
    if (!messages->waits)
        buf_puts(out, "\nNo rank waited for another one, in the calls that can be judged\n");
    if (count) {
        buf_puts(out, "  not judged: ");
        text_ns(out, ns);
        buf_puts(out, " of ");
        text_ns(out, all + ns);
        buf_puts(out, " in blocking calls: ");
        put_unjudged_calls(out, messages, calls, count);
    }
    count = sort_unjudged(messages, MPI_WAITS_LOOKS, calls, &ns);
    if (count) {
        buf_puts(out, "  not judged: ");
        text_ns(out, ns);
        buf_puts(out, " in calls that looked in vain: ");
        put_unjudged_calls(out, messages, calls, count);
    }
}

void mpi_messages_text(struct buf *out, const struct mpi_messages *messages)
{
    if (!messages || !messages->rank_count)
        return;
    _cleanup_(buf_done) struct buf size = BUF_INIT;
    text_size(&size, messages->matched_bytes);
    size_t hosts = messages->timeline.host_count;
    buf_printf(out,
               "\nMessages in the trace: %" PRIu64 " of %s from send to receive, %" PRIu64
               " collective operation%s, %zu rank%s",
               messages->matched, size.data ? size.data : "", messages->collectives, plural(messages->collectives),
               messages->rank_count, plural(messages->rank_count));
    if (hosts > 1)
        buf_printf(out, " on %zu hosts", hosts);
    buf_putc(out, '\n');
    if (messages->matched) {
        buf_puts(out, "  latency: at least ");
        text_ns(out, (double)messages->latency_min_ns);
        buf_puts(out, ", on average ");
        text_ns(out, (double)messages->latency_total_ns / (double)messages->matched);
        buf_puts(out, "; `scry export --format spacetime -o FILE.svg` shows them\n");
    }
    mpi_messages_notes(messages, put_note, out);
    report_put_waits(out, messages);
    put_unjudged(out, messages);
    report_put_slowest(out, messages);
    report_put_left(out, messages);
    report_put_open(out, messages);
}

/* Of all ranks, or not looked at. */
void report_messages_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    mpi_messages_text(out, report->messages);
}
