/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monitor/execute.h"
#include "monitor/messages.h"
#include "monitor/node.h"

/* The objects found so far. Duplicates are kept out: an object is executed once. */
struct gather {
    struct scry_call *call;
    const char *class_name;
    bool any_process; /* proc_attach: also processes that are not attached */
    struct scry_object **objects;
    size_t count, cap;
    bool failed;
};

static void gather_add(struct gather *gather, struct scry_object *object, bool may_repeat)
{
    if (may_repeat)
        for (size_t i = 0; i < gather->count; i++)
            if (gather->objects[i] == object)
                return;
    if (gather->count == gather->cap) {
        size_t cap = gather->cap ? gather->cap * 2 : 16;
        struct scry_object **objects = arena_alloc(gather->call->arena, cap * sizeof *objects);
        if (!objects) {
            gather->failed = true;
            return;
        }
        if (gather->count)
            memcpy(objects, gather->objects, gather->count * sizeof *objects);
        gather->objects = objects;
        gather->cap = cap;
    }
    gather->objects[gather->count++] = object;
}

/* What [] means for this execution: the tool's attached processes in the order they were attached. */
static bool know_attached(struct scry_call *call)
{
    struct execution *execution = call->execution;
    if (execution->attached_known)
        return true;
    size_t count = call->tool->attachment_count, i = 0;
    execution->attached = arena_alloc(&execution->arena, (count + 1) * sizeof(struct process *));
    if (!execution->attached)
        return false;
    for (struct attachment *a = call->tool->attachments; a && i < count; a = a->next_of_tool)
        execution->attached[i++] = a->process;
    execution->attached_count = i;
    execution->attached_known = true;
    return true;
}

static void gather_threads(struct gather *gather, struct process *process, bool may_repeat)
{
    process_refresh(process, gather->call->execution->id); /* if it is gone there is nothing to add */
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (thread_visible(thread, gather->call->tool))
            gather_add(gather, &thread->object, may_repeat);
    }
}

static Omis_status not_attached(struct scry_call *call, struct process *process, struct err *err)
{
    err_set(err, -ESRCH, "%s (pid %d) is not attached: proc_attach([%s]) first", process->object.token, process->pid,
            process->object.token);
    return OMIS_UNKNOWN_OBJECT;
}

/* An object that cannot be converted is answered at once; the action goes on with the others. */
static void gather_fail(struct gather *gather, struct span token, Omis_status status, const struct err *err)
{
    struct span why = span_str(err->text);
    reply_result(gather->call->reply, token, status, &why);
    gather->call->answers++;
}

/* Of those that have messages sent to them. */
static void gather_queue(struct gather *gather, struct process *process, bool may_repeat)
{
    struct message_queue *queue = message_has_queue(process) ? message_queue_of(process) : NULL;
    if (queue)
        gather_add(gather, &queue->object, may_repeat);
}

static void gather_process(struct gather *gather, struct process *process, bool may_repeat)
{
    if (process->object.gone)
        return;
    if (!tool_attachment(gather->call->tool, process)) {
        /* it was when [] was first looked at: this execution itself has detached it */
        struct err err;
        Omis_status status = not_attached(gather->call, process, &err);
        gather_fail(gather, span_str(process->object.token), status, &err);
        return;
    }
    if (strcmp(gather->class_name, "t") == 0)
        gather_threads(gather, process, may_repeat);
    else if (strcmp(gather->class_name, "q") == 0)
        gather_queue(gather, process, may_repeat);
    else
        gather_add(gather, &process->object, may_repeat);
}

static void gather_attached(struct gather *gather, bool may_repeat)
{
    if (!know_attached(gather->call)) {
        gather->failed = true;
        return;
    }
    const struct execution *execution = gather->call->execution;
    for (size_t i = 0; i < execution->attached_count; i++)
        gather_process(gather, execution->attached[i], may_repeat);
}

static bool class_is(const char *name, const char *wanted)
{
    return strcmp(name, wanted) == 0;
}

static bool creates_process(const struct service *service)
{
    return class_is(service->row->name, "proc_attach3") || class_is(service->row->name, "proc_create");
}

/* The empty list. */
static void gather_all(struct gather *gather)
{
    struct scry_call *call = gather->call;
    if (class_is(gather->class_name, "n")) {
        /* the first process or program brings its node along: a tool on one machine need not name it */
        if (creates_process(call->service))
            call->tool->node_attached = true;
        if (call->tool->node_attached)
            gather_add(gather, &call->monitor->node->object, false);
    } else if (class_is(gather->class_name, "p") || class_is(gather->class_name, "t") ||
               class_is(gather->class_name, "q")) {
        gather_attached(gather, false);
    } else {
        /* monitor objects: those of the tool, oldest first */
        struct scry_object *last = NULL;
        for (struct scry_object *o = call->tool->owned; o; o = o->next_owned)
            last = o;
        for (struct scry_object *o = last; o; o = o->previous_owned)
            if (class_is(o->class->name, gather->class_name))
                gather_add(gather, o, false);
    }
}

static Omis_status unknown_token(struct scry_call *call, struct span token, struct err *err)
{
    if (span_is(token, TOKEN_UNDEFINED))
        err_set(err, -ESRCH, "the undefined object %s has no such object", TOKEN_UNDEFINED);
    else if (object_was_issued(call->monitor, token))
        err_set(err, -ESRCH, "%.*s does not exist any more", SPAN_ARG(token));
    else
        err_set(err, -ESRCH, "there is no object %.*s", SPAN_ARG(token));
    return OMIS_UNKNOWN_OBJECT;
}

static Omis_status class_mismatch(struct span token, const char *class_name, struct err *err)
{
    err_set(err, -EINVAL, "%.*s cannot be converted to an object of class %s_", SPAN_ARG(token), class_name);
    return OMIS_TYPE_MISMATCH;
}

/* Localisation: from an object to the one of class_name that contains it. */
static struct scry_object *localise(struct scry_call *call, struct scry_object *object, const char *class_name)
{
    if (class_is(object->class->name, class_name))
        return object;
    if (class_is(object->class->name, "t")) {
        struct process *process = ((struct thread *)object)->process;
        return localise(call, &process->object, class_name);
    }
    if (class_is(object->class->name, "p") && class_is(class_name, "n"))
        return &call->monitor->node->object;
    return NULL;
}

/* Whether the tool has this object in its scope. OMIS_OK or a status with err. */
static Omis_status check_scope(struct scry_call *call, struct scry_object *object, struct err *err)
{
    struct process *process = NULL;
    if (class_is(object->class->name, "p"))
        process = (struct process *)object;
    else if (class_is(object->class->name, "t"))
        process = ((struct thread *)object)->process;
    else if (class_is(object->class->name, "q"))
        process = ((struct message_queue *)object)->process;
    if (process && !tool_attachment(call->tool, process))
        return not_attached(call, process, err);
    if (class_is(object->class->name, "t") && !thread_visible((struct thread *)object, call->tool)) {
        err_set(err, -ESRCH, "%s was detached with thread_detach", object->token);
        return OMIS_UNKNOWN_OBJECT;
    }
    if (class_is(object->class->name, "n") && !call->tool->node_attached) {
        err_set(err, -ESRCH, "%s is not attached: node_attach([%s]) first", object->token, object->token);
        return OMIS_UNKNOWN_OBJECT;
    }
    if (class_is(object->class->name, "c") && object->owner != call->tool) {
        err_set(err, -EPERM, "%s belongs to another tool", object->token);
        return OMIS_NO_PERMISSION;
    }
    return OMIS_OK;
}

/* Threads come and go unseen; one that is named may have ended. */
static bool thread_exists(const struct thread *thread)
{
    return syscall(SYS_tgkill, thread->process->pid, thread->tid, 0) == 0 || errno != ESRCH;
}

struct scry_object *convert_one(struct scry_call *call, struct span token, const char *class_name, bool attached,
                                Omis_status *ret_status, struct err *err)
{
    struct scry_object *object = object_find(call->monitor, token);
    if (object && class_is(object->class->name, "t") && !thread_exists((struct thread *)object)) {
        thread_ended((struct thread *)object);
        object = NULL;
    }
    if (!object) {
        *ret_status = unknown_token(call, token, err);
        return NULL;
    }
    struct scry_object *at = localise(call, object, class_name);
    if (!at) {
        *ret_status = class_mismatch(token, class_name, err);
        return NULL;
    }
    *ret_status = attached ? check_scope(call, at == object ? at : object, err) : OMIS_OK;
    return *ret_status == OMIS_OK ? at : NULL;
}

/* Expansion of a token in a list: a node stands for its attached processes, a process for its threads. */
static bool expand(struct gather *gather, struct scry_object *object, struct span token)
{
    const char *from = object->class->name, *to = gather->class_name;
    struct err err;
    Omis_status status = check_scope(gather->call, object, &err);
    if (class_is(from, "n") && (class_is(to, "p") || class_is(to, "t") || class_is(to, "q"))) {
        if (status == OMIS_OK)
            gather_attached(gather, true);
    } else if (class_is(from, "p") && (class_is(to, "t") || class_is(to, "q"))) {
        if (status == OMIS_OK)
            gather_process(gather, (struct process *)object, true);
    } else {
        return false;
    }
    if (status != OMIS_OK)
        gather_fail(gather, token, status, &err);
    return true;
}

static void gather_token(struct gather *gather, const struct value *value, bool may_repeat)
{
    struct scry_call *call = gather->call;
    struct err err;
    Omis_status status;
    struct scry_object *object = object_find(call->monitor, value->text);
    if (object && expand(gather, object, value->text))
        return;
    bool attached = !gather->any_process;
    object = convert_one(call, value->text, gather->class_name, attached, &status, &err);
    if (object) {
        gather_add(gather, object, may_repeat);
        return;
    }
    gather_fail(gather, value->text, status, &err);
}

bool convert_objects(struct scry_call *call)
{
    struct service *service = call->service;
    if (service->object_arg < 0)
        return true;
    const struct value *arg = &call->args[service->object_arg];
    struct gather gather = {.call = call, .class_name = service->object_class};
    /* the two services that may get the token of something not attached */
    gather.any_process =
        strcmp(service->row->name, "proc_attach") == 0 || strcmp(service->row->name, "node_attach") == 0;
    if (arg->kind == VALUE_LIST && arg->list.count == 0 && !gather.any_process)
        gather_all(&gather);
    else if (arg->kind == VALUE_LIST)
        for (size_t i = 0; i < arg->list.count; i++)
            gather_token(&gather, &arg->list.items[i], arg->list.count > 1);
    else {
        struct err err;
        Omis_status status;
        struct scry_object *object =
            convert_one(call, arg->text, gather.class_name, !gather.any_process, &status, &err);
        if (object)
            gather_add(&gather, object, false);
        else
            call_fail(call, NULL, status, "%s", err.text);
    }
    if (gather.failed) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return false;
    }
    call->objects = gather.objects;
    call->object_count = gather.count;
    return true;
}
