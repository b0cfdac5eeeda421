/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line a message of MPI, in the order in which they were sent, as RFC 4180 has it (lines end with CR LF). Messages
 * with one end only have the columns of the other one empty, and a state that says why.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/export/export.h"
#include "jobdir/mpi/text.h"

struct line {
    int64_t time;
    uint32_t rank, index;
    bool got; /* a receive without a send */
};

static int by_time(const void *a, const void *b)
{
    const struct line *left = a, *right = b;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->got != right->got)
        return right->got ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static const char *state_of(uint64_t other, bool got)
{
    if (other == MPI_OTHER_AMBIGUOUS)
        return "ambiguous";
    if (other == MPI_OTHER_FOREIGN)
        return "other_program";
    if (other == MPI_OTHER_FAILED)
        return "failed";
    return other != MPI_OTHER_NONE ? "matched" : got ? "unsent" : "unreceived";
}

static void put_seconds(struct buf *out, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    buf_printf(out, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", size / 1000000000, size % 1000000000);
}

static void put_place(struct buf *out, const struct mpi_messages *messages, const struct mpi_end *end)
{
    if (!end) {
        buf_puts(out, ",,");
        return;
    }
    const struct mpi_place *place = messages->place_list[end->place];
    buf_printf(out, ",%s,", mpi_text_call(place->key.call));
    export_put_field(out, place->where, strlen(place->where));
}

static void put_line(struct exporter *exporter, const struct line *line)
{
    const struct mpi_messages *messages = exporter->messages;
    const struct mpi_message_rank *rank = &messages->ranks[line->rank], *other = NULL;
    const struct mpi_end *own = line->got ? &rank->got[line->index] : &rank->sent[line->index], *peer = NULL;
    struct buf *out = &exporter->text;
    ptrdiff_t at = mpi_messages_at(messages, rank->world, own->comm, own->peer);
    if (at >= 0)
        other = &messages->ranks[at];
    if (other && own->other < MPI_OTHER_FOREIGN)
        peer = &other->got[own->other];
    int32_t far = other ? other->rank : mpi_rank_shown(own->peer);
    const struct mpi_message_rank *from = line->got ? other : rank, *to = line->got ? rank : other;
    const struct mpi_end *sent = line->got ? NULL : own, *got = line->got ? own : peer;
    const char *comm = messages->comm_list[own->comm]->name;
    buf_printf(out, "%" PRIu32 ",%d,%d,", (from ? from : rank)->world + 1, line->got ? far : rank->rank,
               line->got ? rank->rank : far);
    export_put_field(out, comm, strlen(comm));
    buf_printf(out, ",%d,%" PRIu64 ",", own->tag, own->bytes);
    if (sent)
        put_seconds(out, sent->begin);
    buf_putc(out, ',');
    if (got)
        put_seconds(out, got->end);
    buf_putc(out, ',');
    if (sent && got)
        buf_printf(out, "%" PRId64, got->end - sent->begin);
    buf_printf(out, ",%s", state_of(own->other, line->got));
    put_place(out, messages, sent);
    put_place(out, messages, got);
    buf_putc(out, ',');
    if (to)
        buf_printf(out, "%" PRIu32, to->world + 1);
    buf_puts(out, "\r\n");
    export_flush(exporter, false);
}

static bool is_in_window(const struct exporter *exporter, int64_t time)
{
    return time >= exporter->from_ns && time <= exporter->to_ns;
}

static size_t gather(const struct exporter *exporter, struct line *lines)
{
    const struct mpi_messages *messages = exporter->messages;
    size_t count = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        const struct mpi_message_rank *rank = &messages->ranks[i];
        for (size_t k = 0; k < rank->sent_count; k++) {
            if (!is_in_window(exporter, rank->sent[k].begin))
                continue;
            if (lines)
                lines[count] = (struct line){rank->sent[k].begin, (uint32_t)i, (uint32_t)k, false};
            count++;
        }
        for (size_t k = 0; k < rank->got_count; k++) {
            if (rank->got[k].other < MPI_OTHER_FOREIGN || !is_in_window(exporter, rank->got[k].end))
                continue;
            if (lines)
                lines[count] = (struct line){rank->got[k].end, (uint32_t)i, (uint32_t)k, true};
            count++;
        }
    }
    return count;
}

static int write_messages(struct exporter *exporter)
{
    buf_puts(&exporter->text, "program,from,to,comm,tag,bytes,sent_s,received_s,latency_ns,state,send_call,send_at,"
                              "receive_call,receive_at,to_program\r\n");
    size_t count = gather(exporter, NULL);
    _cleanup_(freep) struct line *lines = malloc((count + 1) * sizeof *lines);
    if (!lines)
        return -ENOMEM;
    gather(exporter, lines);
    if (count)
        qsort(lines, count, sizeof *lines, by_time);
    for (size_t i = 0; i < count && !exporter->failed; i++)
        put_line(exporter, &lines[i]);
    return 0;
}

const struct export_format export_messages = {
    .name = "messages",
    .messages = EXPORT_MESSAGES_ONLY,
    .begin = write_messages,
};
