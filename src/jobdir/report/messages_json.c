/* SPDX-License-Identifier: Apache-2.0 */
/* Messages out of the trace, for programs: .mpi_trace of the report (doc/reference/report.schema.json). What all rows
 * belong to is the struct mpi_messages. */
#include "jobdir/text/fields.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

/* ---- calls ---- */

static const struct field place_fields[] = {
    {"call", FIELD_TEXT, FIELD_NAMED(struct mpi_place, key.call, mpi_text_call)},
    {"where", FIELD_TEXT, FIELD_AT(struct mpi_place, where), .about = "function and line; empty if not known"},
    {0}};

static const struct mpi_place *place_of(const struct mpi_messages *messages, uint32_t place)
{
    return messages->place_list[place];
}

/* ---- clocks ---- */

static json_t *how_json(const void *row, const void *all)
{
    return json_string(timeline_how_name(((const struct timeline_host *)row)->how));
}

static json_t *start_json(const void *row, const void *all)
{
    return json_real(((const struct timeline_host *)row)->start_ns / 1e9);
}

static json_t *end_json(const void *row, const void *all)
{
    return json_real(((const struct timeline_host *)row)->end_ns / 1e9);
}

static const struct field host_fields[] = {
    {"host", FIELD_TEXT, FIELD_AT(struct timeline_host, name)},
    {"how", FIELD_CHOICE, .json = how_json, .choices = "reference|both_ways|once|one_way|as_it_is",
     .about = "how the offset was found"},
    {"start_seconds", FIELD_SECONDS, .json = start_json},
    {"start_offset_ns", FIELD_NUMBER, FIELD_AT(struct timeline_host, offset_start_ns),
     .about = "added to its times at start_seconds"},
    {"end_seconds", FIELD_SECONDS, .json = end_json},
    {"end_offset_ns", FIELD_NUMBER, FIELD_AT(struct timeline_host, offset_end_ns)},
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

static const struct field who_fields[] = {
    {"program", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, world),
     .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"rank", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, rank)},
    {"node", FIELD_TEXT, FIELD_AT(struct mpi_message_rank, node)},
    {"pid", FIELD_INTEGER, FIELD_AT(struct mpi_message_rank, pid)},
    {"received", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, got_count)},
    {"collectives", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, part_count)},
    {"from_start", FIELD_BOOL, FIELD_AT(struct mpi_message_rank, from_start),
     .about = "its trace begins before MPI_Init has returned"},
    {"missing_records", FIELD_COUNT, FIELD_AT(struct mpi_message_rank, lost)},
    {"ends_in", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = in_json, .of = in_fields,
     .about = "the call of MPI in which its trace ends: it was killed there, or is in it still"},
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

/* ---- waits ---- */

struct wait_row {
    const struct mpi_wait *wait;
    const struct mpi_place *waits, *cause;
    const char *kind;
    int32_t rank;
    double rank_ns;
};

static const struct field wait_times_fields[] = {{"count", FIELD_COUNT, FIELD_AT(struct mpi_wait, count)},
                                                 {"total_ns", FIELD_NS, FIELD_AT(struct mpi_wait, total_ns)},
                                                 {"max_ns", FIELD_NS, FIELD_AT(struct mpi_wait, max_ns)},
                                                 {0}};

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
    {0}};

static json_t *waits_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    json_t *list = json_array();
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next) {
        size_t most = 0;
        for (size_t i = 1; i < messages->rank_count; i++)
            if (wait->by_rank[i] > wait->by_rank[most])
                most = i;
        const struct wait_row one = {.wait = wait,
                                     .waits = place_of(messages, wait->key.place),
                                     .cause = place_of(messages, wait->key.cause),
                                     .kind = mpi_wait_name((enum mpi_wait_kind)wait->key.kind),
                                     .rank = messages->ranks[most].rank,
                                     .rank_ns = wait->by_rank[most]};
        json_array_append_new(list, fields_json(wait_fields, &one, all));
    }
    return list;
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

static const struct field slow_fields[] = {{"from", FIELD_COUNT, FIELD_AT(struct slow_row, from)},
                                           {"to", FIELD_COUNT, FIELD_AT(struct slow_row, to)},
                                           {"comm", FIELD_TEXT, FIELD_AT(struct slow_row, comm)},
                                           {"tag", FIELD_INTEGER, FIELD_AT(struct slow_row, tag)},
                                           {"bytes", FIELD_BYTES, FIELD_AT(struct slow_row, bytes)},
                                           {"sent_seconds", FIELD_SECONDS, FIELD_AT(struct slow_row, sent)},
                                           {"received_seconds", FIELD_SECONDS, FIELD_AT(struct slow_row, received)},
                                           {"latency_ns", FIELD_INTEGER, FIELD_AT(struct slow_row, ns)},
                                           {"send", FIELD_OBJECT, FIELD_AT(struct slow_row, send), FIELD_POINTER,
                                            .of = place_fields, .about = "the call that posted it"},
                                           {"receive", FIELD_OBJECT, FIELD_AT(struct slow_row, receive), FIELD_POINTER,
                                            .of = place_fields, .about = "the call that completed it"},
                                           {0}};

static json_t *slowest_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    json_t *list = json_array();
    for (size_t i = 0; i < messages->slowest_count; i++) {
        const struct mpi_slow *slow = &messages->slowest[i];
        const struct mpi_message_rank *from = &messages->ranks[slow->from], *to = &messages->ranks[slow->to];
        const struct mpi_end *sent = &from->sent[slow->sent], *got = &to->got[sent->other];
        const struct slow_row one = {.from = from->rank,
                                     .to = to->rank,
                                     .tag = sent->tag,
                                     .comm = messages->comm_list[sent->comm]->name,
                                     .bytes = sent->bytes,
                                     .sent = sent->begin,
                                     .received = got->end,
                                     .ns = slow->ns,
                                     .send = place_of(messages, sent->place),
                                     .receive = place_of(messages, got->place)};
        json_array_append_new(list, fields_json(slow_fields, &one, all));
    }
    return list;
}

static json_t *comm_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = all;
    return text_json(messages->comm_list[((const struct mpi_left *)row)->comm]->name);
}

static const struct field left_fields[] = {{"program", FIELD_COUNT, FIELD_AT(struct mpi_left, world)},
                                           {"comm", FIELD_TEXT, .json = comm_json},
                                           {"from", FIELD_INTEGER, FIELD_AT(struct mpi_left, from)},
                                           {"to", FIELD_INTEGER, FIELD_AT(struct mpi_left, to)},
                                           {"tag", FIELD_INTEGER, FIELD_AT(struct mpi_left, tag)},
                                           {"unreceived", FIELD_COUNT, FIELD_AT(struct mpi_left, sent)},
                                           {"unsent", FIELD_COUNT, FIELD_AT(struct mpi_left, got)},
                                           {"ambiguous_sent", FIELD_COUNT, FIELD_AT(struct mpi_left, sent_unsure)},
                                           {"ambiguous_received", FIELD_COUNT, FIELD_AT(struct mpi_left, got_unsure)},
                                           {0}};

static json_t *left_json(const void *row, const void *all)
{
    const struct mpi_messages *messages = row;
    return fields_list(left_fields, messages->left, messages->left_count, sizeof *messages->left, all);
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
    {"unreceived", FIELD_COUNT, FIELD_AT(struct mpi_messages, unreceived), .about = "sends without a receive"},
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
