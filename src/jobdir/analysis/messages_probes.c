/* SPDX-License-Identifier: Apache-2.0 */
/* When receives were posted that other calls complete, while a trace is read; and what a blocking probe waited for: the
 * message that the receive got which was posted next on that channel. */
#include <stdlib.h>

#include "base/data/hash.h"
#include "jobdir/analysis/messages_internal.h"

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

static int compare(const struct mpi_end *probe, const struct mpi_end *got)
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
        size_t low = 0, high = rank->got_count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (compare(probe, &rank->got[sorted[middle]]) > 0)
                low = middle + 1;
            else
                high = middle;
        }
        const struct mpi_end *got = low < rank->got_count ? &rank->got[sorted[low]] : NULL;
        bool found = got && is_of_channel(probe, got) && got->order != MPI_ORDER_UNKNOWN;
        if (found && rank->lost) /* between them a receive may be missing */
            found = got->order == probe->order;
        probe->other = found ? sorted[low] : MPI_OTHER_NONE;
    }
}
