/* SPDX-License-Identifier: Apache-2.0 */

#include <fnmatch.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/results.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/object.h"
#include "service/ct/ct.h"
#include "service/omis/service.h"

/* What the pattern of a request is compared with: it matches one of them. */
struct compared {
    const char *service;
    const char *members[3];
    bool place; /* also FILE:LINE, FILE, and both without the directory */
};
static const struct compared all_compared[] = {
    {"job_log_matched", {"level", "pattern", "file"}, false},
    {"job_script_line", {"function"}, true},
    {"job_command_failed", {"command", "function"}, true},
    {"job_function_called", {"function"}, true},
    {"job_exception_raised", {"name", "function"}, true},
    {"job_warned", {"note", "kind"}, false},
    {"job_progress", {"source"}, false},
};
enum { EVENTS = sizeof all_compared / sizeof *all_compared };

static const char WANTED[] = "job_events_wanted";

static const struct value *output_of(const struct event *event, const char *name)
{
    const struct signature *signature = &event->service->signature;
    for (size_t i = 0; i < signature->output_count && i < event->output_count; i++)
        if (span_is(signature->outputs[i].name, name))
            return &event->outputs[i];
    return NULL;
}

/* ---- who wants it ---- */

/* A job by its directory, id or token; "": the one that the request's tool follows. */
static bool means_job(const struct csr *csr, struct span dir)
{
    struct monitor *monitor = csr->object.monitor;
    struct span name = csr->event_args[0].text;
    const struct scry_object *job = job_object_find(monitor, name.len ? name : dir);
    if (!job || !span_is(dir, ((const struct job_object *)job->data)->dir))
        return false;
    return name.len || job->owner == csr->object.owner;
}

static bool value_fits(const char *pattern, struct span text)
{
    _cleanup_(buf_done) struct buf copy = BUF_INIT;
    buf_append(&copy, text.ptr, text.len);
    return fnmatch(pattern, copy.data ? copy.data : "", 0) == 0;
}

/* With the directory, and without. */
static bool fits_path(const char *pattern, struct span path)
{
    return value_fits(pattern, path) || value_fits(pattern, job_object_id(path));
}

static bool fits_place(const char *pattern, const struct event *event)
{
    const struct value *file = output_of(event, "file"), *line = output_of(event, "line");
    _cleanup_(buf_done) struct buf place = BUF_INIT;
    if (!file || !line || !file->text.len)
        return false;
    buf_printf(&place, "%.*s:%lld", SPAN_ARG(file->text), (long long)line->integer.bits);
    return fits_path(pattern, file->text) || (place.data && fits_path(pattern, span_of(place.data, place.len)));
}

static const struct compared *compared_of(const struct service *service)
{
    for (size_t i = 0; i < EVENTS; i++)
        if (strcmp(all_compared[i].service, service->row->name) == 0)
            return &all_compared[i];
    return NULL;
}

/* The request's pattern, made when it is defined: a string that ends with NUL. */
static Omis_status raised_define(struct csr *csr, struct err *err)
{
    struct span pattern = csr->event_args[1].text;
    char *copy = arena_alloc(&csr->arena, pattern.len + 1);
    if (!copy) {
        err_set(err, -1, "out of memory");
        return OMIS_NO_MEMORY;
    }
    memcpy(copy, pattern.ptr ? pattern.ptr : "", pattern.len);
    copy[pattern.len] = '\0';
    csr->event_data = copy;
    return OMIS_OK;
}

static bool raised_match(const struct csr *csr, const struct event *event)
{
    const struct compared *compared = compared_of(event->service);
    const char *pattern = csr->event_data;
    if (!means_job(csr, event->outputs[event->output_count - 1].text))
        return false;
    if (!*pattern)
        return true;
    for (size_t i = 0; i < sizeof compared->members / sizeof *compared->members && compared->members[i]; i++)
        if (value_fits(pattern, output_of(event, compared->members[i])->text))
            return true;
    return compared->place && fits_place(pattern, event);
}

/* ---- telling scry run what is wanted ---- */

static void wanted_of(struct monitor *monitor, struct span dir, struct buf *out)
{
    for (size_t i = 0; i < EVENTS; i++) {
        const struct service *service = registry_find(monitor->registry, span_str(all_compared[i].service));
        const struct csr *csr = service ? service->enabled : NULL;
        while (csr && !means_job(csr, dir))
            csr = csr->next_enabled;
        if (csr)
            buf_printf(out, "%s%s", out->len ? " " : "", all_compared[i].service);
    }
}

static void tell_wanted(struct monitor *monitor, struct service *wanted, struct span dir)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    wanted_of(monitor, dir, &names);
    struct value outputs[] = {value_string(span_of(names.data ? names.data : "", names.len)), value_string(dir)};
    struct event event = {.service = wanted,
                          .time_ns = clock_now_ns(),
                          .outputs = outputs,
                          .output_count = sizeof outputs / sizeof *outputs};
    if (names.failed || event_queue(monitor, &event) < 0)
        log_error("%.*s is not told what is wanted of it: out of memory", SPAN_ARG(dir));
}

/* Somebody began to wait, or ceased. */
static void events_turned(struct csr *csr)
{
    struct monitor *monitor = csr->object.monitor;
    struct service *wanted = registry_find(monitor->registry, span_str(WANTED));
    if (!wanted || !wanted->enabled)
        return;
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, JOB_CLASS))
            tell_wanted(monitor, wanted, span_str(((const struct job_object *)object->data)->dir));
}

static bool match_wanted(const struct csr *csr, const struct event *event)
{
    return means_job(csr, event->outputs[event->output_count - 1].text);
}

static const struct event_ops raised_ops = {.define = raised_define, .match = raised_match, .turned = events_turned};
static const struct event_ops wanted_ops = {.match = match_wanted, .turned = events_turned};

/* ---- raising ---- */

/* The type that an output has; an integer is a floating, too. false: it has another one. */
static bool take_output(const struct param_type *type, const struct value *given, struct value *ret_value)
{
    *ret_value = *given;
    if (type->kind == TYPE_STRING)
        return given->kind == VALUE_STRING;
    if (type->kind == TYPE_INTEGER)
        return given->kind == VALUE_INTEGER;
    if (given->kind == VALUE_INTEGER)
        *ret_value = value_floating((double)(int64_t)given->integer.bits);
    return ret_value->kind == VALUE_FLOATING;
}

static struct process *source_of(struct monitor *monitor, const struct event *event)
{
    const struct value *pid = output_of(event, "pid");
    return pid ? process_find(monitor, (pid_t)pid->integer.bits) : NULL;
}

static void job_raise(struct scry_call *call)
{
    struct span job_name = call->args[0].text, name = call->args[1].text;
    const struct value *given = &call->args[2];
    struct scry_object *object = job_object_find(call->monitor, job_name);
    struct service *service = registry_find(call->monitor->registry, name);
    if (!object) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here", SPAN_ARG(job_name));
        return;
    }
    if (object->owner != call->tool) {
        call_fail(call, NULL, OMIS_NO_PERMISSION, "%s belongs to another tool", object->token);
        return;
    }
    if (!service || !compared_of(service)) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%.*s is no event that job_raise can raise", SPAN_ARG(name));
        return;
    }
    const struct signature *signature = &service->signature;
    struct value outputs[SIGNATURE_OUTPUTS];
    size_t count = signature->output_count - 1; /* the job is known */
    if (given->list.count != count) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%s has %zu outputs without the job, not %zu", service->row->name,
                  count, given->list.count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!take_output(&signature->outputs[i], &given->list.items[i], &outputs[i])) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR, "output %.*s of %s: %s is the wrong type",
                      SPAN_ARG(signature->outputs[i].name), service->row->name,
                      value_kind_name(given->list.items[i].kind));
            return;
        }
    outputs[count] = value_string(span_str(((const struct job_object *)object->data)->dir));
    struct event event = {
        .service = service, .time_ns = clock_now_ns(), .outputs = outputs, .output_count = signature->output_count};
    const struct process *source = source_of(call->monitor, &event);
    if (source)
        memcpy(event.source.process, source->object.token, sizeof event.source.process);
    int code = service->enabled ? event_queue(call->monitor, &event) : 0;
    call_done(call, NULL, code, &(struct err){0});
}

/* ---- services ---- */

#define PATTERN_JOB "string job, [string pattern] -> "
#define SAYS \
    " job: its directory, id or token; \"\": the one that this tool follows, as rules of scry run do. pattern: a " \
    "glob; " \
    "\"\": any. "
#define PLACE_PATTERN "function, file, or file:line"

const struct scry_service job_event_services[] = {
    {"job_raise", SCRY_MANIPULATION, "string job, string event, any* outputs -> void", SCRY_OPTIONAL | SCRY_LOCAL,
     job_raise,
     "Raise an event of a job that this tool follows: one of the following, with its outputs but for the job. scry run "
     "does this of what it records, at most 100 times a second for each event."},
    {WANTED, SCRY_EVENT, "string job -> " JOB_EVENTS_WANTED, SCRY_OPTIONAL | SCRY_LOCAL, NULL,
     "A request for one of the following events was enabled or disabled, this one, too. events: the names of those "
     "that "
     "somebody waits for now. job: as there.",
     .event = &wanted_ops},
    {"job_log_matched", SCRY_EVENT, PATTERN_JOB JOB_LOG_MATCHED, SCRY_OPTIONAL, NULL,
     "A line of a log, or of the standard streams, matched." SAYS
     "It is compared with the level (error, warning, info, debug), the name of the log's pattern, and the file. line: "
     "-1: unknown. folded: so many more before it matched the same and raised nothing. fields: named groups, as JSON.",
     .event = &raised_ops},
    {"job_script_line", SCRY_EVENT, PATTERN_JOB JOB_SCRIPT_LINE, SCRY_OPTIONAL, NULL,
     "A script is at another line." SAYS "It is compared with the " PLACE_PATTERN
     ". how: trap, builtin, or outside, where lines may be missed. The script does not wait.",
     .event = &raised_ops},
    {"job_command_failed", SCRY_EVENT, PATTERN_JOB JOB_COMMAND_FAILED, SCRY_OPTIONAL, NULL,
     "A command of a script ended with another status than 0." SAYS "It is compared with the command, " PLACE_PATTERN
     ". status: as $?. seconds: that it took; -1: unknown.",
     .event = &raised_ops},
    {"job_function_called", SCRY_EVENT, PATTERN_JOB JOB_FUNCTION_CALLED, SCRY_OPTIONAL, NULL,
     "A function of a script was called: of a shell script, or of a Python program whose calls are recorded." SAYS
     "It is compared with the " PLACE_PATTERN ". calls: how many times since the event before. For compiled programs "
     "there is ct_function_called.",
     .event = &raised_ops},
    {"job_exception_raised", SCRY_EVENT, PATTERN_JOB JOB_EXCEPTION_RAISED, SCRY_OPTIONAL, NULL,
     "An exception was raised in a Python program." SAYS "It is compared with the exception's name, " PLACE_PATTERN
     ". caught: 1 if it was.",
     .event = &raised_ops},
    {"job_warned", SCRY_EVENT, PATTERN_JOB JOB_WARNED, SCRY_OPTIONAL, NULL,
     "scry run recorded a warning: of the node's health, or another note." SAYS
     "It is compared with the note's name and kind (doc/reference/notes.md). fields: those of the note, as JSON.",
     .event = &raised_ops},
    {"job_progress", SCRY_EVENT, PATTERN_JOB JOB_PROGRESS, SCRY_OPTIONAL, NULL,
     "The job told how far it is." SAYS
     "It is compared with the source: the file of the log. left_seconds: until it is done; -1: unknown.",
     .event = &raised_ops},
    SERVICE_END,
};
