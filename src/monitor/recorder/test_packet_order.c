/* SPDX-License-Identifier: Apache-2.0 */
/* The packets of a thread come to the disk in their order, wherever they lie and whatever becomes of the process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/test_area_fixture.h"
#include "monitor/recorder/test_fake_agent.h"

static void attach(void)
{
}

static int start(void **state)
{
    (void)state;
    return fixture_start(attach);
}

static struct child child_with(const char *overflow)
{
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "overflow", overflow, &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    return child;
}

/* Packets of one call each, where they lie. */
static void child_packets(const struct child *child, const uint32_t *indexes, uint32_t count)
{
    static const char letters[] = "iexf";
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t numbers[] = {indexes[i], 0, 0, 0};
        for (unsigned k = 0; letters[k]; k++) { /* nobody collects meanwhile */
            child_send(child, letters[k], numbers[k]);
            child_heard(child, letters[k]);
        }
    }
}

/* It is killed: so many calls are there, and so many of entries and exits are said to be overwritten. Readers refuse a
 * stream with packets in another order, for the times in a packet are read from its begin on. */
static void check_packets(struct child *child, size_t calls, unsigned overwritten)
{
    char line[64];
    child_end(child, SIGKILL);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace(), *process = process_file(child->pid, 0);
    assert_int_equal(occurrences(text, " entry: "), calls);
    assert_int_equal(occurrences(text, " exit: "), calls);
    snprintf(line, sizeof line, "\noverwritten\t%u\n", overwritten);
    assert_non_null(strstr(process, line));
    free(text);
    free(process);
}

/* Killed while others are about to overwrite two of its packets. */
static void test_two_being_overwritten(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    child_tell(&child, 'o', 0);
    child_tell(&child, 'o', 1);
    check_packets(&child, 3, 0);
}

/* Killed while its last packet was not yet given away, and others were about to overwrite those before. */
static void test_none_left_full(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){1, 3, 2}, 3);
    for (uint32_t i = 0; i < 3; i++)
        child_tell(&child, 'o', i);
    check_packets(&child, 3, 0);
}

/* Who overwrites has looked at the packet before that one while it was not full. */
static void test_not_the_oldest_overwritten(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){5, 4, 3, 2, 1}, 5);
    child_tell(&child, 'o', 2);
    child_tell(&child, 'o', 3);
    check_packets(&child, 5, 0);
}

/* What came after it was written meanwhile: it is overwritten, as it was to be. */
static void test_flushed_while_overwritten(void **state)
{
    (void)state;
    struct err err;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    child_tell(&child, 'o', 1);
    assert_int_equal(agent_flush(agents_find(agents, child.pid), &err), 0);
    check_packets(&child, 2, 2);
}

/* One that becomes full, and the one before it, after the monitor has looked at the place of that one. */
static void test_filled_during_inspection(void **state)
{
    (void)state;
    struct child child = child_with("drop");
    struct agent *agent = agents_find(agents, child.pid);
    const struct area_view *view = agent_view(agent);
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    uint64_t second = atomic_load(&view->states[2]);
    assert_int_equal(second & 0xff, AREA_PACKET_FULL);
    atomic_store(&view->states[2], AREA_PACKET_TAKEN);
    atomic_fetch_sub(&view->area->packet_order, 2);
    agent_collect(agent);
    assert_int_equal(atomic_load(&view->states[3]) & 0xff, AREA_PACKET_FREE);
    assert_int_equal(atomic_load(&view->states[1]) & 0xff, AREA_PACKET_FULL);
    atomic_store(&view->states[2], second);
    atomic_fetch_add(&view->area->packet_order, 2);
    agent_collect(agent);
    check_packets(&child, 3, 0);
}

/* What was called last is wanted at once, while a packet before it waits to be written. */
static void test_flushed_before_its_turn(void **state)
{
    (void)state;
    struct err err;
    struct child child = child_with("drop");
    struct agent *agent = agents_find(agents, child.pid);
    const struct area_view *view = agent_view(agent);
    child_packets(&child, (const uint32_t[]){3, 2}, 2);
    for (const char *letter = "ex"; *letter; letter++) {
        child_send(&child, *letter, 0);
        child_heard(&child, *letter);
    }
    atomic_fetch_sub(&view->area->packet_order, 1); /* the second one has become full after the look */
    assert_int_equal(agent_flush(agent, &err), 0);
    assert_int_equal(atomic_load(&view->states[2]) & 0xff, AREA_PACKET_FULL);
    atomic_fetch_add(&view->area->packet_order, 1);
    check_packets(&child, 3, 0);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        ROW(test_two_being_overwritten),     ROW(test_none_left_full),           ROW(test_not_the_oldest_overwritten),
        ROW(test_flushed_while_overwritten), ROW(test_filled_during_inspection), ROW(test_flushed_before_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
