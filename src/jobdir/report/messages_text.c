/* SPDX-License-Identifier: Apache-2.0 */
/* Messages out of the trace, as `scry report` shows them. */
#include <inttypes.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/trace/calls.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { SHOWN_UNJUDGED = 6 };

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void put_note(void *ctx, const char *line)
{
    struct buf *out = ctx;
    buf_printf(out, "  %s\n", line);
}

/* ---- what is not judged ---- */

/* Of the calls that block, or of those that only look: the most time first. */
static size_t sort_unjudged(const struct mpi_messages *messages, enum mpi_waiting waiting, uint32_t *calls,
                            double *ret_ns)
{
    size_t count = 0;
    *ret_ns = 0;
    for (uint32_t call = 0; call < CALL_COUNT; call++) {
        if (!messages->unjudged[call].count || mpi_waiting_of(call) != waiting)
            continue;
        size_t place = count++;
        for (; place && messages->unjudged[calls[place - 1]].ns < messages->unjudged[call].ns; place--)
            calls[place] = calls[place - 1];
        calls[place] = call;
        *ret_ns += (double)messages->unjudged[call].ns;
    }
    return count;
}

static void put_unjudged_calls(struct buf *out, const struct mpi_messages *messages, const uint32_t *calls,
                               size_t count)
{
    for (size_t i = 0; i < count && i < SHOWN_UNJUDGED; i++) {
        buf_printf(out, "%s%s ", i ? ", " : "", mpi_text_call(calls[i]));
        text_ns(out, (double)messages->unjudged[calls[i]].ns);
        buf_printf(out, " (%" PRIu64 ")", messages->unjudged[calls[i]].count);
    }
    if (count > SHOWN_UNJUDGED)
        buf_printf(out, ", %zu more", count - SHOWN_UNJUDGED);
    buf_putc(out, '\n');
}

/* What the table does not show, so that nobody takes it for nothing. */
static void put_unjudged(struct buf *out, const struct mpi_messages *messages)
{
    uint32_t calls[CALL_COUNT];
    double ns, all = (double)messages->judged_ns;
    size_t count = sort_unjudged(messages, MPI_WAITS, calls, &ns);
    if (!messages->judged_ns && !count)
        return;
    if (!messages->waits)
        buf_puts(out, "\nNo rank waited for another one, in the calls that can be judged\n");
    if (count) {
        buf_puts(out, "  not judged: ");
        text_ns(out, ns);
        buf_puts(out, " of ");
        text_ns(out, all + ns);
        buf_puts(out, " in blocking calls: ");
        put_unjudged_calls(out, messages, calls, count);
    }
    count = sort_unjudged(messages, MPI_WAITS_LOOKS, calls, &ns);
    if (count) {
        buf_puts(out, "  not judged: ");
        text_ns(out, ns);
        buf_puts(out, " in calls that looked in vain: ");
        put_unjudged_calls(out, messages, calls, count);
    }
}

void mpi_messages_text(struct buf *out, const struct mpi_messages *messages)
{
    if (!messages || !messages->rank_count)
        return;
    _cleanup_(buf_done) struct buf size = BUF_INIT;
    text_size(&size, messages->matched_bytes);
    size_t hosts = messages->timeline.host_count;
    buf_printf(out,
               "\nMessages in the trace: %" PRIu64 " of %s from send to receive, %" PRIu64
               " collective operation%s, %zu rank%s",
               messages->matched, size.data ? size.data : "", messages->collectives, plural(messages->collectives),
               messages->rank_count, plural(messages->rank_count));
    if (hosts > 1)
        buf_printf(out, " on %zu hosts", hosts);
    buf_putc(out, '\n');
    if (messages->matched) {
        buf_puts(out, "  latency: at least ");
        text_ns(out, (double)messages->latency_min_ns);
        buf_puts(out, ", on average ");
        text_ns(out, (double)messages->latency_total_ns / (double)messages->matched);
        buf_puts(out, "; `scry export --format spacetime -o FILE.svg` shows them\n");
    }
    mpi_messages_notes(messages, put_note, out);
    report_put_waits(out, messages);
    put_unjudged(out, messages);
    report_put_slowest(out, messages);
    report_put_left(out, messages);
    report_put_open(out, messages);
}

/* Of all ranks, or not looked at. */
void report_messages_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    mpi_messages_text(out, report->messages);
}
