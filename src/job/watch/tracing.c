/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"
#include "lang/request.h"
#include "lang/results.h"
#include "lang/value.h"

void tracing_request(struct buf *out, const struct run_options *options, const char *dir)
{
    for (size_t i = 0; i < options->setting_count && *dir; i++)
        PUT_CALL(out, "job_set", dir, options->settings[i].key, options->settings[i].value);
    if (options->home && *dir)
        PUT_CALL(out, "job_set", dir, JOB_HOME, options->home);
    if (options->loaded && *dir) /* last: from then on, what is not loaded cannot be switched on */
        PUT_CALL(out, "job_set", dir, "loaded", options->loaded);
}

void tracing_check(Omis_reply reply, const struct run_options *options, struct err *err)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    while (omis_reader_next(reader)) {
        Omis_status status = omis_reader_status(reader);
        size_t i = omis_reader_action(reader);
        if (status < OMIS_FIRST_ERROR)
            continue;
        bool unknown = status == OMIS_UNKNOWN_SERVICE || status == OMIS_UNSUPPORTED_SERVICE;
        const char *key = i > 0 && i <= options->setting_count ? options->settings[i - 1].key : NULL;
        const char *text = omis_reader_text(reader);
        err_set(err, unknown ? -ENOSYS : -EINVAL, "%s%s: %s", key ? "--" : "the settings of tracing", key ? key : "",
                unknown ? "the running monitor cannot trace functions: is it of another version?"
                : *text ? text
                        : omis_status_name(status));
        return;
    }
}

static const char *keep_text(struct trace_info *info, const char *text)
{
    if (info->text_count == TRACING_NOTES)
        return "";
    char *kept = info->texts[info->text_count++];
    snprintf(kept, sizeof info->texts[0], "%s", text);
    return kept;
}

/* Reads a note: its name and fields. Of a kind that only another version knows, keeps the name. */
static struct note take_note(struct trace_info *info, const struct omis_value *list)
{
    const char *name = omis_text(omis_item(list, 0), NULL);
    struct note note = {.kind = note_find(name)};
    const struct note_field *fields = note_fields(note.kind);
    for (size_t i = 0; fields[i].name[0]; i++) {
        const struct omis_value *value = omis_item(list, i + 1);
        if (fields[i].type == NOTE_STRING)
            note.words[i].string = keep_text(info, omis_text(value, NULL));
        else if (fields[i].type == NOTE_FLOATING)
            note.words[i].floating = omis_floating(value);
        else
            note.words[i].integer = omis_unsigned(value);
    }
    return note.kind ? note : NOTE(said, .text = keep_text(info, name));
}

static size_t take_notes(struct trace_info *info, struct note *ret_notes, const struct omis_value *lists)
{
    size_t count = 0;
    for (; count < omis_count(lists) && count < TRACING_NOTES; count++)
        ret_notes[count] = take_note(info, omis_item(lists, count));
    return count;
}

const struct note *tracing_note(const struct trace_info *info, enum note_kind kind)
{
    for (size_t i = 0; i < info->note_count; i++)
        if (info->notes[i].kind == kind)
            return &info->notes[i];
    return NULL;
}

void tracing_answer(Omis_reply reply, struct trace_info *ret_info)
{
    struct answer {
        uint64_t agents, draining, events, discarded, choosing;
        const char *unmatched;
        const struct omis_value *notes, *problems;
    } answer;
    static const struct decode_field fields[] = {
        DECODE(struct answer, agents),    DECODE(struct answer, draining), DECODE(struct answer, events),
        DECODE(struct answer, discarded), DECODE(struct answer, choosing), DECODE(struct answer, unmatched),
        DECODE(struct answer, notes),     DECODE(struct answer, problems), {0}};
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    struct decoder decoder;
    decoder_init(&decoder, JOB_TRACE_INFO_RESULT, 0, fields);
    omis_reader_find(reader, 1);
    decode(&decoder, omis_reader_values(reader), 0, &answer);
    *ret_info = (struct trace_info){0};
    if (!answer.problems)
        return;
    *ret_info = (struct trace_info){.known = true,
                                    .live = answer.agents,
                                    .draining = answer.draining,
                                    .events = answer.events,
                                    .discarded = answer.discarded,
                                    .choosing = answer.choosing};
    snprintf(ret_info->unmatched, sizeof ret_info->unmatched, "%s", answer.unmatched);
    ret_info->note_count = take_notes(ret_info, ret_info->notes, answer.notes);
    ret_info->problem_count = take_notes(ret_info, ret_info->problems, answer.problems);
}

/* ---- what rules of scry run print ---- */

struct change {
    const char *key, *value;
};
static const struct decode_field change_fields[] = {DECODE(struct change, key), DECODE(struct change, value), {0}};

struct asked {
    const char *who, *serial, *request, *status, *why;
    uint64_t pid, uid, left_out;
};
static const struct decode_field asked_fields[] = {
    DECODE(struct asked, who), DECODE(struct asked, serial),   DECODE(struct asked, pid),
    DECODE(struct asked, uid), DECODE(struct asked, request),  DECODE(struct asked, status),
    DECODE(struct asked, why), DECODE(struct asked, left_out), {0}};

struct stall {
    double seconds;
    uint64_t ranks, late;
    const char *text, *finding;
};
static const struct decode_field stall_fields[] = {DECODE(struct stall, seconds), DECODE(struct stall, ranks),
                                                   DECODE(struct stall, text),    DECODE(struct stall, finding),
                                                   DECODE(struct stall, late),    {0}};

/* Of the action behind the colon. */
static const struct omis_value *printed(struct omis_reader *reader)
{
    omis_reader_find(reader, 1);
    return omis_reader_values(reader);
}

void tracing_rule(char *ret_rule, size_t size, const char *event, const char *dir, const char *more,
                  const struct decode_field *fields)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "%s(", event);
    value_print_string(&text, span_str(dir));
    buf_printf(&text, "%s) : ", more);
    decode_request(&text, fields);
    snprintf(ret_rule, size, "%s", text.data ? text.data : "");
}

void tracing_rule_changed(char *ret_rule, size_t size, const char *dir)
{
    tracing_rule(ret_rule, size, "job_setting_changed", dir, "", change_fields);
}

void tracing_changed(Omis_reply reply, void (*changed)(void *ctx, const char *key, const char *value), void *ctx)
{
    struct change change;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    if (decode_printed(printed(reader), change_fields, &change) && changed)
        changed(ctx, change.key, change.value);
}

void tracing_rule_requested(char *ret_rule, size_t size, const char *dir)
{
    tracing_rule(ret_rule, size, "job_was_requested", dir, "", asked_fields);
}

void tracing_requested(struct recorder *recorder, Omis_reply reply)
{
    struct asked asked;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    if (decode_printed(printed(reader), asked_fields, &asked))
        recorder_put(recorder, RECORD(request, .who = asked.who, .serial = asked.serial, .pid = (int64_t)asked.pid,
                                      .uid = (int64_t)asked.uid, .request = asked.request, .status = asked.status,
                                      .why = asked.why, .left_out = asked.left_out));
}

void tracing_rule_stalled(char *ret_rule, size_t size, const char *dir, double seconds)
{
    char more[40];
    snprintf(more, sizeof more, ", %.3f", seconds);
    tracing_rule(ret_rule, size, "mpi_job_has_stalled", dir, more, stall_fields);
}

void tracing_stalled(struct recorder *recorder, Omis_reply reply)
{
    struct stall stall;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    if (!decode_printed(printed(reader), stall_fields, &stall))
        return;
    recorder_put(recorder,
                 RECORD(stall, .seconds = stall.seconds, .ranks = stall.ranks, .why = stall.text, .late = stall.late));
    recorder_note(recorder, NOTE(mpi_stalled, .seconds = stall.seconds, .finding = stall.finding));
}

void tracing_denied(struct recorder *recorder, const struct rule *rule, Omis_reply reply)
{
    struct denied {
        const char *file;
    } denied;
    static const struct decode_field fields[] = {DECODE(struct denied, file), {0}};
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    if (rule->fired <= 1 && decode_printed(printed(reader), fields, &denied))
        recorder_note(recorder, NOTE(privileges_denied, .program = denied.file));
}

static struct span action_name(const struct request *request, size_t number)
{
    return number <= request->action_count ? request->actions[number - 1].name : span_str("an action");
}

/* Counts a failed action of a rule, for the warning at the end. */
static void note_failure(struct rule *rule, const struct request *request, struct omis_reader *reader)
{
    bool failed = false;
    while (omis_reader_next(reader)) {
        size_t i = omis_reader_action(reader);
        if (i == 0 || omis_reader_status(reader) < OMIS_FIRST_ERROR)
            continue;
        failed = true;
        if (!rule->action_err.code)
            err_set(&rule->action_err, -EIO, "%.*s: %s", SPAN_ARG(action_name(request, i)), omis_reader_error(reader));
    }
    rule->failed += failed;
}

void tracing_record_rule(struct recorder *recorder, struct rule *rule, Omis_reply reply)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct request request = {0};
    if (request_parse(&arena, span_str(rule->text), &request, NULL) < 0)
        request.action_count = 0;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    note_failure(rule, &request, reader);
    if (rule->fired > TRACING_RULE_RECORDS)
        return;
    json_t *results = json_array();
    for (size_t i = 1; reply[0] && reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++) {
            struct span service = action_name(&request, i);
            json_t *row = json_pack("{s:i, s:s%, s:o, s:i, s:o}", "action", (int)i, "service", service.ptr, service.len,
                                    "objects", text_json(result->obj_list), "status", result->status, "result",
                                    text_json(result->result));
            if (result->status >= OMIS_FIRST_ERROR)
                json_object_set_new(row, "error", json_string(omis_status_name(result->status)));
            json_array_append_new(results, row);
        }
    recorder_put(recorder, RECORD(rule, .rule = rule->text, .fired = rule->fired, .results = results));
    json_decref(results);
}

void tracing_record_rules(struct recorder *recorder, const struct rules *rules)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rules->count; i++)
        if (!rules->list[i].optional)
            json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "rule", text_json(rules->list[i].text), "fired",
                                                  (json_int_t)rules->list[i].fired, "failed",
                                                  (json_int_t)rules->list[i].failed));
    if (json_array_size(list))
        recorder_put(recorder, RECORD(rules, .list = list));
    json_decref(list);
}
