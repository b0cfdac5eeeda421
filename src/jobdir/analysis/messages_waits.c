/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited for whom: as F. Wolf and B. Mohr name the patterns ("Automatic performance analysis of hybrid MPI/OpenMP
 * applications", 2003). What a call received, probed, sent or completed says each until when it may have waited, and
 * for whom; the call waited for the last of them.
 *
 *   received, probed     until the call that sent it began
 *   a blocking send      until the call that posted its receive began, if the send was not over by then; as sends that
 *                        are not synchronous may be over at once
 *   a send, completed    likewise; beside receives in the same call only of synchronous ones, as others may have been
 *                        complete long before
 *   a collective         see analysis/messages_operations.c
 *
 * What cannot be judged is counted with its time, so that nobody takes what is not there for nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/analysis/messages_waits.h"

const char *mpi_wait_name(enum mpi_wait_kind kind)
{
    static const char *const names[] = {"late_sender", "late_receiver", "collective", "root", "members"};
    return names[kind];
}

/* ---- calls ---- */

enum mpi_waiting mpi_waiting_of(uint32_t call)
{
    const unsigned classes = 1 << CALL_CLASS_P2P | 1 << CALL_CLASS_COMPLETION | 1 << CALL_CLASS_COLLECTIVE |
                             1 << CALL_CLASS_ONESIDED | 1 << CALL_CLASS_IO | 1 << CALL_CLASS_COMM;
    const struct call_info *info = call_info(call);
    if (!(classes >> info->class & 1))
        return MPI_WAITS_NOT;
    return info->blocking ? MPI_WAITS : call_is(call, CALL_IS_ASKS) ? MPI_WAITS_LOOKS : MPI_WAITS_NOT;
}

static uint32_t call_at(const struct mpi_messages *messages, uint32_t place)
{
    return messages->place_list[place]->key.call;
}

static void add_ns(int64_t *sum, int64_t ns)
{
    if (ns > 0 && __builtin_add_overflow(*sum, ns, sum))
        *sum = INT64_MAX;
}

void mpi_messages_unjudged(struct mpi_messages *messages, uint32_t call, int64_t ns)
{
    if (mpi_waiting_of(call) == MPI_WAITS_NOT)
        return;
    messages->unjudged[call].count++;
    add_ns(&messages->unjudged[call].ns, ns);
}

/* ---- what was waited ---- */

static int add_wait(const struct waits *waits, enum mpi_wait_kind kind, uint32_t place, uint32_t cause, size_t rank,
                    int64_t ns)
{
    struct mpi_messages *messages = waits->messages;
    struct mpi_wait *wait;
    const struct mpi_wait_key key = {(uint32_t)kind, waits->same[place], waits->same[cause]};
    if (ns <= 0)
        return 0;
    HASH_FIND(hh, messages->waits, &key, sizeof key, wait);
    if (!wait) {
        wait = calloc(1, sizeof *wait);
        if (!wait)
            return -ENOMEM;
        wait->by_rank = calloc(messages->rank_count, sizeof *wait->by_rank);
        if (!wait->by_rank) {
            free(wait);
            return -ENOMEM;
        }
        wait->key = key;
        HASH_ADD(hh, messages->waits, key, sizeof wait->key, wait);
    }
    wait->count++;
    add_ns(&wait->total_ns, ns);
    wait->by_rank[rank] += (double)ns;
    if (ns > wait->max_ns)
        wait->max_ns = ns;
    return 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- one call at a time ---- */

struct item {           /* something that a call has received, sent, completed, or taken part in */
    int64_t begin, end; /* of the call */
    int64_t until;
    uint32_t place, cause_place, cause_rank;
    uint8_t kind;
    bool judged;
    bool beside; /* counts only if the call did nothing else */
};

struct items { /* of one rank */
    struct item *list;
    size_t count, room;
};

static int add_item(struct items *items, const struct item *item)
{
    if (!GROW(items->list, items->count, items->room))
        return -ENOMEM;
    items->list[items->count++] = *item;
    return 0;
}

static int by_call(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    if (left->place != right->place)
        return left->place < right->place ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

/* The one that the call waited for; NULL: that cannot be said. */
static const struct item *decisive(const struct item *list, size_t count, bool first)
{
    const struct item *found = NULL;
    bool alone = true;
    for (size_t i = 0; i < count; i++)
        alone &= list[i].beside;
    for (size_t i = 0; i < count; i++)
        if (list[i].judged && (alone || !list[i].beside) &&
            (!found || (first ? list[i].until < found->until : list[i].until > found->until)))
            found = &list[i];
    return found;
}

/* For the picture. */
static int keep_waited(struct mpi_message_rank *rank, const struct item *item, int64_t until, uint32_t call)
{
    if (!GROW(rank->waited, rank->waited_count, rank->waited_room))
        return -ENOMEM;
    rank->waited[rank->waited_count++] = (struct mpi_waited){item->begin, until, call, item->cause_rank};
    return 0;
}

static int take_call(const struct waits *waits, size_t rank, const struct item *list, size_t count)
{
    struct mpi_messages *messages = waits->messages;
    uint32_t call = call_at(messages, list->place);
    const struct item *item = decisive(list, count, call_is(call, CALL_IS_SOME));
    int64_t end = list[count - 1].end;
    if (!item) {
        mpi_messages_unjudged(messages, call, end - list->begin);
        return 0;
    }
    add_ns(&messages->judged_ns, end - list->begin);
    int64_t until = least(item->until, end);
    if (until <= item->begin)
        return 0;
    int code = keep_waited(&messages->ranks[rank], item, until, call);
    return code ? code
                : add_wait(waits, (enum mpi_wait_kind)item->kind, item->place, item->cause_place, item->cause_rank,
                           until - item->begin);
}

static int take_calls(const struct waits *waits, size_t rank, struct items *items)
{
    int code = 0;
    if (items->count)
        qsort(items->list, items->count, sizeof *items->list, by_call);
    for (size_t at = 0, next; code == 0 && at < items->count; at = next) {
        const struct item *first = &items->list[at];
        for (next = at + 1;
             next < items->count && items->list[next].begin == first->begin && items->list[next].place == first->place;)
            next++;
        code = take_call(waits, rank, first, next - at);
    }
    return code;
}

/* ---- messages ---- */

static void note_latency(struct mpi_messages *messages, size_t from, size_t to, uint64_t sent, int64_t ns)
{
    if (messages->latency_min_ns < 0 || ns < messages->latency_min_ns)
        messages->latency_min_ns = ns;
    if (__builtin_add_overflow(messages->latency_total_ns, ns, &messages->latency_total_ns))
        messages->latency_total_ns = INT64_MAX;
    size_t count = messages->slowest_count, place = count;
    while (place && messages->slowest[place - 1].ns < ns)
        place--;
    if (place == MPI_SLOWEST_SHOWN)
        return;
    size_t last = count < MPI_SLOWEST_SHOWN ? messages->slowest_count++ : MPI_SLOWEST_SHOWN - 1;
    memmove(&messages->slowest[place + 1], &messages->slowest[place], (last - place) * sizeof *messages->slowest);
    messages->slowest[place] = (struct mpi_slow){(uint32_t)from, (uint32_t)to, sent, ns};
}

static struct item item_of(const struct mpi_end *end)
{
    return (struct item){.begin = end->begin, .end = end->end, .place = end->place};
}

/* For the send of this receive; `from`: the rank that has sent it. */
static void wait_for_sender(const struct mpi_messages *messages, struct item *item, const struct mpi_end *sent,
                            const struct mpi_message_rank *from)
{
    item->judged = true;
    item->kind = MPI_WAIT_LATE_SENDER;
    item->until = sent->begin;
    item->cause_place = sent->place;
    item->cause_rank = (uint32_t)(from - messages->ranks);
}

/* The call that posted a receive; false: it is not in the trace. */
static bool find_post(const struct mpi_messages *messages, const struct mpi_message_rank *rank, uint64_t got,
                      int64_t *ret_begin, uint32_t *ret_place)
{
    size_t low = 0, high = rank->post_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rank->posts[middle].got < got)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < rank->post_count && rank->posts[low].got == got;
    const struct mpi_end *end = &rank->got[got];
    *ret_begin = found ? rank->posts[low].begin : end->begin;
    *ret_place = found ? rank->posts[low].place : end->place;
    return found || call_infos[call_at(messages, end->place)].class == CALL_CLASS_P2P;
}

/* Until its receive was posted, if the send lasted so long. */
static void wait_for_receiver(const struct mpi_messages *messages, struct item *item,
                              const struct mpi_message_rank *rank, const struct mpi_end *sent)
{
    int64_t post;
    uint32_t place, call = call_at(messages, sent->place);
    item->kind = MPI_WAIT_LATE_RECEIVER;
    item->until = INT64_MIN;
    item->judged = call_is(call, CALL_IS_BUFFERED);
    if (item->judged || sent->other >= MPI_OTHER_FOREIGN)
        return;
    ptrdiff_t to = mpi_messages_at(messages, rank->world, sent->comm, sent->peer);
    if (to < 0 || !find_post(messages, &messages->ranks[to], sent->other, &post, &place))
        return;
    item->judged = true;
    if (post <= item->end) { /* else it was over before */
        item->until = post;
        item->cause_place = place;
        item->cause_rank = (uint32_t)to;
    }
}

static int take_received(struct mpi_messages *messages, const struct mpi_message_rank *rank, struct items *items)
{
    const struct mpi_message_rank *from = NULL;
    int code = 0;
    for (size_t k = 0; code == 0 && k < rank->got_count; k++) {
        const struct mpi_end *got = &rank->got[k], *sent = mpi_sent_of(messages, rank, got, &from);
        struct item item = item_of(got);
        if (sent) {
            note_latency(messages, (size_t)(from - messages->ranks), (size_t)(rank - messages->ranks), got->other,
                         got->end - sent->begin);
            wait_for_sender(messages, &item, sent, from);
        }
        if (mpi_waiting_of(call_at(messages, got->place)) != MPI_WAITS_NOT)
            code = add_item(items, &item);
    }
    for (size_t k = 0; code == 0 && k < rank->probe_count; k++) {
        const struct mpi_end *probe = &rank->probes[k], *sent = NULL;
        struct item item = item_of(probe);
        if (probe->other != MPI_OTHER_NONE)
            sent = mpi_sent_of(messages, rank, &rank->got[probe->other], &from);
        if (sent)
            wait_for_sender(messages, &item, sent, from);
        code = add_item(items, &item);
    }
    return code;
}

static int take_sent(const struct mpi_messages *messages, const struct mpi_message_rank *rank, struct items *items)
{
    int code = 0;
    for (size_t k = 0; code == 0 && k < rank->sent_count; k++) {
        const struct mpi_end *sent = &rank->sent[k];
        const struct call_info *call = &call_infos[call_at(messages, sent->place)];
        struct item item = item_of(sent);
        if (!call->blocking)
            continue;
        if (call->waits == CALL_WAITS_SEND) /* MPI_Sendrecv waits for its receive: which of both it was is not known */
            wait_for_receiver(messages, &item, rank, sent);
        code = add_item(items, &item);
    }
    return code;
}

/* ---- what one call has begun and another one completed ---- */

static void wait_for_operation(struct item *item, const struct mpi_verdict *verdict)
{
    item->judged = verdict->judged;
    item->kind = verdict->kind;
    item->until = verdict->until;
    item->cause_place = verdict->place;
    item->cause_rank = verdict->rank;
}

static int take_parts(const struct waits *waits, size_t index, struct items *items)
{
    const struct mpi_messages *messages = waits->messages;
    const struct mpi_message_rank *rank = &messages->ranks[index];
    int code = 0;
    for (size_t k = 0; code == 0 && k < rank->part_count; k++) {
        const struct mpi_part *part = &rank->parts[k];
        struct item item = {.begin = part->begin, .end = part->end, .place = part->place};
        wait_for_operation(&item, &waits->verdicts[index][k]);
        if (mpi_waiting_of(call_at(messages, part->place)) == MPI_WAITS)
            code = add_item(items, &item);
    }
    for (size_t k = 0; code == 0 && k < rank->done_count; k++) {
        const struct mpi_done *done = &rank->dones[k];
        struct item item = {.begin = done->begin, .end = done->end, .place = done->place};
        if (done->part) {
            wait_for_operation(&item, &waits->verdicts[index][done->index]);
        } else {
            const struct mpi_end *sent = &rank->sent[done->index];
            wait_for_receiver(messages, &item, rank, sent);
            item.beside = !call_is(call_at(messages, sent->place), CALL_IS_SYNCHRONOUS);
        }
        code = add_item(items, &item);
    }
    return code;
}

/* ---- all ---- */

static int by_text(const void *a, const void *b)
{
    const struct mpi_place *left = *(const struct mpi_place *const *)a, *right = *(const struct mpi_place *const *)b;
    int order = left->key.call < right->key.call          ? -1
                : left->key.call > right->key.call        ? 1
                : left->key.program != right->key.program ? (left->key.program < right->key.program ? -1 : 1)
                                                          : strcmp(left->where, right->where);
    return order ? order : left->index < right->index ? -1 : left->index > right->index;
}

/* A line may have several addresses: copies of a function, an unrolled loop. */
static int find_same(struct waits *waits)
{
    const struct mpi_messages *messages = waits->messages;
    size_t count = HASH_COUNT(messages->places);
    _cleanup_(freep) const struct mpi_place **list = calloc(count + 1, sizeof *list);
    waits->same = calloc(count + 1, sizeof *waits->same);
    if (!list || !waits->same)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        list[i] = messages->place_list[i];
    if (count)
        qsort(list, count, sizeof *list, by_text);
    for (size_t i = 0, first = 0; i < count; i++) {
        bool same = i && list[i]->where[0] && list[i]->key.call == list[first]->key.call &&
                    list[i]->key.program == list[first]->key.program && strcmp(list[i]->where, list[first]->where) == 0;
        first = same ? first : i;
        waits->same[list[i]->index] = list[first]->index;
    }
    return 0;
}

static int by_total(const struct mpi_wait *a, const struct mpi_wait *b)
{
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof a->key);
}

static int rank_waits(const struct waits *waits, size_t index)
{
    struct mpi_messages *messages = waits->messages;
    const struct mpi_message_rank *rank = &messages->ranks[index];
    struct items items = {0};
    int code = take_received(messages, rank, &items);
    if (code == 0)
        code = take_sent(messages, rank, &items);
    if (code == 0)
        code = take_parts(waits, index, &items);
    if (code == 0)
        code = take_calls(waits, index, &items);
    free(items.list);
    return code;
}

int mpi_messages_waits(struct mpi_messages *messages)
{
    struct waits waits = {.messages = messages};
    messages->latency_min_ns = -1;
    int code = find_same(&waits);
    if (code == 0)
        code = mpi_waits_judge_operations(&waits);
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        code = rank_waits(&waits, i);
    HASH_SRT(hh, messages->waits, by_total);
    for (size_t i = 0; waits.verdicts && i < messages->rank_count; i++)
        free(waits.verdicts[i]);
    free(waits.verdicts);
    free(waits.same);
    return code;
}

void mpi_messages_waits_free(struct mpi_messages *messages)
{
    HASH_FREE_ALL(messages->waits, free(each->by_rank));
}
