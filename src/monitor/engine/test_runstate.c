/* SPDX-License-Identifier: Apache-2.0 */
/* Run states, breakpoints and lowered lists, over a tracer that only pretends (test/fuzz/fake_tracer.c). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_tracer.h"
#include "monitor/engine/process.h"
#include "monitor/engine/object.h"
#include "monitor/tracing/tracing.h"
#include "monitor/engine/test_support.h"
#include "probe/proc.h"

enum { ADDRESS = 1000, THREAD_STATE = 1 << 8 };

int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err);
int pa_register(void);

int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err)
{
    (void)err;
    snprintf(ret_path, size, "/%s", name);
    return 0;
}

static int start(void **state)
{
    fake_tracer_reset();
    memset(fake_children, 0, sizeof fake_children);
    return test_engine_start(state) < 0 ? -1 : test_engine_extend("pa", pa_register);
}

static void new_child(size_t index, unsigned threads)
{
    struct fake_child *child = &fake_children[index];
    pid_t *tids;
    size_t count;
    child->pid = test_child(threads);
    assert_int_equal(proc_threads(child->pid, &tids, &count), 0);
    assert_int_equal(count, threads);
    memcpy(child->tids, tids, count * sizeof *tids);
    child->thread_count = count;
    free(tids);
}

/* A tool that has attached the first children. */
static struct test_session *open_attached(size_t children)
{
    struct test_session *tool = test_open(NULL);
    for (size_t i = 0; i < children; i++)
        test_has_text(test_ask(tool, ": proc_attach3([], %d, \"\")", fake_children[i].pid), "=p_1_");
    test_ask(tool, ": thread_get_info([], 1)"); /* gives the threads their tokens */
    return tool;
}

static struct thread *thread_of(size_t child, size_t index)
{
    struct process *process = process_find(test_monitor, fake_children[child].pid);
    return process_thread(process, fake_children[child].tids[index]);
}

static void happens_now(enum tracer_event_kind kind, size_t child, size_t thread, unsigned detail)
{
    fake_tracer_happens(kind, child, thread, detail, true);
    assert_int_equal(loop_step(test_loop, 0), 0);
}

/* ---- run states ---- */

static void stops_are_one_switch_suspends_are_counted(void **state)
{
    new_child(0, 2);
    struct test_session *one = open_attached(1), *two = open_attached(1);
    assert_string_equal(test_ask(one, ": thread_stop([]) thread_stop([])"),
                        "OMIS_OK | OMIS_OK t_1_1,t_1_2 | OMIS_OK t_1_1,t_1_2");
    assert_true(thread_of(0, 0)->stopped && thread_of(0, 1)->stopped && fake_children[0].seized);
    assert_string_equal(runstate_held_by(thread_of(0, 0)), "");
    test_ask(two, ": thread_continue([t_1_1])"); /* anybody may */
    assert_false(thread_of(0, 0)->stopped);
    assert_null(runstate_held_by(thread_of(0, 0)));
    test_ask(one, ": thread_suspend([t_1_1]) thread_suspend([t_1_1])");
    test_has_text(test_ask(two, ": thread_resume([t_1_1])"), "OMIS_PARAMETER_ERROR t_1_1=");
    test_ask(two, ": thread_suspend([t_1_1])");
    test_ask(one, ": thread_resume([t_1_1]) thread_resume([t_1_1]) thread_continue([])");
    assert_true(thread_of(0, 0)->stopped); /* the other tool still wants it to wait */
    assert_false(thread_of(0, 1)->stopped);
    test_close(two);
    assert_false(thread_of(0, 0)->stopped);
    assert_false(fake_children[0].seized); /* nobody needs it traced */
    test_close(one);
    assert_true(fake_tracer_is_clean());
}

static void what_fails_is_undone(void **state)
{
    new_child(0, 3);
    struct test_session *tool = open_attached(1);
    fake_tracer_mode(FAKE_PARTLY);
    test_has_text(test_ask(tool, ": thread_stop([])"), "OMIS_OK t_1_1 OMIS_OS_ERROR t_1_2=");
    assert_true(thread_of(0, 0)->stopped && !thread_of(0, 1)->stopped && thread_of(0, 2)->stopped);
    assert_null(strstr(test_ask(tool, ": thread_get_info([t_1_2], %d)", THREAD_STATE), "=3"));
    fake_tracer_mode(FAKE_DENIED);
    test_has_text(test_ask(tool, ": thread_continue([])"), "OMIS_NO_PERMISSION t_1_1");
    assert_true(thread_of(0, 0)->stopped && thread_of(0, 0)->claims->stopped); /* as it was, not half of it */
    test_has_text(test_ask(tool, ": thread_suspend([t_1_2])"), "OMIS_NO_PERMISSION t_1_2");
    fake_tracer_mode(FAKE_WORKS);
    test_has_text(test_ask(tool, ": thread_resume([t_1_2])"), "OMIS_PARAMETER_ERROR t_1_2");
    test_has_text(test_ask(tool, ": thread_continue([])"), "OMIS_OK t_1_1,t_1_2,t_1_3");
    assert_false(fake_children[0].seized);
    test_close(tool);
}

static void changes_of_state_are_reported(void **state)
{
    new_child(0, 2);
    struct test_session *one = open_attached(1), *two = open_attached(1);
    test_send(two, OMIS_DONT_RETURN_EN_DIS, "thread_has_been_stopped([]): print([$thread])");
    test_send(two, OMIS_DONT_RETURN_EN_DIS, "proc_has_been_stopped([]): print([$proc])");
    test_send(two, OMIS_DONT_RETURN_EN_DIS, "thread_has_been_continued([]): print([$thread])");
    for (int i = 0; i < 3; i++)
        test_take(two);
    test_ask(two, ": csr_enable([])");
    test_ask(one, ": thread_stop([t_1_1])");
    test_has_text(test_text(test_take(two)), "=1,[t_1_1]");
    test_ask(one, ": thread_stop([])");
    test_has_text(test_text(test_take(two)), "=1,[t_1_2]");
    test_has_text(test_text(test_take(two)), "=1,[p_1_1]");
    test_ask(one, ": thread_detach([t_1_1])");
    test_has_text(test_text(test_take(two)), "=1,[t_1_1]");
    assert_null(two->replies);
    test_close(one);
    test_has_text(test_text(test_take(two)), "=1,[t_1_2]");
    test_close(two);
}

/* Of the process: when the last thread has been stopped, and when the last has been continued. */
static void changes_of_a_process_are_those_of_all_threads(void **state)
{
    new_child(0, 2);
    struct test_session *one = open_attached(1), *two = open_attached(1);
    test_send(two, OMIS_DONT_RETURN_EN_DIS, "proc_has_been_stopped([]): print([\"stopped\"])");
    test_send(two, OMIS_DONT_RETURN_EN_DIS, "proc_has_been_continued([]): print([\"continued\"])");
    test_take(two);
    test_take(two);
    test_ask(two, ": csr_enable([])");
    test_ask(one, ": thread_stop([])");
    test_has_text(test_text(test_take(two)), "stopped");
    test_ask(one, ": thread_continue([t_1_1])");
    assert_null(two->replies);
    test_ask(one, ": thread_stop([t_1_1])"); /* all are, once more */
    test_has_text(test_text(test_take(two)), "stopped");
    test_ask(one, ": thread_continue([t_1_1])");
    test_ask(one, ": thread_continue([t_1_2])");
    test_has_text(test_text(test_take(two)), "continued");
    test_ask(one, ": thread_stop([t_1_2])");
    test_ask(one, ": thread_continue([])");
    assert_null(two->replies);
    test_close(one);
    test_close(two);
}

/* Until the lists have run: also that of the process, for which all threads wait. */
static void who_is_continued_waits_for_the_lists(void **state)
{
    new_child(0, 2);
    struct test_session *tool = open_attached(1);
    static const char *const events[] = {"thread_has_been_continued", "proc_has_been_continued"};
    for (size_t i = 0; i < 2; i++) {
        test_send(tool, OMIS_DONT_RETURN_EN_DIS, "%s([p_1_1]): thread_get_info([p_1_1], %d)", events[i], THREAD_STATE);
        test_take(tool);
        test_ask(tool, ": thread_stop([]) csr_enable([])");
        test_ask(tool, ": thread_continue([])");
        test_has_text(test_text(test_take(tool)), "OMIS_OK t_1_1,t_1_2=4");
        assert_true(!thread_of(0, 0)->stopped && !thread_of(0, 1)->stopped);
        test_ask(tool, ": csr_delete([])");
        while (tool->replies)
            test_take(tool);
    }
    test_close(tool);
    assert_true(fake_tracer_is_clean());
}

static void two_requests_that_undo_each_other_come_to_an_end(void **state)
{
    new_child(0, 1);
    struct test_session *tool = open_attached(1);
    test_send(tool, 0, "thread_has_been_stopped([]): thread_continue([$thread])");
    test_send(tool, 0, "thread_has_been_continued([]): thread_stop([$thread])");
    test_ask(tool, ": csr_enable([])");
    test_send(tool, 0, ": thread_stop([])");
    size_t count = 0;
    for (; tool->replies; count++)
        test_take(tool);
    assert_in_range(count, 60, 80);
    const char *by = runstate_held_by(thread_of(0, 0));
    assert_true(!by || strcmp(by, "thread_has_been_continued") == 0);
    test_close(tool);
}

static void a_lost_tracer_is_replaced(void **state)
{
    new_child(0, 1);
    struct test_session *tool = open_attached(1);
    test_send(tool, OMIS_DONT_RETURN_EN_DIS, "thread_reached_addr([], %d): print([1])", ADDRESS);
    test_take(tool);
    test_ask(tool, ": csr_enable([]) thread_stop([])");
    for (int i = 0; i < 2; i++) {
        fake_tracer_mode(FAKE_LOST);
        assert_int_equal(loop_step(test_loop, 0), 0);
        assert_true(fake_children[0].seized && thread_of(0, 0)->stopped);
        happens_now(TRACER_BREAK, 0, 0, ADDRESS);
        test_has_text(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED t_1_1");
    }
    /* the third time within a minute is once too often: it is not started again, and nothing is pretended */
    fake_tracer_mode(FAKE_LOST);
    assert_int_equal(loop_step(test_loop, 0), 0);
    assert_false(thread_of(0, 0)->stopped || thread_of(0, 0)->claims->stopped);
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_DISABLED | OMIS_OS_ERROR p_1_1=");
    test_has_text(test_ask(tool, ": thread_stop([])"), "OMIS_OS_ERROR t_1_1=");
    test_close(tool);
}

/* ---- events of the tracer ---- */

static void the_thread_is_held_until_the_lists_are_done(void **state)
{
    new_child(0, 2);
    struct test_session *tool = open_attached(1);
    test_send(tool, OMIS_DONT_RETURN_EN_DIS, "thread_reached_addr([t_1_2], %d): proc_detach([$proc])", ADDRESS);
    test_take(tool);
    test_ask(tool, ": csr_enable([])");
    assert_true(fake_children[0].seized);
    happens_now(TRACER_BREAK, 0, 0, ADDRESS); /* the other thread */
    assert_null(tool->replies);
    happens_now(TRACER_BREAK, 0, 1, ADDRESS); /* the double makes sure that it is not given back before the release */
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED t_1_2 | OMIS_OK p_1_1");
    assert_true(fake_tracer_is_clean());
    test_close(tool);
}

static void a_new_program_has_no_breakpoints(void **state)
{
    new_child(0, 1);
    struct test_session *tool = open_attached(1);
    test_send(tool, 0, "thread_reached_addr([], %d): print([1])", ADDRESS);
    test_take(tool);
    test_ask(tool, ": csr_enable([]) thread_suspend([])");
    happens_now(TRACER_EXEC, 0, 0, 0);
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_DISABLED | OMIS_UNKNOWN_OBJECT p_1_1=");
    fake_tracer_mode(FAKE_LOST); /* also when all is set up again */
    assert_int_equal(loop_step(test_loop, 0), 0);
    assert_true(fake_children[0].seized);
    happens_now(TRACER_BREAK, 0, 0, ADDRESS);
    assert_null(tool->replies);
    test_close(tool);
}

/* ---- lowered lists ---- */

static const char *count_of(struct test_session *tool, const char *counter)
{
    const char *text = test_ask(tool, ": pa_counter_read([%s])", counter), *value = strrchr(text, '=');
    assert_non_null(value);
    return value + 1;
}

static struct test_session *open_counting(const char *action)
{
    new_child(0, 2);
    struct test_session *tool = open_attached(1);
    test_has_text(test_ask(tool, ": pa_counter_create()"), "=pa_c_1_1");
    test_send(tool, OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS, "thread_reached_addr([], %d): %s", ADDRESS, action);
    test_take(tool);
    test_ask(tool, ": csr_enable([])");
    return tool;
}

static void hit(unsigned times)
{
    while (times--)
        happens_now(TRACER_BREAK, 0, 1, ADDRESS);
}

/* How often the engine was asked: executions that were begun. */
static uint64_t executions_of_hits(unsigned times)
{
    uint64_t before = test_monitor->last_execution;
    hit(times);
    return test_monitor->last_execution - before;
}

static void a_lowered_list_needs_no_monitor(void **state)
{
    struct test_session *tool = open_counting("pa_counter_add([pa_c_1_1], 2)");
    assert_int_equal(executions_of_hits(5), 0);
    assert_string_equal(count_of(tool, "pa_c_1_1"), "10");
    test_ask(tool, ": csr_disable([])");
    hit(1);
    assert_string_equal(count_of(tool, "pa_c_1_1"), "10");
    test_close(tool);
}

static void a_cell_that_is_reused_is_not_added_to(void **state)
{
    struct test_session *tool = open_counting("pa_counter_add([pa_c_1_1], 2)");
    hit(1);
    test_has_text(test_ask(tool, ": pa_counter_delete([pa_c_1_1])"), "OMIS_OK");
    test_has_text(test_ask(tool, ": pa_counter_create()"), "=pa_c_1_2");
    hit(1);
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED t_1_2 | OMIS_UNKNOWN_OBJECT pa_c_1_1=");
    assert_string_equal(count_of(tool, "pa_c_1_2"), "0");
    test_close(tool);
}

static void another_tools_counter_may_end_too(void **state)
{
    struct test_session *owner = test_open(NULL);
    new_child(0, 1);
    test_ask(owner, ": pa_counter_create()");
    struct test_session *tool = open_attached(1);
    test_send(tool, OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS,
              "thread_reached_addr([], %d): pa_counter_add([pa_c_1_1], 1)", ADDRESS);
    test_take(tool);
    test_ask(tool, ": csr_enable([])");
    test_close(owner);
    test_has_text(test_ask(tool, ": pa_counter_create()"), "=pa_c_1_2");
    happens_now(TRACER_BREAK, 0, 0, ADDRESS);
    assert_string_equal(count_of(tool, "pa_c_1_2"), "0");
    test_close(tool);
}

static void the_list_is_lowered_anew_when_enabled_again(void **state)
{
    struct test_session *tool = open_counting("pa_counter_add([pa_c_1_1], 2)");
    test_ask(tool, ": csr_disable([]) pa_counter_delete([pa_c_1_1]) csr_enable([]) pa_counter_create()");
    hit(1);
    assert_string_equal(count_of(tool, "pa_c_1_2"), "0");
    test_close(tool);
}

static void what_must_be_converted_each_time_is_not_lowered(void **state)
{
    struct test_session *tool = open_counting("pa_counter_add([], 1)");
    test_ask(tool, ": pa_counter_create()"); /* [] is also what came later */
    assert_int_equal(executions_of_hits(3), 3);
    assert_string_equal(count_of(tool, "pa_c_1_1"), "3");
    assert_string_equal(count_of(tool, "pa_c_1_2"), "3");
    test_close(tool);
}

static void threads_that_were_detached_are_not_counted(void **state)
{
    struct test_session *tool = open_counting("pa_counter_add([pa_c_1_1], 1)");
    test_ask(tool, ": thread_detach([t_1_2])");
    happens_now(TRACER_BREAK, 0, 1, ADDRESS);
    assert_string_equal(count_of(tool, "pa_c_1_1"), "0");
    happens_now(TRACER_BREAK, 0, 0, ADDRESS);
    assert_string_equal(count_of(tool, "pa_c_1_1"), "1");
    test_close(tool);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, test_engine_stop)

/* Of a thread it was reported that nothing fires there any more: not again when its process goes. */
static void what_is_disabled_is_reported_once(void **state)
{
    new_child(0, 2);
    struct test_session *tool = open_attached(1);
    test_send(tool, 0, "thread_reached_addr([t_1_2], %d): print([1])", ADDRESS);
    test_take(tool);
    test_send(tool, 0, "thread_reached_addr([], %d): print([2])", ADDRESS);
    test_take(tool);
    test_ask(tool, ": csr_enable([])");
    while (tool->replies)
        test_take(tool);
    test_send(tool, 0, ": thread_detach([t_1_2])");
    test_has_text(test_next(tool), "OMIS_CSR_DISABLED | OMIS_OK t_1_2");
    test_has_text(test_next(tool), "OMIS_CSR_DISABLED | OMIS_OK t_1_2");
    test_has_text(test_next(tool), "OMIS_OK t_1_2");
    assert_null(tool->replies);
    test_send(tool, 0, ": proc_detach([p_1_1])");
    test_has_text(test_next(tool), "OMIS_CSR_DISABLED | OMIS_OK p_1_1"); /* of the other thread */
    test_has_text(test_next(tool), "OMIS_OK p_1_1");
    assert_null(tool->replies);
    test_close(tool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stops_are_one_switch_suspends_are_counted),
        TEST(what_fails_is_undone),
        TEST(changes_of_state_are_reported),
        TEST(changes_of_a_process_are_those_of_all_threads),
        TEST(who_is_continued_waits_for_the_lists),
        TEST(two_requests_that_undo_each_other_come_to_an_end),
        TEST(a_lost_tracer_is_replaced),
        TEST(the_thread_is_held_until_the_lists_are_done),
        TEST(a_new_program_has_no_breakpoints),
        TEST(a_lowered_list_needs_no_monitor),
        TEST(a_cell_that_is_reused_is_not_added_to),
        TEST(another_tools_counter_may_end_too),
        TEST(the_list_is_lowered_anew_when_enabled_again),
        TEST(what_must_be_converted_each_time_is_not_lowered),
        TEST(threads_that_were_detached_are_not_counted),
        TEST(what_is_disabled_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
