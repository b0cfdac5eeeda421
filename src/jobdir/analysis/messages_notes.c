/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of messages is to know, a line each: reports and pictures say it. */
#include <inttypes.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

void mpi_messages_place(struct buf *out, const struct mpi_place *place)
{
    buf_puts(out, mpi_text_call(place->key.call));
    if (place->where[0])
        buf_printf(out, ", %s", place->where);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- what is missing, what was corrected ---- */

struct telling {
    const struct mpi_messages *messages;
    void (*fn)(void *ctx, const char *line);
    void *ctx;
};

static void tell(const struct telling *telling, struct buf *line)
{
    if (line->data && !line->failed)
        telling->fn(telling->ctx, line->data);
    buf_clear(line);
}

static void tell_missing(const struct telling *telling, struct buf *line)
{
    const struct mpi_messages *messages = telling->messages;
    uint64_t late = 0, broken = 0, lossy = 0, lost = 0, thinned = 0, stopped = 0, freed = 0;
    for (size_t i = 0; i < messages->rank_count; i++) {
        late += !messages->ranks[i].from_start;
        broken += messages->ranks[i].from_start && messages->ranks[i].gap_end != INT64_MIN;
        lossy += messages->ranks[i].lost > messages->ranks[i].freed;
        lost += messages->ranks[i].lost - messages->ranks[i].freed;
        freed += messages->ranks[i].freed;
        thinned += messages->ranks[i].thinned;
        stopped += messages->ranks[i].stopped;
    }
    if (late || broken) {
        if (late)
            buf_printf(line, "the trace of %" PRIu64 " rank%s begins after MPI_Init", late, plural(late));
        if (broken)
            buf_printf(line, "%s%" PRIu64 " rank%s not traced for some time", late ? ", " : "", broken,
                       broken == 1 ? " was" : "s were");
        buf_puts(line,
                 ": messages of two ranks are matched from the moment on when, by what both have counted, none was "
                 "under way between them; `scry run --mpi trace` records all from the start");
        tell(telling, line);
    }
    if (lossy) {
        buf_printf(line,
                   "records of %" PRIu64 " rank%s are missing (%" PRIu64 "): their channels are matched up to there",
                   lossy, plural(lossy), lost);
        tell(telling, line);
    }
    if (freed) {
        buf_printf(line,
                   "%" PRIu64
                   " receive%s given up by MPI_Request_free: what was received is not seen, and what that rank "
                   "received from there on is ambiguous",
                   freed, freed == 1 ? " was" : "s were");
        tell(telling, line);
    }
    if (stopped) {
        buf_printf(line,
                   "recording of %" PRIu64
                   " rank%s was switched off before the last calls of MPI: what has no other end up "
                   "to there is ambiguous",
                   stopped, plural(stopped));
        tell(telling, line);
    }
    if (thinned) {
        buf_printf(line,
                   "calls of %" PRIu64
                   " rank%s were left out (--min-time, --rate, --max-depth), but none of their messages: "
                   "waiting is judged of recorded calls only",
                   thinned, plural(thinned));
        tell(telling, line);
    }
    if (messages->sent_unsure || messages->got_unsure) {
        buf_printf(line,
                   "%" PRIu64 " sends and %" PRIu64
                   " receives are ambiguous: which send is which receive's cannot be told for sure",
                   messages->sent_unsure, messages->got_unsure);
        tell(telling, line);
    }
    if (messages->unreceived || messages->unsent) {
        buf_printf(line,
                   "%" PRIu64 " message%s sent but not received, %" PRIu64 " received but not sent, by the traces",
                   messages->unreceived, messages->unreceived == 1 ? " was" : "s were", messages->unsent);
        tell(telling, line);
    }
    if (messages->foreign) {
        buf_printf(line, "%" PRIu64 " sends and receives are of ranks without a trace here, or of another program",
                   messages->foreign);
        tell(telling, line);
    }
    if (messages->unkept) {
        buf_printf(line, "%" PRIu64 " records beyond the first %d million were not looked at", messages->unkept,
                   MPI_ENDS_LIMIT >> 20);
        tell(telling, line);
    }
    if (messages->unranked) {
        buf_printf(line, "%" PRIu64 " process%s of an unknown rank %s left out", messages->unranked,
                   messages->unranked == 1 ? "" : "es", messages->unranked == 1 ? "is" : "are");
        tell(telling, line);
    }
}

static void put_offset(struct buf *out, double ns)
{
    buf_putc(out, ns < 0 ? '-' : '+');
    text_ns(out, ns < 0 ? -ns : ns);
}

static void put_bound(struct buf *out, const struct timeline_host *host)
{
    if (host->bound_ns < 0)
        return;
    buf_puts(out, "; at most ");
    text_ns(out, host->bound_ns);
    buf_puts(out, " wrong");
}

static void tell_clocks(const struct telling *telling, struct buf *line)
{
    const struct timeline *timeline = &telling->messages->timeline;
    for (size_t i = 0; timeline->host_count > 1 && i < timeline->host_count; i++) {
        const struct timeline_host *host = &timeline->hosts[i];
        buf_puts(line, "clock of ");
        text_show(line, host->name);
        switch (host->how) {
        case TIMELINE_REFERENCE:
            buf_puts(line, ": the others are moved to it");
            break;
        case TIMELINE_BOTH_WAYS:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, " at the start and ");
            put_offset(line, host->offset_end_ns);
            buf_puts(line, " at the end, by the least delays of messages in both directions");
            put_bound(line, host);
            break;
        case TIMELINE_ONCE:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", by the least delays of messages in both directions (too few to see it drift)");
            put_bound(line, host);
            break;
        case TIMELINE_ONE_WAY:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", as far as its messages in one direction need it");
            break;
        case TIMELINE_KNOWN:
            buf_puts(line, ": moved by ");
            put_offset(line, host->offset_start_ns);
            buf_puts(line, ", as the monitors found while the job ran");
            put_bound(line, host);
            break;
        case TIMELINE_AS_IT_IS:
            buf_puts(line, ": as it is, for no messages connect it with the others");
            break;
        }
        tell(telling, line);
    }
    if (timeline->early && timeline->host_count > 1) {
        buf_printf(line, "by the hosts' own clocks %" PRIu64 " message%s arrived before they were sent",
                   timeline->early, plural(timeline->early));
        tell(telling, line);
    }
    if (timeline->corrected) {
        buf_printf(line, "%" PRIu64 " message%s that still did %s moved behind their sends, by up to ",
                   timeline->corrected, plural(timeline->corrected), timeline->corrected == 1 ? "was" : "were");
        text_ns(line, (double)timeline->largest_ns);
        tell(telling, line);
    }
}

void mpi_messages_notes(const struct mpi_messages *messages, void (*fn)(void *ctx, const char *line), void *ctx)
{
    const struct telling telling = {messages, fn, ctx};
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    tell_clocks(&telling, &line);
    tell_missing(&telling, &line);
}
