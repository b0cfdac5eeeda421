/* SPDX-License-Identifier: Apache-2.0 */
/* Messages out of the trace, for programs: .mpi_trace of the report (doc/reference/report.schema.json). */
#include "base/cleanup.h"
#include "jobdir/mpi_messages.h"
#include "jobdir/mpi_text.h"
#include "jobdir/report_internal.h"
#include "jobdir/text.h"

static json_t *number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *place_json(const struct mpi_messages *messages, uint32_t place)
{
    const struct mpi_place *of = messages->place_list[place];
    return json_pack("{s:s, s:o}", "call", mpi_text_call(of->key.call), "where", text_json(of->where));
}

static json_t *hosts_json(const struct timeline *timeline)
{
    json_t *list = json_array();
    for (size_t i = 0; i < timeline->host_count; i++) {
        const struct timeline_host *host = &timeline->hosts[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:f, s:f, s:f, s:f}", "host", text_json(host->name), "how",
                                              timeline_how_name(host->how), "start_seconds", host->start_ns / 1e9,
                                              "start_offset_ns", host->offset_start_ns, "end_seconds",
                                              host->end_ns / 1e9, "end_offset_ns", host->offset_end_ns));
    }
    return list;
}

static json_t *in_json(const struct mpi_messages *messages, const struct mpi_message_rank *rank)
{
    if (!rank->in_call)
        return json_null();
    json_t *json = place_json(messages, rank->in_place);
    json_object_set_new(json, "since_seconds", json_real((double)rank->in_since / 1e9));
    return json;
}

static json_t *ranks_json(const struct mpi_messages *messages)
{
    json_t *list = json_array();
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        json_array_append_new(
            list, json_pack("{s:I, s:i, s:o, s:i, s:o, s:o, s:o, s:b, s:b, s:o, s:o}", "program",
                            (json_int_t)rank->world, "rank", rank->rank, "node", text_json(rank->node), "pid",
                            (int)rank->pid, "sent", number(rank->sent_count - rank->failed), "received",
                            number(rank->got_count), "collectives", number(rank->part_count), "from_start",
                            rank->from_start, "interrupted", rank->from_start && rank->gap_end != INT64_MIN,
                            "missing_records", number(rank->lost), "ends_in", in_json(messages, rank)));
    }
    return list;
}

static json_t *waits_json(const struct mpi_messages *messages)
{
    json_t *list = json_array();
    for (const struct mpi_wait *wait = messages->waits; wait; wait = wait->hh.next) {
        size_t most = 0;
        for (size_t i = 1; i < messages->rank_count; i++)
            if (wait->by_rank[i] > wait->by_rank[most])
                most = i;
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:o}", "kind",
                                              mpi_wait_name((enum mpi_wait_kind)wait->key.kind), "waits",
                                              place_json(messages, wait->key.place), "for",
                                              place_json(messages, wait->key.cause), "count", number(wait->count),
                                              "total_ns", json_integer(wait->total_ns), "max_ns",
                                              json_integer(wait->max_ns), "for_rank", messages->ranks[most].rank,
                                              "for_rank_ns", number((uint64_t)wait->by_rank[most])));
    }
    return list;
}

static json_t *unjudged_json(const struct mpi_messages *messages)
{
    json_t *list = json_array();
    for (uint32_t call = 0; call < CALL_COUNT; call++)
        if (messages->unjudged[call].count)
            json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:I}", "call", mpi_text_call(call), "blocks",
                                                  mpi_waiting_of(call) == MPI_WAITS, "count",
                                                  number(messages->unjudged[call].count), "total_ns",
                                                  (json_int_t)messages->unjudged[call].ns));
    return list;
}

static json_t *slowest_json(const struct mpi_messages *messages)
{
    json_t *list = json_array();
    for (size_t i = 0; i < messages->slowest_count; i++) {
        const struct mpi_slow *slow = &messages->slowest[i];
        const struct mpi_message_rank *from = &messages->ranks[slow->from], *to = &messages->ranks[slow->to];
        const struct mpi_end *sent = &from->sent[slow->sent], *got = &to->got[sent->other];
        json_array_append_new(
            list, json_pack("{s:i, s:i, s:o, s:i, s:o, s:f, s:f, s:o, s:o, s:o}", "from", from->rank, "to", to->rank,
                            "comm", text_json(messages->comm_list[sent->comm]->name), "tag", sent->tag, "bytes",
                            number(sent->bytes), "sent_seconds", (double)sent->begin / 1e9, "received_seconds",
                            (double)got->end / 1e9, "latency_ns", json_integer(slow->ns), "send",
                            place_json(messages, sent->place), "receive", place_json(messages, got->place)));
    }
    return list;
}

static json_t *left_json(const struct mpi_messages *messages)
{
    json_t *list = json_array();
    for (size_t i = 0; i < messages->left_count; i++) {
        const struct mpi_left *left = &messages->left[i];
        json_array_append_new(
            list, json_pack("{s:I, s:o, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "program", (json_int_t)left->world, "comm",
                            text_json(messages->comm_list[left->comm]->name), "from", left->from, "to", left->to, "tag",
                            left->tag, "unreceived", number(left->sent), "unsent", number(left->got), "ambiguous_sent",
                            number(left->sent_unsure), "ambiguous_received", number(left->got_unsure)));
    }
    return list;
}

void mpi_messages_json(json_t *report, const struct mpi_messages *messages)
{
    if (!messages || !messages->rank_count) {
        json_object_set_new(report, "mpi_trace", json_null());
        return;
    }
    const struct timeline *timeline = &messages->timeline;
    json_t *json =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "messages", number(messages->matched),
                  "bytes", number(messages->matched_bytes), "collectives", number(messages->collectives), "unreceived",
                  number(messages->unreceived), "unsent", number(messages->unsent), "ambiguous_sent",
                  number(messages->sent_unsure), "ambiguous_received", number(messages->got_unsure), "other_programs",
                  number(messages->foreign), "not_looked_at", number(messages->unkept), "latency_min_ns",
                  messages->matched ? json_integer(messages->latency_min_ns) : json_null(), "latency_total_ns",
                  json_integer(messages->latency_total_ns));
    json_t *clocks = json_pack("{s:o, s:o, s:o, s:o}", "hosts", hosts_json(timeline), "arrived_too_early",
                               number(timeline->early), "corrected", number(timeline->corrected),
                               "largest_correction_ns", json_integer(timeline->largest_ns));
    json_object_set_new(json, "clocks", clocks);
    json_object_set_new(json, "ranks", ranks_json(messages));
    json_object_set_new(json, "waits", waits_json(messages));
    json_object_set_new(json, "waits_judged_ns", json_integer(messages->judged_ns));
    json_object_set_new(json, "waits_not_judged", unjudged_json(messages));
    json_object_set_new(json, "slowest", slowest_json(messages));
    json_object_set_new(json, "channels_with_unmatched", left_json(messages));
    json_object_set_new(json, "channels_with_unmatched_count", number(messages->left_channels));
    json_object_set_new(report, "mpi_trace", json);
}

void report_messages_json(json_t *object, const struct job_report *report)
{
    mpi_messages_json(object, report->messages);
}
