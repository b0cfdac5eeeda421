/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/message/channel.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "agent/hooks/mpi_host.h"
#include "agent/system/sys.h"
#include "mpi/count/comm.h"
#include "mpi/count/process.h"
#include "mpi/message/tell.h"
#include "shm/area.h"

enum { LOCK_SPINS = 1000, LOCK_YIELDS = 2000 };

struct channels channels;

static _Atomic uint32_t busy;

bool channel_lock(void)
{
    if (!mpi_hot.threads_multiple)
        return true;
    for (int i = 0; i < LOCK_SPINS + LOCK_YIELDS; i++) {
        uint32_t free = 0;
        if (atomic_compare_exchange_weak_explicit(&busy, &free, 1, memory_order_acquire, memory_order_relaxed))
            return true;
        if (i < LOCK_SPINS)
            __builtin_ia32_pause();
        else
            sys_call0(SYS_sched_yield);
    }
    atomic_fetch_or(&channels.shared->doubts, MPIM_DOUBT_THREADS);
    return false;
}

void channel_unlock(void)
{
    if (mpi_hot.threads_multiple)
        atomic_store_explicit(&busy, 0, memory_order_release);
}

/* ---- telling the monitor ---- */

static bool is_waited_for(struct timeout *timeout)
{
    return atomic_load(&mpi_hot.area->on) && tell_host->lasts(timeout);
}

static void wait_slice(void *word, uint32_t value)
{
    struct timespec slice = {0, wait_policies[WAIT_HELD].look_ms * 1000000L};
    sys_call4(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&slice);
}

static void ring(void)
{
    int error = errno;
    area_ring(mpi_hot.bell);
    errno = error;
}

struct raise {
    uint32_t event, tid;
    const struct match_key *key;
    uint64_t k, bytes;
    int64_t monitor_tag;
    uint32_t doubts;
    bool wait;
};

/* The monitor hears of it; the thread waits until it was dealt with, or there is nobody who could. */
static void tell(const struct raise *about)
{
    struct mpim *shared = channels.shared;
    struct mpim_raise *raise = NULL;
    struct timeout timeout = timeout_start(mpi_hot.bell);
    bool heard = is_waited_for(&timeout);
    for (uint32_t i = 0; i < MPIM_RAISES && !raise && heard; i++) {
        uint32_t free = MPIM_RAISE_FREE;
        if (atomic_compare_exchange_strong(&shared->raises[i].state, &free, MPIM_RAISE_TAKEN))
            raise = &shared->raises[i];
    }
    if (!raise) {
        atomic_fetch_add(&shared->raises_lost, 1);
        return;
    }
    raise->event = about->event;
    raise->tid = about->tid;
    raise->peer = about->key->peer;
    raise->tag = about->key->tag;
    raise->identity = about->key->identity;
    raise->k = about->k;
    raise->bytes = about->bytes;
    raise->doubts = about->doubts;
    raise->monitor_tag = about->monitor_tag;
    raise->time = ticks_now();
    uint32_t posted = about->wait ? MPIM_RAISE_POSTED : MPIM_RAISE_LATE;
    atomic_store(&raise->state, posted);
    atomic_fetch_add(&shared->raised, 1);
    ring();
    while (about->wait && atomic_load(&raise->state) == posted) {
        if (!is_waited_for(&timeout)) {
            atomic_compare_exchange_strong(&raise->state, &posted, MPIM_RAISE_FREE);
            break;
        }
        wait_slice(&raise->state, posted);
    }
}

/* ---- tags ---- */

static struct mpim_tag *tag_find(const struct match_key *key, uint64_t k)
{
    struct mpim *shared = channels.shared;
    if (!k || !atomic_load_explicit(&shared->tag_count, memory_order_acquire))
        return NULL;
    for (uint32_t i = 0; i < MPIM_TAGS; i++) {
        struct mpim_tag *tag = &shared->tags[i];
        if (atomic_load_explicit(&tag->state, memory_order_acquire) == MPIM_TAG_SET && tag->identity == key->identity &&
            tag->from == key->peer && tag->tag == key->tag && tag->k == k)
            return tag;
    }
    return NULL;
}

/* The message was received: if it is a tagged one, that is told, and it is tagged no longer. */
static void tag_look(const struct match_key *key, uint64_t k, uint64_t bytes, uint32_t tid, bool wait)
{
    struct mpim_tag *tag = tag_find(key, k);
    uint32_t set = MPIM_TAG_SET;
    if (!tag)
        return;
    const struct raise about = {.event = MPIM_EVENT_TAGGED,
                                .tid = tid,
                                .key = key,
                                .k = k,
                                .bytes = bytes,
                                .monitor_tag = tag->monitor_tag,
                                .wait = wait};
    if (atomic_compare_exchange_strong(&tag->state, &set, MPIM_TAG_GONE) &&
        atomic_load(&channels.shared->events) & MPIM_EVENT_TAGGED)
        tell(&about);
}

/* The number came only when the thread had gone on. */
static void received_late(void *ctx, const struct match_post *post)
{
    (void)ctx;
    tag_look(&post->key, post->k, post->bytes, post->tid, false);
}

/* ---- longer queues ---- */

static bool is_watched(int32_t rank)
{
    struct mpim *shared = channels.shared;
    uint32_t count = atomic_load_explicit(&shared->watched_count, memory_order_acquire);
    if (!(atomic_load_explicit(&shared->events, memory_order_relaxed) & MPIM_EVENT_EXTENDED))
        return false;
    for (uint32_t i = 0; i < count && i < MPIM_WATCHED; i++)
        if (atomic_load_explicit(&shared->watched[i], memory_order_relaxed) == rank)
            return true;
    return count > MPIM_WATCHED;
}

static void tell_sent(struct mpi_self *self, const struct match_key *to, uint64_t k, uint64_t bytes, bool wait)
{
    const struct mpim_channel *channel = mpim_channel_find(channels.shared, MPIM_SENT, to->identity, to->peer, to->tag);
    const struct raise about = {.event = MPIM_EVENT_EXTENDED,
                                .tid = self->tid,
                                .key = to,
                                .k = k,
                                .bytes = bytes,
                                .doubts = channel ? atomic_load(&channel->doubts) : 0,
                                .wait = wait};
    if (is_watched(to->peer))
        tell(&about);
}

void channel_tell_sent(struct mpi_self *self, const struct match_key *to, uint64_t k, uint64_t bytes)
{
    tell_sent(self, to, k, bytes, false);
}

/* While action lists run because the queue has become longer, nothing is taken out of it. */
static void wait_until_open(void)
{
    struct mpim *shared = channels.shared;
    struct timeout timeout = timeout_start(mpi_hot.bell);
    for (uint32_t i = 0;
         atomic_load_explicit(&shared->closed, memory_order_acquire) &&
         i < wait_policies[WAIT_GATE].limit_ms / wait_policies[WAIT_GATE].look_ms && is_waited_for(&timeout);
         i++)
        wait_slice(&shared->closed, 1);
}

/* ---- what is followed ---- */

bool channel_key(uint32_t comm, int32_t peer, int32_t tag, struct match_key *ret_key)
{
    if (peer == MPIA_RANK_NULL)
        return false;
    uint64_t identity = comm < MPIA_COMMS - 1 ? mpi_comm_at(mpi_hot.area, comm)->identity : 0;
    if (!identity || (peer < 0 && peer != MPIA_RANK_ANY) || mpi_comm_at(mpi_hot.area, comm)->kind != MPIA_COMM_INTRA) {
        atomic_fetch_add_explicit(&channels.shared->unfollowed, 1, memory_order_relaxed);
        return false;
    }
    *ret_key = (struct match_key){.identity = identity, .peer = peer, .tag = tag, .comm = comm};
    return true;
}

static bool is_on(const struct mpi_self *self)
{
    return channels.shared && mpi_hot.area && self->metrics & MPIA_METRIC_MESSAGES;
}

/* ---- sends ---- */

static uint64_t send_posted(struct mpi_self *self, const struct match_key *to, uint64_t bytes)
{
    if (!channel_lock())
        return 0;
    uint64_t k = match_sent(channels.match, to, bytes, self->tid, ticks_now());
    channel_unlock();
    return k;
}

uint64_t COLD channel_send_started(struct mpi_self *self, uint32_t comm, int32_t to, int32_t tag, uint64_t bytes)
{
    struct match_key key;
    if (!is_on(self) || !channel_key(comm, to, tag, &key))
        return 0;
    uint64_t k = send_posted(self, &key, bytes);
    tell_sent(self, &key, k, bytes, true);
    return k;
}

void COLD channel_send_cancelled(struct mpi_self *self, uint32_t comm, int32_t to, int32_t tag)
{
    struct match_key key;
    if (!channels.shared || !mpi_hot.area || !channel_key(comm, to, tag, &key) || !channel_lock())
        return;
    match_doubt(channels.match, MPIM_SENT, &key, MPIM_DOUBT_CANCELLED);
    channel_unlock();
}

/* ---- receives ---- */

static uint64_t receive_posted(struct mpi_self *self, const struct match_key *key)
{
    uint64_t k;
    wait_until_open();
    channel_commands(self); /* what came of it comes before the receive */
    if (!channel_lock())
        return 0;
    uint64_t post = match_posted(channels.match, key, &k);
    channel_unlock();
    return post;
}

uint64_t COLD channel_receive_started(struct mpi_self *self, uint32_t comm, int32_t from, int32_t tag, uint64_t handle)
{
    struct match_key key;
    if (!is_on(self) || !channel_key(comm, from, tag, &key))
        return 0;
    uint64_t post = receive_posted(self, &key);
    if (post && channel_lock()) {
        match_handle(channels.match, post, handle);
        channel_unlock();
    }
    return post;
}

uint64_t COLD channel_matched(struct mpi_self *self, uint32_t comm, int32_t from, int32_t tag)
{
    struct match_key key;
    return is_on(self) && channel_key(comm, from, tag, &key) ? receive_posted(self, &key) : 0;
}

/* A tagged message may be the one; but what an earlier receive from anybody has got is not known, although that may be
 * there already. Asking does no harm: whether it is complete stays for the program to find out. Not with several
 * threads, one of which may complete it at this moment. */
static void ask_others(uint64_t post)
{
    uint64_t handle, other = 0;
    while ((other = match_blocker(channels.match, post, other, &handle)) != 0) {
        MPI_Status status;
        int flag = 0;
#ifdef OPEN_MPI
        MPI_Request request = (MPI_Request)(uintptr_t)handle;
#else
        MPI_Request request = (MPI_Request)handle;
#endif
        if (!handle || mpi_library.Request_get_status(request, &flag, &status) != MPI_SUCCESS || !flag ||
            status_cancelled(&status))
            continue;
        const struct match_post *entry = &channels.match->posts[(uint32_t)other];
        struct comm_info *comm = comm_of_number(entry->key.comm);
        int32_t from = comm ? comm_world_rank(comm, status.MPI_SOURCE) : MPIA_RANK_NONE;
        if (from >= 0)
            match_known(channels.match, other, from, status.MPI_TAG);
    }
}

void COLD channel_known(struct mpi_self *self, uint64_t post, int32_t from, int32_t tag)
{
    if (!post || !channels.shared || !mpi_hot.area || from < 0 || !channel_lock())
        return;
    match_known(channels.match, post, from, tag);
    channel_unlock();
}

uint64_t COLD channel_done(struct mpi_self *self, uint64_t post, int32_t from, int32_t tag, uint64_t bytes)
{
    if (post && post == self->channel.post)
        self->channel.post = 0;
    if (!post || !channels.shared || !mpi_hot.area || !channel_lock())
        return 0;
    struct match *match = channels.match;
    const struct match_key key = {match->posts[(uint32_t)post % MATCH_POSTS].key.identity, from, tag, 0};
    uint64_t k = 0;
    if (from < 0) {
        match_lost(match, post);
    } else {
        if (atomic_load_explicit(&channels.shared->tag_count, memory_order_relaxed) && !mpi_hot.threads_multiple) {
            match_known(match, post, from, tag);
            ask_others(post);
        }
        k = match_done(match, post, from, tag, bytes, self->tid);
    }
    channel_unlock();
    tag_look(&key, k, bytes, self->tid, true);
    return k;
}

void COLD channel_undone(struct mpi_self *self, uint64_t post)
{
    if (post && post == self->channel.post)
        self->channel.post = 0;
    if (!post || !channels.shared || !mpi_hot.area || !channel_lock())
        return;
    match_undone(channels.match, post, MPIM_DOUBT_CANCELLED);
    channel_unlock();
}

void COLD channel_lost(struct mpi_self *self, uint64_t post)
{
    if (!post || !channels.shared || !mpi_hot.area || !channel_lock())
        return;
    match_lost(channels.match, post);
    channel_unlock();
}

/* ---- calls ---- */

static void enter(const struct mpi_self *self, uint32_t side, const struct match_key *key)
{
    if (!mpi_hot.threads_multiple || !channel_lock())
        return;
    match_enter(channels.match, self->index, side, key);
    channel_unlock();
}

void COLD channel_call_begins(struct mpi_self *self, struct mpi_told *told)
{
    const struct mpi_now *now = self->now;
    struct match_key key;
    self->channel.k = self->channel.post = 0;
    unsigned traits = call_info(self->call)->traits;
    unsigned posts = is_on(self) ? traits & (CALL_IS_POSTS_SEND | CALL_IS_POSTS_RECEIVE) : 0;
    self->channel.posts = posts;
    if (posts & CALL_IS_POSTS_RECEIVE) {
        bool both = posts & CALL_IS_POSTS_SEND;
        if (channel_key(now->comm, both ? now->source_peer : now->peer, both ? now->source_tag : now->tag, &key)) {
            enter(self, MPIM_GOT, &key);
            self->channel.post = receive_posted(self, &key);
        }
    }
    if (posts & CALL_IS_POSTS_SEND && channel_key(now->comm, now->peer, now->tag, &key)) {
        enter(self, MPIM_SENT, &key);
        self->channel.k = send_posted(self, &key, now->bytes);
        told->flags |= MPI_TOLD_SENT;
        told->sent = (struct mpi_told_message){.comm_id = key.identity,
                                               .number = self->channel.k,
                                               .from = mpi_hot.area->rank,
                                               .to = key.peer,
                                               .tag = key.tag,
                                               .bytes = now->bytes};
        tell_sent(self, &key, self->channel.k, now->bytes, true);
    }
    if (self->metrics & MPIA_METRIC_MESSAGES && traits & CALL_IS_MATCHED)
        self->channel.post = self->matched.post;
}

void COLD channel_sent_bytes(struct mpi_self *self, uint64_t bytes)
{
    const struct mpi_now *now = self->now;
    struct match_key key;
    if (!self->channel.k || !(self->channel.posts & CALL_IS_POSTS_SEND) || !is_on(self) || bytes == now->bytes ||
        !channel_key(now->comm, now->peer, now->tag, &key) || !channel_lock())
        return;
    match_sent_bytes(channels.match, &key, self->channel.k, bytes);
    channel_unlock();
}

void COLD channel_call_ends(struct mpi_self *self, struct mpi_told *told, int result)
{
    unsigned posts = self->channel.posts;
    uint64_t post = self->channel.post;
    bool succeeded = result == MPI_SUCCESS;
    self->channel.posts = 0;
    self->channel.post = 0;
    if (!channels.shared || !mpi_hot.area || (!posts && !post))
        return;
    /* nobody has completed it: it was not posted, or what became of it is not seen */
    if (post && !succeeded && ERROR_CLASS(result) != MPI_ERR_TRUNCATE)
        channel_undone(self, post);
    else if (post)
        channel_lost(self, post);
    if (!channel_lock())
        return;
    const struct mpi_now *now = self->now; /* what it was at still stands there */
    struct match_key key;
    if (posts & CALL_IS_POSTS_SEND && !succeeded) {
        told->flags &= ~(uint64_t)MPI_TOLD_SENT;
        if (self->channel.k && channel_key(now->comm, now->peer, now->tag, &key))
            match_unsent(channels.match, &key, self->channel.k);
    }
    if (mpi_hot.threads_multiple)
        match_leave(channels.match, self->index);
    channel_unlock();
}

uint64_t COLD channel_take_post(struct mpi_self *self, uint64_t handle)
{
    uint64_t post = self->channel.post;
    self->channel.post = 0;
    if (post && channels.shared && mpi_hot.area && channel_lock()) {
        match_handle(channels.match, post, handle);
        channel_unlock();
    }
    return post;
}

/* ---- start and end ---- */

static bool make(struct mpi_area *area)
{
    int error = errno;
    void *memory = mmap(NULL, sizeof *channels.match, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error;
    uint32_t at = memory == MAP_FAILED ? 0 : pool_take(sizeof(struct mpim));
    if (!at) {
        if (memory != MAP_FAILED)
            munmap(memory, sizeof *channels.match);
        errno = error;
        return false;
    }
    struct mpim *shared = pool_at(at);
    shared->size = sizeof *shared;
    shared->since = ticks_now();
    channels.match = memory;
    match_start(memory, shared, received_late, NULL);
    if (atomic_load(&area->state) != MPIA_LOADED)
        atomic_store(&shared->doubts, MPIM_DOUBT_LATE);
    channels.shared = shared;
    atomic_store(&area->messages_at, at);
    return true;
}

static _Atomic uint32_t making;

void COLD channel_switched(struct mpi_self *self)
{
    struct mpi_area *area = mpi_hot.area;
    bool on = self->metrics & MPIA_METRIC_MESSAGES;
    uint32_t state = atomic_load(&area->state);
    if (on && !channels.shared && state <= MPIA_RUNNING) {
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&making, &none, 1) && make(area))
            ring();
    }
    if (!channels.shared || state != MPIA_RUNNING)
        return;
    if (!on)
        atomic_fetch_or(&channels.shared->doubts, MPIM_DOUBT_PAUSED);
    channel_commands(self);
}
