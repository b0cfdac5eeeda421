/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process leaves when it ends. Calls that are open and of which there is no record: functions that are only
 * counted, and calls that wait to become long enough (--min-time). They lie beside the blocks of their threads
 * (shm/area.h), where a process that is killed leaves them; those too deep for that are not known. Read as the program
 * may scribble over it at any time.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
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

struct area_calls *agent_open_counted(const struct agent *agent, uint64_t now)
{
    const struct area_view *view = &agent->view;
    struct area_calls *open = calloc((size_t)view->slot_mask + 1, sizeof *open);
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

struct area_calls *agent_counted(const struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
    if (sums)
        area_counts_sum(view, collect_threads_used(view), sums);
    return sums;
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

/* ---- packets ---- */

/*
 * Of a process that was killed: packets that a thread had just filled and not given away yet, or that one had taken to
 * overwrite, and not wiped yet. They are written with the full ones, those of a thread in the order of their numbers:
 * time goes on in a stream, and the number is what counts the packets of a thread, from its first to its last, whatever
 * monitor there is. The order of the full ones, which is that of all threads together, is only put beside it.
 */
static const struct packet_head *head_at(const struct area_view *view, uint32_t index)
{
    return (const void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
}

/* Whether a thread was writing it: that comes last, as far as it was written. */
static bool is_current(const struct area_view *view, uint32_t index, uint32_t used)
{
    for (uint32_t i = 0; i < used; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) != AREA_THREAD_FREE && atomic_load(&block->packet) == index)
            return true;
    }
    return false;
}

/* The newest of its thread comes behind all. Others share the order of the full one that came before them, where their
 * number decides: who overwrites takes the oldest that it sees, but older ones may have become full meanwhile. */
static uint64_t order_of(const struct agent *agent, const struct packet_head *head, uint64_t *last)
{
    uint64_t before = 0;
    bool newest = true;
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        uint64_t word = atomic_load(&agent->view.states[i]), state = word & 0xff;
        if (state != AREA_PACKET_FULL && state != AREA_PACKET_TAKEN)
            continue;
        const struct packet_head *other = head_at(&agent->view, i);
        if (other->thread_serial != head->thread_serial)
            continue;
        if (other->packet_seq > head->packet_seq)
            newest = false;
        else if (state == AREA_PACKET_FULL && word >> 8 > before)
            before = word >> 8;
    }
    return newest ? ++*last : before;
}

void collect_orphans(struct agent *agent, uint32_t used)
{
    const struct area_view *view = &agent->view;
    uint64_t last = atomic_load(&view->area->packet_order);
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        const struct packet_head *head = head_at(view, i);
        if ((atomic_load(&view->states[i]) & 0xff) == AREA_PACKET_TAKEN && head->magic == PACKET_MAGIC &&
            head->content_size / 8 > sizeof *head && !is_current(view, i, used))
            atomic_store(&view->states[i], order_of(agent, head, &last) << 8 | AREA_PACKET_FULL);
    }
}
