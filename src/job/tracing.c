/* SPDX-License-Identifier: Apache-2.0 */
#include "job/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "jobdir/text.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/value.h"

static void put_setting(struct buf *out, const char *dir, const char *key, const char *value)
{
    buf_puts(out, out->len ? " job_set(" : ":job_set(");
    value_print_string(out, span_str(dir));
    buf_puts(out, ", ");
    value_print_string(out, span_str(key));
    buf_puts(out, ", ");
    value_print_string(out, span_str(value));
    buf_putc(out, ')');
}

void tracing_request(struct buf *out, const struct run_options *options, const char *dir)
{
    for (size_t i = 0; i < options->setting_count && *dir; i++)
        put_setting(out, dir, options->settings[i].key, options->settings[i].value);
    if (options->loaded && *dir) /* last: from then on it is refused to switch on what is not there */
        put_setting(out, dir, "loaded", options->loaded);
}

void tracing_check(Omis_reply reply, const struct run_options *options, struct err *err)
{
    for (size_t i = 0; reply && reply[i]; i++) {
        const Omis_object_result *result = reply[i];
        if (!result->obj_list || result->status < OMIS_FIRST_ERROR)
            continue;
        bool unknown = result->status == OMIS_UNKNOWN_SERVICE || result->status == OMIS_UNSUPPORTED_SERVICE;
        const char *key = i > 0 && i <= options->setting_count ? options->settings[i - 1].key : NULL;
        err_set(err, unknown ? -ENOSYS : -EINVAL, "%s%s%s", key ? "--" : "the settings of tracing", key ? key : "",
                ": ");
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, "%s",
                 unknown          ? "the monitor that runs cannot trace functions: is it of another version?"
                 : result->result ? result->result
                                  : omis_status_name(result->status));
        return;
    }
}

static const struct value *values_of(Omis_reply reply, struct arena *arena, size_t wanted)
{
    const struct value *values;
    size_t count;
    if (!reply || !reply[0] || !reply[1] || !reply[1]->obj_list || reply[1]->status >= OMIS_FIRST_ERROR ||
        !reply[1]->result)
        return NULL;
    if (values_parse(arena, span_str(reply[1]->result), &values, &count, NULL) < 0 || count < wanted)
        return NULL;
    return values;
}

static uint64_t as_count(const struct value *value)
{
    return value->kind == VALUE_INTEGER && !value->integer.negative ? value->integer.bits : 0;
}

void tracing_answer(Omis_reply reply, struct trace_info *ret_info)
{
    enum { LIVE, DRAINING, EVENTS, DISCARDED, PROBLEM, NOTE, CHOOSING, UNMATCHED, MEMBERS };
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values = values_of(reply, &arena, MEMBERS);
    *ret_info = (struct trace_info){0};
    if (!values)
        return;
    *ret_info = (struct trace_info){.known = true,
                                    .live = as_count(&values[LIVE]),
                                    .draining = as_count(&values[DRAINING]),
                                    .events = as_count(&values[EVENTS]),
                                    .discarded = as_count(&values[DISCARDED]),
                                    .choosing = as_count(&values[CHOOSING])};
    if (values[PROBLEM].kind == VALUE_STRING)
        snprintf(ret_info->problem, sizeof ret_info->problem, "%.*s", SPAN_ARG(values[PROBLEM].text));
    if (values[UNMATCHED].kind == VALUE_STRING)
        snprintf(ret_info->unmatched, sizeof ret_info->unmatched, "%.*s", SPAN_ARG(values[UNMATCHED].text));
    if (values[NOTE].kind == VALUE_STRING)
        snprintf(ret_info->note, sizeof ret_info->note, "%.*s", SPAN_ARG(values[NOTE].text));
}

void tracing_changed(Omis_reply reply, void (*changed)(void *ctx, const char *key, const char *value), void *ctx)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values = values_of(reply, &arena, 2); /* of print: how many, and the list of them */
    if (!values || values[1].kind != VALUE_LIST || values[1].list.count < 2)
        return;
    values = values[1].list.items;
    if (values[0].kind != VALUE_STRING || values[1].kind != VALUE_STRING)
        return;
    const char *key = arena_dup(&arena, values[0].text.ptr, values[0].text.len);
    const char *value = arena_dup(&arena, values[1].text.ptr, values[1].text.len);
    if (key && value && changed)
        changed(ctx, key, value);
}

/* The line that says what it is: the first finding, or how many wait. */
static void put_essence(struct buf *out, const char *text)
{
    const char *finding = strstr(text, "\n\n");
    finding = finding && strncmp(finding, "\n\nRanks\n", 8) != 0 ? finding + 2 : text;
    buf_append(out, finding, strcspn(finding, "\n"));
}

void tracing_stalled(struct recorder *recorder, Omis_reply reply)
{
    enum { SECONDS, RANKS, TEXT, MEMBERS };
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values = values_of(reply, &arena, 2); /* of print: how many, and the list of them */
    if (!values || values[1].kind != VALUE_LIST || values[1].list.count < MEMBERS)
        return;
    values = values[1].list.items;
    const char *text =
        values[TEXT].kind == VALUE_STRING ? arena_dup(&arena, values[TEXT].text.ptr, values[TEXT].text.len) : NULL;
    if (!text || values[SECONDS].kind != VALUE_FLOATING)
        return;
    double seconds = values[SECONDS].floating.number;
    _cleanup_(buf_done) struct buf essence = BUF_INIT;
    put_essence(&essence, text);
    recorder_put_take(recorder, "stall",
                      json_pack("{s:f, s:I, s:o}", "seconds", seconds, "ranks", (json_int_t)as_count(&values[RANKS]),
                                "why", text_json(text)));
    recorder_warn(recorder, "stalled", "no rank began or ended a call of MPI for %.0f s: %s", seconds,
                  essence.data ? essence.data : "");
}

void tracing_denied(struct recorder *recorder, const struct rule *rule, Omis_reply reply)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values = values_of(reply, &arena, 2);
    if (rule->fired > 1 || !values || values[1].kind != VALUE_LIST || values[1].list.count < 1 ||
        values[1].list.items[0].kind != VALUE_STRING)
        return;
    recorder_warn(recorder, "privilege",
                  "%.*s ran without its privileges (setuid, setgid or capabilities), for Linux grants none to traced "
                  "processes: without --crash-stack it has them",
                  SPAN_ARG(values[1].list.items[0].text));
}

static struct span action_name(const struct request *request, size_t number)
{
    return number <= request->action_count ? request->actions[number - 1].name : span_str("an action");
}

/* That an action of a rule failed is said at the end. */
static void note_failure(struct rule *rule, const struct request *request, Omis_reply reply)
{
    bool failed = false;
    for (size_t i = 1; reply[0] && reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++) {
            if (result->status < OMIS_FIRST_ERROR)
                continue;
            failed = true;
            if (!rule->action_err.code)
                err_set(&rule->action_err, -EIO, "%.*s: %s%s%s", SPAN_ARG(action_name(request, i)),
                        omis_status_name(result->status), result->result ? ": " : "",
                        result->result ? result->result : "");
        }
    rule->failed += failed;
}

void tracing_record_rule(struct recorder *recorder, struct rule *rule, Omis_reply reply)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct request request = {0};
    if (request_parse(&arena, span_str(rule->text), &request, NULL) < 0)
        request.action_count = 0;
    note_failure(rule, &request, reply);
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
    recorder_put_take(recorder, "rule",
                      json_pack("{s:o, s:I, s:o}", "rule", text_json(rule->text), "fired", (json_int_t)rule->fired,
                                "results", results));
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
        recorder_put_take(recorder, "rules", json_pack("{s:O}", "list", list));
    json_decref(list);
}
