/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in extension `mpi`, messages: what message_queue_get_info cannot express, and the content of held messages
 * (monitor/engine/messages.h). */
#include <stdlib.h>
#include <string.h>

#include "monitor/engine/execute.h"
#include "lang/value.h"
#include "lang/results.h"
#include "monitor/engine/messages.h"
#include "monitor/mpi/messages.h"
#include "shm/mpi_told.h"
#include "service/omis/service.h"

/* ---- what is known of a queue ---- */

static struct value token_of(const char *token)
{
    return value_token(span_str(token));
}

static void put_queued(struct monitor *monitor, const struct mpi_queued *about, struct buf *text)
{
    char sender[TOKEN_TEXT_SIZE];
    const struct message *message = message_named(monitor, &about->id);
    mpi_message_sender(monitor->mpi, &about->id, about->tid, sender);
    struct buf doubts = BUF_INIT;
    mpi_doubts_print(about->doubts, &doubts);
    PUT(text, token_of(message ? message->object.token : TOKEN_UNDEFINED), token_of(sender), about->id.from,
        about->id.tag, about->comm == UINT32_MAX ? -1 : (int64_t)about->comm, about->id.k,
        about->bytes == UINT64_MAX ? -1 : (int64_t)about->bytes, about->age_ns, about->monitor_tag);
    put_buf(text, &doubts);
    buf_done(&doubts);
}

static void note_queue(const struct mpi_queue *queue, struct buf *text)
{
    struct buf note = BUF_INIT;
    mpi_doubts_print(queue->doubts, &note);
    if (queue->missing)
        buf_printf(&note, "%s%u ranks are not on this node, have ended, or are not counted", note.len ? "; " : "",
                   queue->missing);
    if (queue->unfollowed)
        buf_printf(&note,
                   "%s%llu messages went over communicators that are not followed (intercommunicators, or other jobs)",
                   note.len ? "; " : "", (unsigned long long)queue->unfollowed);
    put_buf(text, &note);
    buf_done(&note);
}

static void mpi_get_messages(struct scry_call *call)
{
    if (!call_check_range(call, 1, 0, 1))
        return;
    const bool look = call_integer(call, 1) != 0;
    for (size_t i = 0; i < call->object_count; i++) {
        struct arena arena = ARENA_INIT;
        struct mpi_queue queue;
        struct err err = {.text = ""};
        int code = (look ? mpi_queue_look : mpi_queue_snapshot)(call_process(call, i), &queue, &arena, &err);
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
        } else {
            struct buf text = BUF_INIT;
            note_queue(&queue, &text);
            put_list(&text);
            for (size_t k = 0; k < queue.count; k++)
                put_queued(call->monitor, &queue.items[k], &text);
            put_end(&text);
            call_text(call, call->objects[i], &text);
            buf_done(&text);
        }
        arena_done(&arena);
    }
}

/* ---- content ---- */

static void put_rank(struct monitor *monitor, uint64_t world, int32_t rank, struct buf *text)
{
    const struct process *process = mpi_rank_process(monitor->mpi, world, rank);
    PUT(text, token_of(process ? process->object.token : TOKEN_UNDEFINED));
}

static void get_content(struct scry_call *call, struct message *message)
{
    struct monitor *monitor = call->monitor;
    struct mpi_process *sender = mpi_world_rank(monitor->mpi, message->id.world, message->id.from);
    uint32_t comm = message->addressed && sender ? mpi_comm_number(sender, message->id.comm) : UINT32_MAX;
    if (!message->held) {
        call_fail(call, &message->object, OMIS_UNSUPPORTED_SERVICE,
                  "%s is in a message queue, or was received: its content is in the MPI library; use "
                  "message_queue_remove to get it",
                  message->object.token);
        return;
    }
    struct buf text = BUF_INIT;
    if (message->addressed) {
        put_rank(monitor, message->id.world, message->id.from, &text);
        put_rank(monitor, message->id.world, message->id.to, &text);
    } else
        PUT(&text, token_of(TOKEN_UNDEFINED), token_of(TOKEN_UNDEFINED));
    PUT(&text, comm == UINT32_MAX ? -1 : (int64_t)comm, message->addressed ? message->id.tag : MPIA_TAG_NONE,
        message->monitor_tag, value_binary(span_of((const char *)message->content, message->bytes)));
    call_text(call, &message->object, &text);
    buf_done(&text);
}

static void mpi_message_get_content(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++)
        get_content(call, (struct message *)call->objects[i]);
}

enum { ARG_SENDER = 1, ARG_RECEIVER, ARG_COMM, ARG_TAG, ARG_CONTENT };

/* The rank of a token. NULL: it is none, which was answered. */
static struct mpi_process *rank_of(struct scry_call *call, size_t arg)
{
    struct err err;
    struct process *process = (struct process *)convert_arg(call, arg);
    struct mpi_process *found = process ? mpi_process_of(process, &err) : NULL;
    if (process && !found)
        call_fail(call, call->objects[0], OMIS_UNKNOWN_OBJECT, "%s: %s", process->object.token, err.text);
    return found;
}

static void mpi_message_set_content(struct scry_call *call)
{
    struct message *message = call->object_count ? (struct message *)call->objects[0] : NULL;
    if (!message || !call_check_range(call, ARG_COMM, 0, UINT32_MAX - 1) ||
        !call_check_range(call, ARG_TAG, 0, INT32_MAX))
        return;
    struct mpi_process *sender = rank_of(call, ARG_SENDER), *receiver = sender ? rank_of(call, ARG_RECEIVER) : NULL;
    if (!receiver)
        return;
    struct err err = {.text = ""};
    uint64_t comm = mpi_messages_want(sender, &err) == 0
                        ? mpi_comm_identity_of(sender, (uint32_t)call_unsigned(call, ARG_COMM))
                        : 0;
    struct span content = call->args[ARG_CONTENT].text;
    const char *why = !message->held                                             ? "it is in a message queue"
                      : mpi_process_world(sender) != mpi_process_world(receiver) ? "its ranks are of two MPI jobs"
                      : *err.text                                                ? err.text
                      : !comm ? "the sender has no such communicator of one group (mpi_comm_get_info)"
                              : NULL;
    uint8_t *copy = why ? NULL : malloc(content.len + 1);
    if (!why && !copy)
        why = "out of memory";
    if (why) {
        call_fail(call, &message->object, OMIS_PARAMETER_ERROR, "%s: %s", message->object.token, why);
        return;
    }
    memcpy(copy, content.ptr, content.len);
    message_hold(message, call->tool, copy, content.len);
    message->addressed = true;
    message->id = (struct message_id){.world = mpi_process_world(sender),
                                      .comm = comm,
                                      .from = mpi_process_head(sender)->rank,
                                      .to = mpi_process_head(receiver)->rank,
                                      .tag = (int32_t)call_integer(call, ARG_TAG)};
    call_ok(call, &message->object);
}

const struct scry_service mpi_message_services[] = {
    {"mpi_get_messages", SCRY_INFORMATION, "token<p>* proc_list, [integer look] -> " MPI_QUEUE, SCRY_OPTIONAL,
     mpi_get_messages,
     "What is known of the message queues of MPI processes, also where that is not certain (note: why): what was sent "
     "to them and no receive has taken. sender: the thread; number: in its channel; bytes: -1: not known any more; "
     "doubts: \"\": it is certain. look: 1: where messages are not counted so far, that is not begun either."},
    {"mpi_message_get_content", SCRY_INFORMATION,
     "token<m>* msg_list -> { token sender; token receiver; integer comm; integer tag; integer monitor_tag; binary "
     "content }",
     SCRY_OPTIONAL | SCRY_MEMORY, mpi_message_get_content,
     "Messages that are held (created, or taken out of a queue): process it is from and to, number of the communicator "
     "in "
     "the sender, tag, monitor tag, content as it is in memory."},
    {"mpi_message_set_content", SCRY_MANIPULATION,
     "token<m> msg, token<p> sender, token<p> receiver, integer comm, integer tag, binary content -> void",
     SCRY_OPTIONAL | SCRY_MEMORY, mpi_message_set_content,
     "Make a message that is held one from a process to another one, on the communicator with that number in the "
     "sender "
     "(mpi_comm_get_info; 0: MPI_COMM_WORLD)."},
    SERVICE_END,
};
