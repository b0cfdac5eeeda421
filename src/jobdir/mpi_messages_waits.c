/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited for whom: as F. Wolf and B. Mohr name the patterns ("Automatic performance analysis of hybrid MPI/OpenMP
 * applications", 2003). Only blocking calls wait; a call that completes several receives waits for the last of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi_messages_internal.h"

const char *mpi_wait_name(enum mpi_wait_kind kind)
{
    static const char *const names[] = {"late_sender", "late_receiver", "collective", "root", "members"};
    return names[kind];
}

static bool begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

enum mpi_gathering mpi_gathering_of(uint32_t call)
{
    static const struct {
        const char *name;
        enum mpi_gathering gathering;
    } rules[] = {{"Allgather", MPI_ALL_TO_ALL}, {"Allreduce", MPI_ALL_TO_ALL},      {"Alltoall", MPI_ALL_TO_ALL},
                 {"Barrier", MPI_ALL_TO_ALL},   {"Reduce_scatter", MPI_ALL_TO_ALL}, {"Reduce_local", MPI_ALL_OTHERWISE},
                 {"Bcast", MPI_ONE_TO_ALL},     {"Scatter", MPI_ONE_TO_ALL},        {"Gather", MPI_ALL_TO_ONE},
                 {"Reduce", MPI_ALL_TO_ONE}};
    if (call >= CALL_COUNT || call_infos[call].class != CALL_CLASS_COLLECTIVE)
        return MPI_ALL_OTHERWISE;
    const char *name = call_infos[call].name + strlen("MPI_");
    for (unsigned blocking = 0; blocking < 2; blocking++, name += name[0] == 'I')
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (begins(name, rules[i].name))
                return rules[i].gathering;
    return MPI_ALL_OTHERWISE;
}

static uint32_t call_at(const struct mpi_messages *messages, uint32_t place)
{
    return messages->place_list[place]->key.call;
}

static bool is_blocking(const struct mpi_messages *messages, uint32_t place)
{
    return call_infos[call_at(messages, place)].blocking;
}

static int add_wait(struct mpi_messages *messages, enum mpi_wait_kind kind, uint32_t place, uint32_t cause, size_t rank,
                    int64_t ns)
{
    struct mpi_wait *wait;
    const struct mpi_wait_key key = {(uint32_t)kind, place, cause};
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
    if (__builtin_add_overflow(wait->total_ns, ns, &wait->total_ns))
        wait->total_ns = INT64_MAX;
    wait->by_rank[rank] += (double)ns;
    if (ns > wait->max_ns)
        wait->max_ns = ns;
    return 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
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

/* A blocking send that was still in its call when the receive began. */
static int late_receiver(struct mpi_messages *messages, const struct mpi_end *sent, const struct mpi_end *got,
                         size_t rank)
{
    const struct call_info *call = &call_infos[call_at(messages, sent->place)];
    const struct call_info *receive = &call_infos[call_at(messages, got->place)];
    if (!call->blocking || strcmp(call->shape, "send") != 0 || begins(call->name, "MPI_Bsend") ||
        receive->class != CALL_CLASS_P2P || got->begin <= sent->begin || sent->end < got->begin)
        return 0;
    return add_wait(messages, MPI_WAIT_LATE_RECEIVER, sent->place, got->place, rank, got->begin - sent->begin);
}

struct latest { /* send of those that one call waited for */
    const struct mpi_end *sent, *got;
    size_t from;
};

static int late_sender(struct mpi_messages *messages, const struct latest *latest)
{
    const struct mpi_end *sent = latest->sent, *got = latest->got;
    if (!sent || !is_blocking(messages, got->place) || sent->begin <= got->begin)
        return 0;
    return add_wait(messages, MPI_WAIT_LATE_SENDER, got->place, sent->place, latest->from,
                    least(sent->begin, got->end) - got->begin);
}

static int rank_waits(struct mpi_messages *messages, size_t index)
{
    const struct mpi_message_rank *rank = &messages->ranks[index], *from;
    struct latest latest = {0};
    int code = 0;
    for (size_t k = 0; code == 0 && k < rank->got_count; k++) {
        const struct mpi_end *got = &rank->got[k], *sent = mpi_sent_of(messages, rank, got, &from);
        if (!sent)
            continue;
        if (latest.got && (latest.got->begin != got->begin || latest.got->place != got->place)) {
            code = late_sender(messages, &latest);
            latest = (struct latest){0};
        }
        size_t sender = (size_t)(from - messages->ranks);
        if (!latest.sent || sent->begin > latest.sent->begin)
            latest = (struct latest){sent, got, sender};
        note_latency(messages, sender, index, got->other, got->end - sent->begin);
        if (code == 0)
            code = late_receiver(messages, sent, got, index);
    }
    return code ? code : late_sender(messages, &latest);
}

/* ---- collective operations ---- */

static size_t last_to_come(const struct mpi_operation *operation, size_t but)
{
    size_t last = but == 0;
    for (size_t i = 0; i < operation->count; i++)
        if (i != but && operation->parts[i]->begin > operation->parts[last]->begin)
            last = i;
    return last;
}

static int wait_for(struct mpi_messages *messages, enum mpi_wait_kind kind, const struct mpi_operation *operation,
                    size_t who, size_t cause)
{
    const struct mpi_part *part = operation->parts[who], *late = operation->parts[cause];
    if (who == cause || !is_blocking(messages, part->place))
        return 0;
    return add_wait(messages, kind, part->place, late->place, operation->ranks[cause],
                    least(late->begin, part->end) - part->begin);
}

static int operation_waits(void *ctx, const struct mpi_operation *operation)
{
    struct mpi_messages *messages = ctx;
    enum mpi_gathering gathering = mpi_gathering_of(operation->parts[0]->call);
    size_t root = operation->count;
    int code = 0;
    messages->collectives++;
    for (size_t i = 0; i < operation->count; i++)
        if (messages->ranks[operation->ranks[i]].rank == operation->parts[0]->root)
            root = i;
    if (operation->count < 2 || gathering == MPI_ALL_OTHERWISE ||
        (gathering != MPI_ALL_TO_ALL && root == operation->count))
        return 0;
    if (gathering == MPI_ALL_TO_ONE)
        return wait_for(messages, MPI_WAIT_MEMBERS, operation, root, last_to_come(operation, root));
    size_t cause = gathering == MPI_ONE_TO_ALL ? root : last_to_come(operation, operation->count);
    for (size_t i = 0; code == 0 && i < operation->count; i++)
        code =
            wait_for(messages, gathering == MPI_ONE_TO_ALL ? MPI_WAIT_ROOT : MPI_WAIT_COLLECTIVE, operation, i, cause);
    return code;
}

static int by_total(const struct mpi_wait *a, const struct mpi_wait *b)
{
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof a->key);
}

int mpi_messages_waits(struct mpi_messages *messages)
{
    int code = 0;
    messages->latency_min_ns = -1;
    for (size_t i = 0; code == 0 && i < messages->rank_count; i++)
        code = rank_waits(messages, i);
    if (code == 0)
        code = mpi_messages_each_operation(messages, operation_waits, messages);
    HASH_SRT(hh, messages->waits, by_total);
    return code;
}

void mpi_messages_waits_free(struct mpi_messages *messages)
{
    struct mpi_wait *wait, *next;
    HASH_ITER(hh, messages->waits, wait, next)
    {
        HASH_DEL(messages->waits, wait);
        free(wait->by_rank);
        free(wait);
    }
}
