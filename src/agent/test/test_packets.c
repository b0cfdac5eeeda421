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
    return false;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_freed, setup),       cmocka_unit_test_setup(test_one_that_sleeps, setup),
        cmocka_unit_test_setup(test_starved, setup),     cmocka_unit_test_setup(test_in_vain, setup),
        cmocka_unit_test_setup(test_none, setup),        cmocka_unit_test_setup(test_made, setup),
        cmocka_unit_test_setup(test_discarded, setup),   cmocka_unit_test_setup(test_discarded_reported, setup),
        cmocka_unit_test_setup(test_overwritten, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
