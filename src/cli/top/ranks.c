/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/ranks.h"

#include <stdio.h>
#include <string.h>

#include <omis.h>

#include "base/system/clock.h"
#include "client/client.h"
#include "jobdir/text/text.h"
#include "lang/put.h"

enum { READ_NS = 1000000000, READ_AGAIN = 10 };

/* Other nodes write seldom, so it is read seldom. */
static void add_elsewhere(struct top_ranks *ranks)
{
    uint64_t now = clock_now_ns();
    if (ranks->read_ns && now - ranks->read_ns < READ_AGAIN * (uint64_t)READ_NS)
        return;
    ranks->read_ns = now;
    ranks_add_elsewhere(&ranks->known, ranks->path);
}

static void on_reply(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    ranks->asking = false;
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

void top_ranks_ask(struct top_ranks *ranks, bool connected)
{
    struct buf text = BUF_INIT;
    if (!connected) {
        ranks->asking = false;
        add_elsewhere(ranks);
        return;
    }
    if (ranks->asking)
        return;
    PUT_CALL(&text, "mpi_get_activity", ranks->path);
    ranks->asking = !text.failed;
    if (ranks->asking)
        client_request(span_of(text.data, text.len), on_reply, ranks, 0);
    buf_done(&text);
}

void top_ranks_close(struct top_ranks *ranks)
{
    ranks_done(&ranks->known);
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
