/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/test/test_monitor.h"
#include "base/system/clock.h"
#include "base/system/test_rounds.h"
#include "shm/waits.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char *target(const char *suffix)
{
    static char path[1024];
    const char *directory = getenv("TEST_TARGETS");
    assert_non_null(directory);
    snprintf(path, sizeof path, "%s/agent_target_%s", directory, suffix);
    return path;
}

static const char *const builds[] = {TEST_BUILDS};
enum { BUILDS = sizeof builds / sizeof *builds };

static void ended_well(const struct mini *mini)
{
    assert_true(WIFEXITED(mini->status));
    assert_int_equal(WEXITSTATUS(mini->status), 0);
}

static void tree_is(struct mini *mini, unsigned area, uint32_t serial, const char *expected)
{
    assert_true(mini->count > area);
    char *tree = mini_tree(mini, &mini->areas[area], serial);
    assert_string_equal(tree, expected);
    free(tree);
}

static void expect(const char *scenario, const char *argument, const char *expected)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(builds[i]), scenario, argument);
        ended_well(&mini);
        print_message("# %s\n", builds[i]);
        tree_is(&mini, 0, 1, expected);
        struct mini_totals totals;
        mini_pair(&mini, &mini.areas[0], &totals);
        assert_int_equal(totals.open, 0);
        mini_done(&mini);
    }
}

static void records_nested_calls(void **state)
{
    expect("nest", NULL, "main(nest('begin'twice(leaf()leaf())down(down(down(down(leaf()))))))");
}

static void tells_inlined_bodies_apart(void **state)
{
    expect("inlined", NULL, "main(inlined(middle(inner(leaf())inner(leaf()))middle(inner(leaf())inner(leaf()))))");
}

static void pairs_with_alloca(void **state)
{
    expect("alloca", "3", "main(grow(grow(grow(grow()leaf())leaf())leaf()))");
}

static void unwinds_longjmp(void **state)
{
    expect("jump", NULL, "main(jump(jump_out(jump_out(jump_out(!!!leaf()jump_out(!))");
}

static void counts_every_call(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), "many", "300000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.entries + totals.exits + totals.discarded, 2 * 300002);
    assert_int_equal(totals.exits + totals.lost, totals.entries);
    mini_done(&mini);
}

static void counts_what_it_drops(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.keep = true;
    mini.buffer_bytes = AREA_BUFFER_MIN;
    mini_run(&mini, target(builds[0]), "many", "300000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    uint64_t lost = area_thread_at(&mini.areas[0].view, 0)->lost_exits;
    assert_true(totals.discarded > 100000);
    assert_int_equal(totals.entries + totals.exits + totals.discarded, 2 * 300002);
    assert_int_equal(totals.exits + lost, totals.entries);
    mini_done(&mini);
}

static void goes_deep(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), "deep", "100000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.entries, 100002);
    assert_int_equal(totals.exits, 100002);
    mini_done(&mini);
}

/* ---- stacks ---- */

static void follows_coroutines(void **state)
{
    expect("swap", NULL, "main(swap([1]coroutine(step()[2]coroutine(step()[1]step()[2]step()[1])[2])[0]))");
}

static void follows_signal_stacks(void **state)
{
    expect("alternate", NULL, "main(alternate([1]handler(leaf())[0]leaf()[1]handler(leaf())[0]))");
}

/* Two entries and two exits are not recorded there; of a thread that has no frames, exits do not count. */
static void leaves_small_signal_stacks_alone(void **state)
{
    static const char *const ways[] = {"", "swapped", "raw", "thread"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct mini mini;
        struct mini_totals totals;
        mini_init(&mini);
        mini_run(&mini, target(builds[0]), "alternate-small", ways[i]);
        ended_well(&mini);
        tree_is(&mini, 0, 1, "main(alternate_small(leaf()))");
        mini_pair(&mini, &mini.areas[0], &totals);
        assert_int_equal(totals.discarded + mini.areas[0].view.area->unplaced, strcmp(ways[i], "thread") == 0 ? 2 : 4);
        mini_done(&mini);
    }
}

/* Nothing is looked up there for a jump, and a child does not connect from there. */
static void needs_little_of_signal_stacks(void **state)
{
    static const char *const ways[] = {"jump", "fork"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(builds[0]), "alternate-small", ways[i]);
        ended_well(&mini);
        mini_done(&mini);
    }
}

/* Whatever a signal interrupts: what is recorded pairs, and all that is missing is counted. */
static void storm(const char *scenario, bool jumps)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        mini_init(&mini);
        mini.buffer_bytes = 16 << 20;
        mini_run(&mini, target(builds[i]), scenario, test_rounds(0, 1) ? "1000" : "300");
        ended_well(&mini);
        struct mini_totals totals;
        mini_pair(&mini, &mini.areas[0], &totals);
        print_message("# %s: %lu entries, %lu unwound, %lu discarded\n", builds[i], (unsigned long)totals.entries,
                      (unsigned long)totals.unwound, (unsigned long)totals.discarded);
        assert_true(totals.entries > 4000);
        assert_int_equal(totals.entries, totals.exits + totals.unwound + totals.lost + totals.open);
        if (!jumps)
            assert_int_equal(totals.unwound, 0);
        /* what is open at the end was lost, and there was no room to tell */
        uint64_t untold = 0;
        for (uint32_t k = 0; k < mini.areas[0].view.thread_count; k++)
            untold += area_thread_at(&mini.areas[0].view, k)->lost_exits;
        assert_true(totals.open <= untold);
        mini_done(&mini);
    }
}

static void survives_signals(void **state)
{
    storm("storm", false);
}

static void survives_signals_on_their_stack(void **state)
{
    storm("storm-alternate", false);
}

static void survives_jumps_out_of_signals(void **state)
{
    storm("storm-jump", true);
    storm("storm-alternate-jump", true);
}

/* ---- processes and threads ---- */

static void follows_fork(const char *scenario)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), scenario, NULL);
    ended_well(&mini);
    assert_int_equal(mini.count, 2);
    assert_int_equal(mini.areas[1].hello.fork_of, 1);
    assert_int_equal(mini.areas[1].hello.incarnation, 1);
    assert_int_equal(mini.areas[1].hello.ppid, mini.areas[0].hello.pid);
    tree_is(&mini, 0, 1, "main(forks(in_parent(leaf())))");
    tree_is(&mini, 1, 1, "in_child(leaf())");
    mini_done(&mini);
}

static void follows_forks(void **state)
{
    follows_fork("fork");
    follows_fork("clone");
}

/* A child may have the number of its parent. */
static void follows_forks_into_namespaces(void **state)
{
    static const char *const scenarios[] = {"fork-nested", "clone-nested"};
    for (unsigned i = 0; i < 2; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(builds[0]), scenarios[i], "3");
        ended_well(&mini);
        bool has_none = mini.output && strstr(mini.output, "no namespaces");
        for (unsigned k = 1; k < mini.count && !has_none; k++)
            assert_int_equal(mini.areas[k].hello.pid, 1);
        if (!has_none)
            assert_int_equal(mini.count, 4);
        if (has_none)
            print_message("SKIP: there are no namespaces of processes here\n");
        mini_done(&mini);
        if (has_none)
            skip();
    }
}

static void let_thin_forks(struct mini *mini, struct mini_area *area)
{
    area->view.area->forks_thin = 1;
}

/* Of children in quick succession, and of theirs, the first ones are traced. The others count themselves. */
static void leaves_many_forks_alone(void **state)
{
    enum { AT_ONCE = 64, CHILDREN = 200, FEW = 70 };
    for (int thin = 0; thin < 2; thin++) {
        struct mini mini;
        mini_init(&mini);
        mini.prepare = thin ? let_thin_forks : NULL;
        uint64_t since_ns = clock_now_ns();
        mini_run(&mini, target(builds[0]), "forks", thin ? "200" : "70");
        uint64_t more = (clock_now_ns() - since_ns) / (FORK_REFILL_MS * WAITS_NS_PER_MS) + 1;
        ended_well(&mini);
        for (unsigned i = 1; i < mini.count; i++) {
            bool is_child = mini.areas[i].hello.ppid == mini.areas[0].hello.pid;
            tree_is(&mini, i, 1, is_child ? "in_child(leaf())in_child(leaf())" : "in_child(leaf())");
        }
        const struct area_forks *forks = mini.areas[0].view.forks;
        assert_int_equal(mini.hellos, mini.count);
        assert_int_equal(mini.count - 1 + forks->left_alone, 2 * (thin ? CHILDREN : FEW));
        assert_int_equal(forks->unreached, 0);
        if (thin)
            assert_in_range(mini.count - 1, AT_ONCE, AT_ONCE + more);
        else
            assert_int_equal(forks->left_alone, 0);
        mini_done(&mini);
    }
}

/* They count as little as if they executed something else. */
static void counts_no_forks_that_call_nothing(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.prepare = let_thin_forks;
    mini_run(&mini, target(builds[0]), "forks-idle", "200");
    ended_well(&mini);
    assert_int_equal(mini.count, 2);
    tree_is(&mini, 1, 1, "in_child(leaf())");
    assert_int_equal(mini.areas[0].view.forks->left_alone, 0);
    assert_int_equal(mini.areas[0].view.forks->unreached, 0);
    mini_done(&mini);
}

/* Children that cannot say hello, or may not, are counted once each, whoever they are. */
static void counts_forks_that_reach_nobody(void **state)
{
    static const char *const scenarios[] = {"forks-nofile", "forks-sealed"};
    for (unsigned i = 0; i < 2; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(builds[0]), scenarios[i], "10");
        ended_well(&mini);
        assert_int_equal(mini.hellos, 1);
        assert_int_equal(mini.areas[0].view.forks->unreached, 10);
        assert_int_equal(mini.areas[0].view.forks->left_alone, 0);
        mini_done(&mini);
    }
}

/* A child that begins in the middle of a hook: nothing that the hook knows is there. */
static void survives_forks_in_signals(void **state)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(builds[i]), "fork-storm", "10");
        ended_well(&mini);
        assert_string_equal(mini.output, "done 10 0\n");
        mini_done(&mini);
    }
}

static void leaves_vfork_alone(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), "vfork", NULL);
    ended_well(&mini);
    assert_int_equal(mini.hellos, 1);
    tree_is(&mini, 0, 1, "main(vforks(leaf()in_parent(leaf())))");
    mini_done(&mini);
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), "fork-vfork", NULL);
    ended_well(&mini);
    assert_int_equal(mini.hellos, 2); /* that of its child of vfork would leave it the area of a process that is gone */
    tree_is(&mini, 1, 1, "in_child(leaf())");
    mini_done(&mini);
}

enum { THREAD_CALLS = 1 + 50 * 3 + 2 };

static void thread_calls(const char *scenario, uint32_t blocks, uint64_t buffer)
{
    struct mini mini;
    mini_init(&mini);
    mini.threads = blocks;
    mini.buffer_bytes = buffer;
    mini_run(&mini, target(builds[0]), scenario, "1000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(mini.areas[0].view.area->threads_omitted, 0);
    assert_int_equal(totals.open, 0);
    assert_int_equal(totals.threads, 1001);
    assert_int_equal(totals.entries, 1000 * THREAD_CALLS + 1);
    mini_done(&mini);
}

static void follows_a_thousand_threads(void **state)
{
    thread_calls("threads", 400, 64 << 20);
    thread_calls("together", 1100, 64 << 20);
}

static long number_after(const struct mini *mini, const char *before)
{
    const char *at = strstr(mini->output, before);
    if (!at)
        fail_msg("%s", mini->output);
    return strtol(at + strlen(before), NULL, 10);
}

/* What they cost of the address space is theirs to lose: 2000 of them no more than 64 MB. */
static void costs_threads_little_room(void **state)
{
    enum { THREADS = 2000, MOST_KB = 32 };
    struct mini mini;
    mini_init(&mini);
    mini.threads = THREADS + 100;
    mini.buffer_bytes = 128 << 20;
    mini_run(&mini, target(builds[0]), "crowd", "2000");
    ended_well(&mini);
    assert_in_range(number_after(&mini, "each "), 1, MOST_KB);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(mini.areas[0].view.area->threads_omitted, 0);
    assert_int_equal(totals.entries, THREADS * 4 + 1);
    mini_done(&mini);
}

/* One sixteenth of what the limit leaves (32 MB), and no more; what is too deep for that is counted. */
static void keeps_to_its_share_of_the_room(void **state)
{
    enum { DEEP = 100000, SHARE_KB = 2 << 10 };
    struct mini mini;
    mini_init(&mini);
    mini.buffer_bytes = 16 << 20;
    mini_run(&mini, target(builds[0]), "limited", "100000");
    ended_well(&mini);
    assert_in_range(number_after(&mini, "took "), 512, SHARE_KB);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.entries, totals.exits);
    assert_in_range(totals.entries, DEEP / 16, DEEP);
    assert_int_equal(totals.entries + mini.areas[0].view.area->too_deep, DEEP + 3);
    mini_done(&mini);
}

/* `ulimit -d kb` of a program that is to run as it would without us. */
static void limited_data(const char *kb, struct mini *mini)
{
    char script[1200];
    const char *program = target(builds[0]);
    snprintf(script, sizeof script, "ulimit -d %s; exec %s nest", kb, program);
    mini_init(mini);
    mini_run(mini, "/bin/sh", "-c", script);
    mini->program = program;
    ended_well(mini);
}

static void leaves_data_to_the_program(void **state)
{
    struct mini mini;
    limited_data("500", &mini); /* it needs 300 itself */
    assert_int_equal(mini.hellos, 2);
    assert_false(mini.areas[0].hello.flags & AGENT_NO_DATA);
    assert_true(mini.areas[1].hello.flags & AGENT_NO_DATA);
    mini_done(&mini);
    limited_data("4000", &mini);
    assert_int_equal(mini.hellos, 1);
    tree_is(&mini, 0, 1, "main(nest('begin'twice(leaf()leaf())down(down(down(down(leaf()))))))");
    mini_done(&mini);
}

/* ---- limits ---- */

static void keeps_to_max_depth(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.max_depth = 3;
    mini_run(&mini, target(builds[0]), "nest", NULL);
    ended_well(&mini);
    tree_is(&mini, 0, 1, "main(nest('begin'twice()down()))");
    mini_done(&mini);
}

static void leaves_short_calls_out(void **state)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        mini_init(&mini);
        mini.min_ticks = 10000000; /* some milliseconds, whatever the clock */
        mini_run(&mini, target(builds[i]), "slow", "4");
        ended_well(&mini);
        tree_is(&mini, 0, 1, "main(slow(holder(sleeper())holder(sleeper())))");
        struct mini_totals totals;
        mini_pair(&mini, &mini.areas[0], &totals);
        mini_done(&mini);
    }
}

static void thins_what_is_hot(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.unknown_mode = AREA_RECORD | AREA_RATED;
    mini.rate = 100;
    mini_run(&mini, target(builds[0]), "many", "200000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    uint64_t thinned = 0;
    for (uint32_t i = 0; i <= mini.areas[0].view.slot_mask; i++)
        thinned += mini.areas[0].view.slots[i].thinned;
    assert_int_equal(totals.entries + thinned, 200002);
    assert_true(totals.entries >= 102 && totals.entries < 1000);
    assert_true(totals.thinned >= 1 && totals.thinned < 10);
    assert_int_equal(totals.exits, totals.entries);
    mini_done(&mini);
}

static void let_thin(struct mini *mini, struct mini_area *area)
{
    area->view.area->thin = AREA_THIN_TALLY;
}

/* `calls` in all, of which nearly all are of one function, `hot`: soon it leaves no more records. */
static void thinned_to_tallies(const char *scenario, const char *argument, const char *hot, uint64_t calls,
                               uint64_t others)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        struct mini_totals totals;
        mini_init(&mini);
        mini.prepare = let_thin;
        mini_run(&mini, target(builds[i]), scenario, argument);
        ended_well(&mini);
        mini_pair(&mini, &mini.areas[0], &totals);
        const struct area_view *view = &mini.areas[0].view;
        uint32_t slot = mini_slot(&mini, &mini.areas[0], hot);
        struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
        area_counts_sum(view, view->thread_count, sums);
        print_message("# %s: %lu entries, %lu unwound, %lu tallied\n", builds[i], (unsigned long)totals.entries,
                      (unsigned long)totals.unwound, (unsigned long)sums[slot].thinned);
        assert_int_equal(view->slots[slot].mode, AREA_TALLY);
        assert_int_equal(view->area->tallies, 1);
        assert_int_equal(totals.entries + sums[slot].thinned, calls);
        assert_in_range(totals.entries, others + 1,
                        100000); /* 17 packets, and each that took long as others had the processor */
        assert_int_equal(totals.thinned, 1);
        assert_int_equal(totals.exits + totals.unwound, totals.entries);
        assert_int_equal(totals.unwound + totals.open + totals.discarded, 0);
        assert_int_equal(sums[slot].calls + sums[slot].ticks, 0);
        assert_in_range(view->slots[slot].thinned, 0, 1); /* the rest in the short way */
        free(sums);
        mini_done(&mini);
    }
}

static void tallies_what_costs_more_than_it_tells(void **state)
{
    thinned_to_tallies("many", "3000000", "leaf", 3000002, 2);
    thinned_to_tallies("fib", "27", "fib", 635621 + 1, 1); /* 2 * fib(28) - 1, and main */
    thinned_to_tallies("held", "3000000", "held", 3000002, 1);
    thinned_to_tallies("alone", "3000000", "leaf", 6000002, 2);
}

static void let_be_quiet(struct mini *mini, struct mini_area *area)
{
    area->view.area->thin = AREA_THIN_QUIET;
    area->view.area->ticks_per_second = UINT64_C(1) << 41; /* however slow it is */
}

/* What is tallied very often leaves its hooks at once: its number is a lower bound then, and what began before has its end. */
static void quiet_at_last(const char *scenario, const char *argument, const char *hot, bool quiet)
{
    for (unsigned i = 0; i < BUILDS; i++) {
        struct mini mini;
        struct mini_totals totals;
        mini_init(&mini);
        mini.prepare = quiet ? let_be_quiet : let_thin;
        mini_run(&mini, target(builds[i]), scenario, argument);
        ended_well(&mini);
        mini_pair(&mini, &mini.areas[0], &totals);
        const struct area_view *view = &mini.areas[0].view;
        uint32_t slot = mini_slot(&mini, &mini.areas[0], hot);
        struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
        area_counts_sum(view, view->thread_count, sums);
        assert_int_equal(sums[slot].at_least, quiet);
        assert_int_equal((view->filter[area_filter_index(view->slots[slot].function)] & AREA_QUIET) != 0, quiet);
        if (quiet)
            assert_in_range(sums[slot].thinned, 2 << 17, (2 << 17) + 10);
        else
            assert_in_range(sums[slot].thinned, 6000000, UINT32_MAX);
        assert_int_equal(totals.exits, totals.entries);
        assert_int_equal(totals.unwound + totals.open + totals.discarded, 0);
        free(sums);
        mini_done(&mini);
    }
}

static void ceases_to_count(void **state)
{
    quiet_at_last("many", "9000000", "leaf", true);
    quiet_at_last("fib", "32", "fib", true);
    quiet_at_last("held", "9000000", "held", true);
    quiet_at_last("many", "9000000", "leaf", false);
}

struct second {
    const struct area_view *view;
    unsigned entries;
};

static void second_entry(void *ctx, const struct mini_event *event)
{
    struct second *second = ctx;
    second->entries += event->id == RECORD_ENTRY && second->view->slots[event->function].closed == 2;
}

/* The functions of a library that is opened again, at the same addresses, are others. */
static void hears_of_a_library_after_a_quiet_one(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.prepare = let_be_quiet;
    char path[1024];
    snprintf(path, sizeof path, "%s", target("loaded.so"));
    mini_run(&mini, target(builds[0]), "load-many", path);
    ended_well(&mini);
    const struct area_view *view = &mini.areas[0].view;
    unsigned quiet = 0;
    for (uint32_t i = 0; i <= view->slot_mask; i++)
        quiet += view->slots[i].closed == 1 && (view->slots[i].thinned & AREA_AT_LEAST);
    assert_int_equal(quiet, 2);
    struct second second = {.view = view};
    mini_each(&mini, &mini.areas[0], second_entry, &second);
    assert_int_equal(second.entries, 2);
    mini_done(&mini);
}

static void counts_without_records(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.unknown_mode = AREA_COUNT;
    mini_run(&mini, target(builds[0]), "many", "5000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.entries, 0);
    const struct area_view *view = &mini.areas[0].view;
    uint32_t leaf = mini_slot(&mini, &mini.areas[0], "leaf"), many = mini_slot(&mini, &mini.areas[0], "many");
    struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
    for (int moved = 0; moved < 2; moved++) { /* by its thread, and in the slots when that is gone */
        area_counts_sum(view, 1, sums);
        assert_int_equal(sums[leaf].calls, 5000);
        assert_int_equal(sums[many].calls, 1);
        assert_true(sums[leaf].ticks > 0 && sums[leaf].ticks < sums[many].ticks);
        area_counts_move(view, area_thread_at(view, 0));
    }
    assert_int_equal(view->slots[leaf].calls, 5000);
    free(sums);
    mini_done(&mini);
}

static void records_nothing_that_was_not_chosen(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.unknown_mode = 0;
    mini_run(&mini, target(builds[0]), "nest", NULL);
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.entries, 0);
    mini_done(&mini);
}

/* ---- room ---- */

static void waits_for_room(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.policy = AREA_WAIT;
    mini.wait_us = 10000000;
    mini.buffer_bytes = AREA_BUFFER_MIN;
    mini_run(&mini, target(builds[0]), "many", "1000000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.discarded, 0);
    assert_int_equal(totals.entries, 1000002);
    assert_int_equal(totals.exits, 1000002);
    assert_int_equal(atomic_load(&mini.areas[0].view.area->waits_ran_out), 0);
    mini_done(&mini);
}

/* Nobody makes room: after a few waits there are no more, and each record that would have waited is dropped and counted
 * as that, with the exits of calls whose entries were; and nothing else is. */
static void waits_run_out(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.policy = AREA_WAIT;
    mini.wait_us = 20;
    mini.keep = true;
    mini.buffer_bytes = AREA_BUFFER_MIN;
    mini_run(&mini, target(builds[0]), "many", "88000"); /* 12 bytes a call: 1 MB has room for 87381 */
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    const struct area *area = mini.areas[0].view.area;
    uint64_t waits = atomic_load(&area->waits_ran_out);
    assert_int_equal(totals.entries + totals.exits + totals.discarded, 2 * 88002);
    assert_int_equal(waits, 3);
    assert_true(totals.discarded > 100);
    assert_int_equal(atomic_load(&area->waits_dropped), totals.discarded);
    mini_done(&mini);
}

static void count_call(void *ctx, const struct mini_event *event)
{
    *(uint64_t *)ctx += event->id <= RECORD_EXIT_VALUES;
}

static void keeps_the_last_in_flight(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.policy = AREA_FLIGHT;
    mini.keep = true;
    mini.buffer_bytes = AREA_BUFFER_MIN;
    mini_run(&mini, target(builds[0]), "many", "300000");
    ended_well(&mini);
    const struct mini_area *area = &mini.areas[0];
    assert_true(area->view.area->flight_overwritten > 50);
    assert_int_equal(area_thread_at(&area->view, 0)->discarded, 0);
    uint64_t calls = area->view.area->flight_overwritten_records;
    mini_each(&mini, area, count_call, &calls);
    assert_int_equal(calls, 2 * 300002);
    char *tree = mini_tree(&mini, area, 1);
    size_t length = strlen(tree);
    assert_true(length > 100000);
    assert_string_equal(tree + length - 20, "leaf()leaf()leaf()))");
    free(tree);
    mini_done(&mini);
}

static void drops_and_goes_on(struct mini *mini)
{
    /* room comes and goes: packets are only brought in now and then */
    static unsigned ticks;
    mini->keep = ticks++ % 64 != 0;
}

static void accounts_for_gaps(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini.buffer_bytes = AREA_BUFFER_MIN;
    mini.tick = drops_and_goes_on;
    mini_run(&mini, target(builds[0]), "many", "2000000");
    ended_well(&mini);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    uint64_t lost = totals.lost + area_thread_at(&mini.areas[0].view, 0)->lost_exits;
    assert_int_equal(totals.entries + totals.exits + totals.discarded, 2 * 2000002);
    assert_int_equal(totals.exits + lost, totals.entries);
    mini_done(&mini);
}

/* ---- the process ---- */

static void sees_libraries_come(void **state)
{
    struct mini mini;
    mini_init(&mini);
    char path[1024];
    snprintf(path, sizeof path, "%s", target("loaded.so"));
    mini_run(&mini, target(builds[0]), "load", path);
    ended_well(&mini);
    tree_is(&mini, 0, 1, "main(load(unknown(unknown())unknown(unknown())))");
    assert_int_equal(mini.areas[0].view.area->modules, 4);
    mini_done(&mini);
}

static void leaves_no_descriptor(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(builds[0]), "descriptors", NULL);
    ended_well(&mini);
    assert_int_equal(mini.count, 1);
    char *with = strdup(mini.output);
    mini_done(&mini);
    mini_init(&mini);
    mini.environment[0] = "SCRY=off";
    mini_run(&mini, target(builds[0]), "descriptors", NULL);
    ended_well(&mini);
    assert_int_equal(mini.hellos, 0);
    assert_string_equal(mini.output, with);
    free(with);
    mini_done(&mini);
}

static void does_nothing_when_refused(void **state)
{
    for (int way = 0; way < 2; way++) {
        struct mini mini;
        mini_init(&mini);
        if (way == 0)
            mini.refuse = true;
        else
            mini.version = AREA_VERSION + 1;
        mini_run(&mini, target(builds[0]), "fork", NULL);
        ended_well(&mini);
        assert_int_equal(mini.hellos, 1);
        assert_string_equal(mini.output, "done 0 0\n");
        mini_done(&mini);
    }
}

static void greets_only_if_wanted(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, "/bin/true", NULL, NULL);
    ended_well(&mini);
    assert_int_equal(mini.hellos, 0);
    mini_done(&mini);
    mini_init(&mini);
    mini.environment[0] = "SCRY_TRACE_WANTED=1";
    mini_run(&mini, "/bin/true", NULL, NULL);
    ended_well(&mini);
    /* it does not wait to be seen */
    assert_int_equal(mini.count, 0);
    mini_done(&mini);
}

/* ---- C++ ---- */

static const char *const cpp_builds[] = {TEST_CPP_BUILDS};
enum { CPP_BUILDS = sizeof cpp_builds / sizeof *cpp_builds };

/* gcc calls the exit hooks of frames that an exception leaves, clang does not. */
static void expect_cpp(const char *scenario, const char *expected_gcc, const char *expected_clang)
{
    for (unsigned i = 0; i < CPP_BUILDS; i++) {
        struct mini mini;
        mini_init(&mini);
        mini_run(&mini, target(cpp_builds[i]), scenario, NULL);
        ended_well(&mini);
        print_message("# %s\n", cpp_builds[i]);
        const char *expected = strstr(cpp_builds[i], "clang") ? expected_clang : expected_gcc;
        if (expected)
            tree_is(&mini, 0, 1, expected);
        struct mini_totals totals;
        mini_pair(&mini, &mini.areas[0], &totals);
        assert_int_equal(totals.open, 0);
        assert_int_equal(totals.entries, totals.exits + totals.unwound);
        mini_done(&mini);
    }
}

static void pairs_through_exceptions(void **state)
{
    expect_cpp("catch", "main(catcher(thrower(thrower(thrower()))after()after()))",
               "main(catcher(thrower(thrower(thrower(!!!after()after()))");
    /* where nothing tells of the unwinding, a call may look like one of the frame that is left, as long as that is
     * not below it; each still ends once */
    expect_cpp("rethrow", "main(outer(rethrower(thrower(thrower()))after()))", NULL);
}

static void records_late_destructors(void **state)
{
    struct mini mini;
    mini_init(&mini);
    mini_run(&mini, target(cpp_builds[0]), "thread", NULL);
    ended_well(&mini);
    char *tree = mini_tree(&mini, &mini.areas[0], 2);
    assert_non_null(strstr(tree, "in_thread("));
    assert_non_null(strstr(tree, "~local(after())"));
    free(tree);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    assert_int_equal(totals.open, 0);
    mini_done(&mini);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_nested_calls),
        cmocka_unit_test(tells_inlined_bodies_apart),
        cmocka_unit_test(pairs_with_alloca),
        cmocka_unit_test(unwinds_longjmp),
        cmocka_unit_test(counts_every_call),
        cmocka_unit_test(counts_what_it_drops),
        cmocka_unit_test(goes_deep),
        cmocka_unit_test(follows_coroutines),
        cmocka_unit_test(follows_signal_stacks),
        cmocka_unit_test(leaves_small_signal_stacks_alone),
        cmocka_unit_test(needs_little_of_signal_stacks),
        cmocka_unit_test(survives_signals),
        cmocka_unit_test(survives_signals_on_their_stack),
        cmocka_unit_test(survives_jumps_out_of_signals),
        cmocka_unit_test(follows_forks),
        cmocka_unit_test(follows_forks_into_namespaces),
        cmocka_unit_test(leaves_many_forks_alone),
        cmocka_unit_test(counts_no_forks_that_call_nothing),
        cmocka_unit_test(counts_forks_that_reach_nobody),
        cmocka_unit_test(survives_forks_in_signals),
        cmocka_unit_test(leaves_vfork_alone),
        cmocka_unit_test(follows_a_thousand_threads),
        cmocka_unit_test(costs_threads_little_room),
        cmocka_unit_test(keeps_to_its_share_of_the_room),
        cmocka_unit_test(leaves_data_to_the_program),
        cmocka_unit_test(keeps_to_max_depth),
        cmocka_unit_test(leaves_short_calls_out),
        cmocka_unit_test(thins_what_is_hot),
        cmocka_unit_test(tallies_what_costs_more_than_it_tells),
        cmocka_unit_test(ceases_to_count),
        cmocka_unit_test(hears_of_a_library_after_a_quiet_one),
        cmocka_unit_test(counts_without_records),
        cmocka_unit_test(records_nothing_that_was_not_chosen),
        cmocka_unit_test(waits_for_room),
        cmocka_unit_test(waits_run_out),
        cmocka_unit_test(keeps_the_last_in_flight),
        cmocka_unit_test(accounts_for_gaps),
        cmocka_unit_test(sees_libraries_come),
        cmocka_unit_test(leaves_no_descriptor),
        cmocka_unit_test(does_nothing_when_refused),
        cmocka_unit_test(greets_only_if_wanted),
        cmocka_unit_test(pairs_through_exceptions),
        cmocka_unit_test(records_late_destructors),
    };
    const char *only = getenv("TEST_ONLY");
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
