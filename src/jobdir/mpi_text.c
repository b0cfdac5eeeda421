/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi_text.h"

#include <stdlib.h>
#include <string.h>

#include "jobdir/text.h"

const char *mpi_text_call(uint32_t call)
{
    return call > CALL_NONE && call < CALL_COUNT ? call_infos[call].name : "?";
}

void mpi_text_rank(struct buf *out, int32_t rank)
{
    if (rank >= 0)
        buf_printf(out, "rank %d", rank);
    else
        buf_puts(out, rank == MPIA_RANK_ANY       ? "any rank"
                      : rank == MPIA_RANK_NULL    ? "nobody (MPI_PROC_NULL)"
                      : rank == MPIA_RANK_ROOT    ? "the other group (MPI_ROOT)"
                      : rank == MPIA_RANK_FOREIGN ? "a process of another MPI_COMM_WORLD"
                                                  : "nobody in particular");
}

static int by_rank(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return left < right ? -1 : left > right;
}

void mpi_text_ranks(struct buf *out, int32_t *ranks, size_t count)
{
    qsort(ranks, count, sizeof *ranks, by_rank);
    for (size_t i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] <= ranks[last] + 1;)
            last++;
        buf_printf(out, "%s%d", i ? "," : "", ranks[i]);
        if (ranks[last] != ranks[i])
            buf_printf(out, "%s%d", ranks[last] == ranks[i] + 1 ? "," : "-", ranks[last]);
    }
}

/* Communicators stand behind those that they were made of; a damaged list could be a ring. */
static void put_comm(struct buf *out, const struct mpi_stats *stats, uint32_t index, unsigned depth)
{
    const struct mpi_stats_comm *comm = &stats->comms[index];
    if (comm->name && *comm->name) {
        text_show(out, comm->name);
        return;
    }
    if (comm->parent == UINT32_MAX) {
        buf_puts(out, comm->number == 0 ? "MPI_COMM_WORLD" : comm->number == 1 ? "MPI_COMM_SELF" : "a communicator");
        return;
    }
    buf_printf(out, "%s %u", mpi_text_call(comm->call), comm->ordinal);
    for (uint32_t i = 0; i < stats->comm_count && depth < 8; i++)
        if (stats->comms[i].number == comm->parent && i != index) {
            buf_puts(out, " of ");
            put_comm(out, stats, i, depth + 1);
            return;
        }
}

void mpi_text_comm(struct buf *out, const struct mpi_stats *stats, uint32_t index)
{
    if (index < stats->comm_count)
        put_comm(out, stats, index, 0);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void mpi_text_site(struct buf *out, const struct mpi_stats_site *site)
{
    bool file = site->file && *site->file;
    if (site->function && *site->function)
        text_show(out, site->function);
    else if (site->module && *site->module) {
        text_show(out, base_name(site->module));
        buf_printf(out, "+0x%llx", (unsigned long long)site->offset);
    }
    if (!file)
        return;
    buf_puts(out, " (");
    text_show(out, base_name(site->file));
    if (site->line)
        buf_printf(out, ":%u", site->line);
    buf_putc(out, ')');
}
