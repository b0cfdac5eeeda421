/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/request.h"

#include "mpi/message/channel.h"
#include "mpi/message/message.h"

enum { HANDLE_FREE, HANDLE_USED, HANDLE_BUSY, MESSAGES = 256 };

_Atomic uint32_t request_count;

/* Beside each entry of the area: what nobody else needs. */
static struct request_private {
    struct comm_info *comm;
    uint64_t sent, got, order, post; /* post: channel.h */
    uint32_t peer_call;
    uint32_t row;   /* what is transferred counts for this call: that posted it, of persistent ones that started it */
    uint32_t owner; /* index of the thread's struct mpi_self */
} privates[MPIA_REQUESTS];

/* ---- the table ---- */

static uint32_t slot_of(uint64_t handle, uint32_t probe)
{
    return ((uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) + probe) & (MPIA_REQUESTS - 1);
}

static uint32_t block_of(const struct mpi_self *self)
{
    return self->index < MPIA_THREADS - 1 ? self->index : MPIA_THREADS - 1;
}

static struct mpi_request *entry_at(uint32_t at)
{
    return mpi_request_at(mpi_hot.area, at);
}

static struct request_private *private_of(const struct mpi_request *entry)
{
    return &privates[entry - entry_at(0)];
}

/* The entry with this handle: the thread's own before another's, the older before the younger. Two threads' only meet
 * where one has not yet noted that its operation is complete, and the library has given the handle away again. */
static struct mpi_request *find(const struct mpi_self *self, uint64_t handle)
{
    struct mpi_request *best = NULL;
    bool best_is_own = false;
    for (uint32_t i = 0; i < MPIA_REQUEST_PROBES; i++) {
        struct mpi_request *entry = entry_at(slot_of(handle, i));
        uint64_t there = atomic_load_explicit(&entry->handle, memory_order_acquire);
        if (there == HANDLE_FREE)
            break;
        if (there != handle || atomic_load_explicit(&entry->call, memory_order_acquire) == CALL_NONE)
            continue;
        if (!mpi_hot.threads_multiple)
            return entry;
        bool own = private_of(entry)->owner == self->index;
        if (!best || (own && !best_is_own) || (own == best_is_own && entry->since < best->since)) {
            best = entry;
            best_is_own = own;
        }
    }
    return best;
}

/* Of those who try one does. An exchange that other processors see waits for all that was written before. */
static bool handle_exchange(struct mpi_request *entry, uint64_t was, uint64_t handle)
{
    if (mpi_hot.threads_multiple)
        return atomic_compare_exchange_strong(&entry->handle, &was, handle);
    if (atomic_load_explicit(&entry->handle, memory_order_relaxed) != was)
        return false;
    atomic_store_explicit(&entry->handle, handle, memory_order_release); /* one thread at a time is in MPI */
    return true;
}

static void count_add(uint32_t change)
{
    if (mpi_hot.threads_multiple)
        atomic_fetch_add_explicit(&request_count, change, memory_order_relaxed);
    else
        atomic_store_explicit(&request_count, atomic_load_explicit(&request_count, memory_order_relaxed) + change,
                              memory_order_relaxed);
}

/* Takes the entry out of the table. */
static bool entry_claim(struct mpi_request *entry, uint64_t handle)
{
    return handle_exchange(entry, handle, HANDLE_BUSY);
}

/* After entry_claim. */
static void entry_free(struct mpi_request *entry)
{
    count_add(-1u);
    atomic_store_explicit(&entry->call, CALL_NONE, memory_order_release);
    /* Searches end at a slot that was never used; with several threads about, it cannot be made one again. */
    uint32_t at = (uint32_t)(entry - entry_at(0));
    bool last = !mpi_hot.threads_multiple && atomic_load_explicit(&entry_at((at + 1) & (MPIA_REQUESTS - 1))->handle,
                                                                  memory_order_relaxed) == HANDLE_FREE;
    atomic_store_explicit(&entry->handle, last ? HANDLE_FREE : HANDLE_USED, memory_order_release);
    for (uint32_t i = 1; last && i < MPIA_REQUEST_PROBES; i++) {
        struct mpi_request *before = entry_at((at - i) & (MPIA_REQUESTS - 1));
        if (atomic_load_explicit(&before->handle, memory_order_relaxed) != HANDLE_USED)
            break;
        atomic_store_explicit(&before->handle, HANDLE_FREE, memory_order_relaxed);
    }
}

static struct mpi_request *entry_take(uint64_t handle)
{
    for (int freed = 0; freed < 2; freed++) /* those that MPI_Request_free gave up make room if nothing else does */
        for (uint32_t i = 0; i < MPIA_REQUEST_PROBES; i++) {
            struct mpi_request *entry = entry_at(slot_of(handle, i));
            uint64_t there = atomic_load_explicit(&entry->handle, memory_order_relaxed);
            if (there == HANDLE_BUSY || (there > HANDLE_USED && !(freed && entry->flags & MPIA_REQUEST_FREED)))
                continue;
            uint32_t was_used = there > HANDLE_USED;
            if (was_used)
                atomic_store_explicit(&entry->call, CALL_NONE, memory_order_relaxed);
            if (handle_exchange(entry, there, handle)) {
                if (!was_used)
                    count_add(1);
                return entry;
            }
        }
    return NULL;
}

/* ---- completion ---- */

static bool is_complete_at_once(uint64_t handle)
{
#ifdef OPEN_MPI
    return handle == mpi_library.request_empty;
#else
    return handle >> 30 == 1; /* a built-in object: MPICH has them for sends that are done */
#endif
}

static COLD void tell_got(struct mpi_self *self, const struct mpi_request *entry, const struct request_private *private,
                          int32_t peer, const MPI_Status *status, uint64_t bytes)
{
    const struct message_about about = {
        entry->call,     entry->comm, peer,
        status->MPI_TAG, bytes,       private->order ? private->order : message_post_before(entry->since),
    };
    message_got(self, &about);
}

static COLD void tell_collective_done(struct mpi_self *self, const struct mpi_request *entry)
{
    const struct message_about about = {entry->call,   entry->comm,  entry->peer,
                                        MPIA_TAG_NONE, entry->bytes, entry->ordinal};
    if (entry->ordinal && !(entry->flags & MPIA_REQUEST_PERSISTENT))
        message_note_kind(self, MESSAGE_COLLECTIVE_DONE, &about);
}

/* Calls that waited for a send are few, so of all others this is not recorded. */
static COLD void tell_send_done(struct mpi_self *self, const struct mpi_request *entry,
                                const struct request_private *private)
{
    const struct message_about about = {entry->call, entry->comm,  entry->peer,
                                        entry->tag,  entry->bytes, private->order};
    if (entry->flags & MPIA_REQUEST_SEND && private->order && self->leave - self->enter >= MESSAGE_WAIT_TICKS)
        message_note_kind(self, MESSAGE_SENT_DONE, &about);
}

/* Of a receive: MESSAGE_POSTED, MESSAGE_FREED. */
static COLD void tell_kind(struct mpi_self *self, const struct mpi_request *entry,
                           const struct request_private *private, enum message_kind kind)
{
    const struct message_about about = {entry->call, entry->comm,  entry->peer,
                                        entry->tag,  entry->bytes, private->order};
    if (entry->flags & MPIA_REQUEST_RECEIVE && private->peer_call == CALL_NONE && private->order)
        message_note_kind(self, kind, &about);
}

static int32_t source_of(const struct mpi_request *entry, const struct request_private *private,
                         const MPI_Status *status)
{
    const struct comm_info *comm = private->comm;
    if (entry->peer != MPIA_RANK_ANY)
        return entry->peer;
    return comm && comm->number == entry->comm ? comm_world_rank(comm, status->MPI_SOURCE) : MPIA_RANK_NONE;
}

/* A receive whose message has a number. `first`: of those that the call has received. */
static COLD void post_done(struct mpi_self *self, const struct mpi_request *entry, const MPI_Status *status, bool first)
{
    struct request_private *private = private_of(entry);
    uint64_t post = private->post, k = 0;
    private->post = 0;
    if (!status)
        channel_lost(self, post);
    else if (status_cancelled(status))
        channel_undone(self, post);
    else
        k = channel_done(self, post, source_of(entry, private, status), status->MPI_TAG, status_bytes(status));
    if (self->told && first)
        self->told->got.number = k;
}

void COLD request_known(struct mpi_self *self, uint64_t handle, const MPI_Status *status)
{
    struct mpi_request *entry = mpi_hot.area && handle > HANDLE_BUSY ? find(self, handle) : NULL;
    const struct request_private *private = entry ? private_of(entry) : NULL;
    if (private && private->post && !status_cancelled(status))
        channel_known(self, private->post, source_of(entry, private, status), status->MPI_TAG);
}

/* What arrived goes to the row of the call that asked for it. */
static void arrived(struct mpi_self *self, const struct mpi_request *entry, const struct request_private *private,
                    const MPI_Status *status)
{
    uint64_t bytes = 0;
    if (entry->flags & MPIA_REQUEST_RECEIVE && private->peer_call == CALL_NONE) {
        if (!status || entry->peer == MPIA_RANK_NULL || status_cancelled(status))
            return;
        bytes = status_bytes(status);
        int32_t peer = source_of(entry, private, status);
        if (peer != MPIA_RANK_NULL)
            self_got_from(self, entry->comm, peer, CALL_NONE, 1, bytes);
        if (UNLIKELY(self->told != NULL) && peer != MPIA_RANK_NULL)
            tell_got(self, entry, private, peer, status, bytes);
    } else if (entry->flags & MPIA_REQUEST_RECEIVE) { /* of a file: what was read is only known now */
        bytes = status ? status_bytes(status) : 0;
        self_got_from(self, entry->comm, entry->peer, private->peer_call, 1, bytes);
    }
    if (bytes && self->counts)
        self_add(self, &self->thread->rows[private->row].got_bytes, bytes);
}

/* A send that was cancelled was not sent after all. */
static void cancelled(struct mpi_self *self, const struct mpi_request *entry, const struct request_private *private)
{
    if (!(entry->flags & MPIA_REQUEST_SEND) || entry->peer == MPIA_RANK_NULL || !self->counts)
        return;
    self_sent_to(self, entry->comm, entry->peer, private->peer_call, UINT64_MAX, -entry->bytes, -entry->bytes);
    channel_send_cancelled(self, entry->comm, entry->peer, entry->tag);
    self_add(self, &self->thread->rows[private->row].sent_bytes, -entry->bytes);
}

/* Of an entry that nobody else has: claimed, or persistent (whose handle no other operation can have). */
static void finish(struct mpi_self *self, const struct mpi_request *entry, const MPI_Status *status, uint64_t now)
{
    const struct request_private *private = private_of(entry);
    if (entry->flags & (MPIA_REQUEST_FREED | MPIA_REQUEST_INACTIVE))
        return;
    bool first = self->told && !(self->told->flags & MPI_TOLD_GOT);
    if (status && entry->flags & MPIA_REQUEST_SEND && status_cancelled(status))
        cancelled(self, entry, private);
    else
        arrived(self, entry, private, status);
    if (UNLIKELY(private->post != 0))
        post_done(self, entry, status, first);
    if (UNLIKELY(self->told != NULL)) {
        self->told->completed++;
        tell_collective_done(self, entry);
        if (!status || !status_cancelled(status))
            tell_send_done(self, entry, private);
    }
    self_span(self, entry->call, entry->since, now, entry->bytes);
}

void request_complete(struct mpi_self *self, uint64_t handle, const MPI_Status *status)
{
    if (!mpi_hot.area || handle <= HANDLE_BUSY)
        return;
    if (UNLIKELY(self->told && is_complete_at_once(handle)))
        self->told->completed++; /* the table never had it */
    if (!atomic_load_explicit(&request_count, memory_order_relaxed))
        return;
    struct mpi_request *entry = find(self, handle);
    if (!entry)
        return;
    bool persistent = entry->flags & MPIA_REQUEST_PERSISTENT;
    if (!persistent && !entry_claim(entry, handle))
        return;
    finish(self, entry, status, self->counts ? self->leave : ticks_now());
    if (persistent)
        entry->flags |= MPIA_REQUEST_INACTIVE;
    else
        entry_free(entry);
}

void request_seen(struct mpi_self *self, uint64_t handle, const MPI_Status *status)
{
    struct mpi_request *entry = mpi_hot.area && handle > HANDLE_BUSY ? find(self, handle) : NULL;
    if (!entry)
        return;
    finish(self, entry, status, self->counts ? self->leave : ticks_now());
    entry->flags |= MPIA_REQUEST_INACTIVE;
}

/* ---- beginning ---- */

void request_begin(struct mpi_self *self, MPI_Request request, const struct request_about *about)
{
    uint64_t handle = HANDLE_OF(request);
    if (!self->counts || request_is_null(request) || handle <= HANDLE_BUSY)
        return;
    if (is_complete_at_once(handle)) {
        self_span(self, self->call, self->enter, self->leave, about->bytes);
        return;
    }
    if (!(self->metrics & (MPIA_METRIC_REQUESTS | MPIA_METRIC_TELL | MPIA_METRIC_MESSAGES)))
        return;
    struct mpi_request *entry = find(self, handle);
    if (entry && (!mpi_hot.threads_multiple || private_of(entry)->owner == self->index) && entry_claim(entry, handle)) {
        finish(self, entry, NULL, self->leave); /* it was completed out of our sight */
        entry_free(entry);
    }
    entry = entry_take(handle);
    if (!entry) {
        self_add(self, &self->thread->requests_omitted, 1);
        return;
    }
    *private_of(entry) = (struct request_private){about->comm, about->sent,      about->got, about->order,
                                                  0,           about->peer_call, self->call, self->index};
    if (UNLIKELY(self->told != NULL))
        private_of(entry)->post = channel_take_post(self, handle);
    entry->peer = about->peer;
    entry->tag = about->tag;
    entry->comm = about->comm ? about->comm->number : UINT32_MAX;
    entry->flags = about->flags;
    entry->thread = block_of(self);
    entry->bytes = about->bytes;
    entry->since = self->enter;
    entry->site = self->site;
    entry->ordinal = about->ordinal;
    atomic_store_explicit(&entry->call, self->call, memory_order_release);
    if (UNLIKELY(self->told != NULL))
        tell_kind(self, entry, private_of(entry), MESSAGE_POSTED);
}

static COLD void tell_started(struct mpi_self *self, const struct mpi_request *entry)
{
    struct request_private *private = private_of(entry);
    if (private->peer_call != CALL_NONE || entry->peer == MPIA_RANK_NULL ||
        !(entry->flags & (MPIA_REQUEST_SEND | MPIA_REQUEST_RECEIVE)))
        return;
    private->order = message_post();
    const struct message_about about = {entry->call, entry->comm,  entry->peer,
                                        entry->tag,  entry->bytes, private->order};
    if (entry->flags & MPIA_REQUEST_SEND) {
        self->channel.k = channel_send_started(self, entry->comm, entry->peer, entry->tag, entry->bytes);
        message_sent(self, &about);
        self->channel.k = 0;
    } else {
        private->post = channel_receive_started(self, entry->comm, entry->peer, entry->tag,
                                                atomic_load_explicit(&entry->handle, memory_order_relaxed));
        tell_kind(self, entry, private, MESSAGE_POSTED);
    }
}

void request_start(struct mpi_self *self, MPI_Request request)
{
    if (!mpi_hot.area)
        return;
    struct mpi_request *entry = find(self, HANDLE_OF(request));
    if (!entry || !(entry->flags & MPIA_REQUEST_PERSISTENT))
        return;
    const struct request_private *private = private_of(entry);
    private_of(entry)->row = self->call;
    entry->since = self->counts ? self->enter : ticks_now();
    entry->thread = block_of(self);
    entry->flags &= ~(uint32_t)MPIA_REQUEST_INACTIVE;
    if (!self->counts) {
        private_of(entry)->order = 0;
        return;
    }
    if (UNLIKELY(self->told != NULL))
        tell_started(self, entry);
    else
        private_of(entry)->order = 0;
    if (self->args_bytes == SELF_UNSIZED)
        self_bytes(self, 0, 0, 0);
    self->args_bytes += entry->bytes;
    self->sent += private->sent;
    self->got += private->got;
    if (private->peer_call != CALL_NONE) {
        self_sent_to(self, entry->comm, entry->peer, private->peer_call, 1, private->sent, entry->bytes);
        self_got_from(self, entry->comm, entry->peer, private->peer_call, 1, private->got);
    } else if (entry->flags & MPIA_REQUEST_SEND && entry->peer != MPIA_RANK_NULL)
        self_sent_to(self, entry->comm, entry->peer, CALL_NONE, 1, private->sent, entry->bytes);
}

void request_freed(struct mpi_self *self, uint64_t handle)
{
    if (!mpi_hot.area || handle <= HANDLE_BUSY)
        return;
    struct mpi_request *entry = find(self, handle);
    if (!entry)
        return;
    if (entry->flags & MPIA_REQUEST_INACTIVE) {
        if (entry_claim(entry, handle))
            entry_free(entry);
    } else {
        tell_kind(self, entry, private_of(entry), MESSAGE_FREED);
        channel_lost(self, private_of(entry)->post);
        private_of(entry)->post = 0;
        if (self->counts && entry->flags & MPIA_REQUEST_RECEIVE && entry->peer != MPIA_RANK_NULL)
            self_add(self, &self->thread->receives_freed, 1);
        entry->flags = (entry->flags | MPIA_REQUEST_FREED) & ~(uint32_t)MPIA_REQUEST_PERSISTENT;
    }
}

/* ---- messages ---- */

static struct {
    _Atomic uint64_t handle; /* 0: free, 1: being written */
    struct request_message about;
} messages[MESSAGES];

void message_note(MPI_Message message, const struct request_message *about)
{
    uint64_t handle = HANDLE_OF(message);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t at = ((uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) + i) & (MESSAGES - 1);
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&messages[at].handle, &there, 1)) {
            messages[at].about = *about;
            atomic_store(&messages[at].handle, handle);
            return;
        }
    }
}

struct request_message message_take(MPI_Message message)
{
    uint64_t handle = HANDLE_OF(message);
    struct request_message about = {comm_unknown(), UINT32_MAX, MPIA_RANK_NONE, MPIA_TAG_NONE, 0, 0};
    for (uint32_t i = 0; i < MESSAGES && handle > 1; i++) {
        uint32_t at = ((uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) + i) & (MESSAGES - 1);
        uint64_t there = handle;
        struct request_message found = messages[at].about;
        if (atomic_compare_exchange_strong(&messages[at].handle, &there, 0))
            return found;
    }
    return about;
}
