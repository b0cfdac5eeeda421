/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of a script's ring: everything that it reads may be damaged, and may change while it is read. */
#include "shm/script_ring.h"

#include <string.h>

enum { HEAD = 4096 };

static bool within(uint64_t at, uint64_t size, uint64_t all)
{
    return at <= all && size <= all - at;
}

bool script_view_init(struct script_view *ret_view, void *memory, size_t size)
{
    struct script_ring *ring = memory;
    if (size < HEAD)
        return false;
    memset(ret_view, 0, offsetof(struct script_view, room));
    ret_view->ring = ring;
    memcpy(&ret_view->head, memory, offsetof(struct script_ring, reserved));
    const struct script_ring *head = &ret_view->head;
    ret_view->head.language[SCRIPT_LANGUAGE - 1] = 0;
    uint32_t ring_size = head->ring_size;
    if (head->magic != SCRIPT_RING_MAGIC || head->version != SCRIPT_RING_VERSION)
        return false;
    if (ring_size < SCRIPT_RING_LEAST || ring_size > SCRIPT_RING_MOST || ring_size & (ring_size - 1))
        return false;
    if (head->sum_count > SCRIPT_SUMS_MOST || head->texts_size > SCRIPT_TEXTS_MOST)
        return false;
    if ((head->ring_at | head->sums_at) & 7 || head->ring_at < HEAD || !within(head->ring_at, ring_size, size) ||
        !within(head->sums_at, head->sum_count * sizeof(struct script_sum), size) ||
        !within(head->texts_at, head->texts_size, size))
        return false;
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
    ret_view->taken = taken & ~UINT64_C(7);
    if (taken != ret_view->taken) /* damaged */
        atomic_store_explicit(&ring->taken, ret_view->taken, memory_order_release);
    return true;
}

/* ---- records ---- */

static char *ring_memory(const struct script_view *view)
{
    return (char *)view->ring + view->head.ring_at;
}

/* The next `size` bytes, which do not wrap, are free again. */
static void give_back(struct script_view *view, uint32_t size)
{
    memset(ring_memory(view) + (view->taken & (view->head.ring_size - 1)), 0, size);
    view->taken += size;
    atomic_store_explicit(&view->ring->taken, view->taken, memory_order_release);
}

/* Nothing in the ring can be believed: it is emptied. What is being written now may be lost, too. */
static void start_again(struct script_view *view, uint64_t reserved)
{
    view->damaged++;
    memset(ring_memory(view), 0, view->head.ring_size);
    view->taken = reserved & ~UINT64_C(7);
    if (reserved & 7)
        atomic_store_explicit(&view->ring->reserved, view->taken, memory_order_release);
    atomic_store_explicit(&view->ring->taken, view->taken, memory_order_release);
}

static bool take_text(const char **at, const char *end, uint32_t size, uint32_t most, struct script_text *ret_text)
{
    if (size > most || size > (size_t)(end - *at))
        return false;
    *ret_text = (struct script_text){*at, size};
    *at += size;
    return true;
}

static bool take_frames(struct script_view *view, const char *at, const char *end, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct script_stored_frame head;
        struct script_frame *frame = &view->frames[i];
        *frame = (struct script_frame){0};
        if ((size_t)(end - at) < sizeof head)
            return false;
        memcpy(&head, at, sizeof head);
        at += sizeof head;
        frame->line = head.line;
        if ((head.file != UINT16_MAX && !take_text(&at, end, head.file, SCRIPT_NAME_MOST, &frame->file)) ||
            (head.function != UINT16_MAX && !take_text(&at, end, head.function, SCRIPT_NAME_MOST, &frame->function)))
            return false;
    }
    return true;
}

/* From the copy. */
static bool read_record(struct script_view *view, uint32_t size, int32_t pid, struct script_event *ret_record)
{
    const struct script_stored *stored = (const void *)view->room;
    const char *at = stored->bytes, *end = (const char *)view->room + size;
    if (stored->kind < SCRIPT_STARTED || stored->kind > SCRIPT_WENT_ON || stored->frame_count > SCRIPT_FRAMES_MOST)
        return false;
    *ret_record = (struct script_event){.kind = stored->kind,
                                        .pid = pid,
                                        .tid = stored->tid,
                                        .line = stored->line,
                                        .status = stored->status,
                                        .time_ns = stored->time_ns,
                                        .duration_ns = stored->duration_ns,
                                        .count = stored->count,
                                        .cut = stored->cut,
                                        .frame_count = stored->frame_count,
                                        .frames = view->frames};
    for (unsigned i = 0; i < SCRIPT_TEXTS; i++)
        if (!(stored->none_bits >> i & 1) &&
            !take_text(&at, end, stored->text_sizes[i], SCRIPT_TEXT_MOST, &ret_record->texts[i]))
            return false;
    return take_frames(view, at, end, stored->frame_count);
}

bool script_view_take(struct script_view *view, int32_t gone, struct script_event *ret_record)
{
    uint32_t ring_size = view->head.ring_size;
    view->waits_for = 0;
    for (;;) {
        uint64_t reserved = atomic_load_explicit(&view->ring->reserved, memory_order_acquire);
        uint32_t offset = (uint32_t)(view->taken & (ring_size - 1));
        char *at = ring_memory(view) + offset;
        if (reserved == view->taken)
            return false;
        if (reserved - view->taken > ring_size || reserved & 7) {
            start_again(view, reserved);
            return false;
        }
        uint64_t word = atomic_load_explicit((_Atomic uint64_t *)(void *)at, memory_order_acquire);
        uint32_t size = (uint32_t)(word & 0xffffff);
        enum script_state state = (enum script_state)(word >> 24 & 0xff);
        if (state == SCRIPT_FREE && gone != SCRIPT_GONE_ALL)
            return false;
        bool whole = state == SCRIPT_WHOLE || state == SCRIPT_OPEN;
        if (!size || size & 7 || size > ring_size - offset || size > reserved - view->taken || state > SCRIPT_PAD ||
            (whole && (size < sizeof(struct script_stored) || size > SCRIPT_RECORD_MOST))) {
            start_again(view, reserved);
            return false;
        }
        int32_t pid = (int32_t)(word >> 32);
        if (state == SCRIPT_OPEN && gone != SCRIPT_GONE_ALL && gone != pid) {
            view->waits_for = pid;
            return false;
        }
        if (state == SCRIPT_WHOLE)
            memcpy(view->room, at, size);
        give_back(view, size);
        if (state == SCRIPT_WHOLE && read_record(view, size, pid, ret_record))
            return true;
        view->damaged += state != SCRIPT_PAD;
    }
}

/* ---- sums ---- */

uint32_t script_view_sums(const struct script_view *view)
{
    uint32_t used = atomic_load_explicit(&view->ring->sums_used, memory_order_acquire);
    return used < view->head.sum_count ? used : view->head.sum_count;
}

static bool copy_name(const struct script_view *view, uint32_t at, char ret_name[SCRIPT_NAME_MOST])
{
    const char *texts = (const char *)view->ring + view->head.texts_at;
    uint32_t size = view->head.texts_size;
    ret_name[0] = 0;
    if (!at)
        return true;
    if (at >= size)
        return false;
    uint32_t most = size - at < SCRIPT_NAME_MOST - 1 ? size - at : SCRIPT_NAME_MOST - 1;
    memcpy(ret_name, texts + at, most);
    ret_name[most] = 0;
    return true;
}

bool script_view_sum(const struct script_view *view, uint32_t index, bool names, struct script_sum_copy *ret_sum)
{
    if (index >= view->head.sum_count)
        return false;
    struct script_sum *sum = (struct script_sum *)(void *)((char *)view->ring + view->head.sums_at) + index;
    ret_sum->kind = atomic_load_explicit(&sum->kind, memory_order_acquire);
    if (ret_sum->kind != SCRIPT_SUM_FUNCTION && ret_sum->kind != SCRIPT_SUM_LINE)
        return false;
    ret_sum->line = sum->line;
    ret_sum->count = atomic_load_explicit(&sum->count, memory_order_relaxed);
    ret_sum->total_ns = atomic_load_explicit(&sum->total_ns, memory_order_relaxed);
    ret_sum->self_ns = atomic_load_explicit(&sum->self_ns, memory_order_relaxed);
    ret_sum->failed = atomic_load_explicit(&sum->failed, memory_order_relaxed);
    return !names || (copy_name(view, sum->file, ret_sum->file) && copy_name(view, sum->function, ret_sum->function));
}

void script_view_command(const struct script_view *view, uint32_t index, char ret_command[SCRIPT_NAME_MOST])
{
    const struct script_sum *sums = (const void *)((const char *)view->ring + view->head.sums_at);
    if (index >= view->head.sum_count || !copy_name(view, sums[index].command, ret_command))
        ret_command[0] = 0;
}

uint32_t script_view_now(const struct script_view *view)
{
    uint32_t now = atomic_load_explicit(&view->ring->now, memory_order_relaxed);
    return now && now <= view->head.sum_count ? now - 1 : UINT32_MAX;
}
