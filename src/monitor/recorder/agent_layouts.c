/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of a process: numbered, in the trace before they are used, and known to a later monitor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "jobdir/trace/write.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agent.h"
#include "symbols/layout/layout.h"

enum { TURNS_LIMIT = 8 };

struct agent_layout_text {
    uint32_t id;
    enum {
        LAYOUT_KEPT,  /* of a call of MPI that has not come yet: it is not in the trace */
        LAYOUT_NOTED, /* in the trace for us, but not in its metadata, which would become large */
        LAYOUT_USED,
    } state;
    UT_hash_handle hh;
    char text[];
};

struct agent_layouts {
    uint32_t next; /* number */
    struct agent_layout_text *texts;
    uint32_t noted; /* so many are LAYOUT_NOTED */
    uint64_t *seen; /* bit set of those that records have; up to `next` when it was made: */
    uint32_t seen_end;
    unsigned turns; /* how often the metadata were written for some */
    bool is_new;    /* some are in use that are not on disk yet */
    bool lost;      /* records may have some that only a monitor before this one knew */
};

bool agent_layouts_new(struct agent *agent)
{
    agent->layouts = calloc(1, sizeof *agent->layouts);
    if (agent->layouts)
        agent->layouts->next = RECORD_NO_LAYOUT + 1;
    return agent->layouts != NULL;
}

uint32_t agent_layouts_last(const struct agent *agent)
{
    return agent->layouts->next - 1;
}

bool agent_layouts_unseen(const struct agent *agent)
{
    return agent->layouts->lost || agent->layouts->noted;
}

/* Layouts to come have greater numbers, those of a later monitor, too. */
static void number_after(struct agent *agent, uint32_t id)
{
    if (id >= TRACE_IDS || id < agent->layouts->next)
        return;
    agent->layouts->next = id + 1;
    agent->view.area->next_layout = agent->layouts->next;
}

static bool keep_layout(struct agent *agent, uint32_t id, const char *text, int state)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts->texts, &id, sizeof id, layout);
    if (layout || id >= TRACE_IDS)
        return false;
    size_t size = strlen(text) + 1;
    layout = malloc(sizeof *layout + size);
    if (!layout)
        return false;
    memcpy(layout->text, text, size);
    layout->id = id;
    layout->state = state;
    agent->layouts->noted += state == LAYOUT_NOTED && !layout_is_part(text);
    HASH_ADD(hh, agent->layouts->texts, id, sizeof layout->id, layout);
    number_after(agent, id);
    return true;
}

void agent_layout_add(struct agent *agent, uint32_t id, const char *text)
{
    if (keep_layout(agent, id, text, LAYOUT_NOTED) && agent->writer)
        trace_writer_layout_note(agent->writer, id, text);
}

uint32_t agent_layout_new(struct agent *agent, const char *text)
{
    uint32_t id = agent->layouts->next;
    return keep_layout(agent, id, text, LAYOUT_KEPT) ? id : RECORD_NO_LAYOUT;
}

void agent_layout_keep(struct agent *agent, uint32_t id, const char *text)
{
    keep_layout(agent, id, text, LAYOUT_KEPT);
}

static const char *text_of(void *ctx, uint32_t id)
{
    return agent_layout(ctx, id);
}

bool agent_layout_put(struct agent *agent, uint32_t id, struct buf *out)
{
    const char *text = agent_layout(agent, id);
    return text && layout_expand(text, id, text_of, agent, out) == 0;
}

/* True: the metadata are to be written before it is used. */
static bool tell_writer(struct agent *agent, const struct agent_layout_text *layout)
{
    _cleanup_(buf_done) struct buf whole = BUF_INIT;
    bool shown = layout->id <= CTF_LAST_LAYOUT;
    if (layout_is_part(layout->text))
        return false;
    int code = shown && !agent_layout_put(agent, layout->id, &whole)
                   ? -EBADMSG
                   : trace_writer_layout_use(agent->writer, layout->id, shown ? whole.data : layout->text);
    if (code < 0)
        log_warning("the layout of values '%.100s' is not understood", layout->text);
    return code > 0;
}

static void use_layout(struct agent *agent, struct agent_layout_text *layout)
{
    if (layout->state == LAYOUT_USED || !agent->writer)
        return;
    if (layout->state == LAYOUT_KEPT) {
        trace_writer_layout_note(agent->writer, layout->id, layout->text);
        agent->layouts->is_new = true;
    }
    agent->layouts->is_new |= tell_writer(agent, layout);
    agent->layouts->noted -= layout->state == LAYOUT_NOTED;
    layout->state = LAYOUT_USED;
}

void agent_layout_used(struct agent *agent, uint32_t id)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts->texts, &id, sizeof id, layout);
    if (layout)
        use_layout(agent, layout);
}

static void set_seen(struct agent *agent, uint32_t id)
{
    if (id >= agent->layouts->seen_end) {
        uint32_t words = agent->layouts->next / 64 + 1, had = agent->layouts->seen_end / 64;
        uint64_t *grown = realloc(agent->layouts->seen, words * sizeof *grown);
        if (!grown)
            return;
        memset(grown + had, 0, (words - had) * sizeof *grown);
        agent->layouts->seen = grown;
        agent->layouts->seen_end = words * 64;
    }
    agent->layouts->seen[id / 64] |= UINT64_C(1) << (id & 63);
}

bool agent_layout_seen(void *ctx, uint32_t id)
{
    struct agent *agent = ctx;
    struct agent_layout_text *layout;
    if (id < agent->layouts->seen_end && agent->layouts->seen[id / 64] >> (id & 63) & 1)
        return true;
    HASH_FIND(hh, agent->layouts->texts, &id, sizeof id, layout);
    if (!layout)
        return !agent->layouts->lost;
    use_layout(agent, layout);
    set_seen(agent, id); /* it is one of ours, so less than next_layout */
    return true;
}

void agent_layouts_walked(struct agent *agent)
{
    if (!agent->layouts->is_new || !agent->writer)
        return;
    /* the metadata are written as a whole: not for each of the functions that are called one after the other, but each
     * time with twice as many */
    unsigned more =
        ++agent->layouts->turns < TURNS_LIMIT ? 0 : HASH_COUNT(agent->layouts->texts) - agent->layouts->noted;
    for (struct agent_layout_text *layout = agent->layouts->texts; layout && more; layout = layout->hh.next)
        if (layout->state == LAYOUT_NOTED && layout->id <= CTF_LAST_LAYOUT) {
            use_layout(agent, layout);
            more--;
        }
    trace_writer_sync(agent->writer, true); /* readers, and a later monitor, know a layout before it is used */
    agent->layouts->is_new = false;
}

const char *agent_layout(struct agent *agent, uint32_t id)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts->texts, &id, sizeof id, layout);
    return layout ? layout->text : NULL;
}

/* Of an area that another monitor made: its sites, and records in its packets, go by the numbers of that one's trace.
 * What is not told there is not captured again. */
void agent_layouts_adopt(struct agent *agent, const struct trace *earlier)
{
    const struct area_view *view = &agent->view;
    uint64_t next = view->area->next_layout;
    for (uint32_t id = 0; earlier && id < trace_layout_count(earlier); id++) {
        const char *text = trace_layout_text(earlier, id);
        if (text && (layout_is_part(text) || trace_layout(earlier, id)))
            agent_layout_add(agent, id, text);
    }
    if (next && next <= TRACE_IDS)
        number_after(agent, (uint32_t)next - 1);
    for (uint32_t i = 0; i <= view->site_mask; i++) {
        struct area_site *site = &view->sites[i];
        uint32_t layout = atomic_load(&site->layout);
        if (!atomic_load(&site->values))
            continue;
        number_after(agent, layout);
        if (!agent_layout(agent, layout))
            agent_mpi_adopt(agent, atomic_load(&site->address), layout);
        if (!agent_layout(agent, layout))
            agent_site_values(site, 0, 0);
    }
    agent->layouts->lost = next != agent->layouts->next || HASH_COUNT(agent->layouts->texts) < next - 1;
}

void agent_layouts_write(struct agent *agent)
{
    for (struct agent_layout_text *layout = agent->layouts->texts; agent->writer && layout; layout = layout->hh.next)
        if (layout->state != LAYOUT_KEPT) {
            trace_writer_layout_note(agent->writer, layout->id, layout->text);
            if (layout->state == LAYOUT_USED)
                tell_writer(agent, layout);
        }
}

void agent_layouts_inherit(struct agent *agent, const struct agent *parent)
{
    for (const struct agent_layout_text *layout = parent->layouts->texts; layout; layout = layout->hh.next)
        if (layout->state == LAYOUT_KEPT)
            agent_layout_keep(agent, layout->id, layout->text);
        else
            agent_layout_add(agent, layout->id, layout->text);
    number_after(agent, parent->layouts->next - 1);
}

void agent_layouts_free(struct agent *agent)
{
    struct agent_layout_text *layout, *next;
    HASH_ITER(hh, agent->layouts->texts, layout, next)
    {
        HASH_DELETE(hh, agent->layouts->texts, layout);
        free(layout);
    }
    free(agent->layouts->seen);
}
