/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording that begins while the program runs: which messages were under way then nobody knows. But each rank says how
 * many it had sent to each other rank, and received from it, since MPI_Init (MESSAGE_BEGIN), so both numbers are known
 * for each later moment, too. A message is counted as sent before it can be received; hence, where both numbers are the
 * same at one moment of one clock, nothing is under way, on no channel between the two. Each send after it is the one
 * of the receives after it that has the same place among those of its channel.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/messages_internal.h"

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

static size_t gather(const struct mpi_pair *pair, struct moment *moments)
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
    size_t count = gather(pair, moments), i = 0;
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
