/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monitor/engine/execute.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/object.h"

static bool class_is(const char *name, const char *wanted)
{
    return strcmp(name, wanted) == 0;
}

static const struct object_class *class_of(const char *name)
{
    return object_class_find(monitor_current(), span_str(name));
}

static bool class_contains(const char *outer, const char *inner)
{
    const struct object_class *class = class_of(inner);
    while (class && class->container_class) {
        if (class_is(class->container_class, outer))
            return true;
        class = class_of(class->container_class);
    }
    return false;
}

/* Whether the members of an extension's class are, or contain, such of class `to`. */
static bool class_has_members(const char *from, const char *to)
{
    const struct object_class *class = class_of(from);
    return class && class->member && (class_is(class->member_class, to) || class_contains(class->member_class, to));
}

bool convert_class_can(const char *from, const char *to, bool in_list)
{
    return class_is(from, to) || class_contains(to, from) ||
           (in_list && (class_contains(from, to) || class_has_members(from, to)));
}

/* ---- localisation ---- */

/* The queue that a message is in, or will be. */
static struct scry_object *queue_of_message(const struct message *message, struct err *err)
{
    struct monitor *monitor = message->object.monitor;
    const struct message_id *id = &message->id;
    struct process *process = message->held ? NULL : message_rank(monitor, id->world, id->to);
    struct message_queue *queue = process ? message_queue_of(process) : NULL;
    if (message->held)
        err_set(err, -ESRCH, "%s is held: it is in no queue", message->object.token);
    else if (!queue)
        err_set(err, -ESRCH, "%s is in no queue any more: the process it was sent to has ended", message->object.token);
    else if (monitor->message_source->state(monitor, id) == MESSAGE_IS_RECEIVED)
        err_set(err, -ESRCH, "%s is in no queue any more: it was received", message->object.token);
    else
        return &queue->object;
    return NULL;
}

/* What an extension says. */
static struct scry_object *container_of_extension(struct scry_object *object, struct err *err)
{
    const char *token = object->class->container ? object->class->container(object->data) : NULL;
    struct scry_object *found = token ? object_find(object->monitor, span_str(token)) : NULL;
    if (found && object_is(found, object->class->container_class))
        return found;
    err_set(err, -ESRCH, "%s is in no object of class %s_ any more", object->token, object->class->container_class);
    return NULL;
}

/* The object that it is in; NULL: none, with err. */
static struct scry_object *object_container(struct scry_object *object, struct err *err)
{
    if (object_is(object, "m"))
        return queue_of_message((struct message *)object, err);
    if (object_is(object, "q"))
        return &((struct message_queue *)object)->process->object;
    if (object_is(object, "t"))
        return &((struct thread *)object)->process->object;
    if (object_is(object, "p"))
        return &object->monitor->node->object;
    return object->class->container_class ? container_of_extension(object, err) : NULL;
}

/* From an object to the one of a class that contains it: convert_class_can has said that there are such. */
static struct scry_object *object_localise(struct scry_object *object, const char *class_name, struct err *err)
{
    while (object && !object_is(object, class_name))
        object = object_container(object, err);
    return object;
}

struct scry_object *convert_localise(struct scry_object *object, const char *class_name)
{
    struct err ignored;
    return convert_class_can(object->class->name, class_name, false) ? object_localise(object, class_name, &ignored)
                                                                     : NULL;
}

/* Members have no members: their class was there before. */
static bool member_names(const struct scry_object *group, const char *member, const struct scry_object *object)
{
    struct scry_object *found = object_find(object->monitor, span_str(member));
    return found && object_is(found, group->class->member_class) && convert_names(span_str(member), object);
}

bool convert_names(struct span token, const struct scry_object *object)
{
    struct err ignored;
    for (const struct scry_object *at = object; at; at = object_container((struct scry_object *)at, &ignored))
        if (span_is(token, at->token))
            return true;
    struct scry_object *named = object_find(object->monitor, token);
    const char *member;
    if (named && class_has_members(named->class->name, object->class->name))
        for (size_t i = 0; (member = named->class->member(named->data, i)); i++)
            if (member_names(named, member, object))
                return true;
    return named && class_contains(object->class->name, named->class->name) &&
           object_localise(named, object->class->name, &ignored) == object;
}

/* ---- expansion ---- */

/* The objects found so far. An object is executed once, however often it is named. */
struct gather {
    struct scry_call *call;
    const char *class_name;
    uint64_t serial;
    bool any_process; /* proc_attach: also processes that are not attached */
    struct scry_object **objects;
    size_t count, cap;
    bool failed;
};

static void gather_add(struct gather *gather, struct scry_object *object)
{
    if (object->gathered == gather->serial)
        return;
    object->gathered = gather->serial;
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

static void gather_threads(struct gather *gather, struct process *process)
{
    process_refresh(process, gather->call->execution->id); /* if it is gone there is nothing to add */
    struct thread *thread, *next;
    HASH_ITER(hh, process->threads, thread, next)
    {
        if (thread_visible(thread, gather->call->tool))
            gather_add(gather, &thread->object);
    }
}

/* The messages in a queue, as they were when this execution first looked. 0 or -errno. */
static int know_messages(struct scry_call *call, struct message_queue *queue, struct queue_messages **ret_messages,
                         struct err *err)
{
    struct execution *execution = call->execution;
    for (*ret_messages = execution->messages; *ret_messages; *ret_messages = (*ret_messages)->next)
        if ((*ret_messages)->queue == queue)
            return 0;
    struct message_id *ids = NULL;
    size_t count = 0;
    const struct message_source *source = call->monitor->message_source;
    int code = source ? source->queued(queue->process, &ids, &count, &execution->arena, err) : 0;
    if (code < 0)
        return code;
    struct queue_messages *messages = arena_alloc(&execution->arena, sizeof *messages);
    struct message **items = arena_alloc(&execution->arena, (count + 1) * sizeof(struct message *));
    if (!messages || !items)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        items[i] = message_named(call->monitor, &ids[i]);
        if (!items[i])
            return err_set(err, -ENOMEM, "out of memory");
    }
    *messages = (struct queue_messages){queue, items, count, execution->messages};
    execution->messages = *ret_messages = messages;
    return 0;
}

static void gather_messages(struct gather *gather, struct message_queue *queue)
{
    struct queue_messages *messages;
    struct err err;
    int code = know_messages(gather->call, queue, &messages, &err);
    if (code < 0)
        gather_fail(gather, span_str(queue->object.token), status_of_errno(code), &err);
    for (size_t i = 0; code == 0 && i < messages->count; i++)
        gather_add(gather, &messages->items[i]->object);
}

/* A process without a queue has no messages sent to it. */
static void gather_queue(struct gather *gather, struct process *process)
{
    struct message_queue *queue = message_has_queue(process) ? message_queue_of(process) : NULL;
    if (queue && class_is(gather->class_name, "q"))
        gather_add(gather, &queue->object);
    else if (queue)
        gather_messages(gather, queue);
}

static void gather_process(struct gather *gather, struct process *process)
{
    if (process->object.gone)
        return;
    if (!tool_attachment(gather->call->tool, process)) {
        /* it was when [] was first looked at: this execution itself has detached it */
        struct err err;
        Omis_status status = not_attached(gather->call, process, &err);
        gather_fail(gather, span_str(process->object.token), status, &err);
    } else if (class_is(gather->class_name, "p")) {
        gather_add(gather, &process->object);
    } else if (class_is(gather->class_name, "t")) {
        gather_threads(gather, process);
    } else {
        gather_queue(gather, process);
    }
}

/* Those of the tool, of an extension's class, that are in an object. */
static void gather_owned(struct gather *gather, const struct scry_object *container)
{
    struct scry_object *last = NULL;
    for (struct scry_object *o = gather->call->tool->owned; o; o = o->next_owned)
        last = o;
    for (struct scry_object *o = last; o; o = o->previous_owned)
        if (object_is(o, gather->class_name) &&
            (!container || convert_localise(o, container->class->name) == container))
            gather_add(gather, o);
}

static void gather_attached(struct gather *gather)
{
    if (!know_attached(gather->call)) {
        gather->failed = true;
        return;
    }
    const struct execution *execution = gather->call->execution;
    for (size_t i = 0; i < execution->attached_count; i++)
        gather_process(gather, execution->attached[i]);
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
        if (creates_process(call->service) && !call->tool->spread)
            call->tool->node_attached = true;
        if (call->tool->node_attached)
            gather_add(gather, &call->monitor->node->object);
        return;
    }
    if (class_contains("n", gather->class_name) && class_of(gather->class_name)->builtin)
        gather_attached(gather);
    /* monitor objects, and messages that are held: those of the tool, oldest first */
    gather_owned(gather, NULL);
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

/* A message is in the scope of who attached its receiver, or its sender. */
static Omis_status check_message_scope(struct scry_call *call, const struct message *message, struct err *err)
{
    const struct message_id *id = &message->id;
    if (message->held)
        return OMIS_OK;
    struct process *to = message_rank(call->monitor, id->world, id->to);
    struct process *from = message_rank(call->monitor, id->world, id->from);
    if ((to && tool_attachment(call->tool, to)) || (from && tool_attachment(call->tool, from)))
        return OMIS_OK;
    if (to)
        return not_attached(call, to, err);
    err_set(err, -ESRCH, "%s does not exist any more: the process it was sent to has ended", message->object.token);
    return OMIS_UNKNOWN_OBJECT;
}

/* Whether the tool has this object in its scope. OMIS_OK or a status with err. */
static Omis_status check_scope(struct scry_call *call, struct scry_object *object, struct err *err)
{
    Omis_status confined = confine_object(call->tool, object, err);
    if (confined != OMIS_OK)
        return confined;
    if (class_is(object->class->name, "m"))
        return check_message_scope(call, (struct message *)object, err);
    if (object->class->builtin && convert_class_can(object->class->name, "p", false)) {
        struct process *process = (struct process *)object_localise(object, "p", err);
        if (!tool_attachment(call->tool, process))
            return not_attached(call, process, err);
    }
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
    if (!convert_class_can(object->class->name, class_name, false)) {
        *ret_status = class_mismatch(token, class_name, err);
        return NULL;
    }
    *ret_status = attached ? check_scope(call, object, err) : confine_object(call->tool, object, err);
    struct scry_object *at = *ret_status == OMIS_OK ? object_localise(object, class_name, err) : NULL;
    if (*ret_status == OMIS_OK && !at)
        *ret_status = OMIS_UNKNOWN_OBJECT;
    bool other = object_is(object, "m") || !object->class->builtin; /* in scope for its sender, its owner only? */
    if (at && at != object && other && attached)
        *ret_status = check_scope(call, at, err);
    return *ret_status == OMIS_OK ? at : NULL;
}

struct scry_object *convert_arg(struct scry_call *call, size_t index)
{
    const struct param_type *type = &call->service->signature.params[index];
    Omis_status status;
    struct err err;
    struct scry_object *object = convert_one(call, call->args[index].text, type->class, true, &status, &err);
    if (!object)
        call_fail(call, NULL, status, "%.*s: %s", SPAN_ARG(type->name), err.text);
    return object;
}

static void gather_token(struct gather *gather, const struct value *value);

/* Those that the tool has attached: it is no mistake of whoever named the group that there are others. */
static void gather_members(struct gather *gather, struct scry_object *group)
{
    const char *token;
    struct err ignored;
    for (size_t i = 0; (token = group->class->member(group->data, i)); i++) {
        struct scry_object *member = object_find(gather->call->monitor, span_str(token));
        struct value value = value_token(span_str(token));
        if (member && object_is(member, group->class->member_class) &&
            check_scope(gather->call, member, &ignored) == OMIS_OK)
            gather_token(gather, &value);
    }
}

/* Expansion of a token in a list: a node stands for its attached processes, those for their threads, or for their
 * queues and the messages in them. */
static bool object_expand(struct gather *gather, struct scry_object *object, struct span token)
{
    if (class_has_members(object->class->name, gather->class_name)) {
        gather_members(gather, object);
        return true;
    }
    if (!class_contains(object->class->name, gather->class_name))
        return false;
    struct err err;
    Omis_status status = check_scope(gather->call, object, &err);
    if (status != OMIS_OK)
        gather_fail(gather, token, status, &err);
    else if (!class_of(gather->class_name)->builtin)
        gather_owned(gather, object);
    else if (object_is(object, "n"))
        gather_attached(gather);
    else if (object_is(object, "p"))
        gather_process(gather, (struct process *)object);
    else
        gather_messages(gather, (struct message_queue *)object);
    return true;
}

static void gather_token(struct gather *gather, const struct value *value)
{
    struct scry_call *call = gather->call;
    struct err err;
    Omis_status status;
    struct scry_object *object = object_find(call->monitor, value->text);
    if (object && object_expand(gather, object, value->text))
        return;
    bool attached = !gather->any_process;
    object = convert_one(call, value->text, gather->class_name, attached, &status, &err);
    if (object) {
        gather_add(gather, object);
        return;
    }
    gather_fail(gather, value->text, status, &err);
}

/* `any_process`: see struct gather. */
static bool token_convert(struct scry_call *call, const struct value *value, const char *class_name, bool any_process,
                          struct scry_object ***ret_objects, size_t *ret_count)
{
    struct gather gather = {
        .call = call, .class_name = class_name, .serial = ++call->monitor->last_gather, .any_process = any_process};
    if (value->kind == VALUE_LIST && value->list.count == 0 && !any_process)
        gather_all(&gather);
    else if (value->kind == VALUE_LIST)
        for (size_t i = 0; i < value->list.count; i++)
            gather_token(&gather, &value->list.items[i]);
    else {
        struct err err;
        Omis_status status;
        struct scry_object *object = convert_one(call, value->text, class_name, !any_process, &status, &err);
        if (object)
            gather_add(&gather, object);
        else
            call_fail(call, NULL, status, "%s", err.text);
    }
    if (gather.failed) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return false;
    }
    *ret_objects = gather.objects;
    *ret_count = gather.count;
    return true;
}

bool convert_value(struct scry_call *call, const struct value *value, const char *class_name,
                   struct scry_object ***ret_objects, size_t *ret_count)
{
    return token_convert(call, value, class_name, false, ret_objects, ret_count);
}

bool convert_objects(struct scry_call *call)
{
    struct service *service = call->service;
    if (service->object_arg < 0)
        return true;
    /* the two services that may get the token of something not attached */
    bool any_process = strcmp(service->row->name, "proc_attach") == 0 || strcmp(service->row->name, "node_attach") == 0;
    return token_convert(call, &call->args[service->object_arg], service->object_class, any_process, &call->objects,
                         &call->object_count);
}
