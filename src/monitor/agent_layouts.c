/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of a process: numbered, in the trace before they are used, and known to a later monitor. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "jobdir/trace.h"
#include "monitor/agent_mpi.h"
#include "monitor/agents_internal.h"

/* Layouts to come have greater numbers, those of a later monitor, too. */
static void number_after(struct agent *agent, uint32_t id)
{
    if (id >= TRACE_IDS || id < agent->next_layout)
        return;
    agent->next_layout = id + 1;
    agent->view.area->next_layout = agent->next_layout;
}

static bool keep_layout(struct agent *agent, uint32_t id, const char *text, bool unused)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts, &id, sizeof id, layout);
    if (layout || id >= TRACE_IDS)
        return false;
    layout = calloc(1, sizeof *layout);
    if (!layout || !(layout->text = strdup(text))) {
        free(layout);
        return false;
    }
    layout->id = id;
    layout->unused = unused;
    HASH_ADD(hh, agent->layouts, id, sizeof layout->id, layout);
    number_after(agent, id);
    return true;
}

void agent_layout_add(struct agent *agent, uint32_t id, const char *text)
{
    if (keep_layout(agent, id, text, false) && agent->writer && trace_writer_layout(agent->writer, id, text) < 0)
        log_warning("the layout of values '%.100s' is not understood", text);
}

uint32_t agent_layout_new(struct agent *agent, const char *text)
{
    uint32_t id = agent->next_layout;
    return keep_layout(agent, id, text, true) ? id : RECORD_NO_LAYOUT;
}

void agent_layout_keep(struct agent *agent, uint32_t id, const char *text)
{
    keep_layout(agent, id, text, true);
}

void agent_layout_used(struct agent *agent, uint32_t id)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts, &id, sizeof id, layout);
    if (!layout || !layout->unused || !agent->writer)
        return;
    layout->unused = false;
    agent->layouts_new = true;
    if (trace_writer_layout(agent->writer, id, layout->text) < 0)
        log_warning("the layout of values '%.100s' is not understood", layout->text);
}

const char *agent_layout(struct agent *agent, uint32_t id)
{
    struct agent_layout_text *layout;
    HASH_FIND(hh, agent->layouts, &id, sizeof id, layout);
    return layout ? layout->text : NULL;
}

/* Of an area that another monitor made: its sites, and records in its packets, go by the numbers of that one's trace.
 * What is not told there is not captured again. */
void agent_layouts_adopt(struct agent *agent, const struct trace *former)
{
    const struct area_view *view = &agent->view;
    uint64_t next = view->area->next_layout;
    for (uint32_t id = 0; former && id < trace_layout_count(former); id++)
        if (trace_layout(former, id))
            agent_layout_add(agent, id, trace_layout_text(former, id));
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
    agent->layouts_lost = next != agent->next_layout || HASH_COUNT(agent->layouts) < next - 1;
}

void agent_layouts_write(struct agent *agent)
{
    for (struct agent_layout_text *layout = agent->layouts; agent->writer && layout; layout = layout->hh.next)
        if (!layout->unused)
            trace_writer_layout(agent->writer, layout->id, layout->text);
}

void agent_layouts_inherit(struct agent *agent, const struct agent *parent)
{
    for (const struct agent_layout_text *layout = parent->layouts; layout; layout = layout->hh.next)
        if (layout->unused)
            agent_layout_keep(agent, layout->id, layout->text);
        else
            agent_layout_add(agent, layout->id, layout->text);
    if (parent->next_layout)
        number_after(agent, parent->next_layout - 1);
}

void agent_layouts_free(struct agent *agent)
{
    struct agent_layout_text *layout, *next;
    HASH_ITER(hh, agent->layouts, layout, next)
    {
        HASH_DELETE(hh, agent->layouts, layout);
        free(layout->text);
        free(layout);
    }
}
