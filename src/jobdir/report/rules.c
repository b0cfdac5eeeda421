/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report/rules.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { SHOWN = 5 }; /* firings of one rule, and snapshots, in a report */

/* ---- rules ---- */

/* Of what print says, what was printed: "2,[\"a\",5]" is how many, and the list of them. Of a path of ours its end. */
static void put_result(struct buf *out, const char *service, const char *result)
{
    size_t len = strlen(result), digits = strspn(result, "0123456789");
    const char *own = strstr(result, "/snapshots/");
    _cleanup_(buf_done) struct buf part = BUF_INIT;
    if (strcmp(service, "print") == 0 && digits && strncmp(result + digits, ",[", 2) == 0 && result[len - 1] == ']')
        buf_append(&part, result + digits + 2, len - digits - 3);
    else if (own && result[len - 1] == '"')
        buf_append(&part, own + 1, (size_t)(result + len - 1 - (own + 1)));
    else
        buf_puts(&part, result);
    text_show(out, part.data ? part.data : "");
}

static void put_results(struct buf *out, const json_t *results)
{
    size_t index, before = out->len;
    json_t *result;
    json_array_foreach(results, index, result)
    {
        const char *service = member_text(result, "service"), *error = member_text(result, "error");
        if (!*error && !*member_text(result, "result"))
            continue;
        buf_puts(out, out->len > before ? "; " : "");
        text_show(out, *service ? service : "?");
        buf_puts(out, *error ? " failed: " : ": ");
        text_show(out, error);
        buf_puts(out, *error && *member_text(result, "result") ? ": " : "");
        put_result(out, service, member_text(result, "result"));
    }
    if (out->len == before)
        buf_puts(out, "done");
}

static json_t *firings_of(const struct job_model *model, const char *rule)
{
    json_t *list = json_array(), *firing;
    size_t index;
    json_array_foreach(model->firings, index, firing)
    {
        if (strcmp(member_text(firing, "rule"), rule) == 0)
            json_array_append_new(list, json_pack("{s:O?, s:O?}", "seconds", json_object_get(firing, "t"), "results",
                                                  json_object_get(firing, "results")));
    }
    return list;
}

/* The rules as they were told at the end; of a job that runs, as far as they have fired. */
static json_t *rule_list(const struct job_model *model)
{
    json_t *told = model->rules ? json_object_get(model->rules, "list") : NULL, *firing;
    json_t *list = told ? json_deep_copy(told) : json_array();
    size_t index;
    json_array_foreach(model->firings, index, firing)
    {
        size_t k;
        json_t *rule, *its = NULL;
        json_array_foreach(list, k, rule)
        {
            if (strcmp(member_text(rule, "rule"), member_text(firing, "rule")) == 0)
                its = rule;
        }
        if (!its)
            json_array_append_new(list, json_pack("{s:O?, s:O?, s:i}", "rule", json_object_get(firing, "rule"), "fired",
                                                  json_object_get(firing, "fired"), "failed", 0));
        else if (!told)
            json_object_set(its, "fired", json_object_get(firing, "fired"));
    }
    return list;
}

/* [{rule, fired, failed, firings: [{seconds, results}]}]; a new reference. */
static json_t *rules_json(const struct job_model *model)
{
    json_t *list = rule_list(model), *rule;
    size_t index;
    json_array_foreach(list, index, rule)
    {
        json_object_set_new(rule, "firings", firings_of(model, member_text(rule, "rule")));
    }
    return list;
}

static void put_seconds(struct buf *out, const json_t *event)
{
    buf_printf(out, "%13s%.3f s  ", "", json_number_value(json_object_get(event, "seconds")));
}

/* The part of the report: each rule, how often it fired, and what the first few times came of it. */
static void rules_text(struct buf *out, const struct job_model *model)
{
    json_t *list = rules_json(model), *rule, *firing;
    size_t index, k;
    json_array_foreach(list, index, rule)
    {
        json_int_t fired = json_integer_value(json_object_get(rule, "fired"));
        json_int_t failed = json_integer_value(json_object_get(rule, "failed"));
        text_label(out, "rule");
        text_show(out, member_text(rule, "rule"));
        buf_printf(out, "  fired %lld x", (long long)fired);
        if (failed)
            buf_printf(out, ", failed %lld x", (long long)failed);
        buf_putc(out, '\n');
        json_array_foreach(json_object_get(rule, "firings"), k, firing)
        {
            if (k == SHOWN)
                break;
            put_seconds(out, firing);
            put_results(out, json_object_get(firing, "results"));
            buf_putc(out, '\n');
        }
        if (fired > SHOWN)
            buf_printf(out, "%13s%lld times more: scry replay\n", "", (long long)fired - SHOWN);
    }
    json_decref(list);
}

/* ---- snapshots ---- */

/* The functions that the thread which raised the event (otherwise, the first) was in. */
static json_t *call_names(const json_t *snapshot)
{
    json_int_t tid = json_integer_value(json_object_get(json_object_get(snapshot, "event"), "tid"));
    const json_t *threads = json_object_get(snapshot, "threads"), *chosen = json_array_get(threads, 0);
    json_t *names = json_array(), *each;
    size_t index;
    json_array_foreach(threads, index, each)
    {
        if (tid && json_integer_value(json_object_get(each, "tid")) == tid)
            chosen = each;
    }
    json_array_foreach(json_object_get(chosen, "calls"), index, each)
    {
        json_array_append_new(names, text_json(member_text(each, "function")));
    }
    return names;
}

static json_t *snapshot_read(const char *jobdir, const char *name, uint64_t started_ns)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    size_t len;
    if (snprintf(path, sizeof path, "%s/snapshots/%s", jobdir, name) >= (int)sizeof path ||
        file_read_plain(path, &bytes, &len) < 0)
        return NULL;
    json_t *json = json_loadb(bytes, len, 0, NULL);
    if (!json_is_object(json)) {
        json_decref(json);
        return NULL;
    }
    const json_t *event = json_object_get(json, "event");
    double seconds =
        (double)(json_integer_value(json_object_get(json, "wall_ns")) - (json_int_t)started_ns) / NS_PER_SECOND;
    json_t *row = json_pack("{s:s, s:f, s:I, s:o, s:o, s:o, s:o, s:o}", "file", path + strlen(jobdir) + 1, "seconds",
                            seconds, "process", json_integer_value(json_object_get(json, "pid")), "program",
                            text_json(member_text(json, "exe")), "service", text_json(member_text(event, "service")),
                            "function", text_json(member_text(event, "function")), "args",
                            text_json(member_text(event, "args")), "calls", call_names(json));
    json_decref(json);
    return row;
}

static int is_snapshot(const struct dirent *entry)
{
    size_t digits = strspn(entry->d_name, "0123456789");
    return digits && strcmp(entry->d_name + digits, ".json") == 0;
}

json_t *snapshots_json(const char *jobdir, uint64_t started_ns)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    json_t *list = json_array();
    int count = snprintf(path, sizeof path, "%s/snapshots", jobdir) < (int)sizeof path
                    ? scandir(path, &entries, is_snapshot, alphasort)
                    : 0;
    for (int i = 0; i < count; i++) {
        json_t *row = snapshot_read(jobdir, entries[i]->d_name, started_ns);
        if (row)
            json_array_append_new(list, row);
        free(entries[i]);
    }
    free(entries);
    return list;
}

static void put_snapshot(struct buf *out, const json_t *snapshot)
{
    size_t index;
    json_t *name;
    text_show(out, member_text(snapshot, "file"));
    buf_printf(out, "  process %lld  ", (long long)json_integer_value(json_object_get(snapshot, "process")));
    text_show(out, text_base(member_text(snapshot, "program")));
    json_array_foreach(json_object_get(snapshot, "calls"), index, name)
    {
        buf_puts(out, index ? " < " : "  in ");
        text_show(out, json_string_value(name));
        if (index == 0 && strcmp(json_string_value(name), member_text(snapshot, "function")) == 0) {
            buf_putc(out, '(');
            text_show(out, member_text(snapshot, "args"));
            buf_putc(out, ')');
        }
    }
}

/* The part of the report. */
static void snapshots_text(struct buf *out, const json_t *snapshots)
{
    size_t index, count = json_array_size(snapshots);
    json_t *snapshot;
    if (count) {
        text_label(out, "snapshots");
        buf_printf(out, "%zu\n", count);
    }
    json_array_foreach(snapshots, index, snapshot)
    {
        if (index == SHOWN)
            break;
        put_seconds(out, snapshot);
        put_snapshot(out, snapshot);
        buf_putc(out, '\n');
    }
    if (count > SHOWN)
        buf_printf(out, "%13s%zu more: scry replay\n", "", count - SHOWN);
}

/* ---- what these are in the report ---- */

static const struct field result_fields[] = {
    {"action", FIELD_COUNT, .about = "its place in the list, from 1"},
    {"service", FIELD_TEXT, .flags = FIELD_OPTIONAL},
    {"objects", FIELD_TEXT, .flags = FIELD_OR_NULL},
    {"status", FIELD_INTEGER},
    {"error", FIELD_TEXT, .flags = FIELD_OPTIONAL, .about = "the name of the status, if the action failed"},
    {"result", FIELD_TEXT, .flags = FIELD_OR_NULL},
    {0}};

static const struct field firing_fields[] = {
    {"seconds", FIELD_SECONDS, .about = "since the start of the job, when scry run heard of it"},
    {"results", FIELD_LIST, .of = result_fields},
    {0}};

static const struct field rule_fields[] = {
    {"rule", FIELD_TEXT},
    {"fired", FIELD_COUNT, .about = "how often"},
    {"failed", FIELD_COUNT, .flags = FIELD_OPTIONAL, .about = "in how many of them an action failed"},
    {"firings", FIELD_LIST, .of = firing_fields, .about = "the first 1000 times"},
    {0}};

static const struct field snapshot_fields[] = {
    {"file", FIELD_TEXT, .about = "in the job directory"},
    {"seconds", FIELD_SECONDS},
    {"process", FIELD_INTEGER},
    {"program", FIELD_TEXT},
    {"service", FIELD_TEXT, .about = "the event that it was taken at; empty: none"},
    {"function", FIELD_TEXT},
    {"args", FIELD_TEXT},
    {"calls", FIELD_LIST, .of = fields_texts, .about = "the open calls of the thread, the innermost first"},
    {0}};

static json_t *section_json(const void *row, const void *all)
{
    return rules_json(&((const struct job_report *)row)->model);
}

const struct field report_rule_fields[] = {{"rules", FIELD_LIST, .flags = FIELD_OPEN, .json = section_json,
                                            .of = rule_fields, .about = "trigger rules of the job"},
                                           {"snapshots", FIELD_LIST, FIELD_AT(struct job_report, snapshots),
                                            .of = snapshot_fields, .about = "of processes, by the service ct_snapshot"},
                                           {0}};

void report_rules_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    rules_text(out, &report->model);
    snapshots_text(out, report->snapshots);
}

/* ---- both ---- */

static int by_seconds(const void *a, const void *b)
{
    double one = json_number_value(json_object_get(*(json_t *const *)a, "seconds"));
    double other = json_number_value(json_object_get(*(json_t *const *)b, "seconds"));
    return one == other ? 0 : one < other ? -1 : 1;
}

json_t *rules_events(const struct job_model *model, const char *jobdir, uint64_t started_ns)
{
    json_t *snapshots = snapshots_json(jobdir, started_ns), *events = json_array(), *each;
    size_t index, used = 0, count = json_array_size(model->firings) + json_array_size(snapshots);
    json_t **sorted = calloc(count + 1, sizeof *sorted);
    json_array_foreach(model->firings, index, each)
    {
        if (sorted)
            sorted[used++] = json_pack("{s:s, s:O?, s:O?, s:O?, s:O?}", "event", "rule", "seconds",
                                       json_object_get(each, "t"), "rule", json_object_get(each, "rule"), "fired",
                                       json_object_get(each, "fired"), "results", json_object_get(each, "results"));
    }
    json_array_foreach(snapshots, index, each)
    {
        json_object_set_new(each, "event", json_string("snapshot"));
        if (sorted)
            sorted[used++] = json_incref(each);
    }
    if (used)
        qsort(sorted, used, sizeof *sorted, by_seconds);
    for (size_t i = 0; i < used; i++)
        json_array_append_new(events, sorted[i]);
    free(sorted);
    json_decref(snapshots);
    return events;
}

void rules_event_text(struct buf *out, const json_t *event)
{
    if (strcmp(member_text(event, "event"), "snapshot") == 0) {
        buf_puts(out, "snapshot ");
        put_snapshot(out, event);
        return;
    }
    const char *rule = member_text(event, "rule"), *colon = strstr(rule, " : ");
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    buf_append(&name, rule, colon ? (size_t)(colon - rule) : strlen(rule)); /* its event */
    buf_puts(out, "rule ");
    text_show(out, name.data ? name.data : "");
    buf_puts(out, "  ");
    put_results(out, json_object_get(event, "results"));
}
