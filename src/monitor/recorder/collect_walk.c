/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a packet (shm/record.h). It was written by a program that may have scribbled over it: the walk ends at the
 * first thing that is no record. A packet that is brought in by pieces is looked through from its start each time; in
 * the later pieces an exit of a call that was entered in an earlier piece is made to name its function, as an exit from
 * an earlier packet does, so that each packet on disk can be read alone.
 */
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/collect.h"
#include "shm/record.h"

enum { OPEN_LIMIT = AREA_PACKET_SIZE / 8, GROWTH = 4 };

struct open_call {
    uint32_t function, stack;
    uint64_t time;
    bool before; /* entered in an earlier piece */
};

struct walk_room {
    struct open_call open[OPEN_LIMIT];
    unsigned count;
    uint8_t own[AREA_PACKET_SIZE * GROWTH]; /* an exit grows from 4 bytes to 16 */
};

struct walk_room *walk_room_new(void)
{
    return malloc(sizeof(struct walk_room));
}

void walk_room_free(struct walk_room *room)
{
    free(room);
}

/* ---- the calls that are open, for pieces ---- */

static void open_push(struct walk_room *room, uint32_t function, uint32_t stack, uint64_t time, bool before)
{
    if (room->count < OPEN_LIMIT)
        room->open[room->count++] = (struct open_call){function, stack, time, before};
}

/* Takes the innermost open call of a stack out. false: there is none. */
static bool open_pop(struct walk_room *room, uint32_t stack, struct open_call *ret_call)
{
    for (unsigned i = room->count; i-- > 0;)
        if (room->open[i].stack == stack) {
            *ret_call = room->open[i];
            memmove(&room->open[i], &room->open[i + 1], (--room->count - i) * sizeof *room->open);
            return true;
        }
    return false;
}

static void open_pop_many(struct walk_room *room, uint32_t stack, uint32_t count)
{
    struct open_call call;
    while (count-- && open_pop(room, stack, &call))
        ;
}

static void open_pop_value(struct walk_room *room, uint32_t stack, uint32_t function, uint64_t time)
{
    struct open_call call;
    for (unsigned i = room->count; i-- > 0;)
        if (room->open[i].stack == stack) {
            if (room->open[i].function == function && room->open[i].time == time)
                open_pop(room, stack, &call);
            return;
        }
}

/* ---- records ---- */

struct walker {
    uint8_t *at, *end;
    uint64_t time, latest;
    uint32_t stack, depth, thread;
    struct walk_room *room; /* NULL: a whole packet */
    uint8_t *out;           /* in room->own */
    struct profile *profile;
    const struct area_view *view;
    uint64_t *known;
    walk_function_fn *fn;
    void *ctx;
    struct walk *walk;
};

struct record {
    uint32_t id;
    uint64_t time;
    const uint8_t *payload;
    size_t payload_size;
};

static uint16_t get16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static uint32_t get32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static uint64_t get64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Reads one record and goes behind it. false: there is no whole one. */
static bool next_record(struct walker *walker, struct record *ret_record)
{
    size_t room = (size_t)(walker->end - walker->at), head = RECORD_HEAD;
    if (room < RECORD_HEAD)
        return false;
    uint32_t word = get32(walker->at);
    uint64_t low = word >> 5, mask = (UINT64_C(1) << RECORD_TIME_BITS) - 1;
    uint64_t time = (walker->time & ~mask) | low;
    ret_record->id = word & 31;
    if (ret_record->id == RECORD_EXTENDED) {
        head = RECORD_EXTENDED_HEAD;
        if (room < head)
            return false;
        ret_record->id = get32(walker->at + 4);
        time = get64(walker->at + 8);
        if (time < walker->time || time > walker->latest)
            return false;
    } else {
        if (time < walker->time)
            time += mask + 1;
        if (time > walker->latest) { /* a signal's handler wrote its record before this older one */
            time = walker->time;
            word = (word & 31) | (uint32_t)(time << 5);
            memcpy(walker->at, &word, sizeof word);
        }
    }
    if (ret_record->id >= RECORD_IDS)
        return false;
    size_t size = record_shapes[ret_record->id].fixed;
    if (room - head < size)
        return false;
    if (record_shapes[ret_record->id].bytes)
        size += get16(walker->at + head + size - 2);
    if (room - head < size)
        return false;
    ret_record->time = time;
    ret_record->payload = walker->at + head;
    ret_record->payload_size = size;
    walker->at += head + size;
    return true;
}

static void function_know(struct walker *walker, uint32_t at, uint32_t word)
{
    uint64_t bit = UINT64_C(1) << (at & 63);
    if (!(walker->known[at >> 6] & bit)) {
        walker->known[at >> 6] |= bit;
        walker->fn(walker->ctx, word);
    }
}

static bool check_function(struct walker *walker, uint32_t function)
{
    if (function > walker->view->slot_mask)
        return false;
    function_know(walker, function, function);
    return true;
}

/* The same of an entry, which may name a place. */
static bool check_entry(struct walker *walker, uint32_t word, uint32_t *ret_function)
{
    *ret_function = area_entry_slot(walker->view, word);
    if (!check_function(walker, *ret_function))
        return false;
    if (word & RECORD_PLACE)
        function_know(walker, agent_known_place(walker->view, word), word);
    return true;
}

static void piece_shrink(struct walker *walker, uint32_t count)
{
    walker->depth -= count < walker->depth ? count : walker->depth;
}

/* Follows calls for the depth, the open calls of pieces, and the profile. false: it names a function that cannot be. */
static bool record_follow(struct walker *walker, const struct record *record, bool in_piece, struct open_call *ret_left)
{
    struct walk_room *room = walker->room;
    struct profile *profile = in_piece ? walker->profile : NULL;
    uint32_t first = record->payload_size >= 4 ? get32(record->payload) : 0;
    switch (record->id) {
    case RECORD_ENTRY:
    case RECORD_ENTRY_VALUES:
        if (!check_entry(walker, first, &first))
            return false;
        walker->depth++;
        walker->walk->events += in_piece;
        if (room)
            open_push(room, first, walker->stack, record->time, !in_piece);
        if (profile)
            profile_enter(profile, walker->thread, walker->stack, first, record->time);
        return true;
    case RECORD_EXIT:
        piece_shrink(walker, 1);
        walker->walk->events += in_piece;
        if (room)
            open_pop(room, walker->stack, ret_left);
        if (profile)
            profile_leave(profile, walker->thread, walker->stack, record->time);
        return true;
    case RECORD_EXIT_OF:
    case RECORD_EXIT_VALUES:
        if (!check_function(walker, first))
            return false;
        piece_shrink(walker, 1);
        walker->walk->events += in_piece;
        if (room)
            open_pop_value(room, walker->stack, first, get64(record->payload + 4));
        if (profile)
            profile_leave_of(profile, walker->thread, walker->stack, first, get64(record->payload + 4), record->time);
        return true;
    case RECORD_UNWOUND:
    case RECORD_LOST:
        piece_shrink(walker, first);
        if (room)
            open_pop_many(room, walker->stack, first);
        if (profile && record->id == RECORD_UNWOUND)
            profile_unwind(profile, walker->thread, walker->stack, first, record->time);
        else if (profile)
            profile_lost(profile, walker->thread, walker->stack, first);
        return true;
    case RECORD_STACK:
        walker->stack = first;
        walker->depth = get32(record->payload + 4);
        return true;
    case RECORD_THINNED:
        return check_function(walker, first);
    default:
        return true;
    }
}

/* Copies a record of a later piece; exits of calls of earlier pieces become RECORD_EXIT_OF. The first record's time is
 * the begin of the piece, so it needs no long form, though it may have one. */
static void copy_record(struct walker *walker, const uint8_t *from, const struct record *record,
                        const struct open_call *left)
{
    if (record->id != RECORD_EXIT || !left->before) {
        memcpy(walker->out, from, (size_t)(walker->at - from));
        walker->out += walker->at - from;
        return;
    }
    uint32_t word = get32(from), function = left->function;
    if ((word & 31) == RECORD_EXTENDED) {
        uint32_t id = RECORD_EXIT_OF;
        memcpy(walker->out, from, RECORD_EXTENDED_HEAD);
        memcpy(walker->out + 4, &id, sizeof id);
        walker->out += RECORD_EXTENDED_HEAD;
    } else {
        word = (word & ~UINT32_C(31)) | RECORD_EXIT_OF;
        memcpy(walker->out, &word, sizeof word);
        walker->out += RECORD_HEAD;
    }
    memcpy(walker->out, &function, sizeof function);
    memcpy(walker->out + 4, &left->time, sizeof left->time);
    walker->out += 12;
}

uint64_t walk_calls(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size)
{
    struct walker walker = {.at = records, .end = records + size, .time = head->time_begin, .latest = latest};
    struct record record;
    uint64_t calls = 0;
    while (next_record(&walker, &record)) {
        walker.time = record.time;
        calls += record.id <= RECORD_EXIT_VALUES;
    }
    return calls;
}

void walk_unkept(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 const struct area_view *view)
{
    struct walker walker = {.at = records, .end = records + size, .time = head->time_begin, .latest = latest};
    struct record record;
    while (next_record(&walker, &record)) {
        walker.time = record.time;
        bool entry = record.id == RECORD_ENTRY || record.id == RECORD_ENTRY_VALUES;
        uint32_t slot = entry ? area_entry_slot(view, get32(record.payload)) : UINT32_MAX;
        if ((size_t)(record.payload - records) >= from && slot <= view->slot_mask)
            area_call_unkept(&view->slots[slot]);
    }
}

size_t walk_until(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, uint64_t time)
{
    struct walker walker = {.at = records, .end = records + size, .time = head->time_begin, .latest = latest};
    struct record record;
    uint8_t *at = records;
    while (next_record(&walker, &record) && record.time <= time) {
        walker.time = record.time;
        at = walker.at;
    }
    return (size_t)(at - records);
}

void walk_layouts(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size,
                  walk_layout_fn *is_known, void *ctx)
{
    static const uint32_t none = RECORD_NO_LAYOUT;
    struct walker walker = {.at = records, .end = records + size, .time = head->time_begin, .latest = latest};
    struct record record;
    while (next_record(&walker, &record)) {
        walker.time = record.time;
        bool values =
            record.id == RECORD_ENTRY_VALUES || record.id == RECORD_EXIT_VALUES || record.id == RECORD_CALLER_VALUES;
        size_t size_at = values ? record_shapes[record.id].fixed - sizeof(uint16_t) : 0;
        uint8_t *layout = values ? records + (record.payload - records) + size_at - sizeof none : NULL;
        if (layout && !is_known(ctx, get32(layout)))
            memcpy(layout, &none, sizeof none);
    }
}

void walk_packet(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 struct walk_room *room, struct profile *profile, const struct area_view *view, uint64_t *known,
                 walk_function_fn *fn, void *ctx, struct walk *ret_walk)
{
    *ret_walk = (struct walk){.head = *head, .records = records};
    struct walker walker = {.at = records,
                            .end = records + size,
                            .time = head->time_begin,
                            .latest = latest,
                            .stack = head->stack,
                            .depth = head->depth,
                            .thread = head->thread_serial,
                            .room = room,
                            .profile = profile,
                            .view = view,
                            .known = known,
                            .fn = fn,
                            .ctx = ctx,
                            .walk = ret_walk};
    bool begun = false;
    struct record record;
    if (room) {
        room->count = 0;
        walker.out = room->own;
    }
    for (;;) {
        uint8_t *at = walker.at;
        bool in_piece = (size_t)(at - records) >= from;
        uint32_t depth = walker.depth, stack = walker.stack;
        struct open_call left = {0};
        if (!next_record(&walker, &record) || !record_follow(&walker, &record, in_piece, &left)) {
            walker.at = at;
            break;
        }
        if (in_piece && !begun) {
            begun = true;
            ret_walk->head.time_begin = record.time;
            ret_walk->head.depth = depth;
            ret_walk->head.stack = stack;
        }
        walker.time = record.time;
        if (in_piece && from)
            copy_record(&walker, at, &record, &left);
    }
    ret_walk->end = (size_t)(walker.at - records);
    ret_walk->damaged = walker.at < walker.end;
    ret_walk->head.time_end = walker.time;
    if (from) {
        ret_walk->records = room->own;
        ret_walk->size = (size_t)(walker.out - room->own);
    } else {
        ret_walk->size = ret_walk->end;
    }
}
