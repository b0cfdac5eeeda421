/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are executed elsewhere or later, over a tracer that only pretends (test/fuzz/fake_tracer.c). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_tracer.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/process.h"
#include "monitor/engine/test_support.h"
#include "monitor/parts/parts.h"
#include "probe/proc.h"
#include "wire/frame.h"

enum { ADDRESS = 1000 };

int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err);

int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err)
{
    (void)err;
    snprintf(ret_path, size, "/%s", name);
    return 0;
}

static struct {
    unsigned count, ready;
    uint32_t id, hold;
    char text[512];
} told;

static void keep_event(struct session *session, uint8_t type, uint32_t id, struct span payload)
{
    (void)session;
    assert_int_equal(type, FRAME_EVENT);
    told.count++;
    told.id = id;
    assert_true(payload.len > sizeof told.hold);
    memcpy(&told.hold, payload.ptr, sizeof told.hold);
    snprintf(told.text, sizeof told.text, "%.*s", (int)payload.len - 4, payload.ptr + 4);
}

static void keep_ready(struct session *session)
{
    (void)session;
    told.ready++;
}

static int start(void **state)
{
    fake_tracer_reset();
    fake_tracer_may_keep = true;
    memset(fake_children, 0, sizeof fake_children);
    memset(&told, 0, sizeof told);
    return test_engine_start(state) < 0 ? -1 : lock_start(test_monitor);
}

static int stop(void **state)
{
    lock_done(test_monitor);
    return test_engine_stop(state);
}

static struct test_session *open_attached(void)
{
    struct fake_child *child = &fake_children[0];
    struct test_session *tool = test_open(NULL);
    if (!child->pid) {
        child->pid = child->tids[0] = test_child(1);
        child->thread_count = 1;
    }
    tool->session.other = keep_event;
    tool->session.ready = keep_ready;
    test_has_text(test_ask(tool, ": proc_attach3([], %d, \"\")", child->pid), "=p_1_1");
    test_ask(tool, ": thread_get_info([], 1)");
    return tool;
}

static void define_part(struct test_session *tool, uint32_t id, bool far, const char *text)
{
    const struct csr_home home = {.token = span_str("c_2_7"), .far = far};
    execute_define(&tool->session, id, OMIS_DONT_RETURN_EN_DIS, span_str(text), &home);
    test_has_text(test_next(tool), "OMIS_CSR_DEFINED=c_1_");
    test_ask(tool, ": csr_enable([])");
}

static void happens_now(void)
{
    fake_tracer_happens(TRACER_BREAK, 0, 0, ADDRESS, true);
    assert_int_equal(loop_step(test_loop, 0), 0);
}

/* ---- lists elsewhere ---- */

#define FAR_TEXT "thread_reached_addr([], 1000): thread_stop([$thread, t_3_4]) print([$csr, $proc, $thread])"

static void a_far_event_holds_its_thread_until_it_is_released(void **state)
{
    struct test_session *tool = open_attached();
    define_part(tool, 40, true, FAR_TEXT);
    happens_now();
    assert_int_equal(told.count, 1);
    assert_int_equal(told.id, 40);
    assert_non_null(strstr(told.text, "t_1_1,"));             /* where */
    assert_non_null(strstr(told.text, ",t_1_1,c_2_7,p_1_1")); /* each parameter once, as the list has them */
    assert_null(tool->replies);
    const struct process *process = process_find(test_monitor, fake_children[0].pid);
    assert_int_equal(process->trace.holds, 1);
    tell_release(&tool->session, told.hold + 1); /* not that one */
    assert_int_equal(process->trace.holds, 1);
    tell_release(&tool->session, told.hold);
    tell_release(&tool->session, told.hold); /* twice is fine */
    assert_int_equal(process->trace.holds, 0);
    test_close(tool);
    assert_true(fake_tracer_is_clean());
}

static void nothing_waits_for_who_did_not_answer(void **state)
{
    struct test_session *tool = open_attached();
    define_part(tool, 40, true, FAR_TEXT);
    const struct process *process = process_find(test_monitor, fake_children[0].pid);
    tool->session.mute = true; /* after TELL_LIMIT_NS */
    happens_now();
    assert_int_equal(told.count, 1); /* it is told all the same */
    assert_int_equal(told.hold, 0);
    assert_int_equal(process->trace.holds, 0);
    tell_release(&tool->session, 0); /* as is answered to that */
    happens_now();
    assert_int_equal(told.count, 2);
    assert_int_equal(process->trace.holds, 1);
    tell_release(&tool->session, told.hold);
    test_close(tool);
    assert_true(fake_tracer_is_clean());
}

static void whoever_goes_releases_what_waited_for_it(void **state)
{
    struct test_session *tool = open_attached(), *other = open_attached();
    define_part(tool, 40, true, FAR_TEXT);
    define_part(other, 41, true, FAR_TEXT);
    happens_now();
    assert_int_equal(told.count, 2);
    const struct process *process = process_find(test_monitor, fake_children[0].pid);
    test_close(tool);
    assert_int_equal(process->trace.holds, 1); /* for the other one */
    test_close(other);
    assert_true(fake_tracer_is_clean());
}

static void a_hold_of_a_process_that_ended_is_over(void **state)
{
    struct test_session *tool = open_attached();
    define_part(tool, 40, true, FAR_TEXT);
    happens_now();
    monitor_enter(test_monitor);
    process_terminated(process_find(test_monitor, fake_children[0].pid));
    monitor_leave(test_monitor);
    tell_release(&tool->session, told.hold);
    test_close(tool);
}

static void the_list_can_be_executed_with_what_was_told(void **state)
{
    struct test_session *tool = open_attached();
    test_send(tool, 0, "user_event_has_been_raised(e_1_9): print([$par1, $par2, $proc, \"x\"])");
    test_has_text(test_next(tool), "OMIS_UNKNOWN_OBJECT"); /* never issued */
    test_ask(tool, ": user_event_create()");
    test_send(tool, 0, "user_event_has_been_raised(e_1_1): print([$par1, $par2, $proc, \"x\"])");
    test_take(tool);
    struct csr *csr = (struct csr *)object_find(test_monitor, span_str("c_1_2"));
    assert_non_null(csr);
    struct told *read;
    assert_int_equal(told_read(&read, csr, span_str("p_3_7,5,0,p_3_7,u_0,n_3,3#],\x01,$par2,p_3_7")), 0);
    struct event event;
    told_event(read, csr, &event);
    monitor_enter(test_monitor);
    execute_triggered(csr, &event);
    monitor_leave(test_monitor);
    told_free(read);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED p_3_7 | OMIS_UNKNOWN_ECP");
    static const char *const bad[] = {
        "",
        "p_3_7",
        "p_3_7,5,0,p_3_7,u_0,n_3,1,2",
        "p_3_7,5,0,p_3_7,u_0,n_3,1,2,3,4",
        "1,5,0,p_3_7,u_0,n_3,1,2,3",
        "p_3_7,5,0,p_3_7,u_0,n_3,(",
        "p_3_7,p_1_1,0,p_3_7,u_0,n_3,1,2,3",
        "p_3_7,5,0,p_3_7,1,n_3,1,2,3",
        "p_333333333333333333333333333333333333333333333333333333333333333333,5,0,p_3_7,u_0,n_3,1,2,3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(told_read(&read, csr, span_str(bad[i])), -EBADMSG);
    test_close(tool);
}

/* ---- locks ---- */

struct claim {
    struct lock_claim lock;
    unsigned granted, lost;
};

static void granted(struct lock_claim *claim)
{
    ((struct claim *)claim)->granted++;
}

static void lost(struct lock_claim *claim)
{
    ((struct claim *)claim)->lost++;
}

static struct claim claim_of(struct test_session *tool)
{
    return (struct claim){.lock = {.session = &tool->session, .granted = granted, .lost = lost}};
}

static void a_lock_is_given_to_one_after_the_other(void **state)
{
    struct test_session *one = open_attached(), *two = open_attached();
    struct claim first = claim_of(one), second = claim_of(two), third = claim_of(one);
    lock_claim(&first.lock);
    lock_claim(&second.lock);
    lock_claim(&third.lock);
    assert_true(first.granted && !second.granted);
    assert_false(monitor_blocks(test_monitor, &one->session));
    assert_true(monitor_blocks(test_monitor, &two->session));
    lock_drop(&first.lock);
    lock_drop(&third.lock); /* which waits no more */
    assert_int_equal(loop_step(test_loop, 0), 0);
    assert_int_equal(told.ready, 1); /* the other one has its turn, */
    assert_int_equal(loop_step(test_loop, 0), 0);
    assert_true(second.granted && !third.granted); /* and then the lock */
    assert_true(monitor_blocks(test_monitor, &one->session));
    lock_drop(&second.lock);
    assert_int_equal(loop_step(test_loop, 0), 0);
    assert_int_equal(told.ready, 2);
    test_close(one);
    test_close(two);
}

static void events_wait_for_the_end_of_a_lock(void **state)
{
    struct test_session *tool = open_attached(), *other = open_attached();
    struct claim claim = claim_of(tool);
    test_enable(other, OMIS_DONT_RETURN_EN_DIS, "c_1_1", "thread_reached_addr([], 1000): print([$thread, $time])");
    const struct process *process = process_find(test_monitor, fake_children[0].pid);
    lock_claim(&claim.lock);
    happens_now();
    assert_null(other->replies);
    assert_int_equal(process->trace.holds, 1);
    lock_drop(&claim.lock);
    assert_int_equal(loop_step(test_loop, 0), 0);
    test_has_text(test_next(other), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=2,[t_1_1,");
    assert_int_equal(process->trace.holds, 0);
    lock_claim(&claim.lock);
    happens_now();
    test_close(other); /* nobody waits for it */
    lock_drop(&claim.lock);
    assert_int_equal(loop_step(test_loop, 0), 0);
    test_close(tool);
    assert_true(fake_tracer_is_clean());
}

/* ---- near and far ---- */

static bool is_near(const char *text, uint32_t node)
{
    struct arena arena = ARENA_INIT;
    struct request request;
    struct err err;
    struct service *services[8];
    assert_int_equal(request_parse(&arena, span_str(text), &request, &err), 0);
    for (size_t i = 0; i < request.action_count; i++) {
        struct call_text *action = &request.actions[i];
        services[i] = registry_find(test_monitor->registry, action->name);
        assert_non_null(services[i]);
        assert_int_equal(signature_check(&services[i]->signature, action->name, action->args, action->argc, &arena,
                                         &action->args, &err),
                         CHECK_OK);
        action->argc = services[i]->signature.param_count;
    }
    bool near = near_request(&request, services, node);
    arena_done(&arena);
    return near;
}

static void a_list_is_near_if_it_stays_with_its_event(void **state)
{
    assert_true(is_near(": print([$thread, p_3_1, $csr])", 2));
    assert_true(is_near(": thread_stop($thread) proc_get_info([$proc], 1)", 2));
    assert_true(is_near(": thread_stop([t_2_1, $thread])", 2));
    assert_false(is_near(": thread_stop([t_3_1, $thread])", 2));
    assert_false(is_near(": print([1]) thread_stop([])", 2));
    assert_false(is_near(": thread_stop(p_1_1)", 2));
    assert_false(is_near(": csr_disable($csr)", 2));
    assert_false(is_near(": user_event_raise(e_1_1, [], 0)", 2));
    assert_false(is_near(": user_event_create()", 2));
    assert_false(is_near(": node_detach($node)", 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_far_event_holds_its_thread_until_it_is_released),
        TEST(nothing_waits_for_who_did_not_answer),
        TEST(whoever_goes_releases_what_waited_for_it),
        TEST(a_hold_of_a_process_that_ended_is_over),
        TEST(the_list_can_be_executed_with_what_was_told),
        TEST(a_lock_is_given_to_one_after_the_other),
        TEST(events_wait_for_the_end_of_a_lock),
        TEST(a_list_is_near_if_it_stays_with_its_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
