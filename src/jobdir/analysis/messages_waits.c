/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/analysis/messages.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/analysis/messages_internal.h"
#include "shm/mpi_told.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of a part of a collective operation. */
struct mpi_verdict {
    const struct mpi_done *done; /* the call that completed it; NULL: the one that began it, or not known */
    int64_t until;               /* if it came before that, it waited; INT64_MIN: for nobody */
    uint32_t rank, place;        /* for whom, in which call */
    uint8_t kind;                /* enum mpi_wait_kind */
    bool judged;
};

struct waits {
    struct mpi_messages *messages;
    struct mpi_verdict **verdicts; /* by rank and part */
    uint32_t *same;                /* by place: the first that reads the same */
};

/*
 * Recording that begins while the program runs: which messages were under way then nobody knows. But each rank says how
 * many it had sent to each other rank, and received from it, since MPI_Init (MESSAGE_BEGIN), so both numbers are known
 * for each later moment, too. A message is counted as sent before it can be received; hence, where both numbers are the
 * same at one moment of one clock, nothing is under way, on no channel between the two. Each send after it is the one
 * of the receives after it that has the same place among those of its channel.
 */

struct moment {
    int64_t ns;
    bool got;
};

/* Sends before receives: too many are under way then, never too few. */
static int by_time(const void *a, const void *b)
{
    const struct moment *left = a, *right = b;
    if (left->ns != right->ns)
        return left->ns < right->ns ? -1 : 1;
    return (int)left->got - (int)right->got;
}

static bool is_one_host(const struct mpi_messages *messages, const struct mpi_pair *pair)
{
    const struct timeline_trace *traces = messages->timeline.traces;
    return traces[pair->from->trace].host == traces[pair->to->trace].host;
}

static size_t moments_gather(const struct mpi_pair *pair, struct moment *moments)
{
    size_t count = 0;
    bool from_gap = pair->from->gap_end != INT64_MIN, to_gap = pair->to->gap_end != INT64_MIN;
    for (size_t i = 0; i < pair->sends; i++)
        if (!from_gap || pair->sent[i] >= pair->from->gap_sent)
            moments[count++] = (struct moment){pair->from->sent[pair->sent[i]].begin, false};
    for (size_t i = 0; i < pair->gets; i++)
        if (!to_gap || pair->got[i] >= pair->to->gap_got)
            moments[count++] = (struct moment){pair->to->got[pair->got[i]].end, true};
    if (count)
        qsort(moments, count, sizeof *moments, by_time);
    return count;
}

int mpi_messages_quiet(const struct mpi_messages *messages, const struct mpi_pair *pair, int64_t *ret_ns)
{
    if (!pair->from->counted || !pair->to->counted || !is_one_host(messages, pair))
        return 0;
    _cleanup_(freep) struct moment *moments = malloc((pair->sends + pair->gets + 1) * sizeof *moments);
    if (!moments)
        return -ENOMEM;
    size_t count = moments_gather(pair, moments), i = 0;
    uint64_t sent = pair->sent_before, got = pair->got_before;
    /* both have to be recorded */
    int64_t now = pair->from->gap_end > pair->to->gap_end ? pair->from->gap_end : pair->to->gap_end;
    for (;; now = moments[i].ns) {
        for (; i < count && moments[i].ns <= now; i++) {
            sent += !moments[i].got;
            got += moments[i].got;
        }
        if (sent == got) {
            *ret_ns = now;
            return 1;
        }
        if (got > sent || i == count) /* the numbers cannot be right, or nothing more is known */
            return 0;
    }
}

/* When receives were posted that other calls complete, while a trace is read; and what a blocking probe waited for: the
 * message that the receive got which was posted next on that channel. */

/* ---- posts ---- */

struct mpi_posted {
    uint64_t order;
    int64_t begin; /* of the call that posted it */
    uint32_t place;
    UT_hash_handle hh;
};

bool mpi_posted_add(struct mpi_posted **list, uint64_t order, int64_t begin, uint32_t place)
{
    struct mpi_posted *posted;
    HASH_FIND(hh, *list, &order, sizeof order, posted);
    if (!posted) {
        posted = calloc(1, sizeof *posted);
        if (!posted)
            return false;
        posted->order = order;
        HASH_ADD(hh, *list, order, sizeof posted->order, posted);
    }
    posted->begin = begin;
    posted->place = place;
    return true;
}

bool mpi_posted_take(struct mpi_posted **list, uint64_t order, struct mpi_post *post)
{
    struct mpi_posted *posted;
    HASH_FIND(hh, *list, &order, sizeof order, posted);
    if (!posted)
        return false;
    post->begin = posted->begin;
    post->place = posted->place;
    HASH_DEL(*list, posted);
    free(posted);
    return true;
}

void mpi_posted_free(struct mpi_posted **list)
{
    HASH_FREE_ALL(*list);
}

/* ---- probes ---- */

static int compare_channels(const struct mpi_end *probe, const struct mpi_end *got)
{
    if (probe->comm != got->comm)
        return probe->comm < got->comm ? -1 : 1;
    if (probe->peer != got->peer)
        return probe->peer < got->peer ? -1 : 1;
    if (probe->tag != got->tag)
        return probe->tag < got->tag ? -1 : 1;
    int64_t order = (int64_t)probe->order, other = (int64_t)got->order; /* as the receives are sorted */
    return order < other ? -1 : order > other;
}

static bool is_of_channel(const struct mpi_end *probe, const struct mpi_end *got)
{
    return probe->comm == got->comm && probe->peer == got->peer && probe->tag == got->tag;
}

void mpi_messages_probes(struct mpi_message_rank *rank, const uint32_t *sorted)
{
    for (size_t i = 0; i < rank->probe_count; i++) {
        struct mpi_end *probe = &rank->probes[i];
        size_t low = COUNT_BEFORE(rank->got_count, k, compare_channels(probe, &rank->got[sorted[k]]) > 0);
        const struct mpi_end *got = low < rank->got_count ? &rank->got[sorted[low]] : NULL;
        bool found = got && is_of_channel(probe, got) && got->order != MPI_ORDER_UNKNOWN;
        if (found && rank->lost) /* between them a receive may be missing */
            found = got->order == probe->order;
        probe->other = found ? sorted[low] : MPI_OTHER_NONE;
    }
}

/*
 * Who waited for whom in collective operations. A rank waits for the last to come, the root, or as the root for the
 * last of the others, if its call began before and was not over by then. An operation that all have to wait in is
 * judged only if the times agree: if nobody has left before the last came. So those are found out that need not make
 * anybody wait (nothing to be exchanged, a library that frees a communicator without a word). Where each has work of
 * its own in the call, as with files, it must also have been over for all at about the same time.
 */

enum {
    CLOCKS_NS = 50000, /* clocks of different hosts are this far apart at most where somebody seems to leave early */
    EXITS_SHARE = 4,   /* all leave within this part of the time within which they came */
};

/* ---- an operation ---- */

struct operation {
    struct waits *waits;
    const struct mpi_operation *of;
    int64_t slack;
    int64_t first_begin, first_leave, last_leave; /* as far as known */
};

static struct mpi_verdict *verdict_of(const struct operation *operation, size_t i)
{
    uint32_t rank = operation->of->ranks[i];
    return &operation->waits->verdicts[rank][operation->of->parts[i] - operation->waits->messages->ranks[rank].parts];
}

/* When a rank was out of it; false: that is not known. */
static bool leave_of(const struct operation *operation, size_t i, int64_t *ret_ns)
{
    const struct mpi_messages *messages = operation->waits->messages;
    const struct mpi_part *part = operation->of->parts[i];
    const struct mpi_done *done = verdict_of(operation, i)->done;
    *ret_ns = done ? done->end : part->end;
    return done || call_infos[messages->place_list[part->place]->key.call].blocking;
}

static void find_times(struct operation *operation)
{
    operation->first_begin = operation->first_leave = INT64_MAX;
    operation->last_leave = INT64_MIN;
    for (size_t i = 0; i < operation->of->count; i++) {
        int64_t begin = operation->of->parts[i]->begin, leave;
        operation->first_begin = begin < operation->first_begin ? begin : operation->first_begin;
        if (!leave_of(operation, i, &leave))
            continue;
        operation->first_leave = leave < operation->first_leave ? leave : operation->first_leave;
        operation->last_leave = leave > operation->last_leave ? leave : operation->last_leave;
    }
}

static size_t last_to_come(const struct mpi_operation *operation, size_t but)
{
    size_t last = but == 0;
    for (size_t i = 0; i < operation->count; i++)
        if (i != but && operation->parts[i]->begin > operation->parts[last]->begin)
            last = i;
    return last;
}

static void operation_judge(const struct operation *operation, enum mpi_wait_kind kind, size_t who, size_t cause)
{
    const struct mpi_part *late = operation->of->parts[cause];
    struct mpi_verdict *verdict = verdict_of(operation, who);
    int64_t leave;
    if (leave_of(operation, who, &leave) && leave + operation->slack < late->begin)
        return; /* it did not, so what is known of the operation is wrong */
    *verdict = (struct mpi_verdict){.done = verdict->done,
                                    .until = who == cause ? INT64_MIN : late->begin,
                                    .rank = operation->of->ranks[cause],
                                    .place = late->place,
                                    .kind = (uint8_t)kind,
                                    .judged = true};
}

static void judge_all(const struct operation *operation, enum call_gathering gathering)
{
    size_t last = last_to_come(operation->of, operation->of->count);
    int64_t last_begin = operation->of->parts[last]->begin;
    bool known = operation->first_leave != INT64_MAX; /* when anybody left */
    if (known && operation->first_leave + operation->slack < last_begin)
        return;
    if (gathering == CALL_GATHERING_BY_EXITS && (!known || operation->last_leave - operation->first_leave >
                                                               (last_begin - operation->first_begin) / EXITS_SHARE))
        return;
    for (size_t i = 0; i < operation->of->count; i++)
        operation_judge(operation, MPI_WAIT_COLLECTIVE, i, last);
}

static size_t root_of(const struct mpi_messages *messages, const struct mpi_operation *operation)
{
    const struct mpi_part *first = operation->parts[0];
    ptrdiff_t at = mpi_messages_at(messages, messages->ranks[operation->ranks[0]].world, first->comm, first->root);
    size_t root = operation->count;
    for (size_t i = 0; i < operation->count; i++)
        if ((ptrdiff_t)operation->ranks[i] == at)
            root = i;
    return root;
}

static int judge_operation(void *ctx, const struct mpi_operation *of)
{
    struct waits *waits = ctx;
    struct operation operation = {.waits = waits, .of = of};
    enum call_gathering gathering = call_info(of->parts[0]->call)->gathering;
    operation.slack = waits->messages->timeline.host_count > 1 ? CLOCKS_NS : 0;
    waits->messages->collectives++;
    for (size_t i = 1; i < of->count; i++)
        if (call_info(of->parts[i]->call)->gathering != gathering)
            return 0; /* not one operation, whatever the numbers say */
    if (of->count < 2 || gathering == CALL_GATHERING_OTHERWISE)
        return 0;
    find_times(&operation);
    size_t root = gathering == CALL_GATHERING_ONE_TO_ALL || gathering == CALL_GATHERING_ALL_TO_ONE
                      ? root_of(waits->messages, of)
                      : 0;
    if (root == of->count)
        return 0;
    if (gathering == CALL_GATHERING_ALL_TO_ONE)
        operation_judge(&operation, MPI_WAIT_MEMBERS, root, last_to_come(of, root));
    else if (gathering != CALL_GATHERING_ONE_TO_ALL)
        judge_all(&operation, gathering);
    else
        for (size_t i = 0; i < of->count; i++)
            if (i != root)
                operation_judge(&operation, MPI_WAIT_ROOT, i, root);
    return 0;
}

/* ---- all ---- */

static int mpi_waits_judge_operations(struct waits *waits)
{
    struct mpi_messages *messages = waits->messages;
    waits->verdicts = calloc(messages->rank_count + 1, sizeof *waits->verdicts);
    if (!waits->verdicts)
        return -ENOMEM;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        waits->verdicts[i] = calloc(rank->part_count + 1, sizeof *waits->verdicts[i]);
        if (!waits->verdicts[i])
            return -ENOMEM;
        for (size_t k = 0; k < rank->done_count; k++)
            if (rank->dones[k].part)
                waits->verdicts[i][rank->dones[k].index].done = &rank->dones[k];
        for (size_t k = 0; k < rank->part_count; k++)
            if (messages->comm_list[rank->parts[k].comm]->key.identity == MPI_IDENTITY_SELF) /* nobody to wait for */
                waits->verdicts[i][k] =
                    (struct mpi_verdict){.done = waits->verdicts[i][k].done, .until = INT64_MIN, .judged = true};
    }
    return mpi_messages_each_operation(messages, judge_operation, waits);
}

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
 *   a collective         see judge_operation
 *
 * What cannot be judged is counted with its time, so that nobody takes what is not there for nothing.
 */

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
static const struct item *decisive_item(const struct item *list, size_t count, bool first)
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
    const struct item *item = decisive_item(list, count, call_is(call, CALL_IS_SOME));
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
    size_t low = COUNT_BEFORE(rank->post_count, i, rank->posts[i].got < got);
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
