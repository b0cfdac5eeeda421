/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that a program may have scribbled over, as the monitor looks through them: whole, and in two pieces, which
 * together must be the whole. The first bytes say where the packet begins in time, how late its records may be, and
 * where it is cut; what follows are its records.
 */
#include <string.h>

#include "fuzz.h"
#include "jobdir/trace/profile.h"
#include "monitor/recorder/collect.h"
#include "shm/area.h"

enum {
    SLOT_MASK = 1023,
    PLACES = 64,
    STACKS_LIMIT = 64,
    RECORDS_LIMIT = AREA_PACKET_SIZE - sizeof(struct packet_head)
};

struct input {
    struct packet_head head;
    uint64_t latest;
    const uint8_t *records;
    size_t size;
};

struct outcome {
    struct walk walk;
    struct profile *profile;
    uint64_t known[(SLOT_MASK + 1 + PLACES) / 64], told;
};

static struct area_place places[PLACES]; /* all of the first function */
static const struct area_view view = {.slot_mask = SLOT_MASK, .places = places, .place_end = PLACES};

static void function_told(void *ctx, uint32_t function)
{
    struct outcome *outcome = ctx;
    if (function & RECORD_PLACE)
        function = agent_known_place(&view, function);
    fuzz_expect(function <= SLOT_MASK + PLACES);
    fuzz_expect(outcome->known[function / 64] >> function % 64 & 1);
    outcome->told++;
}

static void outcome_init(struct outcome *outcome)
{
    *outcome = (struct outcome){0};
    fuzz_expect(profile_new(&outcome->profile, STACKS_LIMIT) == 0);
}

static void outcome_done(struct outcome *outcome)
{
    uint64_t known = 0;
    for (size_t i = 0; i < sizeof outcome->known / sizeof *outcome->known; i++)
        known += (uint64_t)__builtin_popcountll(outcome->known[i]);
    fuzz_expect(known == outcome->told); /* each once */
    profile_free(outcome->profile);
}

/* From a block of exactly that size; it is walked over again, for nothing in it may change a second time. */
static uint8_t *walk(const struct input *input, size_t size, size_t from, struct walk_room *room,
                     struct outcome *outcome)
{
    uint8_t *records = malloc(size ? size : 1);
    fuzz_expect(records != NULL);
    memcpy(records, input->records, size);
    walk_packet(&input->head, input->latest, records, size, from, from ? room : NULL, outcome->profile, &view,
                outcome->known, function_told, outcome, &outcome->walk);
    const struct walk *walk = &outcome->walk;
    fuzz_expect(walk->end <= size && walk->damaged == (walk->end < size));
    fuzz_expect(walk->head.time_begin <= walk->head.time_end && walk->head.time_begin >= input->head.time_begin);
    fuzz_expect(walk->head.time_end <= input->latest || walk->head.time_end == input->head.time_begin);
    fuzz_expect(from || (walk->records == records && walk->size == walk->end));
    return records;
}

/* What goes to the disk can be read alone, and says the same. */
static void check_piece(const struct input *input, const struct walk *piece)
{
    struct outcome again;
    struct input alone = {piece->head, input->latest, piece->records, piece->size};
    outcome_init(&again);
    free(walk(&alone, piece->size, 0, NULL, &again));
    fuzz_expect(!again.walk.damaged && again.walk.events == piece->events);
    fuzz_expect(piece->size == 0 || again.walk.head.time_end == piece->head.time_end);
    outcome_done(&again);
}

static void expect_same(const struct profile *one, const struct profile *other)
{
    struct profile_row *rows, *others;
    size_t count, other_count;
    fuzz_expect(profile_rows(one, 0, &rows, &count) == 0 && profile_rows(other, 0, &others, &other_count) == 0);
    fuzz_expect(count == other_count);
    for (size_t i = 0; i < count; i++) {
        const struct profile_row *row = &rows[i], *its = &others[i];
        fuzz_expect(row->function == its->function && row->calls == its->calls && row->total == its->total);
        fuzz_expect(row->self == its->self && row->min == its->min && row->max == its->max);
        fuzz_expect(row->unwound == its->unwound && row->open == its->open && row->sum == its->sum);
    }
    free(rows);
    free(others);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct walk_room *room;
    struct {
        uint32_t begin, late;
        uint16_t cut;
    } first;
    if (size < sizeof first)
        return 0;
    if (!room)
        fuzz_expect((room = walk_room_new()) != NULL);
    memcpy(&first, data, sizeof first);
    struct input input = {.head = {.time_begin = first.begin, .time_end = (uint64_t)first.begin + first.late},
                          .latest = (uint64_t)first.begin + first.late,
                          .records = data + sizeof first,
                          .size = size - sizeof first};
    if (first.late & 1) /* a head that lies, too */
        input.latest = first.late;
    if (input.size > RECORDS_LIMIT)
        input.size = RECORDS_LIMIT;

    struct outcome whole, pieces;
    outcome_init(&whole);
    uint8_t *records = walk(&input, input.size, 0, NULL, &whole);
    fuzz_expect(walk_calls(&input.head, input.latest, records, whole.walk.end) >= whole.walk.events);
    check_piece(&input, &whole.walk);

    /* cut between two records, as partial drains do */
    uint64_t span = whole.walk.head.time_end - input.head.time_begin;
    size_t cut = walk_until(&input.head, input.latest, records, whole.walk.end,
                            input.head.time_begin + span * first.cut / UINT16_MAX);
    fuzz_expect(cut <= whole.walk.end);
    outcome_init(&pieces);
    free(walk(&input, cut, 0, NULL, &pieces));
    fuzz_expect(!pieces.walk.damaged);
    uint64_t events = pieces.walk.events;
    free(walk(&input, input.size, cut, room, &pieces));
    fuzz_expect(pieces.walk.end == whole.walk.end);
    fuzz_expect(events + pieces.walk.events == whole.walk.events);
    if (cut)
        check_piece(&input, &pieces.walk);
    expect_same(whole.profile, pieces.profile);
    free(records);

    /* and anywhere else, which the walk must survive */
    if (input.size > 1) {
        struct outcome odd;
        outcome_init(&odd);
        free(walk(&input, input.size, 1 + first.cut % (input.size - 1), room, &odd));
        outcome_done(&odd);
    }
    outcome_done(&whole);
    outcome_done(&pieces);
    return 0;
}
