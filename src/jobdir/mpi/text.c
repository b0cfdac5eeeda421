/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/text.h"

#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

const char *mpi_text_call(uint32_t call)
{
    return call > CALL_NONE && call < CALL_COUNT ? call_infos[call].name : "?";
}

void mpi_text_rank(struct buf *out, int32_t rank)
{
    if (rank >= 0)
        buf_printf(out, "rank %d", rank);
    else
        buf_puts(out, rank == MPIA_RANK_ANY                       ? "any rank"
                      : rank == MPIA_RANK_NULL                    ? "nobody (MPI_PROC_NULL)"
                      : rank == MPIA_RANK_ROOT                    ? "the other group (MPI_ROOT)"
                      : mpi_rank_shown(rank) == MPIA_RANK_FOREIGN ? "a process of another MPI_COMM_WORLD"
                                                                  : "nobody in particular");
}

void mpi_text_who(struct buf *out, struct mpi_who who)
{
    mpi_text_rank(out, who.rank);
    if (who.program)
        buf_printf(out, " of program %u", who.program);
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
    buf_puts(out, mpi_text_call(comm->call));
    if (!(comm->ordinal & UINT32_C(0x80000000))) /* else its number is not one by which people count */
        buf_printf(out, " %u", comm->ordinal);
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

void mpi_text_site(struct buf *out, const struct mpi_stats_site *site)
{
    bool file = site->file && *site->file;
    if (site->function && *site->function)
        text_show(out, site->function);
    else if (site->module && *site->module) {
        text_show(out, text_base(site->module));
        buf_printf(out, "+0x%llx", (unsigned long long)site->offset);
    }
    if (!file)
        return;
    buf_puts(out, " (");
    text_show(out, text_base(site->file));
    if (site->line)
        buf_printf(out, ":%u", site->line);
    buf_putc(out, ')');
}

/* ---- what a thread is in ---- */

enum { SHOWN_REQUESTS = 4 };

/* The details of a call come one behind the other; nothing stands before the first one. */
struct details {
    struct buf *out;
    size_t start;
};

static void details_begin(const struct details *details, const char *separator)
{
    if (details->out->len > details->start)
        buf_puts(details->out, separator);
}

static void put_on(const struct details *details, const struct mpi_stats *stats, uint32_t comm)
{
    if (comm >= stats->comm_count)
        return;
    details_begin(details, " ");
    buf_puts(details->out, "on ");
    mpi_text_comm(details->out, stats, comm);
}

static void put_peer(const struct details *details, const char *from, int32_t peer, int32_t tag)
{
    details_begin(details, " ");
    buf_printf(details->out, "%s ", from);
    mpi_text_rank(details->out, peer);
    if (tag >= 0)
        buf_printf(details->out, ", tag %d", tag);
    else if (tag == MPIA_TAG_ANY)
        buf_puts(details->out, ", any tag");
}

static const struct mpi_stats_request *request_of(const struct mpi_stats *stats, uint64_t handle)
{
    for (size_t i = 0; i < stats->request_count; i++)
        if (stats->requests[i].handle == handle)
            return &stats->requests[i];
    return NULL;
}

static void put_requests(const struct details *details, const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    uint32_t known = now->waiting < 8 ? now->waiting : 8, shown = 0;
    buf_printf(details->out, "for %u request%s", now->waiting, now->waiting == 1 ? "" : "s");
    for (uint32_t i = 0; i < known && shown < SHOWN_REQUESTS; i++) {
        const struct mpi_stats_request *request = request_of(stats, now->waits[i]);
        if (!request)
            continue;
        buf_printf(details->out, "%s%s", shown++ ? "; " : ": ", mpi_text_call(request->call));
        if (request->flags & (MPIA_REQUEST_SEND | MPIA_REQUEST_RECEIVE))
            put_peer(details, request->flags & MPIA_REQUEST_SEND ? "to" : "from", request->peer, request->tag);
        put_on(details, stats, request->comm);
    }
    if (shown && shown < now->waiting)
        buf_puts(details->out, "; ...");
}

static void put_file(const struct details *details, const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    if (now->comm >= stats->comm_count)
        return;
    const char *name = stats->comms[now->comm].name;
    if (now->flags & MPIA_NOW_OFFSET) {
        details_begin(details, " ");
        buf_printf(details->out, "at offset %llu", (unsigned long long)now->offset);
    }
    details_begin(details, " of ");
    text_show(details->out, name && *name ? name : "a file");
    if (now->ordinal)
        buf_printf(details->out, " (collective %u)", now->ordinal);
}

static void put_collective(const struct details *details, const struct mpi_stats *stats,
                           const struct mpi_stats_now *now)
{
    if (now->peer >= 0) {
        details_begin(details, ", ");
        buf_printf(details->out, "root %d", now->peer);
    }
    put_on(details, stats, now->comm);
    details_begin(details, " ");
    buf_printf(details->out, "(collective %u)", now->ordinal);
}

static void put_message(const struct details *details, const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    const struct call_info *info = call_info(now->call);
    bool receives = call_info(info->polls ? info->polls : now->call)->waits == CALL_WAITS_RECEIVE;
    if (now->peer != MPIA_RANK_NONE)
        put_peer(details, receives ? "from" : "to", now->peer, now->tag);
    if (now->source_peer != MPIA_RANK_NONE)
        put_peer(details, now->peer != MPIA_RANK_NONE ? "and from" : "from", now->source_peer, now->source_tag);
    put_on(details, stats, now->comm);
}

void mpi_text_details(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    struct details details = {.out = out, .start = out->len};
    if (now->flags & MPIA_NOW_REQUESTS && !(now->flags & MPIA_NOW_FILE)) {
        put_requests(&details, stats, now);
        return;
    }
    if (now->bytes)
        text_size(out, now->bytes);
    if (now->flags & MPIA_NOW_FILE)
        put_file(&details, stats, now);
    else if (now->ordinal)
        put_collective(&details, stats, now);
    else
        put_message(&details, stats, now);
}

void mpi_text_now(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_now *now)
{
    _cleanup_(buf_done) struct buf details = BUF_INIT;
    bool requests = now->flags & MPIA_NOW_REQUESTS, file = now->flags & MPIA_NOW_FILE;
    mpi_text_details(&details, stats, now);
    buf_puts(out, call_info(now->call)->name);
    if (!details.len)
        return;
    if (now->bytes && (file || !requests))
        buf_puts(out, " of ");
    else if (now->ordinal && now->peer >= 0 && !file && !requests)
        buf_puts(out, ", ");
    else
        buf_putc(out, ' ');
    buf_append(out, details.data, details.len);
}
