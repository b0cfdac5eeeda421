/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/message/tell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "agent/hooks/mpi_host.h"
#include "agent/system/sys.h"
#include "mpi/count/call.h"
#include "mpi/message/channel.h"
#include "mpi/count/comm.h"
#include "mpi/message/message.h"
#include "mpi/count/process.h"

const struct mpi_host *tell_host;

enum { LISTENS_NOT, LISTENS_SOON, LISTENS, LISTENS_NEVER };
static _Atomic uint32_t listens; /* the agent; a futex */
static _Atomic uint32_t asker;   /* tid */

/* One thread asks, as long as that is allowed to take; others wait for it, so that none of their calls is missing. */
static bool agent_listens(void)
{
    uint32_t now = atomic_load(&listens), tid = (uint32_t)sys_call0(SYS_gettid);
    if (now == LISTENS_NOT && tell_host && tell_host->tell &&
        atomic_compare_exchange_strong(&listens, &now, LISTENS_SOON)) {
        atomic_store(&asker, tid);
        now = tell_host->tell(true) ? LISTENS : LISTENS_NEVER;
        atomic_store(&listens, now);
        sys_call4(SYS_futex, (long)&listens, FUTEX_WAKE, INT_MAX, 0);
    }
    while (now == LISTENS_SOON && atomic_load(&asker) != tid) { /* a signal's handler waits for nobody */
        struct timespec slice = {0, 100 * 1000000};
        sys_call4(SYS_futex, (long)&listens, FUTEX_WAIT, LISTENS_SOON, (long)&slice);
        /* it was ended over it (pthread_cancel), or this is a child that it did not come along to */
        uint32_t soon = LISTENS_SOON;
        if (sys_call4(SYS_tgkill, sys_call0(SYS_getpid), atomic_load(&asker), 0, 0) == -ESRCH)
            atomic_compare_exchange_strong(&listens, &soon, LISTENS_NEVER);
        now = atomic_load(&listens);
    }
    return now == LISTENS;
}

/* The agent is asked when it is first needed. */
static COLD bool wants(uint32_t metrics)
{
    bool calls = metrics & MPIA_METRIC_TELL && agent_listens();
    return calls || metrics & MPIA_METRIC_MESSAGES;
}

static COLD void switched(struct mpi_self *self)
{
    if (self->metrics & MPIA_METRIC_MESSAGES || channels.shared)
        channel_switched(self);
    if (atomic_load(&mpi_hot.area->state) == MPIA_RUNNING && !(self->tells && self->metrics & MPIA_METRIC_RECORD))
        message_gap(self, false);
}

static COLD void missed(struct mpi_self *self)
{
    message_gap(self, true);
}

void tell_start(const struct mpi_host *host)
{
    static struct self_listener listener = {
        .wants = wants, .switched = switched, .missed = missed, .goes_on = channel_commands, .ends = channel_end};
    listener.host = host;
    tell_host = host;
    self_listener = &listener;
}

/* ---- a call ---- */

static void site_fill(struct mpi_self *self, struct mpi_told *told)
{
    const struct mpi_site *site = self->metrics & MPIA_METRIC_SITES ? site_of(self) : NULL;
    told->site = site ? site->offset : 0;
}

/* From here on messages can be told with its begin. */
static void prepare(struct mpi_self *self, struct mpi_told *told)
{
    site_fill(self, told);
    self->told = told;
    self->messages.count = 0;
}

/* Returns when the call began; 0: the clock is to be read. */
static uint64_t begin(struct mpi_self *self, struct mpi_told *told)
{
    bool calls = self->metrics & MPIA_METRIC_TELL;
    uint64_t began = calls ? tell_host->call_begins(self->call, self->site, told, &self->messages) : 0;
    self->messages.count = 0;
    return began;
}

/* What the call is at stands in `now`, which only this thread writes. All is written but the arguments, and what the flags
 * say is not there; of `got` what records have in any case. */
static void fill(struct mpi_self *self, struct mpi_told *told)
{
    const struct mpi_now *now = self->now;
    bool known = now->comm < MPIA_COMMS;
    told->comm = now->comm == UINT32_MAX ? -1 : (int64_t)now->comm;
    told->comm_id = known ? mpi_comm_at(mpi_hot.area, now->comm)->identity : MPI_IDENTITY_NONE;
    told->peer = mpi_rank_shown(now->peer);
    told->tag = now->tag;
    told->source_peer = mpi_rank_shown(now->source_peer);
    told->source_tag = now->source_tag;
    told->bytes = now->bytes;
    told->ordinal = now->ordinal;
    told->got_bytes = told->completed = 0;
    told->got.from = told->got.tag = 0;
    told->flags = (known ? MPI_TOLD_COMM : 0) | (now->peer != MPIA_RANK_NONE ? MPI_TOLD_PEER : 0) |
                  (now->source_peer != MPIA_RANK_NONE ? MPI_TOLD_SOURCE : 0) |
                  (now->tag != MPIA_TAG_NONE ? MPI_TOLD_TAG : 0) | (now->bytes ? MPI_TOLD_BYTES : 0) |
                  (now->ordinal ? MPI_TOLD_ORDINAL : 0);
}

/* The time that telling took is not the call's. */
static void begin_again(struct mpi_self *self, uint64_t began)
{
    struct mpi_now *now = self->now;
    uint32_t seq = atomic_load_explicit(&now->seq, memory_order_relaxed);
    atomic_store_explicit(&now->seq, seq + 1, memory_order_relaxed);
    compiler_barrier();
    now->since = self->enter = began ? began : ticks_now();
    compiler_barrier();
    atomic_store_explicit(&now->seq, seq + 2, memory_order_relaxed);
}

/* A blocking send is recorded before it blocks: what a rank waits for, or was killed in, is seen. */
static void say_send(struct mpi_self *self)
{
    const struct mpi_now *now = self->now;
    const struct message_about about = {
        .call = self->call,
        .comm = now->comm,
        .peer = now->peer,
        .tag = now->tag,
        .bytes = now->bytes,
        .order = self->said.posts,
    };
    message_sent(self, &about);
    self->said.order = about.order;
    self->said.call = about.call;
    self->said.posts = 0;
}

bool mpi_tell_begins(struct mpi_self *self, struct mpi_told *told)
{
    if (!self->counts || !mpi_hot.area) {
        self->said.posts = 0;
        return false;
    }
    fill(self, told);
    if (UNLIKELY(self->acts) && mpi_acts(self, told, MPI_ACTS_ALL)) {
        self->said.posts = 0;
        begin_again(self, 0);
        return false;
    }
    if (channels.shared)
        channel_call_begins(self, told);
    prepare(self, told);
    bool begun = UNLIKELY(atomic_load_explicit(&mpi_hot.area->unrecorded, memory_order_relaxed)) &&
                 self->metrics & MPIA_METRIC_RECORD;
    uint64_t began = 0;
    if (begun) { /* that may be many */
        begin(self, told);
        message_begin(self);
    }
    if (UNLIKELY(self->said.order)) /* left by longjmp */
        message_unsent(self);
    if (self->said.posts)
        say_send(self);
    if (told->ordinal) {
        const struct mpi_now *now = self->now;
        const struct message_about about = {
            .call = self->call,
            .comm = now->comm,
            .peer = now->peer,
            .tag = MPIA_TAG_NONE,
            .bytes = now->bytes,
            .order = now->ordinal,
        };
        message_note_kind(self, MESSAGE_COLLECTIVE, &about);
    }
    if (!begun)
        began = begin(self, told);
    else if (self->messages.count)
        message_flush(self);
    begin_again(self, began);
    return true;
}

void mpi_tell_ends(struct mpi_self *self, struct mpi_told *told, int64_t result)
{
    if (UNLIKELY(self->said.order && result != MPI_SUCCESS)) {
        message_unsent(self);
        told->flags &= ~(uint64_t)MPI_TOLD_SENT;
    }
    self->said.order = 0;
    self->told = NULL;
    told->par[0] = result;
    if (channels.shared)
        channel_call_ends(self, told, (int)result);
    told->flags |= MPI_TOLD_ENDED | (result || told->completed || told->flags & MPI_TOLD_GOT ? MPI_TOLD_SAYS : 0);
    if (told->flags & MPI_TOLD_GOT) {
        told->peer = told->flags & MPI_TOLD_SOURCE ? told->peer : told->got.from;
        told->tag = told->flags & MPI_TOLD_SOURCE ? told->tag : told->got.tag;
    }
    self->messages.time = channels.shared ? 0 : self->leave;
    if (mpi_hot.area && self->metrics & MPIA_METRIC_TELL)
        tell_host->call_ends(self->call, self->site, told, &self->messages);
}

/* ---- a call that is only counted ---- */

bool mpi_quick_begins(struct mpi_self *self, struct mpi_told *told, uint64_t comm)
{
    const struct comm_info *info = comm ? comm_find_handle(self, comm) : comm_unknown();
    told->comm = info->shown ? (int64_t)info->number : -1;
    told->comm_id = info->shown ? info->shown->identity : MPI_IDENTITY_NONE;
    told->flags |= info->shown ? MPI_TOLD_COMM : 0;
    told->peer = told->source_peer = MPIA_RANK_NONE;
    told->tag = told->source_tag = MPIA_TAG_NONE;
    prepare(self, told);
    begin(self, told);
    return true;
}

void mpi_quick_ends(struct mpi_self *self, struct mpi_told *told, int64_t result)
{
    self->leave = 0;
    mpi_tell_ends(self, told, result);
    self->frame = 0;
}
