/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread waits for a free packet (--overflow wait); the clock and the monitor are test_world.h's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "agent/hooks/record.c"
#include "agent/test/test_world.h"

enum { PACKETS = 4, PACKET_SIZE = 256, WAIT_MS = 100 };

struct agent_hot agent_hot;
static struct area area;
static _Atomic uint64_t states[PACKETS];
static unsigned rings;
static bool no_monitor;

char agent_monitor_state(void)
{
    return no_monitor ? 'X' : world.state;
}

bool stack_room(struct agent_room *room, uint64_t size)
{
    static _Alignas(64) uint8_t memory[1 << 16];
    *room = (struct agent_room){memory, size};
    return size <= sizeof memory;
}

void agent_ring(void)
{
    rings++;
}

void level_reserved(struct agent_thread *self, enum guard guard, uint64_t at)
{
    fail();
}

void recover_levels(struct agent_thread *self, uint32_t keep)
{
    fail();
}

static int setup(void **state)
{
    world_reset();
    no_monitor = false;
    rings = 0;
    area = (struct area){.policy = AREA_WAIT, .wait_us = WAIT_MS * 1000, .on = 1};
    for (int i = 0; i < PACKETS; i++)
        states[i] = AREA_PACKET_FULL;
    agent_hot.area = &area;
    agent_hot.view.states = states;
    agent_hot.view.packet_count = PACKETS;
    agent_hot.vain = 0;
    agent_hot.vain_freed = 0;
    agent_hot.vain_at = 0;
    return 0;
}

static void free_one(void *ctx)
{
    states[1] = AREA_PACKET_FREE;
    area.freed++;
}

/* Takes a packet; how long that took, in ms. */
static uint64_t takes(uint32_t expected)
{
    struct agent_thread self = {.no_room = 0};
    uint64_t since_ns = world.now_ns;
    assert_int_equal(packet_take(&self), expected);
    return (world.now_ns - since_ns) / 1000000;
}

static void frees_after(uint64_t ms)
{
    world.event = free_one;
    world.event_ns = world.now_ns + ms * 1000000;
}

static void test_freed(void **state)
{
    frees_after(60);
    assert_int_equal(takes(1), 60);
    assert_true(rings > 0);
    assert_int_equal(area.waits_ran_out, 0);
}

static void test_one_that_sleeps(void **state)
{
    frees_after(WAIT_MS + 1);
    assert_int_equal(takes(UINT32_MAX), WAIT_MS);
    assert_int_equal(area.waits_ran_out, 1);
}

/* It would free one if it had a processor. */
static void test_starved(void **state)
{
    for (const char *letter = "RD"; *letter; letter++) {
        setup(NULL);
        world.state = *letter;
        frees_after(19 * WAIT_MS);
        assert_int_equal(takes(1), 19 * WAIT_MS);
        setup(NULL);
        world.state = *letter;
        assert_int_equal(takes(UINT32_MAX), 20 * WAIT_MS);
    }
}

/* Three times in vain, then nobody waits until something is freed. */
static void test_in_vain(void **state)
{
    world.state = 'T';
    for (int i = 0; i < 3; i++)
        assert_int_equal(takes(UINT32_MAX), WAIT_MS);
    assert_int_equal(takes(UINT32_MAX), 0);
    area.freed++;
    assert_int_equal(takes(UINT32_MAX), WAIT_MS);
}

static void test_none(void **state)
{
    no_monitor = true;
    assert_int_equal(takes(UINT32_MAX), 0);
    no_monitor = false;
    area.on = 0;
    assert_int_equal(takes(UINT32_MAX), 0);
    assert_int_equal(agent_hot.vain, 0);
}

/* Of what finds no room calls and messages are counted; the rest tells nothing by itself. */
static void test_discarded(void **state)
{
    static struct area_thread block;
    struct agent_thread self = {.block = &block};
    agent_hot.view.area = &area;
    area.policy = AREA_DROP;
    atomic_store(&block.packet, UINT32_MAX);
    for (uint32_t id = 0; id < RECORD_IDS; id++) {
        bool counts = id <= RECORD_EXIT_VALUES || id == RECORD_MESSAGE;
        block.discarded = 0;
        assert_int_equal(record_put(&self, GUARD_OUTER, id, 1, "", 0, NULL, 0), 0);
        assert_int_equal(block.discarded, counts);
    }
    assert_int_equal(area.waits_dropped, 0);
}

/* A packet's head says how many there were until it began, and once it is full, until then. */
static void test_discarded_reported(void **state)
{
    static _Alignas(64) uint8_t memory[PACKETS * PACKET_SIZE];
    static struct area_thread block;
    struct agent_thread self = {.block = &block};
    const struct packet_head *head = (const void *)(memory + PACKET_SIZE);
    const uint32_t slot = 7;
    agent_hot.view.area = &area;
    agent_hot.view.base = memory;
    agent_hot.view.packet_size = PACKET_SIZE;
    area.policy = AREA_DROP;
    atomic_store(&block.packet, UINT32_MAX);
    for (int i = 0; i < 2; i++)
        assert_int_equal(record_put(&self, GUARD_OUTER, RECORD_ENTRY, 1, &slot, sizeof slot, NULL, 0), 0);
    free_one(NULL);
    assert_int_equal(record_put(&self, GUARD_OUTER, RECORD_ENTRY, 2, &slot, sizeof slot, NULL, 0), 2);
    assert_int_equal(block.packet, 1);
    assert_int_equal(head->events_discarded, 2);
    record_discarded(&self, false); /* of a handler, which takes no packet */
    record_retire(&self);
    assert_int_equal(states[1] & 0xff, AREA_PACKET_FULL);
    assert_int_equal(head->events_discarded, 3);
}

/* What the flight recorder overwrites is lost, but for what the monitor has written of it before. */
static void test_overwritten(void **state)
{
    static _Alignas(64) uint8_t memory[PACKETS * PACKET_SIZE];
    struct packet_head *head = (void *)memory;
    const uint32_t exits[5] = {RECORD_EXIT, RECORD_EXIT, RECORD_EXIT, RECORD_EXIT, RECORD_EXIT};
    *head = (struct packet_head){.stream = 2, .content_size = (sizeof *head + sizeof exits) * 8};
    memcpy(head + 1, exits, sizeof exits);
    agent_hot.view.base = memory;
    agent_hot.view.packet_size = PACKET_SIZE;
    area.policy = AREA_FLIGHT;
    assert_int_equal(takes(0), 0);
    assert_int_equal(area.flight_overwritten, 1);
    assert_int_equal(area.flight_overwritten_records, 3);
}

/* Where none is free, another one of those that are promised gets its memory here; of the rest nothing is touched. */
static void test_made(void **state)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, PACKETS * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    agent_hot.view.base = memory;
    agent_hot.view.packet_size = (uint32_t)page;
    for (uint32_t policy = AREA_DROP; policy <= AREA_FLIGHT; policy++) {
        setup(NULL);
        area.policy = policy;
        states[0] = AREA_PACKET_FREE;
        states[2] = states[3] = AREA_PACKET_UNMADE;
        area.promised = 3;
        assert_int_equal(takes(0), 0);
        assert_int_equal(takes(2), 0);
        unsigned char had[PACKETS];
        assert_int_equal(mincore(memory, PACKETS * page, had), 0);
        assert_int_equal(had[2] & 1, 1);
        assert_int_equal(had[3] & 1, 0);
        assert_int_equal(states[2] & 0xff, AREA_PACKET_TAKEN);
        area.policy = AREA_DROP;
        assert_int_equal(takes(UINT32_MAX), 0);
        assert_int_equal(states[3] & 0xff, AREA_PACKET_UNMADE);
    }
    munmap(memory, PACKETS * page);
    /* there is no memory: it is the monitor's to have, and nobody asks again */
    setup(NULL);
    area.policy = AREA_DROP;
    area.promised = PACKETS;
    states[2] = states[3] = AREA_PACKET_UNMADE;
    assert_int_equal(takes(UINT32_MAX), 0);
    assert_int_equal(states[2] & 0xff, AREA_PACKET_UNMADE);
    assert_true(agent_hot.packets_refused);
    assert_int_equal(takes(UINT32_MAX), 0);
    agent_hot.packets_refused = false;
    agent_hot.view.packet_size = PACKET_SIZE;
}

/* ---- functions that are recorded at more than they tell; a tick is a nanosecond ---- */

enum { HOT = 1, OTHER, HOT_NS = 100, OTHER_NS = THIN_OWN_NS };

static void put_record(uint8_t **at, uint32_t id, uint64_t time, const uint32_t *slot)
{
    uint32_t word = (uint32_t)time << (32 - RECORD_TIME_BITS) | id;
    memcpy(*at, &word, sizeof word);
    if (slot)
        memcpy(*at + sizeof word, slot, sizeof *slot);
    *at += slot ? 2 * sizeof word : sizeof word;
}

/* A packet is full of `others` and then `hot` calls, one each apart_ns; those of HOT take hot_ns. Is HOT not recorded from then on,
 * as with `before` packets, and after_ns from the start of the first one to the end of this one? */
static bool is_thinned(uint32_t others, uint32_t hot, uint64_t hot_ns, uint64_t apart_ns, uint32_t before,
                       uint64_t after_ns)
{
    static _Alignas(64) uint8_t memory[1 << 15];
    static struct area_slot slots[4];
    static struct area_thread block;
    static struct agent_store store;
    struct agent_thread self = {.block = &block, .store = &store};
    struct packet_head *head = (void *)memory;
    uint8_t *at = memory + sizeof *head;
    uint64_t time = head->time_begin = WAITS_NS_PER_SECOND;
    for (uint32_t i = 0; i < others + hot; i++, time += apart_ns) {
        const uint32_t slot = i < others ? OTHER : HOT;
        put_record(&at, RECORD_ENTRY, time, &slot);
        put_record(&at, RECORD_EXIT, time + (slot == HOT ? hot_ns : OTHER_NS), NULL);
    }
    assert_true(at <= memory + sizeof memory);
    memset(slots, 0, sizeof slots);
    slots[HOT].mode = slots[OTHER].mode = AREA_RECORD | AREA_ACT_EXIT;
    block.cursor = (uint64_t)(at - memory);
    block.packet = 0;
    area.ticks_per_second = WAITS_NS_PER_SECOND;
    area.full_packets = before;
    area.tallies = 0;
    agent_hot.view.base = memory;
    agent_hot.view.packet_size = sizeof memory;
    agent_hot.view.slot_mask = 3;
    agent_hot.slots = slots;
    agent_hot.first_packet = time - after_ns;
    thin_judge(&self, time);
    bool is = slots[HOT].mode == (AREA_TALLY | AREA_ACT_EXIT);
    assert_int_equal(slots[HOT].mode, is ? AREA_TALLY | AREA_ACT_EXIT : AREA_RECORD | AREA_ACT_EXIT);
    assert_int_equal(slots[OTHER].mode, AREA_RECORD | AREA_ACT_EXIT);
    assert_int_equal(area.tallies, is);
    agent_hot.view.packet_size = PACKET_SIZE;
    return is;
}

/* A record costs 50 ns: a call that takes ten times as long itself tells enough. */
static void test_thin_by_own_time(void **state)
{
    assert_true(is_thinned(0, 100, 499, 1000, THIN_PACKETS, 0));
    assert_false(is_thinned(0, 100, 500, 1000, THIN_PACKETS, 0));
}

/* More than 100 000 times a second; where there are 500 000 calls a second, a hundredth of them. */
static void test_thin_by_rate(void **state)
{
    assert_true(is_thinned(0, 100, HOT_NS, 10000, THIN_PACKETS, 0));
    assert_false(is_thinned(0, 100, HOT_NS, 10001, THIN_PACKETS, 0));
    assert_true(is_thinned(100, 100, HOT_NS, 5000, THIN_PACKETS, 0));
    assert_false(is_thinned(100, 98, HOT_NS, 5000, THIN_PACKETS, 0));
    assert_true(is_thinned(1980, 20, HOT_NS, 1999, THIN_PACKETS, 0));
    assert_false(is_thinned(1981, 19, HOT_NS, 1999, THIN_PACKETS, 0));
    assert_false(is_thinned(1980, 20, HOT_NS, 2000, THIN_PACKETS, 0));
    assert_false(is_thinned(0, 15, HOT_NS, 1000, THIN_PACKETS, 0));
}

/* All calls of the first 50 ms are recorded, unless they are many packets'. */
static void test_thin_at_last(void **state)
{
    assert_false(is_thinned(0, 100, HOT_NS, 1000, THIN_PACKETS - 1, 50 * WAITS_NS_PER_MS - 1));
    assert_true(is_thinned(0, 100, HOT_NS, 1000, THIN_PACKETS - 1, 50 * WAITS_NS_PER_MS));
    assert_true(is_thinned(0, 100, HOT_NS, 1000, THIN_PACKETS, 50 * WAITS_NS_PER_MS - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_freed, setup),        cmocka_unit_test_setup(test_one_that_sleeps, setup),
        cmocka_unit_test_setup(test_starved, setup),      cmocka_unit_test_setup(test_in_vain, setup),
        cmocka_unit_test_setup(test_none, setup),         cmocka_unit_test_setup(test_made, setup),
        cmocka_unit_test_setup(test_discarded, setup),    cmocka_unit_test_setup(test_discarded_reported, setup),
        cmocka_unit_test_setup(test_overwritten, setup),  cmocka_unit_test_setup(test_thin_by_own_time, setup),
        cmocka_unit_test_setup(test_thin_by_rate, setup), cmocka_unit_test_setup(test_thin_at_last, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
