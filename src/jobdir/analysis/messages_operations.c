/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waited for whom in collective operations. A rank waits for the last to come, the root, or as the root for the
 * last of the others, if its call began before and was not over by then. An operation that all have to wait in is
 * judged only if the times agree: if nobody has left before the last came. So those are found out that need not make
 * anybody wait (nothing to be exchanged, a library that frees a communicator without a word). Where each has work of
 * its own in the call, as with files, it must also have been over for all at about the same time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/messages_waits.h"

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

static void judge(const struct operation *operation, enum mpi_wait_kind kind, size_t who, size_t cause)
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
        judge(operation, MPI_WAIT_COLLECTIVE, i, last);
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
        judge(&operation, MPI_WAIT_MEMBERS, root, last_to_come(of, root));
    else if (gathering != CALL_GATHERING_ONE_TO_ALL)
        judge_all(&operation, gathering);
    else
        for (size_t i = 0; i < of->count; i++)
            if (i != root)
                judge(&operation, MPI_WAIT_ROOT, i, root);
    return 0;
}

/* ---- all ---- */

int mpi_waits_judge_operations(struct waits *waits)
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
