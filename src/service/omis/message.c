/* SPDX-License-Identifier: Apache-2.0 */

#include "base/system/log.h"
#include "lang/value.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/mpi/mpi.h"
#include "monitor/engine/messages.h"
#include "monitor/mpi/messages.h"
#include "shm/mpi_told.h"
#include "service/omis/service.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* thread_has_received_tagged_msg, message_queue_has_been_extended */
extern const struct event_ops message_tagged_ops, message_extended_ops;

/* Events on messages (specification 8.1.3, 8.1.4), reported by processes (monitor/mpi/messages.h). */

static uint32_t event_of(const struct csr *csr)
{
    return event_ops_of(csr->event_service) == &message_tagged_ops ? MPIM_EVENT_TAGGED : MPIM_EVENT_EXTENDED;
}

/* Where the interposer has come. */
static void content_brought(void *ctx, struct process *process, int code, const struct err *why)
{
    struct csr *csr = ctx;
    struct err err = *why;
    struct mpi_process *found = process ? mpi_process_find(process->object.monitor->mpi, process->pid) : NULL;
    if (!process)
        return;
    if (code == 0)
        code = found ? mpi_messages_watch(found, event_of(csr), 1, &err)
                     : err_set(&err, -EOPNOTSUPP, "process %d has ended", process->pid);
    csr_target_ready(csr, process, code, &err);
}

static int event_arm(struct csr *csr, struct process *process, struct err *err)
{
    struct mpi_process *found = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (found)
        return mpi_messages_watch(found, event_of(csr), 1, err);
    int code = mpi_late_begin(process, content_brought, csr, err);
    return code < 0 ? code : 1;
}

static void event_disarm(struct csr *csr, struct process *process)
{
    struct err err = {.text = ""};
    struct mpi_process *found = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (!mpi_late_forget(process, csr) && found)
        mpi_messages_watch(found, event_of(csr), -1, &err);
}

const struct event_ops message_extended_ops = {.object_class = "q", .arm = event_arm, .disarm = event_disarm};

enum { OUT_TAG = 3 };

static bool match_tagged(const struct csr *csr, const struct event *event)
{
    const struct value *list = &csr->event_args[1], *tag = &event->outputs[OUT_TAG];
    for (size_t i = 0; i < list->list.count; i++)
        if (list->list.items[i].integer.bits == tag->integer.bits)
            return true;
    return list->list.count == 0;
}

const struct event_ops message_tagged_ops = {
    .object_class = "t", .arm = event_arm, .disarm = event_disarm, .match = match_tagged};

/*
 * Services on messages and message queues (specification 8.1.4), for MPI processes. Each has one queue: what any rank
 * of its MPI job has sent to it and none of its receives has matched. The processes change queues themselves, at their
 * next MPI call (monitor/mpi/messages.h), and the request waits for that. Where it cannot wait, nothing is done, for it
 * would be done after the answer (specification 7.2.3).
 */

/* ---- what there is ---- */

static const char *message_text(const struct message *message)
{
    return message ? message->object.token : TOKEN_UNDEFINED;
}

bool message_token(struct monitor *monitor, struct process *process, const struct mpi_told_message *message,
                   char ret_token[TOKEN_TEXT_SIZE])
{
    struct mpi_process *mpi = mpi_process_find(monitor->mpi, process->pid);
    struct mpi_queued about;
    if (!mpi || !message->number || !message->comm_id || message->from < 0 || message->to < 0)
        return false;
    const struct message_id id = {.world = mpi_process_world(mpi),
                                  .comm = message->comm_id,
                                  .k = message->number,
                                  .from = (int32_t)message->from,
                                  .to = (int32_t)message->to,
                                  .tag = (int32_t)message->tag};
    mpi_message_state(monitor->mpi, &id, &about);
    if (about.doubts)
        return false;
    snprintf(ret_token, TOKEN_TEXT_SIZE, "%s", message_text(message_named(monitor, &id)));
    return true;
}

enum { INFO_TOKEN = 1, INFO_SENDER = 2, INFO_SIZE = 4, INFO_TAG = 8, INFO_ALL = 15 };

static void put_message(struct monitor *monitor, const struct mpi_queued *about, uint64_t flags, struct buf *text)
{
    char sender[TOKEN_TEXT_SIZE];
    if (flags & INFO_TOKEN)
        PUT(text, value_token(span_str(message_text(message_named(monitor, &about->id)))));
    if (flags & INFO_SENDER) {
        mpi_message_sender(monitor->mpi, &about->id, about->tid, sender);
        PUT(text, value_token(span_str(sender)));
    }
    if (flags & INFO_SIZE)
        PUT(text, about->bytes == UINT64_MAX ? -1 : (int64_t)about->bytes);
    if (flags & INFO_TAG)
        PUT(text, about->monitor_tag);
}

static struct message_queue *queue_at(const struct scry_call *call, size_t index)
{
    return (struct message_queue *)call->objects[index];
}

static void get_info(struct scry_call *call, struct message_queue *queue, uint64_t flags)
{
    struct arena arena = ARENA_INIT;
    struct mpi_queue info;
    struct err err = {.text = ""};
    int code = mpi_queue_certain(queue->process, &info, &arena, &err);
    if (code < 0) {
        call_fail_errno(call, &queue->object, code, &err);
    } else {
        struct buf text = BUF_INIT;
        PUT(&text, info.count);
        put_list(&text);
        for (size_t i = 0; i < info.count; i++)
            put_message(call->monitor, &info.items[i], flags, &text);
        put_end(&text);
        call_text(call, &queue->object, &text);
        buf_done(&text);
    }
    arena_done(&arena);
}

static void message_queue_get_info(struct scry_call *call)
{
    if (!call_check_range(call, 1, 0, INFO_ALL))
        return;
    for (size_t i = 0; i < call->object_count; i++)
        get_info(call, queue_at(call, i), call_unsigned(call, 1));
}

/* ---- tags ---- */

static struct message *message_at(const struct scry_call *call, size_t index)
{
    return (struct message *)call->objects[index];
}

static void message_tag(struct scry_call *call)
{
    if (!call_check_range(call, 1, INT64_MIN, INT64_MAX))
        return;
    int64_t tag = call_integer(call, 1);
    if (!tag) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "tag: 0 is no tag");
        return;
    }
    for (size_t i = 0; i < call->object_count; i++) {
        struct message *message = message_at(call, i);
        struct err err = {.text = ""};
        int code = 0;
        if (message->held)
            message->monitor_tag = tag; /* the message keeps it when it is inserted */
        else
            code = mpi_message_tag(call->monitor->mpi, &message->id, tag, &err);
        call_done(call, &message->object, code, &err);
    }
}

/* ---- held messages ---- */

static void message_create(struct scry_call *call)
{
    struct message *message = message_new(call->monitor, call->tool);
    if (!message) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    struct buf text = BUF_INIT;
    buf_puts(&text, message->object.token);
    call_text(call, NULL, &text);
    buf_done(&text);
}

static bool check_held(struct scry_call *call, const struct message *message)
{
    if (message->held)
        return true;
    call_fail(
        call, call->objects ? call->objects[0] : NULL, OMIS_UNSUPPORTED_SERVICE,
        "%s is in a message queue, or was received: its content is in the MPI library; use message_queue_remove to get "
        "it",
        message->object.token);
    return false;
}

static void message_copy(struct scry_call *call)
{
    struct message *from = call->object_count ? message_at(call, 0) : NULL;
    struct message *to = from ? (struct message *)convert_arg(call, 1) : NULL;
    if (!to || !check_held(call, from) || !check_held(call, to))
        return;
    uint8_t *content = malloc(from->bytes + 1);
    if (!content) {
        call_fail(call, &from->object, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    if (from->bytes)
        memcpy(content, from->content, from->bytes);
    if (from != to) {
        message_hold(to, call->tool, content, from->bytes);
        to->id = from->id;
        to->addressed = from->addressed;
    } else
        free(content);
    call_ok(call, &from->object);
}

static void message_destroy(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct message *message = message_at(call, i);
        struct mpi_queued about;
        enum message_state state =
            message->held ? MESSAGE_IS_RECEIVED : mpi_message_state(call->monitor->mpi, &message->id, &about);
        if (message->held && message->object.owner && message->object.owner != call->tool) {
            call_fail(call, &message->object, OMIS_NO_PERMISSION, "%s belongs to another tool", message->object.token);
        } else if (state == MESSAGE_IS_QUEUED || state == MESSAGE_IS_TO_COME || state == MESSAGE_IS_MATCHED) {
            call_fail(call, &message->object, OMIS_UNSUPPORTED_SERVICE,
                      "%s is in a message queue: use message_queue_remove first", message->object.token);
        } else {
            call_ok(call, &message->object);
            message_end(message);
        }
    }
}

/* ---- changes of queues: made by the processes, so the answer takes a while ---- */

struct doing { /* an action on one or more queues */
    struct monitor *monitor;
    struct later *later; /* NULL: answered already, or there is nobody to answer */
    unsigned left;
    bool begun; /* all requests are out */
};

struct one {
    struct doing *doing;
    char queue[TOKEN_TEXT_SIZE], message[TOKEN_TEXT_SIZE]; /* message: "" */
    struct message_id id;
    uint32_t tool;
};

static void command_cancelled(void *ctx)
{
    struct doing *doing = ctx;
    doing->later = NULL;
}

/* `at_once`: there is no difference between now and the next MPI call. */
static struct doing *command_begin(struct scry_call *call, bool at_once)
{
    struct doing *doing = calloc(1, sizeof *doing);
    if (!doing) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return NULL;
    }
    doing->monitor = call->monitor;
    doing->left = 1; /* this function */
    doing->later = call_later(call, command_cancelled, doing);
    if (doing->later || at_once)
        return doing;
    for (size_t i = 0; i < call->object_count; i++)
        call_fail(call, call->objects[i], OMIS_UNSUPPORTED_SERVICE,
                  "the process does this at its next MPI call, and in braces or in the list of a conditional request "
                  "nothing can wait for that: send it as a request of its own");
    free(doing);
    return NULL;
}

static void message_release(struct doing *doing, bool answered)
{
    bool last = --doing->left == 0;
    if (doing->later && answered)
        call_later_end(doing->later, last);
    if (last)
        free(doing);
}

static struct one *one_new(struct doing *doing, struct scry_call *call, const struct message_queue *queue,
                           const struct message *message)
{
    struct one *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    one->doing = doing;
    one->tool = call->tool->id;
    snprintf(one->queue, sizeof one->queue, "%s", queue->object.token);
    if (message)
        snprintf(one->message, sizeof one->message, "%s", message->object.token);
    doing->left++;
    return one;
}

/* The result of one queue: the answer, or if nobody waits for it, a log entry for an error. */
static void one_answer(struct one *one, const struct mpi_message_result *result)
{
    struct doing *doing = one->doing;
    struct scry_call *call = doing->later ? call_later_begin(doing->later) : NULL;
    struct scry_object *object = object_find(doing->monitor, span_str(one->queue));
    if (call && result->code < 0)
        call_fail(call, object, result->code == -ETIMEDOUT ? OMIS_UNSPECIFIED_ERROR : status_of_errno(result->code),
                  "%s", result->text);
    else if (call)
        call_ok(call, object);
    else if (result->code < 0)
        log_warning("messages of %s were not changed: %s", one->queue, result->text);
    message_release(doing, call != NULL);
    free(one);
}

static void one_fails(struct one *one, struct scry_call *call, struct scry_object *object, int code,
                      const struct err *err)
{
    call_fail_errno(call, object, code, err);
    one->doing->left--;
    free(one);
}

/* All requests are out: answers those that failed; answers the rest, too, if nothing can wait here. */
static void command_begun(struct doing *doing, struct scry_call *call)
{
    bool waits = doing->left > 1;
    if (!doing->later && waits)
        for (size_t i = 0; i < call->object_count; i++)
            call_ok(call, call->objects[i]);
    if (doing->later && !waits) {
        call_later_begin(doing->later);
        call_later_end(doing->later, true);
    }
    if (--doing->left == 0)
        free(doing);
}

static void message_removed(void *ctx, struct mpi_message_result *result)
{
    struct one *one = ctx;
    struct monitor *monitor = one->doing->monitor;
    struct scry_object *object = object_find(monitor, span_str(one->message));
    struct tool *tool;
    HASH_FIND(hh, monitor->tools, &one->tool, sizeof one->tool, tool);
    if (object && result->done && tool) {
        message_hold((struct message *)object, tool, result->content, result->bytes);
        result->content = NULL;
    }
    one_answer(one, result);
}

/* This message has just entered the queue: its process receives nothing before it has done what it was asked. */
static bool is_new(const struct scry_call *call, const struct message_queue *queue, const struct message *message)
{
    return call->event && event_ops_of(call->event->service) == &message_extended_ops &&
           call->event->object == &queue->object && span_is(call->event->outputs[1].text, message->object.token);
}

/* MPI delivers messages of one rank with one tag in order. */
static int check_first(struct scry_call *call, const struct message_queue *queue, const struct message_id *id,
                       struct err *err)
{
    struct mpi_queue info;
    int code = mpi_queue_snapshot(queue->process, &info, call->arena, err);
    for (size_t i = 0; code == 0 && i < info.count; i++) {
        const struct message_id *other = &info.items[i].id;
        if (other->comm == id->comm && other->from == id->from && other->tag == id->tag && other->k < id->k)
            code = err_set(err, -EOPNOTSUPP,
                           "another message of its sender with the same tag is before it, and MPI delivers them in "
                           "order");
    }
    return code;
}

static void message_queue_remove(struct scry_call *call)
{
    struct message_queue *queue = call->object_count ? queue_at(call, 0) : NULL;
    struct message *message = queue ? (struct message *)convert_arg(call, 1) : NULL;
    struct err err = {.text = ""};
    if (!message)
        return;
    struct mpi_process *process = mpi_process_of(queue->process, &err);
    struct mpi_queued about;
    if (!process) {
        call_fail_errno(call, &queue->object, -EOPNOTSUPP, &err);
        return;
    }
    enum message_state state =
        message->held ? MESSAGE_IS_UNKNOWN : mpi_message_state(call->monitor->mpi, &message->id, &about);
    if (state != MESSAGE_IS_QUEUED || message->id.world != mpi_process_world(process) ||
        message->id.to != mpi_process_head(process)->rank) {
        call_fail(call, &queue->object, OMIS_UNKNOWN_OBJECT, "%s is not in %s", message->object.token,
                  queue->object.token);
        return;
    }
    if (mpi_doubts_check(about.doubts, &err) < 0 || check_first(call, queue, &message->id, &err) < 0) {
        call_fail_errno(call, &queue->object, -EOPNOTSUPP, &err);
        return;
    }
    struct doing *doing = command_begin(call, is_new(call, queue, message));
    if (!doing)
        return;
    struct one *one = one_new(doing, call, queue, message);
    const struct mpi_message_command command = {.kind = MPIM_REMOVE,
                                                .comm = message->id.comm,
                                                .peer = message->id.from,
                                                .tag = message->id.tag,
                                                .k = message->id.k,
                                                .bytes = about.bytes,
                                                .wants_content = true};
    int code = one ? mpi_message_do(process, &command, wait_policies[WAIT_RANK].limit_ms * WAITS_NS_PER_MS,
                                    message_removed, one, &err)
                   : -ENOMEM;
    if (one && code < 0)
        one_fails(one, call, &queue->object, code, &err);
    command_begun(doing, call);
}

static void queue_cleared(void *ctx, struct mpi_message_result *result)
{
    one_answer(ctx, result);
}

static void message_queue_clear(struct scry_call *call)
{
    struct doing *doing = command_begin(call, false);
    if (!doing)
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct message_queue *queue = queue_at(call, i);
        struct err err = {.text = ""};
        struct arena arena = ARENA_INIT;
        struct mpi_queue info = {0};
        struct mpi_process *process = mpi_process_of(queue->process, &err);
        int code = mpi_queue_snapshot(queue->process, &info, &arena, &err);
        struct mpi_message_command command = {.kind = MPIM_CLEAR, .count = info.doubts ? 0 : info.count};
        arena_done(&arena);
        struct one *one = code == 0 ? one_new(doing, call, queue, NULL) : NULL;
        if (code == 0)
            code = one ? mpi_message_do(process, &command, wait_policies[WAIT_RANK].limit_ms * WAITS_NS_PER_MS,
                                        queue_cleared, one, &err)
                       : -ENOMEM;
        if (one && code < 0)
            one_fails(one, call, &queue->object, code, &err);
        else if (code < 0)
            call_fail_errno(call, &queue->object, code, &err);
    }
    command_begun(doing, call);
}

static void message_inserted(void *ctx, struct mpi_message_result *result)
{
    struct one *one = ctx;
    struct monitor *monitor = one->doing->monitor;
    struct scry_object *object = object_find(monitor, span_str(one->message));
    struct message *message = (struct message *)object;
    if (object && result->code == 0 && result->done) {
        int64_t tag = message->monitor_tag;
        struct err err = {.text = ""};
        one->id.k = result->k;
        message_queued(message, &one->id);
        if (tag && mpi_message_tag(monitor->mpi, &one->id, tag, &err) < 0)
            log_warning("%s was inserted, but could not be tagged: %s", one->message, err.text);
    }
    one_answer(one, result);
}

/* What prevents it; NULL: nothing. */
static const char *check_insert(const struct message *message, const struct mpi_process *process, int64_t pos)
{
    if (pos != -1)
        return "MPI delivers the messages of a sender in order: insert at the end (pos -1)";
    if (!message->held)
        return "the message is in a queue, or was received: message_copy or message_create make one that can be "
               "inserted";
    if (!message->addressed)
        return "the message has no sender, receiver, communicator and tag: mpi_message_set_content sets them";
    if (message->id.world != mpi_process_world(process) || message->id.to != mpi_process_head(process)->rank)
        return "the message is addressed to another process: mpi_message_set_content changes that";
    if (message->bytes > (uint64_t)(message->id.from == message->id.to ? MPIM_INSERT_SELF_MOST : MPIM_INSERT_MOST))
        return "the message is too large: MPI keeps more than 4000 bytes (960 to the sender itself) with the sender "
               "until "
               "they are received, and if nobody does, the program might not end";
    return NULL;
}

static void message_insert_into_queue(struct scry_call *call)
{
    struct message *message = call->object_count ? message_at(call, 0) : NULL;
    struct message_queue *queue = message ? (struct message_queue *)convert_arg(call, 1) : NULL;
    struct err err = {.text = ""};
    if (!queue)
        return;
    struct mpi_process *process = mpi_process_of(queue->process, &err);
    const char *why = process ? check_insert(message, process, call_integer(call, 2)) : err.text;
    struct mpi_process *sender = why ? NULL : mpi_world_rank(call->monitor->mpi, message->id.world, message->id.from);
    if (!why && !sender)
        why = "its sender, which has to send it, is not on this node or has ended";
    if (why) {
        call_fail(call, &message->object, OMIS_UNSUPPORTED_SERVICE, "%s", why);
        return;
    }
    struct doing *doing = command_begin(call, false);
    if (!doing)
        return;
    struct one *one = one_new(doing, call, queue, message);
    const struct mpi_message_command command = {.kind = MPIM_INSERT,
                                                .comm = message->id.comm,
                                                .peer = message->id.to,
                                                .tag = message->id.tag,
                                                .content = message->content,
                                                .bytes = message->bytes};
    if (one)
        one->id = message->id;
    int code = one ? mpi_message_do(sender, &command, wait_policies[WAIT_RANK].limit_ms * WAITS_NS_PER_MS,
                                    message_inserted, one, &err)
                   : -ENOMEM;
    if (one && code < 0)
        one_fails(one, call, &message->object, code, &err);
    command_begun(doing, call);
}

#define MESSAGE_ROW(name, kind, signature, run, doc) \
    { \
        name, kind, signature, SCRY_OPTIONAL, run, doc \
    }
#define PARTLY_ROW(name, kind, signature, run, doc) \
    { \
        name, kind, signature, SCRY_OPTIONAL | SCRY_PARTLY, run, doc \
    }

const struct scry_service message_services[] = {
    PARTLY_ROW(
        "message_insert_into_queue", SCRY_MANIPULATION,
        "token<m> msg, token<q> queue, integer pos -> void ! OMIS_UNSPECIFIED_ERROR", message_insert_into_queue,
        "Insert a message that is held into a message queue, at its end (pos -1): its sender's process sends it, at "
        "its next MPI call. At most 4000 bytes (960 to the sender itself), which nobody has to wait for."),
    PARTLY_ROW(
        "message_queue_remove", SCRY_MANIPULATION, "token<q> queue, token<m> msg -> void ! OMIS_UNSPECIFIED_ERROR",
        message_queue_remove,
        "Remove a message from a message queue, and hold it: the receiver's process receives it, at its next MPI "
        "call. Of each sender, tag and communicator the first one only."),
    MESSAGE_ROW("message_queue_clear", SCRY_MANIPULATION, "token<q>* queue_list -> void ! OMIS_UNSPECIFIED_ERROR",
                message_queue_clear,
                "Clear message queues: their processes receive all messages, at their next MPI call."),
    MESSAGE_ROW("message_tag", SCRY_MANIPULATION, "token<m>* msg_list, integer tag -> void", message_tag,
                "Add a monitor tag to messages."),
    MESSAGE_ROW("message_create", SCRY_MANIPULATION, "-> token", message_create,
                "Create a new message, which is held; mpi_message_set_content fills it."),
    MESSAGE_ROW("message_copy", SCRY_MANIPULATION, "token<m> src, token<m> dst -> void", message_copy,
                "Copy a message that is held into another one."),
    MESSAGE_ROW("message_destroy", SCRY_MANIPULATION, "token<m>* msg_list -> void", message_destroy,
                "Destroy messages that are in no queue."),
    MESSAGE_ROW(
        "message_queue_get_info", SCRY_INFORMATION,
        "token<q>* queue_list, integer flags -> { integer queue_length; any* messages }", message_queue_get_info,
        "Return information on message queues: messages sent to a process that no receive of it has matched, in "
        "the order in which they were sent. messages: token, thread that sent it, size (-1: not known any more), "
        "monitor tag, as bits 0 to 3 of flags say."),
    {"message_queue_has_been_extended", SCRY_EVENT,
     "token<q>* queue_list -> { token queue; token msg; token sender; integer<bytes> size; integer monitor_tag }",
     SCRY_OPTIONAL | SCRY_CONTROL, NULL,
     "A message has been sent to a message queue (also one that a receive waits for). Its sender waits until the "
     "action "
     "lists have run, and the queue's process posts no receive.",
     .event = &message_extended_ops},
    SERVICE_END,
};
