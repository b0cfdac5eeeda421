/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lang/reply.h"
#include "lang/value.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"

struct tool_data {
    const void *key;
    void *data;
    void (*destroy)(void *data);
    UT_hash_handle hh;
};

static void data_free(struct tool_data *data)
{
    if (data->destroy)
        data->destroy(data->data);
    free(data);
}

struct tool *tool_find(struct monitor *monitor, uint32_t id)
{
    struct tool *tool;
    HASH_FIND(hh, monitor->tools, &id, sizeof id, tool);
    return tool;
}

/* Positive as an int. By chance: no other monitor has the same, and nobody guesses it. */
static uint32_t make_id(struct monitor *monitor)
{
    uint32_t id = 0;
    do {
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            id = ++monitor->last_tool_id;
        id &= INT32_MAX;
    } while (!id || tool_find(monitor, id));
    return id;
}

struct tool *tool_join(struct monitor *monitor, uint32_t id)
{
    struct tool *tool = id ? tool_find(monitor, id) : tool_make(monitor, 0);
    if (tool && id)
        tool->sessions++;
    return tool;
}

struct tool *tool_make(struct monitor *monitor, uint32_t id)
{
    if (!id || id > INT32_MAX || tool_find(monitor, id))
        id = make_id(monitor);
    struct tool *tool = calloc(1, sizeof *tool);
    if (!tool)
        return NULL;
    tool->id = id;
    tool->monitor = monitor;
    tool->sessions = 1;
    HASH_ADD(hh, monitor->tools, id, sizeof tool->id, tool);
    return tool;
}

static void drop_csrs(struct tool *tool, const struct session *session)
{
    for (struct scry_object *object = tool->owned, *next; object; object = next) {
        next = object->next_owned;
        if (object_is(object, "c") && (!session || ((struct csr *)object)->session == session))
            csr_drop((struct csr *)object);
    }
}

static void attachment_release(struct tool *tool)
{
    if (tool->on_end)
        tool->on_end(tool); /* the code of extensions may still look at what the tool has */
    while (tool->attachments)
        process_detach(tool, tool->attachments->process);
    while (tool->owned)
        object_end(tool->owned);
    HASH_DELETE(hh, tool->monitor->tools, tool);
}

/* When its objects are freed, which may refer to the data. */
static void tool_dispose(struct tool *tool)
{
    struct tool_data *data, *next;
    HASH_ITER(hh, tool->data, data, next)
    {
        HASH_DELETE(hh, tool->data, data);
        data_free(data);
    }
    confinement_done(&tool->confined);
    free(tool);
}

void tool_leave(struct session *session)
{
    struct tool *tool = session->tool;
    struct monitor *monitor = tool->monitor;
    monitor_enter(monitor);
    execute_cancel(session);
    drop_csrs(tool, session);
    if (monitor->parts)
        monitor->parts->session_ends(session);
    bool last = --tool->sessions == 0;
    if (last)
        attachment_release(tool);
    monitor_leave(monitor);
    if (last)
        tool_dispose(tool);
    session->tool = NULL;
}

void tool_end(struct tool *tool)
{
    struct monitor *monitor = tool->monitor;
    monitor_enter(monitor);
    attachment_release(tool);
    monitor_leave(monitor);
    tool_dispose(tool);
}

void *tool_data(const struct tool *tool, const void *key)
{
    struct tool_data *data;
    HASH_FIND_PTR(tool->data, &key, data);
    return data ? data->data : NULL;
}

int tool_set_data(struct tool *tool, const void *key, void *data_take, void (*destroy)(void *data))
{
    struct tool_data *data = calloc(1, sizeof *data), *previous;
    if (!data)
        return -ENOMEM;
    HASH_FIND_PTR(tool->data, &key, previous);
    if (previous)
        HASH_DELETE(hh, tool->data, previous);
    *data = (struct tool_data){.key = key, .data = data_take, .destroy = destroy};
    HASH_ADD_PTR(tool->data, key, data);
    if (previous)
        data_free(previous);
    return 0;
}

struct attachment *tool_attachment(const struct tool *tool, const struct process *process)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        if (a->tool == tool)
            return a;
    return NULL;
}

void session_error(struct session *session, Omis_status status, const char *format, ...)
{
    char text[ERR_TEXT_SIZE * 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct reply_builder reply = {0};
    struct span why = span_str(text);
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, &why);
    if (!reply.bytes.failed)
        session->error(session, span_of(reply.bytes.data, reply.bytes.len));
    reply_done(&reply);
}

/* ---- confinement ---- */

static const enum right all_rights[] = {RIGHT_OBSERVE, RIGHT_CONTROL, RIGHT_MEMORY};
static const char *const right_names[] = {"observe", "control", "memory"};
enum { RIGHTS = sizeof all_rights / sizeof *all_rights, ALL_RIGHTS = RIGHT_OBSERVE | RIGHT_CONTROL | RIGHT_MEMORY };

const char *right_name(enum right right)
{
    for (size_t i = 0; i < RIGHTS; i++)
        if (all_rights[i] == right)
            return right_names[i];
    return "local";
}

int confine(struct confinement *confinement, unsigned rights, const char *job, const char *who, const char *serial,
            struct err *err)
{
    bool named = !*job && (rights & ALL_RIGHTS) == ALL_RIGHTS;
    if (!(rights & ALL_RIGHTS) || (*job != '/' && !named))
        return err_set(err, -EINVAL, "a confinement is to a right and to a job's directory");
    if (named && confinement->who) /* it gives nothing back */
        return 0;
    if (confinement->job && strcmp(confinement->job, job) != 0)
        return err_set(err, -EPERM, "this connection is confined to another job already");
    if (confinement->job) {
        confinement->rights &= rights | RIGHT_OBSERVE;
        return 0;
    }
    struct confinement made = {.rights = (rights & ALL_RIGHTS) | RIGHT_OBSERVE,
                               .job = named ? NULL : strdup(job),
                               .who = strdup(who),
                               .serial = strdup(serial)};
    if ((!made.job && !named) || !made.who || !made.serial) {
        confinement_done(&made);
        return err_set(err, -ENOMEM, "out of memory");
    }
    confinement_done(confinement);
    *confinement = made;
    return 0;
}

int confinement_copy_name(struct confinement *confinement, const struct confinement *other)
{
    return other->who && !confinement->who ? confine(confinement, ALL_RIGHTS, "", other->who, other->serial, NULL) : 0;
}

void confinement_done(struct confinement *confinement)
{
    free(confinement->job);
    free(confinement->who);
    free(confinement->serial);
    *confinement = (struct confinement){0};
}

/* A tool that is not confined would give a connection that is all it has. */
int confine_tool(struct tool *tool, struct confinement *confinement_take, struct err *err)
{
    const struct confinement *own = &tool->confined;
    if (!confinement_take->job && (own->who || tool->sessions > 1))
        return 0;
    if (tool->sessions <= 1 && !own->job) {
        confinement_done(&tool->confined);
        tool->confined = *confinement_take;
        *confinement_take = (struct confinement){0};
        return 0;
    }
    if (own->job && own->rights == confinement_take->rights && strcmp(own->job, confinement_take->job) == 0 &&
        strcmp(own->serial, confinement_take->serial) == 0)
        return 0;
    return err_set(err, -EPERM, "tool %u is none of this key's", tool->id);
}

static const char *id_of(const struct confinement *confinement)
{
    return strrchr(confinement->job, '/') + 1;
}

Omis_status confine_right(const struct tool *tool, enum right right, const char *what, struct err *err)
{
    unsigned rights = tool->confined.rights;
    if (!tool->confined.job || rights & right)
        return OMIS_OK;
    if (right == RIGHT_LOCAL)
        err_set(err, -EPERM, "%s can be used only on the job's node, not through a broker", what);
    else
        err_set(err, -EPERM, "this key may observe%s: %s needs %s",
                rights & RIGHT_CONTROL  ? " and control"
                : rights & RIGHT_MEMORY ? " and use memory"
                                        : " only",
                what, right_name(right));
    return OMIS_NO_PERMISSION;
}

Omis_status confine_service(const struct tool *tool, const struct service *service, struct err *err)
{
    return confine_right(tool, service->right, service->row->name, err);
}

/* ---- jobs ---- */

bool confine_names_job(const struct param_type *param)
{
    return param->kind == TYPE_STRING && span_is(param->name, "job");
}

static bool is_own_job(const struct confinement *confinement, struct span name)
{
    return !name.len || span_is(name, confinement->job) || span_is(name, id_of(confinement));
}

Omis_status confine_args(const struct tool *tool, const struct service *service, struct arena *arena,
                         const struct value **args, size_t argc, struct err *err)
{
    const struct confinement *confinement = &tool->confined;
    for (size_t i = 0; confinement->job && i < argc && i < service->signature.param_count; i++) {
        if (!confine_names_job(&service->signature.params[i]) || (*args)[i].kind == VALUE_PARAM)
            continue;
        if ((*args)[i].kind != VALUE_STRING || !is_own_job(confinement, (*args)[i].text)) {
            err_set(err, -EPERM, "this key is for the job %s", id_of(confinement));
            return OMIS_NO_PERMISSION;
        }
        struct value *copy = arena_alloc(arena, argc * sizeof *copy);
        struct span job = arena_span(arena, span_str(confinement->job));
        if (!copy || !job.ptr) {
            err_set(err, -ENOMEM, "out of memory");
            return OMIS_NO_MEMORY;
        }
        memcpy(copy, *args, argc * sizeof *copy);
        copy[i] = value_string(job);
        *args = copy;
    }
    return OMIS_OK;
}

/* ---- objects ---- */

Omis_status confine_process(const struct tool *tool, pid_t pid, struct err *err)
{
    const struct monitor *monitor = tool->monitor;
    const struct confinement *confinement = &tool->confined;
    if (!confinement->job || (monitor->job_has && monitor->job_has(tool->monitor, confinement->job, pid)))
        return OMIS_OK;
    err_set(err, -EPERM, "process %d is none of the job %s", pid, id_of(confinement));
    return OMIS_NO_PERMISSION;
}

static Omis_status not_own(const struct scry_object *object, struct err *err)
{
    err_set(err, -EPERM, "%s belongs to another tool", object->token);
    return OMIS_NO_PERMISSION;
}

/* Whether the process of a rank is the tool's, or may be. */
static bool rank_is_own(const struct tool *tool, const struct message *message, int32_t rank)
{
    struct err ignored;
    const struct process *process = message_rank(tool->monitor, message->id.world, rank);
    return process && confine_process(tool, process->pid, &ignored) == OMIS_OK;
}

Omis_status confine_object(const struct tool *tool, struct scry_object *object, struct err *err)
{
    if (!tool->confined.job || object->owner == tool || object_is(object, "n"))
        return OMIS_OK;
    if (object_is(object, "p"))
        return confine_process(tool, ((struct process *)object)->pid, err);
    if (object_is(object, "t"))
        return confine_process(tool, ((struct thread *)object)->process->pid, err);
    if (object_is(object, "q"))
        return confine_process(tool, ((struct message_queue *)object)->process->pid, err);
    if (object_is(object, "m") && !object->owner) {
        const struct message *message = (const struct message *)object;
        if (rank_is_own(tool, message, message->id.to) || rank_is_own(tool, message, message->id.from))
            return OMIS_OK;
    }
    return not_own(object, err);
}

/* ---- memory ---- */

bool confine_makes_object(const struct service *service)
{
    return service->row->kind == SCRY_MANIPULATION && span_is(service->signature.result, "token");
}

Omis_status confine_room(const struct tool *tool, size_t text_bytes, struct err *err)
{
    size_t count = 0;
    if (!tool->confined.job)
        return OMIS_OK;
    for (const struct scry_object *object = tool->owned; object; object = object->next_owned) {
        count++;
        text_bytes += object_is(object, "c") ? ((const struct csr *)object)->text.len : 0;
    }
    if (count < CONFINED_OBJECTS && text_bytes <= CONFINED_TEXT_BYTES)
        return OMIS_OK;
    err_set(err, -ENOSPC,
            "a tool behind a broker has at most %d objects, and conditional requests of %d bytes in all: delete some",
            CONFINED_OBJECTS, CONFINED_TEXT_BYTES);
    return OMIS_NO_MEMORY;
}

static size_t bytes_of(const struct value *value)
{
    size_t bytes = sizeof *value;
    if (value->kind == VALUE_LIST)
        for (size_t i = 0; i < value->list.count; i++)
            bytes += bytes_of(&value->list.items[i]);
    else if (value->kind == VALUE_STRING || value->kind == VALUE_BINARY || value->kind == VALUE_TOKEN)
        bytes += value->text.len;
    return bytes;
}

Omis_status confine_params(const struct tool *tool, const struct value *params, struct err *err)
{
    if (!tool->confined.job || bytes_of(params) <= CONFINED_PARAMS_BYTES)
        return OMIS_OK;
    err_set(err, -E2BIG, "the parameters of an event take at most %d bytes for a tool behind a broker",
            CONFINED_PARAMS_BYTES);
    return OMIS_NO_MEMORY;
}
