/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the queues of MPI processes, by what their ranks have counted (shm/mpi_messages.h). */
#include "monitor/mpi/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"

/* ---- the block ---- */

static struct mpi_messages *messages_of(struct mpi_process *process)
{
    if (!process->messages && (process->messages = calloc(1, sizeof *process->messages)))
        process->messages->process = process;
    return process->messages;
}

struct mpim *mpi_messages_of(struct mpi_process *process)
{
    uint32_t at = process->head ? atomic_load(&process->head->messages_at) : 0;
    struct mpi_messages *messages = at ? messages_of(process) : NULL;
    if (!messages)
        return NULL;
    if (!messages->area) {
        void *area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, mpi_process_fd(process), 0);
        messages->area = area == MAP_FAILED ? NULL : area;
    }
    return messages->area ? mpim_of(messages->area, at) : NULL;
}

void mpi_messages_forget(struct mpi_process *process)
{
    struct mpi_messages *messages = process->messages;
    if (!messages)
        return;
    mpi_message_commands_end(process);
    if (messages->area)
        munmap(messages->area, MPIA_AREA_SIZE);
    free(messages);
    process->messages = NULL;
}

int mpi_messages_want(struct mpi_process *process, struct err *err)
{
    struct mpi_messages *messages = messages_of(process);
    if (!messages)
        return err_set(err, -ENOMEM, "out of memory");
    if (!messages->wanted) {
        messages->wanted = true;
        mpi_process_want(process, MPIA_METRIC_MESSAGES, 1);
    }
    if (mpi_messages_of(process))
        return 0;
    return err_set(err, -EOPNOTSUPP,
                   "messages of process %d were not counted so far: from its next MPI call on they are, but those that "
                   "are under way then are not known (run the job with --mpi messages)",
                   process->agent->pid);
}

/* The same, but what is not counted stays so. */
static int messages_look(struct mpi_process *process, struct err *err)
{
    if (process->messages && process->messages->wanted)
        return mpi_messages_want(process, err);
    if (mpi_messages_of(process))
        return 0;
    return err_set(err, -EOPNOTSUPP, "messages are not counted (run the job with --mpi messages)");
}

/* ---- jobs and ranks ---- */

uint64_t mpi_process_world(const struct mpi_process *process)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const struct mpi_area *area = process->head;
    for (const char *c = mpi_process_job(process); *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < sizeof area->namespace && area->namespace[i]; i++)
        hash = (hash ^ (uint8_t)area->namespace[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct mpi_process *mpi_world_rank(struct mpi_registry *registry, uint64_t world, int32_t rank)
{
    for (struct mpi_process *process = registry ? registry->list : NULL; process; process = process->next)
        if (!process->agent->ended && process->head->rank == rank && mpi_process_world(process) == world)
            return process;
    return NULL;
}

struct process *mpi_rank_process(struct mpi_registry *registry, uint64_t world, int32_t rank)
{
    struct err err;
    struct mpi_process *found = mpi_world_rank(registry, world, rank);
    return found ? process_get(registry->agents->monitor, found->agent->pid, &err) : NULL;
}

static struct mpi_comm *comm_at(struct mpi_messages *messages, uint32_t number)
{
    return number < MPIA_COMMS - 1 && messages->area ? mpi_comm_at(messages->area, number) : NULL;
}

uint32_t mpi_comm_number(struct mpi_process *process, uint64_t identity)
{
    if (!mpi_messages_of(process) || !identity)
        return UINT32_MAX;
    uint32_t count = atomic_load(&process->head->comm_count);
    for (uint32_t i = 0; i < count && i < MPIA_COMMS - 1; i++)
        if (comm_at(process->messages, i)->identity == identity && !comm_at(process->messages, i)->ended)
            return i;
    return UINT32_MAX;
}

uint64_t mpi_comm_identity_of(struct mpi_process *process, uint32_t number)
{
    const struct mpi_comm *comm = mpi_messages_of(process) ? comm_at(process->messages, number) : NULL;
    return comm && atomic_load(&comm->kind) == MPIA_COMM_INTRA && !comm->ended ? comm->identity : 0;
}

static bool open_fits(const struct mpim_open *open, const struct message_id *id)
{
    return open->identity == id->comm && (open->from == MPIA_RANK_ANY || open->from == id->from) &&
           (open->tag == MPIA_TAG_ANY || open->tag == id->tag);
}

/* ---- channels ---- */

struct counts { /* of one channel */
    uint64_t sent, got, waiting, done, last;
    uint32_t doubts;
    uint64_t skipped; /* matched by receives from anybody, as far as that is certain */
};

static struct counts counts_of(struct mpim *sender, struct mpim *receiver, const struct message_id *id)
{
    struct counts counts = {0};
    const struct mpim_channel *channel =
        sender ? mpim_channel_find(sender, MPIM_SENT, id->comm, id->to, id->tag) : NULL;
    counts.doubts = (sender ? atomic_load(&sender->doubts) : 0) | (receiver ? atomic_load(&receiver->doubts) : 0);
    if (channel) { /* first: what was received is never more than what was sent then, but what is sent now */
        counts.sent = atomic_load(&channel->count);
        counts.last = atomic_load(&channel->last);
        counts.doubts |= atomic_load(&channel->doubts);
    }
    channel = receiver ? mpim_channel_find(receiver, MPIM_GOT, id->comm, id->from, id->tag) : NULL;
    if (channel) {
        counts.got = atomic_load(&channel->count);
        counts.waiting = atomic_load(&channel->waiting);
        counts.done = atomic_load(&channel->done);
        counts.doubts |= atomic_load(&channel->doubts);
    }
    for (uint32_t i = 0; receiver && i < MPIM_OPEN; i++) {
        const struct mpim_open *open = &receiver->open[i];
        if (open->doubts && open_fits(open, id))
            counts.doubts |= open->doubts;
    }
    return counts;
}

/* What the log says of the k-th message of a channel; false: it is forgotten. */
static bool log_find(struct mpim *sender, uint64_t last, uint64_t k, struct mpim_sent *ret_sent)
{
    uint64_t number = last;
    for (uint32_t i = 0; number && i < MPIM_LOG; i++) {
        const struct mpim_sent *sent = &sender->log[number & (MPIM_LOG - 1)];
        *ret_sent = (struct mpim_sent){0, sent->previous, sent->k, sent->bytes, sent->time, sent->channel, sent->tid};
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&sent->number) != number)
            return false;
        if (ret_sent->k == k)
            return true;
        number = ret_sent->previous < number ? ret_sent->previous : 0;
    }
    return false;
}

static void queue_fill(struct mpi_queued *about, struct mpi_process *sender, const struct mpim_sent *sent)
{
    uint64_t now = agent_clock_ticks(), second = sender->registry->agents->ticks_per_second;
    about->bytes = sent->bytes;
    about->tid = (pid_t)sent->tid;
    about->ticks = sent->time;
    about->age_ns = sent->time < now && second ? (uint64_t)((double)(now - sent->time) / (double)second * 1e9) : 0;
}

static int64_t mpi_message_get_tag(struct mpi_registry *registry, const struct message_id *id);

enum message_state mpi_message_state(struct mpi_registry *registry, const struct message_id *id,
                                     struct mpi_queued *ret_about)
{
    struct mpi_process *sender = mpi_world_rank(registry, id->world, id->from);
    struct mpi_process *receiver = mpi_world_rank(registry, id->world, id->to);
    struct mpim *from = sender ? mpi_messages_of(sender) : NULL, *to = receiver ? mpi_messages_of(receiver) : NULL;
    *ret_about = (struct mpi_queued){.id = *id, .bytes = UINT64_MAX, .comm = UINT32_MAX};
    if (!to)
        return MESSAGE_IS_UNKNOWN;
    struct counts counts = counts_of(from, to, id);
    struct mpim_sent sent;
    ret_about->doubts = counts.doubts;
    ret_about->pid = sender ? sender->agent->pid : 0;
    ret_about->monitor_tag = mpi_message_get_tag(registry, id);
    if (from && id->k <= counts.sent && log_find(from, counts.last, id->k, &sent))
        queue_fill(ret_about, sender, &sent);
    if (id->k <= counts.got)
        return counts.got == counts.done ? MESSAGE_IS_RECEIVED : MESSAGE_IS_MATCHED;
    return !from ? MESSAGE_IS_UNKNOWN : id->k > counts.sent ? MESSAGE_IS_TO_COME : MESSAGE_IS_QUEUED;
}

/* ---- a queue ---- */

struct line { /* a channel that leads here, with messages in it */
    struct message_id id;
    struct mpi_process *sender;
    struct mpim *block;
    struct counts counts;
    struct line *next;
};

struct lines {
    struct line *first;
    size_t messages;
    struct arena *arena;
    bool failed;
};

static uint64_t left_of(const struct line *line)
{
    uint64_t gone = line->counts.got + line->counts.waiting + line->counts.skipped;
    return line->counts.sent > gone ? line->counts.sent - gone : 0;
}

/* Sent, and not taken by a receive whose number is known. */
static bool has_some(const struct line *line)
{
    return line->counts.sent > line->counts.got + line->counts.skipped;
}

static void lines_add(struct lines *lines, struct mpi_process *sender, struct mpim *block, struct mpim *receiver,
                      struct message_id id)
{
    for (uint32_t i = 0; i < MPIM_CHANNELS; i++) {
        const struct mpim_channel *channel = &block->channels[i];
        if (atomic_load(&channel->side) != MPIM_SENT || channel->peer != id.to)
            continue;
        id.comm = channel->identity;
        id.tag = channel->tag;
        struct line line = {.id = id, .sender = sender, .block = block, .counts = counts_of(block, receiver, &id)};
        struct line *kept = has_some(&line) ? arena_alloc(lines->arena, sizeof *kept) : NULL;
        lines->failed |= has_some(&line) && !kept;
        if (!kept)
            continue;
        *kept = line;
        kept->next = lines->first;
        lines->first = kept;
    }
}

/* When the first of them was sent; 0: the log has forgotten it. */
static uint64_t time_of_first(const struct line *line)
{
    struct mpim_sent sent;
    uint64_t k = line->counts.got + line->counts.skipped + 1;
    return log_find(line->block, line->counts.last, k, &sent) ? sent.time : 0;
}

/* A receive that is posted and still waits has none of the messages that are there; so one that would take any of
 * several has one of them already. It is the first of a sender; which sender's is not known. */
static void apply_open(struct lines *lines, const struct mpim_open *open, bool alone)
{
    struct line *first = NULL;
    uint64_t least = UINT64_MAX;
    unsigned fitting = 0;
    bool certain = true;
    for (struct line *line = lines->first; line; line = line->next) {
        if (!open_fits(open, &line->id) || !has_some(line))
            continue;
        uint64_t time = time_of_first(line);
        fitting++;
        certain = certain && time && (alone || !line->counts.waiting) && (!first || first->id.from == line->id.from);
        if (!first || time < least) {
            first = line;
            least = time;
        }
    }
    if (first && (fitting == 1 || certain))
        first->counts.skipped++;
    for (struct line *line = lines->first; line && fitting > 1 && !certain; line = line->next)
        if (open_fits(open, &line->id))
            line->counts.doubts |= MPIM_DOUBT_OPEN;
}

/* Those that differ may have been posted in any order. */
static void apply_all_open(struct lines *lines, struct mpim *receiver)
{
    struct mpim_open all[MPIM_OPEN];
    unsigned count = 0, posted = atomic_load(&receiver->open_count);
    bool same = true;
    for (uint32_t i = 0; i < MPIM_OPEN; i++) {
        all[count] = receiver->open[i];
        if (!all[count].identity || all[count].doubts)
            continue;
        same = same && all[count].identity == all[0].identity && all[count].from == all[0].from &&
               all[count].tag == all[0].tag;
        count++;
    }
    for (unsigned i = 0; i < count && same; i++)
        apply_open(lines, &all[i], count == 1);
    for (struct line *line = lines->first; line && (posted > count || (count && !same)); line = line->next)
        line->counts.doubts |= has_some(line) ? MPIM_DOUBT_OPEN : 0u;
}

/* The messages of a channel, from the youngest back: the log may not have the oldest any more. */
static void queue_add(struct mpi_queue *queue, struct mpi_process *receiver, const struct line *line)
{
    uint64_t left = left_of(line), number = line->counts.last;
    bool known = true;
    for (uint64_t i = 0; i < left; i++) {
        struct mpi_queued *about = &queue->items[queue->count++];
        struct mpim_sent sent;
        *about = (struct mpi_queued){.id = line->id,
                                     .pid = line->sender->agent->pid,
                                     .bytes = UINT64_MAX,
                                     .comm = mpi_comm_number(receiver, line->id.comm),
                                     .doubts = line->counts.doubts};
        about->id.k = line->counts.sent - i;
        about->monitor_tag = mpi_message_get_tag(receiver->registry, &about->id);
        known = known && log_find(line->block, number, about->id.k, &sent);
        if (!known)
            continue;
        queue_fill(about, line->sender, &sent);
        number = sent.previous;
    }
    queue->doubts |= left ? line->counts.doubts : 0;
}

static int by_time(const void *left, const void *right)
{
    const struct mpi_queued *a = left, *b = right;
    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? -1 : 1;
    if (a->id.from != b->id.from)
        return a->id.from < b->id.from ? -1 : 1;
    return a->id.k < b->id.k ? -1 : a->id.k > b->id.k;
}

static int queue_take(struct mpi_process *process, bool look, struct mpi_queue *ret_queue, struct arena *arena,
                      struct err *err)
{
    int (*const get)(struct mpi_process * process, struct err * err) = look ? messages_look : mpi_messages_want;
    struct mpi_registry *registry = process->registry;
    int32_t size = process->head->world_size, seen = 0;
    *ret_queue = (struct mpi_queue){0};
    int code = 0;
    if (atomic_load(&process->head->state) != MPIA_RUNNING)
        return err_set(err, -EOPNOTSUPP,
                       "process %d is not between MPI_Init and MPI_Finalize, or has not called MPI since it is watched",
                       process->agent->pid);
    struct lines lines = {.arena = arena};
    uint64_t world = mpi_process_world(process);
    if (get(process, err) < 0)
        code = -EOPNOTSUPP;
    struct mpim *receiver = mpi_messages_of(process);
    for (struct mpi_process *other = registry->list; other; other = other->next) {
        struct err ignored = {.text = ""};
        if (other->agent->ended || mpi_process_world(other) != world || other->head->rank < 0)
            continue;
        struct mpim *block = get(other, &ignored) == 0 ? mpi_messages_of(other) : NULL;
        if (!block || !receiver)
            continue;
        seen++;
        ret_queue->doubts |= atomic_load(&block->doubts);
        ret_queue->unfollowed += atomic_load(&block->unfollowed);
        const struct message_id id = {.world = world, .from = other->head->rank, .to = process->head->rank};
        lines_add(&lines, other, block, receiver, id);
    }
    if (code < 0)
        return code;
    apply_all_open(&lines, receiver);
    for (const struct line *line = lines.first; line; line = line->next)
        lines.messages += left_of(line);
    ret_queue->missing = seen < size ? (unsigned)(size - seen) : 0;
    ret_queue->items = arena_alloc(arena, (lines.messages + 1) * sizeof *ret_queue->items);
    if (lines.failed || !ret_queue->items)
        return err_set(err, -ENOMEM, "out of memory");
    for (const struct line *line = lines.first; line; line = line->next)
        queue_add(ret_queue, process, line);
    qsort(ret_queue->items, ret_queue->count, sizeof *ret_queue->items, by_time);
    return 0;
}

/* ---- words ---- */

void mpi_doubts_print(uint32_t doubts, struct buf *out)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } words[] = {
        {MPIM_DOUBT_LATE, "counting began while messages were under way"},
        {MPIM_DOUBT_PAUSED, "counting was off for a while"},
        {MPIM_DOUBT_THREADS, "two threads sent or received the same at once"},
        {MPIM_DOUBT_CANCELLED, "an operation was cancelled"},
        {MPIM_DOUBT_FREED, "the request of a receive from anybody was freed"},
        {MPIM_DOUBT_FAILED, "a call has failed"},
        {MPIM_DOUBT_ROOM, "there are too many channels or receives to count"},
        {MPIM_DOUBT_OPEN, "a receive from anybody is posted, which has got one of several messages"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (doubts & words[i].bit) {
            buf_printf(out, "%s%s", any ? "; " : "", words[i].text);
            any = true;
        }
}

void mpi_message_sender(struct mpi_registry *registry, const struct message_id *id, pid_t tid,
                        char ret_token[TOKEN_TEXT_SIZE])
{
    struct err err;
    struct mpi_process *sender = mpi_world_rank(registry, id->world, id->from);
    struct process *process =
        sender && tid > 0 ? process_get(registry->agents->monitor, sender->agent->pid, &err) : NULL;
    struct thread *thread = process ? process_thread(process, tid) : NULL;
    snprintf(ret_token, TOKEN_TEXT_SIZE, "%s", thread ? thread->object.token : TOKEN_UNDEFINED);
}

int mpi_doubts_check(uint32_t doubts, struct err *err)
{
    struct buf text = BUF_INIT;
    if (!doubts)
        return 0;
    mpi_doubts_print(doubts, &text);
    err_set(err, -EOPNOTSUPP, "what is in the queue is not certain: %.*s (mpi_get_messages says what is known)",
            (int)text.len, text.data ? text.data : "");
    buf_done(&text);
    return -EOPNOTSUPP;
}

struct mpi_process *mpi_process_of(struct process *process, struct err *err)
{
    struct mpi_process *found = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (!found)
        err_set(
            err, -EOPNOTSUPP,
            "process %d is no MPI process that is watched: messages are seen in MPI programs that were started with "
            "`scry run` or `scry exec`, and from mpi_load on",
            process->pid);
    return found;
}

int mpi_queue_snapshot(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err)
{
    struct mpi_process *found = mpi_process_of(process, err);
    return found ? queue_take(found, false, ret_queue, arena, err) : -EOPNOTSUPP;
}

int mpi_queue_look(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err)
{
    struct mpi_process *found = mpi_process_of(process, err);
    return found ? queue_take(found, true, ret_queue, arena, err) : -EOPNOTSUPP;
}

int mpi_queue_certain(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err)
{
    int code = mpi_queue_snapshot(process, ret_queue, arena, err);
    if (code == 0)
        code = mpi_doubts_check(ret_queue->doubts, err);
    if (code == 0 && ret_queue->missing)
        code = err_set(err, -EOPNOTSUPP,
                       "%u ranks of the job are not on this node or have ended: what they have sent is not known "
                       "(mpi_get_messages says what is)",
                       ret_queue->missing);
    return code;
}

/* ---- tags ---- */

static struct mpim_tag *tag_find(struct mpim *receiver, const struct message_id *id)
{
    for (uint32_t i = 0; receiver && i < MPIM_TAGS; i++) {
        struct mpim_tag *tag = &receiver->tags[i];
        if (atomic_load(&tag->state) == MPIM_TAG_SET && tag->identity == id->comm && tag->from == id->from &&
            tag->tag == id->tag && tag->k == id->k)
            return tag;
    }
    return NULL;
}

/* 0: it has none. */
static int64_t mpi_message_get_tag(struct mpi_registry *registry, const struct message_id *id)
{
    struct mpi_process *receiver = mpi_world_rank(registry, id->world, id->to);
    const struct mpim_tag *tag = receiver ? tag_find(mpi_messages_of(receiver), id) : NULL;
    return tag ? tag->monitor_tag : 0;
}

/* A place that is free, or whose message was received. */
static struct mpim_tag *tag_take(struct mpim *receiver)
{
    for (uint32_t i = 0; i < MPIM_TAGS; i++) {
        struct mpim_tag *tag = &receiver->tags[i];
        uint32_t state = atomic_load(&tag->state);
        if (state == MPIM_TAG_FREE)
            atomic_fetch_add(&receiver->tag_count, 1);
        if (state != MPIM_TAG_SET)
            return tag;
    }
    return NULL;
}

int mpi_message_tag(struct mpi_registry *registry, const struct message_id *id, int64_t value, struct err *err)
{
    struct mpi_queued about;
    struct mpi_process *receiver = mpi_world_rank(registry, id->world, id->to);
    struct mpim *block = receiver ? mpi_messages_of(receiver) : NULL;
    if (!block)
        return err_set(err, -EOPNOTSUPP,
                       "rank %d, which it is sent to, is not on this node, or its messages are not counted", id->to);
    enum message_state state = mpi_message_state(registry, id, &about);
    if (about.doubts) {
        struct buf text = BUF_INIT;
        mpi_doubts_print(about.doubts, &text);
        err_set(err, -EOPNOTSUPP, "which message that is, is not certain: %.*s", (int)text.len,
                text.data ? text.data : "");
        buf_done(&text);
        return -EOPNOTSUPP;
    }
    struct mpim_tag *tag = tag_find(block, id);
    if (!tag && state == MESSAGE_IS_RECEIVED)
        return err_set(err, -ESRCH, "it was received already");
    if (!tag)
        tag = tag_take(block);
    if (!tag)
        return err_set(err, -ENOSPC, "%d messages of rank %d are tagged already", MPIM_TAGS, id->to);
    tag->identity = id->comm;
    tag->from = id->from;
    tag->tag = id->tag;
    tag->k = id->k;
    tag->monitor_tag = value;
    atomic_store(&tag->state, MPIM_TAG_SET);
    return 0;
}
