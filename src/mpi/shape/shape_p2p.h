/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two processes: sends, receives, probes, their non-blocking and persistent forms. */
#ifndef SCRY_MPI_SHAPE_SHAPE_P2P_H
#define SCRY_MPI_SHAPE_SHAPE_P2P_H

#include "mpi/count/comm.h"
#include "mpi/message/channel.h"
#include "mpi/message/message.h"
#include "mpi/shape/request.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"

ALWAYS int32_t tag_of(int tag)
{
    return tag == MPI_ANY_TAG ? MPIA_TAG_ANY : tag;
}

ALWAYS void status_provide(struct mpi_self *self, struct mpi_args *args)
{
    if (args->status == MPI_STATUS_IGNORE)
        args->status = &self->status;
}

/* What the communicator, the ranks and the datatype are; before the call. */
ALWAYS void find_all(struct mpi_self *self, struct mpi_args *args, int dest, int source, MPI_Datatype type)
{
    struct comm_info *comm = comm_find(self, args->comm);
    args->found.comm = comm;
    args->found.to = comm_world_rank(comm, dest);
    args->found.from = comm_world_rank(comm, source);
    args->found.size = type_size_known(self, type);
}

/* After it: a communicator that was not known is noted now, since it is valid. */
ALWAYS struct comm_info *comm_after(struct mpi_self *self, struct mpi_args *args)
{
    if (UNLIKELY(args->found.comm->kind == MPIA_COMM_FREE)) {
        args->found.comm = comm_adopt(self, args->comm);
        args->found.to = comm_world_rank(args->found.comm, args->dest);
        args->found.from = comm_world_rank(args->found.comm, args->source);
    }
    return args->found.comm;
}

ALWAYS void send_begin(struct mpi_self *self, struct mpi_args *args)
{
    find_all(self, args, args->dest, MPI_PROC_NULL, args->datatype);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = args->found.comm->number;
    target.peer = args->found.to;
    target.tag = args->tag;
    target.bytes = type_bytes_of(args->count, args->found.size);
    self_begin(self, args->blocking, &target);
}

ALWAYS void receive_begin(struct mpi_self *self, struct mpi_args *args)
{
    find_all(self, args, MPI_PROC_NULL, args->source, args->datatype);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = args->found.comm->number;
    target.peer = args->found.from;
    target.tag = tag_of(args->tag);
    target.bytes = type_bytes_of(args->count, args->found.size);
    self_begin(self, args->blocking, &target);
}

/* ---- messages one by one: only in bodies of wrappers that report ---- */

ALWAYS void tell_post(struct mpi_args *args, int dest, int source)
{
    if (args->told && dest != MPI_PROC_NULL)
        args->order = message_post();
    if (args->told && source != MPI_PROC_NULL)
        args->order_in = message_post();
}

/* Before a blocking send: it is recorded at once (tell.c), unless what it is is known only when it has succeeded. */
ALWAYS void tell_sends(struct mpi_self *self, struct mpi_args *args, MPI_Count count, int tag)
{
    if (args->told && args->order && self->counts && args->found.comm->kind != MPIA_COMM_FREE &&
        args->found.to != MPIA_RANK_NONE && args->found.size != TYPE_UNKNOWN && count >= 0 && tag >= 0) {
        self->said.posts = args->order;
        args->order = 0;
    }
}

ALWAYS void tell_sent(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *comm, int tag,
                      uint64_t bytes)
{
    if (args->told && args->order) {
        const struct message_about about = {args->call, comm->number, args->found.to, tag, bytes, args->order};
        message_sent(self, &about);
    }
}

ALWAYS void tell_got(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *comm, uint64_t bytes)
{
    if (args->told && args->status->MPI_SOURCE != MPI_PROC_NULL && !status_cancelled(args->status)) {
        const struct message_about about = {
            args->call, comm->number,  comm_world_rank(comm, args->status->MPI_SOURCE), args->status->MPI_TAG,
            bytes,      args->order_in};
        message_got(self, &about);
    }
}

/* A message of the user's has gone: its bytes are what is sent, unless it goes to nobody. */
ALWAYS uint64_t sent_note(struct mpi_self *self, const struct comm_info *comm, int32_t to, uint64_t bytes)
{
    if (UNLIKELY(to == MPIA_RANK_NULL))
        return 0;
    self_sent_to(self, comm->number, to, CALL_NONE, 1, bytes, bytes);
    return bytes;
}

/* ---- blocking ---- */

#define HAVE_SHAPE_send
ALWAYS void shape_send_before(struct mpi_self *self, struct mpi_args *args)
{
    tell_post(args, args->dest, MPI_PROC_NULL);
    send_begin(self, args);
    tell_sends(self, args, args->count, args->tag);
}

ALWAYS void shape_send_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    const struct comm_info *comm = comm_after(self, args);
    uint64_t bytes = type_bytes_after(self, args->count, args->datatype, args->found.size);
    self_bytes(self, bytes, sent_note(self, comm, args->found.to, bytes), 0);
    tell_sent(self, args, comm, args->tag, bytes);
}

#define HAVE_SHAPE_recv
ALWAYS void shape_recv_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    tell_post(args, MPI_PROC_NULL, args->source);
    receive_begin(self, args);
}

ALWAYS void shape_recv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    const struct comm_info *comm = comm_after(self, args);
    uint64_t bytes = type_bytes_after(self, args->count, args->datatype, args->found.size);
    uint64_t got = message_received(self, comm, args->source, args->found.from, args->status);
    self_bytes(self, bytes, 0, got);
    tell_got(self, args, comm, got);
}

ALWAYS void both_begin(struct mpi_self *self, struct mpi_args *args, MPI_Count count, MPI_Datatype type)
{
    find_all(self, args, args->dest, args->source, type);
    tell_post(args, args->dest, args->source);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = args->found.comm->number;
    target.peer = args->found.to;
    target.tag = args->stag;
    target.source_peer = args->found.from;
    target.source_tag = tag_of(args->rtag);
    target.bytes = type_bytes_of(count, args->found.size);
    self_begin(self, args->blocking, &target);
}

ALWAYS void both_done(struct mpi_self *self, struct mpi_args *args, MPI_Count count, MPI_Datatype type, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    const struct comm_info *comm = comm_after(self, args);
    uint64_t bytes = type_bytes_after(self, count, type, args->found.size);
    uint64_t got = message_received(self, comm, args->source, args->found.from, args->status);
    self_bytes(self, bytes, sent_note(self, comm, args->found.to, bytes), got);
    tell_sent(self, args, comm, args->stag, bytes);
    tell_got(self, args, comm, got);
}

#define HAVE_SHAPE_sendrecv
ALWAYS void shape_sendrecv_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    both_begin(self, args, args->scount, args->stype);
    tell_sends(self, args, args->scount, args->stag);
}

ALWAYS void shape_sendrecv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    both_done(self, args, args->scount, args->stype, result);
}

#define HAVE_SHAPE_sendrecv_replace
ALWAYS void shape_sendrecv_replace_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    both_begin(self, args, args->count, args->datatype);
    tell_sends(self, args, args->count, args->stag);
}

ALWAYS void shape_sendrecv_replace_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    both_done(self, args, args->count, args->datatype, result);
}

/* ---- non-blocking and persistent ---- */

ALWAYS void request_of_send(struct mpi_self *self, struct mpi_args *args, uint32_t flags, bool starts, MPI_Count count)
{
    struct comm_info *comm = comm_after(self, args);
    uint64_t bytes = type_bytes_after(self, count, args->datatype, args->found.size);
    if (starts) {
        self_bytes(self, bytes, sent_note(self, comm, args->found.to, bytes), 0);
        tell_sent(self, args, comm, args->tag, bytes);
    }
    struct request_about about = {
        .flags = flags | MPIA_REQUEST_SEND,
        .peer = args->found.to,
        .tag = args->tag,
        .bytes = bytes,
        .sent = args->dest == MPI_PROC_NULL ? 0 : bytes,
        .comm = comm,
        .order = args->order,
    };
    request_begin(self, *args->request, &about);
}

ALWAYS void request_of_receive(struct mpi_self *self, struct mpi_args *args, uint32_t flags, bool starts,
                               MPI_Count count)
{
    struct comm_info *comm = comm_after(self, args);
    uint64_t bytes = type_bytes_after(self, count, args->datatype, args->found.size);
    if (starts)
        self_bytes(self, bytes, 0, 0);
    struct request_about about = {
        .flags = flags | MPIA_REQUEST_RECEIVE,
        .peer = args->found.from,
        .tag = tag_of(args->tag),
        .bytes = bytes,
        .comm = comm,
        .order = args->order_in,
    };
    request_begin(self, *args->request, &about);
}

#define HAVE_SHAPE_isend
ALWAYS void shape_isend_before(struct mpi_self *self, struct mpi_args *args)
{
    tell_post(args, args->dest, MPI_PROC_NULL);
    send_begin(self, args);
}

ALWAYS void shape_isend_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_send(self, args, 0, true, args->count);
}

#define HAVE_SHAPE_send_init
ALWAYS void shape_send_init_before(struct mpi_self *self, struct mpi_args *args)
{
    send_begin(self, args);
}

ALWAYS void shape_send_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_send(self, args, MPIA_REQUEST_PERSISTENT | MPIA_REQUEST_INACTIVE, false, args->count);
}

#define HAVE_SHAPE_psend_init
ALWAYS void shape_psend_init_before(struct mpi_self *self, struct mpi_args *args)
{
    send_begin(self, args);
}

ALWAYS void shape_psend_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_send(self, args, MPIA_REQUEST_PERSISTENT | MPIA_REQUEST_INACTIVE, false,
                        args->count * args->partitions);
}

#define HAVE_SHAPE_irecv
ALWAYS void shape_irecv_before(struct mpi_self *self, struct mpi_args *args)
{
    tell_post(args, MPI_PROC_NULL, args->source);
    receive_begin(self, args);
}

ALWAYS void shape_irecv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_receive(self, args, 0, true, args->count);
}

#define HAVE_SHAPE_recv_init
ALWAYS void shape_recv_init_before(struct mpi_self *self, struct mpi_args *args)
{
    receive_begin(self, args);
}

ALWAYS void shape_recv_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_receive(self, args, MPIA_REQUEST_PERSISTENT | MPIA_REQUEST_INACTIVE, false, args->count);
}

#define HAVE_SHAPE_precv_init
ALWAYS void shape_precv_init_before(struct mpi_self *self, struct mpi_args *args)
{
    receive_begin(self, args);
}

ALWAYS void shape_precv_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_receive(self, args, MPIA_REQUEST_PERSISTENT | MPIA_REQUEST_INACTIVE, false,
                           args->count * args->partitions);
}

/* One request for both: what is sent counts now, the request stands for what is received. */
ALWAYS void request_of_both(struct mpi_self *self, struct mpi_args *args, uint64_t bytes, uint64_t receive_bytes)
{
    struct comm_info *comm = comm_after(self, args);
    self_bytes(self, bytes, sent_note(self, comm, args->found.to, bytes), 0);
    tell_sent(self, args, comm, args->stag, bytes);
    struct request_about about = {
        .flags = MPIA_REQUEST_RECEIVE,
        .peer = args->found.from,
        .tag = tag_of(args->rtag),
        .bytes = receive_bytes,
        .comm = comm,
        .order = args->order_in,
    };
    request_begin(self, *args->request, &about);
}

#define HAVE_SHAPE_isendrecv
ALWAYS void shape_isendrecv_before(struct mpi_self *self, struct mpi_args *args)
{
    both_begin(self, args, args->scount, args->stype);
}

ALWAYS void shape_isendrecv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS))
        request_of_both(self, args, type_bytes(self, args->scount, args->stype),
                        type_bytes(self, args->rcount, args->rtype));
}

#define HAVE_SHAPE_isendrecv_replace
ALWAYS void shape_isendrecv_replace_before(struct mpi_self *self, struct mpi_args *args)
{
    both_begin(self, args, args->count, args->datatype);
}

ALWAYS void shape_isendrecv_replace_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(self->counts && result == MPI_SUCCESS)) {
        uint64_t bytes = type_bytes(self, args->count, args->datatype);
        request_of_both(self, args, bytes, bytes);
    }
}

/* ---- probes: a message that is there is not received yet; those matched by MPI_Mprobe know where they come from ----
 */

ALWAYS void probe_begin(struct mpi_self *self, struct mpi_args *args)
{
    find_all(self, args, MPI_PROC_NULL, args->source, mpi_library.datatype_null);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = args->found.comm->number;
    target.peer = args->found.from;
    target.tag = tag_of(args->tag);
    self_begin(self, args->blocking, &target);
}

/* What a blocking one has waited for. */
ALWAYS void tell_probed(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *comm,
                        uint64_t order)
{
    if (args->told && args->blocking && args->status->MPI_SOURCE != MPI_PROC_NULL) {
        const struct message_about about = {
            args->call, comm->number, comm_world_rank(comm, args->status->MPI_SOURCE), args->status->MPI_TAG, 0, order,
        };
        message_note_kind(self, MESSAGE_PROBED, &about);
    }
}

ALWAYS void message_matched(struct mpi_self *self, struct mpi_args *args)
{
    if (HANDLE_OF(*args->message) == HANDLE_OF(mpi_library.message_no_proc) ||
        HANDLE_OF(*args->message) == HANDLE_OF(mpi_library.message_null) || !mpi_hot.area)
        return;
    struct comm_info *comm = comm_after(self, args);
    struct request_message about = {comm,
                                    comm->number,
                                    comm_world_rank(comm, args->status->MPI_SOURCE),
                                    args->status->MPI_TAG,
                                    args->told ? message_post() : 0,
                                    0};
    if (args->told)
        about.post = channel_matched(self, about.comm_number, about.peer, about.tag);
    message_note(*args->message, &about);
    tell_probed(self, args, comm, about.order);
}

#define HAVE_SHAPE_probe
ALWAYS void shape_probe_before(struct mpi_self *self, struct mpi_args *args)
{
    if (args->told)
        status_provide(self, args);
    probe_begin(self, args);
}

ALWAYS void shape_probe_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (args->told && self->counts && result == MPI_SUCCESS)
        tell_probed(self, args, comm_after(self, args), message_posts() + 1);
}

#define HAVE_SHAPE_iprobe
ALWAYS void shape_iprobe_before(struct mpi_self *self, struct mpi_args *args)
{
    probe_begin(self, args);
}

ALWAYS void shape_iprobe_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_mprobe
ALWAYS void shape_mprobe_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    probe_begin(self, args);
}

ALWAYS void shape_mprobe_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS)
        message_matched(self, args);
}

#define HAVE_SHAPE_improbe
ALWAYS void shape_improbe_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    probe_begin(self, args);
}

ALWAYS void shape_improbe_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && *args->flag)
        message_matched(self, args);
}

/* Receives of such a message: the handle is gone when the call returns, so it is taken before. */
ALWAYS void matched_begin(struct mpi_self *self, const struct mpi_args *args)
{
    self->matched = message_take(*args->message);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = self->matched.comm_number;
    target.peer = self->matched.peer;
    target.tag = self->matched.tag;
    target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, args->blocking, &target);
}

#define HAVE_SHAPE_mrecv
ALWAYS void shape_mrecv_before(struct mpi_self *self, struct mpi_args *args)
{
    status_provide(self, args);
    matched_begin(self, args);
}

ALWAYS void shape_mrecv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    uint64_t got = args->status->MPI_SOURCE == MPI_PROC_NULL ? 0 : status_bytes(args->status);
    self_bytes(self, type_bytes(self, args->count, args->datatype), 0, got);
    if (args->status->MPI_SOURCE == MPI_PROC_NULL)
        return;
    self_got_from(self, self->matched.comm_number, self->matched.peer, CALL_NONE, 1, got);
    if (args->told) {
        const struct message_about about = {
            args->call, self->matched.comm_number, self->matched.peer, self->matched.tag, got, self->matched.order};
        message_got(self, &about);
    }
}

#define HAVE_SHAPE_imrecv
ALWAYS void shape_imrecv_before(struct mpi_self *self, struct mpi_args *args)
{
    matched_begin(self, args);
}

ALWAYS void shape_imrecv_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    uint64_t bytes = type_bytes(self, args->count, args->datatype);
    self_bytes(self, bytes, 0, 0);
    struct request_about about = {
        .flags = MPIA_REQUEST_RECEIVE,
        .peer = self->matched.peer,
        .tag = self->matched.tag,
        .bytes = bytes,
        .comm = self->matched.comm,
        .order = self->matched.order,
    };
    request_begin(self, *args->request, &about);
}

#endif
