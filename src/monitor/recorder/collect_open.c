/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are open and of which there is no record: functions that are only counted, and calls that wait to become
 * long enough (--min-time). They lie beside the blocks of their threads (shm/area.h), where a process that is killed
 * leaves them; those too deep for that are not known. Read as the program may scribble over it at any time.
 */
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/agents_internal.h"
#include "shm/record.h"

/* A thread's open calls at this moment, the outermost first. */
static uint32_t frames_of(const struct agent *agent, const struct area_thread *block, uint64_t now,
                          struct agent_frame ret_frames[AREA_FRAMES])
{
    struct agent_frame *shared = area_frames_of(block);
    if (atomic_load(&block->state) != AREA_THREAD_LIVE)
        return 0;
    uint32_t depth = block->stack_id ? atomic_load(&block->own_depth) : atomic_load(&block->depth), count = 0;
    depth = depth < AREA_FRAMES ? depth : AREA_FRAMES;
    memcpy(ret_frames, shared, depth * sizeof *shared);
    atomic_thread_fence(memory_order_acquire);
    while (count < depth && ret_frames[count].slot <= agent->view.slot_mask && ret_frames[count].time &&
           ret_frames[count].time <= now &&
           (agent->ended || memcmp(&ret_frames[count], &shared[count], sizeof *shared) == 0))
        count++;
    return count;
}

struct open_calls *agent_open_counted(const struct agent *agent, uint64_t now)
{
    const struct area_view *view = &agent->view;
    struct open_calls *open = calloc((size_t)view->slot_mask + 1, sizeof *open);
    struct agent_frame frames[AREA_FRAMES];
    uint32_t used = open ? collect_threads_used(view) : 0;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t count = frames_of(agent, area_thread_at(view, i), now, frames);
        for (uint32_t k = 0; k < count; k++)
            if (frames[k].flags & FRAME_COUNT) {
                open[frames[k].slot].calls++;
                open[frames[k].slot].ticks += now - frames[k].time;
            }
    }
    return open;
}

static void put_entry(struct buf *out, const struct agent_frame *frame, uint32_t word, uint64_t *time)
{
    uint64_t at = frame->time > *time ? frame->time : *time;
    if ((at - *time) >> RECORD_TIME_BITS) {
        buf_put_u32(out, RECORD_EXTENDED);
        buf_put_u32(out, RECORD_ENTRY);
        buf_put_u64(out, at);
    } else {
        buf_put_u32(out, (uint32_t)(at << 5) | RECORD_ENTRY);
    }
    buf_put_u32(out, word);
    *time = at;
}

size_t collect_waiting(struct agent *agent, const struct area_thread *block, uint64_t end, uint64_t last_time,
                       struct packet_head *ret_head, struct buf *out)
{
    struct agent_frame frames[AREA_FRAMES];
    uint64_t least = atomic_load(&agent->view.area->min_ticks), time = 0;
    uint32_t count = frames_of(agent, block, end, frames);
    size_t found = 0;
    *ret_head = (struct packet_head){.tid = block->tid, .thread_serial = block->serial};
    for (uint32_t i = 0; i < count; i++) {
        bool waits = (frames[i].flags & (FRAME_WAITING | FRAME_RECORDED)) == FRAME_WAITING;
        if (!waits || end - frames[i].time < least) {
            ret_head->depth += !found && frames[i].flags & FRAME_RECORDED;
            continue;
        }
        if (!found++)
            time = ret_head->time_begin = frames[i].time > last_time ? frames[i].time : last_time;
        const struct area_place *place =
            area_place_find(&agent->view, frames[i].callsite, frames[i].site, frames[i].slot);
        uint32_t word = place ? RECORD_PLACE | (uint32_t)(place - agent->view.places) : frames[i].slot;
        put_entry(out, &frames[i], word, &time);
        agent_know(agent, word);
    }
    ret_head->time_end = time;
    return found;
}
