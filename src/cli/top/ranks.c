/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/ranks.h"

#include <stdio.h>
#include <string.h>

#include <omis.h>

#include "base/system/clock.h"
#include "client/client.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "shm/waits.h"

enum { READ_AGAIN = 10 };
enum { ASKING_HERE = 1, ASKING_OTHERS = 2, ASKING_NODES = 4 };

/* Other nodes write seldom, so it is read seldom. */
static void add_elsewhere(struct top_ranks *ranks)
{
    uint64_t now = clock_now_ns();
    if (ranks->read_ns && now - ranks->read_ns < READ_AGAIN * (uint64_t)TOP_RANKS_NS)
        return;
    ranks->read_ns = now;
    ranks_add_elsewhere(&ranks->known, ranks->path);
}

static void on_reply(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    ranks->asking &= ~ASKING_HERE;
    *ranks->refused = 0;
    struct omis_reader *reader = omis_reader_take(reply);
    while (omis_reader_next(reader))
        if (omis_count(omis_reader_values(reader)))
            ranks_take(&ranks->known, omis_item(omis_reader_values(reader), 0));
        else if (omis_reader_status(reader) >= OMIS_FIRST_ERROR)
            snprintf(ranks->refused, sizeof ranks->refused, "%s", omis_reader_text(reader));
    omis_reader_free(reader);
    add_elsewhere(ranks);
}

static void on_others(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    struct omis_reader *reader = omis_reader_take(reply);
    ranks->asking &= ~ASKING_OTHERS;
    buf_clear(&ranks->silent);
    ranks_take_elsewhere(&ranks->known, ranks->path, reader, &ranks->nodes, &ranks->silent);
    omis_reader_free(reader);
}

static void ask_others(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    if (ranks_put_elsewhere(&text, ranks->path, &ranks->nodes)) {
        ranks->asking |= ASKING_OTHERS;
        client_request(span_of(text.data, text.len), on_others, ranks, 0);
    }
    buf_done(&text);
}

static void on_attached(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    struct err err;
    ranks->asking &= ~ASKING_NODES;
    job_nodes_done(&ranks->nodes);
    buf_clear(&ranks->missing);
    if (job_nodes_answer(&ranks->nodes, reply, &err) < 0)
        buf_puts(&ranks->missing, err.text);
    job_nodes_put_problems(&ranks->missing, &ranks->nodes);
    ask_others(ranks);
}

/* It may take a login: meanwhile what is known is shown. */
static void attach(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    struct err err;
    if (job_nodes_request(&text, ranks->path, &err) == 0) {
        ranks->asking |= ASKING_NODES;
        client_request(span_of(text.data, text.len), on_attached, ranks, 0);
    }
    buf_done(&text);
}

static void ask_here(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, ":mpi_get_activity(");
    PUT(&text, ranks->path);
    if (job_nodes_has_others(&ranks->nodes)) /* else all are meant */
        buf_printf(&text, ",[%s]", ranks->nodes.list[0].token);
    buf_putc(&text, ')');
    if (!text.failed) {
        ranks->asking |= ASKING_HERE;
        client_request(span_of(text.data, text.len), on_reply, ranks, 0);
    }
    buf_done(&text);
}

void top_ranks_ask(struct top_ranks *ranks, bool connected, size_t parts)
{
    if (!connected) {
        ranks->asking = 0;
        ranks->parts = 0; /* another monitor has not attached them */
        job_nodes_done(&ranks->nodes);
        add_elsewhere(ranks);
        return;
    }
    if (ranks->asking & ASKING_NODES) /* a request now would mean those, too */
        return;
    if (!(ranks->asking & ASKING_HERE))
        ask_here(ranks);
    if (ranks->asking & ASKING_OTHERS)
        return;
    if (parts != ranks->parts) {
        ranks->parts = parts;
        attach(ranks);
    } else if (parts) {
        ask_others(ranks);
    }
}

void top_ranks_close(struct top_ranks *ranks)
{
    ranks_done(&ranks->known);
    job_nodes_done(&ranks->nodes);
    buf_done(&ranks->missing);
    buf_done(&ranks->silent);
}

/* ---- the table ---- */

struct ranks_view top_ranks_view(const struct top_ranks *ranks, bool narrow)
{
    enum { MOST = 24 };
    return (struct ranks_view){.narrow = narrow,
                               .host_width = ranks_host_width(ranks->known.list, ranks->known.count, MOST)};
}

void top_ranks_summary(struct buf *line, const struct top_ranks *ranks)
{
    for (size_t at = 0, same; at < ranks->known.count; at += same) {
        same = ranks_same(&ranks->known.list[at], ranks->known.count - at);
        buf_puts(line, at ? "; " : "  ");
        ranks_summary(line, &ranks->known.list[at], same, false);
    }
}
