/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/message/match.h"

void match_start(struct match *match, struct mpim *shared, match_received *received, void *ctx)
{
    match->shared = shared;
    match->received = received;
    match->ctx = ctx;
    match->used = 1;
}

/* ---- channels ---- */

static void doubt_all(struct match *match, uint32_t doubts)
{
    atomic_fetch_or_explicit(&match->shared->doubts, doubts, memory_order_relaxed);
}

static struct match_key key_of(const struct mpim_channel *channel)
{
    return (struct match_key){channel->identity, channel->peer, channel->tag, channel->comm};
}

static struct mpim_channel *channel_make(struct match *match, struct mpim_channel *channel, uint32_t side,
                                         const struct match_key *key)
{
    channel->identity = key->identity;
    channel->comm = key->comm;
    channel->peer = key->peer;
    channel->tag = key->tag;
    uint32_t doubts = 0;
    for (uint32_t i = 0; i < MPIM_OPEN && side == MPIM_GOT; i++) {
        const struct mpim_open *open = &match->shared->open[i];
        const struct match_key there = {open->identity, open->from, open->tag, 0};
        if (open->doubts && match_overlap(&there, key))
            doubts |= open->doubts;
    }
    atomic_store_explicit(&channel->doubts, doubts, memory_order_relaxed);
    atomic_store_explicit(&channel->side, side, memory_order_release);
    atomic_fetch_add_explicit(&match->shared->channel_count, 1, memory_order_relaxed);
    return channel;
}

struct mpim_channel *match_channel(struct match *match, uint32_t side, const struct match_key *key)
{
    struct mpim_channel *channel = mpim_channel_find(match->shared, side, key->identity, key->peer, key->tag);
    if (channel)
        return channel;
    uint32_t at = mpim_hash(side, key->identity, key->peer, key->tag);
    for (uint32_t i = 0; i < MPIM_PROBES; i++) {
        channel = &match->shared->channels[(at + i) & (MPIM_CHANNELS - 1)];
        if (atomic_load_explicit(&channel->side, memory_order_relaxed) == MPIM_NONE)
            return channel_make(match, channel, side, key);
    }
    doubt_all(match, MPIM_DOUBT_ROOM);
    return NULL;
}

static void add(_Atomic uint64_t *value, uint64_t amount)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + amount, memory_order_release);
}

static void add_waiting(struct mpim_channel *channel, uint32_t amount)
{
    if (channel)
        atomic_store_explicit(&channel->waiting, atomic_load_explicit(&channel->waiting, memory_order_relaxed) + amount,
                              memory_order_release);
}

/* ---- doubts ---- */

void match_doubt(struct match *match, uint32_t side, const struct match_key *key, uint32_t doubts)
{
    for (uint32_t i = 0; i < MPIM_CHANNELS; i++) {
        struct mpim_channel *channel = &match->shared->channels[i];
        const struct match_key own = key_of(channel);
        if (atomic_load_explicit(&channel->side, memory_order_relaxed) == side && match_overlap(&own, key))
            atomic_fetch_or_explicit(&channel->doubts, doubts, memory_order_relaxed);
    }
    if (side == MPIM_SENT) { /* one channel */
        match_channel(match, side, key);
        return;
    }
    for (uint32_t i = 0; i < MPIM_OPEN; i++) {
        struct mpim_open *open = &match->shared->open[i];
        bool same = open->identity == key->identity && open->from == key->peer && open->tag == key->tag && open->doubts;
        if (open->identity && !same)
            continue;
        open->from = key->peer;
        open->tag = key->tag;
        open->doubts |= doubts;
        __atomic_store_n(&open->identity, key->identity, __ATOMIC_RELEASE);
        return;
    }
    doubt_all(match, doubts);
}

void match_enter(struct match *match, uint32_t owner, uint32_t side, const struct match_key *key)
{
    uint32_t at = MATCH_ACTIVE;
    bool both = false;
    for (uint32_t i = 0; i < MATCH_ACTIVE; i++) {
        uint32_t there = match->active[i].owner;
        if (!there) {
            at = at == MATCH_ACTIVE ? i : at;
        } else if (there == owner + 1 && match->active[i].side == side) {
            at = i; /* that call was left by longjmp */
        } else if (there != owner + 1 && match->active[i].side == side && match_overlap(&match->active[i].key, key)) {
            match_doubt(match, side, &match->active[i].key, MPIM_DOUBT_THREADS);
            both = true;
        }
    }
    if (both) {
        match_channel(match, side, key);
        match_doubt(match, side, key, MPIM_DOUBT_THREADS);
    }
    if (at == MATCH_ACTIVE) {
        doubt_all(match, MPIM_DOUBT_THREADS);
        return;
    }
    match->active[at].owner = owner + 1;
    match->active[at].side = side;
    match->active[at].key = *key;
}

void match_leave(struct match *match, uint32_t owner)
{
    for (uint32_t i = 0; i < MATCH_ACTIVE; i++)
        if (match->active[i].owner == owner + 1)
            match->active[i].owner = 0;
}

/* ---- sending ---- */

static void log_add(struct mpim *shared, struct mpim_channel *channel, uint64_t k, uint64_t bytes, uint32_t tid,
                    uint64_t time)
{
    uint64_t number = atomic_load_explicit(&shared->sent, memory_order_relaxed) + 1;
    struct mpim_sent *sent = &shared->log[number & (MPIM_LOG - 1)];
    atomic_store_explicit(&sent->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    sent->previous = atomic_load_explicit(&channel->last, memory_order_relaxed);
    sent->k = k;
    sent->bytes = bytes;
    sent->time = time;
    sent->channel = (uint32_t)(channel - shared->channels);
    sent->tid = tid;
    atomic_store_explicit(&sent->number, number, memory_order_release);
    atomic_store_explicit(&shared->sent, number, memory_order_release);
    atomic_store_explicit(&channel->last, number, memory_order_release);
}

uint64_t match_sent(struct match *match, const struct match_key *to, uint64_t bytes, uint32_t tid, uint64_t time)
{
    struct mpim_channel *channel = match_channel(match, MPIM_SENT, to);
    if (!channel)
        return 0;
    uint64_t k = atomic_load_explicit(&channel->count, memory_order_relaxed) + 1;
    log_add(match->shared, channel, k, bytes, tid, time);
    add(&channel->count, 1);
    return k;
}

void match_sent_bytes(struct match *match, const struct match_key *to, uint64_t k, uint64_t bytes)
{
    struct mpim_channel *channel = mpim_channel_find(match->shared, MPIM_SENT, to->identity, to->peer, to->tag);
    uint64_t number = channel ? atomic_load_explicit(&channel->last, memory_order_relaxed) : 0;
    struct mpim_sent *sent = &match->shared->log[number & (MPIM_LOG - 1)];
    if (number && sent->k == k && atomic_load_explicit(&sent->number, memory_order_relaxed) == number)
        sent->bytes = bytes;
}

void match_unsent(struct match *match, const struct match_key *to, uint64_t k)
{
    struct mpim_channel *channel = mpim_channel_find(match->shared, MPIM_SENT, to->identity, to->peer, to->tag);
    if (!channel)
        return;
    if (atomic_load_explicit(&channel->count, memory_order_relaxed) != k) {
        atomic_fetch_or_explicit(&channel->doubts, MPIM_DOUBT_FAILED, memory_order_relaxed);
        return;
    }
    const struct mpim_sent *sent = &match->shared->log[atomic_load(&channel->last) & (MPIM_LOG - 1)];
    add(&channel->count, UINT64_MAX);
    if (sent->k == k)
        atomic_store_explicit(&channel->last, sent->previous, memory_order_release);
}

/* ---- the list of posts ---- */

static struct match_post *entry_of(struct match *match, uint64_t post)
{
    uint32_t at = (uint32_t)post;
    struct match_post *entry = at && at < MATCH_POSTS ? &match->posts[at] : NULL;
    return entry && entry->state != MATCH_FREE && entry->serial == post >> 32 ? entry : NULL;
}

static uint32_t index_of(const struct match *match, const struct match_post *entry)
{
    return (uint32_t)(entry - match->posts);
}

static struct match_post *entry_take(struct match *match)
{
    uint32_t at = match->free;
    if (at)
        match->free = match->posts[at].next;
    else if (match->used < MATCH_POSTS)
        at = match->used++;
    else
        return NULL;
    struct match_post *entry = &match->posts[at];
    uint32_t last = match->posts[0].previous;
    *entry = (struct match_post){.state = MATCH_POSTED, .serial = ++match->last_serial, .previous = last};
    match->posts[last].next = at;
    match->posts[0].previous = at;
    return entry;
}

static void entry_free(struct match *match, struct match_post *entry)
{
    match->posts[entry->previous].next = entry->next;
    match->posts[entry->next].previous = entry->previous;
    entry->state = MATCH_FREE;
    entry->next = match->free;
    match->free = index_of(match, entry);
}

static struct match_post *next_of(struct match *match, const struct match_post *entry)
{
    return entry->next ? &match->posts[entry->next] : NULL;
}

static struct match_post *first_of(struct match *match)
{
    return next_of(match, &match->posts[0]);
}

/* ---- receives from anybody, as readers see them ---- */

static void open_add(struct match *match, const struct match_key *key)
{
    match->open++;
    atomic_store_explicit(&match->shared->open_count, match->open, memory_order_relaxed);
    for (uint32_t i = 0; i < MPIM_OPEN; i++) {
        struct mpim_open *open = &match->shared->open[i];
        if (open->identity)
            continue;
        open->from = key->peer;
        open->tag = key->tag;
        open->doubts = 0;
        __atomic_store_n(&open->identity, key->identity, __ATOMIC_RELEASE);
        return;
    }
}

static void open_remove(struct match *match, const struct match_key *key)
{
    match->open--;
    for (uint32_t i = 0; i < MPIM_OPEN; i++) {
        struct mpim_open *open = &match->shared->open[i];
        if (open->identity == key->identity && open->from == key->peer && open->tag == key->tag && !open->doubts) {
            __atomic_store_n(&open->identity, 0, __ATOMIC_RELEASE);
            break;
        }
    }
    atomic_store_explicit(&match->shared->open_count, match->open, memory_order_relaxed);
}

/* ---- numbers ---- */

/* Whether a receive before it whose sender is not known yet may have got a message of its channel. */
static bool is_blocked(struct match *match, const struct match_post *entry)
{
    if (!match->open)
        return false;
    for (const struct match_post *at = first_of(match); at && at != entry; at = next_of(match, at))
        if (!at->known && match_overlap(&at->key, &entry->key))
            return true;
    return false;
}

static bool number(struct match *match, struct match_post *entry)
{
    struct mpim_channel *channel = match_channel(match, MPIM_GOT, &entry->key);
    if (!channel)
        return false;
    add(&channel->count, 1);
    entry->k = atomic_load_explicit(&channel->count, memory_order_relaxed);
    return true;
}

static void finish(struct match *match, struct match_post *entry)
{
    struct mpim_channel *channel =
        mpim_channel_find(match->shared, MPIM_GOT, entry->key.identity, entry->key.peer, entry->key.tag);
    if (channel)
        add(&channel->done, 1);
    entry_free(match, entry);
}

/* Gives numbers to those that can have them now. */
static void settle(struct match *match)
{
    for (struct match_post *at = first_of(match), *next; at && match->unnumbered; at = next) {
        next = next_of(match, at);
        if (!at->known || at->k || is_blocked(match, at))
            continue;
        match->unnumbered--;
        add_waiting(mpim_channel_find(match->shared, MPIM_GOT, at->key.identity, at->key.peer, at->key.tag),
                    UINT32_MAX);
        if (!number(match, at)) {
            entry_free(match, at);
            continue;
        }
        if (at->state == MATCH_POSTED)
            continue;
        if (at->state == MATCH_COMPLETE)
            match->received(match->ctx, at);
        finish(match, at);
    }
}

static void become_known(struct match *match, struct match_post *entry, int32_t from, int32_t tag)
{
    if (entry->known)
        return;
    open_remove(match, &entry->key);
    entry->known = true;
    entry->key.peer = from;
    entry->key.tag = tag;
    match->unnumbered++;
    add_waiting(match_channel(match, MPIM_GOT, &entry->key), 1);
}

uint64_t match_posted(struct match *match, const struct match_key *key, uint64_t *ret_k)
{
    *ret_k = 0;
    struct match_post *entry = entry_take(match);
    if (!entry) {
        match_doubt(match, MPIM_GOT, key, MPIM_DOUBT_ROOM);
        return 0;
    }
    entry->key = *key;
    entry->known = key->peer != MPIA_RANK_ANY && key->tag != MPIA_TAG_ANY;
    if (!entry->known) {
        open_add(match, key);
    } else if (is_blocked(match, entry)) {
        match->unnumbered++;
        add_waiting(match_channel(match, MPIM_GOT, key), 1);
    } else if (number(match, entry)) {
        *ret_k = entry->k;
    } else {
        entry_free(match, entry);
        return 0;
    }
    return (uint64_t)entry->serial << 32 | index_of(match, entry);
}

void match_handle(struct match *match, uint64_t post, uint64_t handle)
{
    struct match_post *entry = entry_of(match, post);
    if (entry)
        entry->handle = handle;
}

uint64_t match_done(struct match *match, uint64_t post, int32_t from, int32_t tag, uint64_t bytes, uint32_t tid)
{
    struct match_post *entry = entry_of(match, post);
    if (!entry)
        return 0;
    entry->bytes = bytes;
    entry->tid = tid;
    entry->handle = 0;
    become_known(match, entry, from, tag);
    if (!entry->k)
        settle(match);
    uint64_t k = entry->k;
    if (entry_of(match, post) != entry) /* there was no room for its channel */
        return 0;
    if (k)
        finish(match, entry);
    else
        entry->state = MATCH_COMPLETE;
    return k;
}

void match_known(struct match *match, uint64_t post, int32_t from, int32_t tag)
{
    struct match_post *entry = entry_of(match, post);
    if (!entry || entry->known)
        return;
    become_known(match, entry, from, tag);
    settle(match);
}

/* The numbers of those behind it, if it had one: each is one less, unless one of them is complete and was told. */
static void take_back(struct match *match, const struct match_post *entry, uint32_t doubt)
{
    struct mpim_channel *channel =
        mpim_channel_find(match->shared, MPIM_GOT, entry->key.identity, entry->key.peer, entry->key.tag);
    if (!channel)
        return;
    uint64_t behind = atomic_load_explicit(&channel->count, memory_order_relaxed) - entry->k, there = 0;
    for (struct match_post *at = next_of(match, entry); at; at = next_of(match, at))
        if (at->k > entry->k && match_overlap(&at->key, &entry->key)) {
            at->k--;
            there++;
        }
    add(&channel->count, UINT64_MAX);
    if (there != behind)
        atomic_fetch_or_explicit(&channel->doubts, doubt, memory_order_relaxed);
}

void match_undone(struct match *match, uint64_t post, uint32_t doubt)
{
    struct match_post *entry = entry_of(match, post);
    if (!entry)
        return;
    if (!entry->known) {
        open_remove(match, &entry->key);
    } else if (entry->k) {
        take_back(match, entry, doubt);
    } else {
        match->unnumbered--;
        add_waiting(mpim_channel_find(match->shared, MPIM_GOT, entry->key.identity, entry->key.peer, entry->key.tag),
                    UINT32_MAX);
    }
    entry_free(match, entry);
    settle(match);
}

void match_lost(struct match *match, uint64_t post)
{
    struct match_post *entry = entry_of(match, post);
    if (!entry)
        return;
    if (!entry->known) {
        match_doubt(match, MPIM_GOT, &entry->key, MPIM_DOUBT_FREED);
        match_undone(match, post, MPIM_DOUBT_FREED);
    } else if (entry->k) {
        finish(match, entry);
    } else {
        entry->state = MATCH_LOST;
        entry->handle = 0;
    }
}

uint64_t match_blocker(struct match *match, uint64_t until, uint64_t post, uint64_t *ret_handle)
{
    const struct match_post *end = entry_of(match, until), *at = post ? entry_of(match, post) : NULL;
    for (at = at ? next_of(match, at) : first_of(match); end && at && at != end; at = next_of(match, at))
        if (!at->known && match_overlap(&at->key, &end->key)) {
            *ret_handle = at->handle;
            return (uint64_t)at->serial << 32 | index_of(match, at);
        }
    return 0;
}
