/* SPDX-License-Identifier: Apache-2.0 */
/* Where records are missing: in a packet, or packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobdir/trace/test_trace_events.h"

static void test_lost_exits(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_end(made);
    made->head.events_discarded = 4;
    made_begin(made, 7, 200);
    made->head.depth = 1;
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n115 7 2 +step <solve\n200 7 2 -step lost 85\n"
                 "200 7 1 -solve lost 90\n200 7 1 gap 4\n200 7 0 -main open 100\n",
                 "");
}

/* Packets are missing: what had been open is over unless its end comes later, and what ends later began in the gap. */
static void test_missing_packets(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    begin_in_step(made);
    made_enter(made, 120, 4);
    made_end(made);
    made->head.events_discarded = 9;
    made_begin(made, 7, 300);
    made->head.packet_seq = 5;
    made->head.depth = 4; /* main, solve and two that began in the gap */
    made_end(made);
    made_begin(made, 7, 300);
    made->head.packet_seq = 6;
    made->head.depth = 4;
    made_leaf(made, 310, 311, 4);
    made_count(made, 315, RECORD_UNWOUND, 1); /* which one is not known */
    made_leaf(made, 316, 317, 4);
    made_exit_of(made, 320, 3, 250);
    made_enter(made, 330, 3);
    made_end(made);
    made_begin(made, 7, 400);
    made->head.packet_seq = 7;
    made->head.depth = 3;
    made_exit_of(made, 410, 3, 330);
    made_exit_of(made, 420, 2, 110);
    made_exit_of(made, 430, 1, 100);
    check_stream(place,
                 "100 7 0 +main <-\n110 7 1 +solve <main\n115 7 2 +step <solve\n120 7 3 +norm <step\n"
                 "120 7 3 -norm lost 0\n120 7 2 -step lost 5\n120 7 2 gap 9\n250 7 2 +step <solve\n"
                 "310 7 4 +norm <-\n311 7 4 -norm returned 1\n316 7 3 +norm <step\n317 7 3 -norm returned 1\n"
                 "320 7 2 -step returned 70\n330 7 2 +step <solve\n410 7 2 -step returned 80\n"
                 "420 7 1 -solve returned 310\n430 7 0 -main returned 330\n",
                 "");
}

/* The same at the end of a thread: nothing is known to be open. */
static void test_missing_to_the_end(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_stack(made, 110, 5, 0);
    made_enter(made, 120, 2);
    made_end(made);
    made->head.events_discarded = 1;
    made_begin(made, 7, 300);
    made->head.packet_seq = 3;
    check_stream(
        place, "100 7 0 +main <-\n120 7/5 0 +solve <-\n120 7/5 0 -solve lost 0\n120 7 0 -main lost 20\n120 7 0 gap 1\n",
        "");
}

/* Calls that end after a gap without a name, however many; an exit that names another one is of none of them. */
static void test_missing_names(void **state)
{
    struct place *place = *state;
    struct made *made = &place->made;
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_end(made);
    made->head.events_discarded = 1;
    made_begin(made, 7, 200);
    made->head.packet_seq = 3;
    made_enter(made, 210, 4);
    made_exit_of(made, 220, UINT32_MAX, 100);
    made_count(made, 230, RECORD_UNWOUND, 1000000);
    made_exit_of(made, 240, 1, 100);
    check_stream(place,
                 "100 7 0 +main <-\n100 7 1 gap 1\n210 7 1000001 +norm <-\n220 7 1000001 -norm lost 10\n"
                 "220 7 1000001 -? returned 120 alone\n240 7 0 -main returned 140\n",
                 "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lost_exits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_to_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_names, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
