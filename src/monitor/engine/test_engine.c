/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of tokens, events and their bounds, replies to conditional requests. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <stdlib.h>

#include "monitor/engine/execute.h"
#include "monitor/engine/event.h"
#include "monitor/engine/test_support.h"
#include "monitor/engine/object.h"

/* Bits of the services' flags that tell who answers. */
enum { PROC_PID = 1 << 9, THREAD_PROCESS = 1 };

static void attach(struct test_session *session, pid_t pid, const char *token)
{
    char expected[64];
    snprintf(expected, sizeof expected, "=%s", token);
    test_has_text(test_ask(session, ": proc_attach3([], %d, \"\")", pid), expected);
}

/* ---- conversion ---- */

static void converts_tokens(void **state)
{
    struct test_session *tool = test_open(NULL);
    pid_t first = test_child(2), second = test_child(1);
    char both[128], one[64];
    attach(tool, first, "p_1_1");
    attach(tool, second, "p_1_2");
    snprintf(both, sizeof both, "OMIS_OK | OMIS_OK p_1_1=%d OMIS_OK p_1_2=%d", first, second);
    snprintf(one, sizeof one, "OMIS_OK | OMIS_OK p_1_1=%d", first);
    assert_string_equal(test_ask(tool, ": proc_get_info([], %d)", PROC_PID), both);
    assert_string_equal(test_ask(tool, ": proc_get_info([n_1], %d)", PROC_PID), both);
    assert_string_equal(test_ask(tool, ": thread_get_info([], %d)", THREAD_PROCESS),
                        "OMIS_OK | OMIS_OK t_1_1,t_1_2=p_1_1 OMIS_OK t_1_3=p_1_2");
    assert_string_equal(test_ask(tool, ": thread_get_info(p_1_2, %d)", THREAD_PROCESS),
                        "OMIS_OK | OMIS_OK t_1_3=p_1_2");
    assert_string_equal(test_ask(tool, ": proc_get_info([t_1_2], %d)", PROC_PID), one);
    assert_string_equal(test_ask(tool, ": proc_get_info([t_1_2, p_1_1, t_1_1, n_1], %d)", PROC_PID), both);
    test_close(tool);
}

static void tells_why_a_token_is_none(void **state)
{
    struct test_session *tool = test_open(NULL), *other = test_open(NULL);
    attach(tool, test_child(1), "p_1_1");
    test_ask(tool, ": user_event_create()");
    test_has_text(test_ask(tool, ": proc_get_info([p_1_2], 1)"), "OMIS_UNKNOWN_OBJECT p_1_2=there is no object");
    test_has_text(test_ask(tool, ": proc_get_info([u_0], 1)"), "OMIS_UNKNOWN_OBJECT u_0=");
    test_has_text(test_ask(tool, ": proc_get_info([e_1_1], 1)"), "OMIS_TYPE_MISMATCH e_1_1=");
    test_has_text(test_ask(other, ": proc_get_info([p_1_1], 1)"), "OMIS_UNKNOWN_OBJECT p_1_1=");
    test_has_text(test_ask(other, ": proc_get_info([n_1], 1)"), "OMIS_UNKNOWN_OBJECT n_1=");
    assert_string_equal(test_ask(other, ": proc_get_info([], 1)"), "OMIS_OK | OMIS_OK");
    /* the others of the list are served */
    test_has_text(test_ask(tool, ": proc_get_info([p_1_7, p_1_1], %d)", PROC_PID), "OMIS_OK p_1_1=");
    test_ask(tool, ": user_event_destroy(e_1_1)");
    test_has_text(test_ask(tool, ": user_event_raise(e_1_1, [], 1)"), "does not exist any more");
    test_close(other);
    test_close(tool);
}

static void converts_once_in_an_execution(void **state)
{
    struct test_session *tool = test_open(NULL);
    attach(tool, test_child(1), "p_1_1");
    attach(tool, test_child(1), "p_1_2");
    const char *text =
        test_ask(tool, ": proc_get_info([], %d) proc_detach([p_1_1]) proc_get_info([], %d)", PROC_PID, PROC_PID);
    test_has_text(text, "| OMIS_OK p_1_1 | OMIS_UNKNOWN_OBJECT p_1_1=");
    test_has_text(text, "OMIS_OK p_1_2=");
    assert_null(strstr(test_ask(tool, ": proc_get_info([], %d)", PROC_PID), "p_1_1"));
    test_close(tool);
}

static void refuses_events_of_other_classes(void **state)
{
    struct test_session *tool = test_open(NULL);
    test_ask(tool, ": user_event_create()");
    test_send(tool, 0, "proc_has_terminated([e_1_1]): print([])");
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_DEFINED | OMIS_TYPE_MISMATCH=");
    test_send(tool, 0, "user_event_has_been_raised(c_1_1): print([])");
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_DEFINED | OMIS_TYPE_MISMATCH=");
    test_send(tool, 0, "proc_has_terminated([n_1]): print([])");
    test_has_text(test_text(test_take(tool)), "OMIS_CSR_DEFINED=c_1_3 | OMIS_OK");
    test_close(tool);
}

/* ---- events ---- */

/* Takes all replies of the triggered request; the number of them, and the text of the last. */
static size_t drain(struct test_session *session, char *ret_last, size_t size)
{
    size_t count = 0;
    ret_last[0] = 0;
    while (session->replies) {
        const char *text = test_text(test_take(session));
        if (strncmp(text, "OMIS_CSR_TRIGGERED", strlen("OMIS_CSR_TRIGGERED")) != 0)
            continue;
        count++;
        snprintf(ret_last, size, "%s", text);
    }
    return count;
}

static void chains_are_bounded(void **state)
{
    struct test_session *tool = test_open(NULL);
    char last[512];
    test_ask(tool, ": user_event_create()");
    test_send(tool, 0, "user_event_has_been_raised(e_1_1): user_event_raise(e_1_1, [], 1)");
    test_ask(tool, ": csr_enable([])");
    test_send(tool, 0, ": user_event_raise(e_1_1, [], 1)");
    assert_int_equal(drain(tool, last, sizeof last), EVENT_CHAIN_LIMIT + 1);
    test_has_text(last, "OMIS_UNSPECIFIED_ERROR e_1_1=");
    test_send(tool, 0, ": user_event_raise(e_1_1, [], 1)"); /* and each begins anew */
    assert_int_equal(drain(tool, last, sizeof last), EVENT_CHAIN_LIMIT + 1);
    test_close(tool);
}

static void cascades_are_bounded(void **state)
{
    struct test_session *tool = test_open(NULL);
    char last[512];
    test_ask(tool, ": user_event_create()");
    test_send(tool, 0,
              "user_event_has_been_raised(e_1_1): user_event_raise(e_1_1, [], 1) user_event_raise(e_1_1, [], 1)");
    test_ask(tool, ": csr_enable([])");
    test_send(tool, 0, ": user_event_raise(e_1_1, [], 1)");
    size_t count = drain(tool, last, sizeof last);
    assert_in_range(count, 1000, EVENT_CASCADE_LIMIT + 10);
    test_has_text(last, "OMIS_UNSPECIFIED_ERROR");
    test_close(tool);
}

static void lists_run_in_the_order_of_enabling(void **state)
{
    struct test_session *tool = test_open(NULL);
    test_ask(tool, ": user_event_create()");
    for (int i = 1; i <= 3; i++) {
        test_send(tool, OMIS_DONT_RETURN_EN_DIS, "user_event_has_been_raised(e_1_1): print([%d, $par1])", i);
        test_take(tool);
    }
    test_ask(tool, ": csr_enable([c_1_2]) csr_enable([c_1_1]) csr_enable([c_1_3]) csr_disable([c_1_1])");
    test_ask(tool, ": csr_enable([c_1_1])");
    test_send(tool, 0, ": user_event_raise(e_1_1, [7], 1)");
    assert_string_equal(test_text(test_take(tool)), "OMIS_OK | OMIS_OK e_1_1");
    assert_string_equal(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[2,7]");
    assert_string_equal(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[3,7]");
    assert_string_equal(test_text(test_take(tool)), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[1,7]");
    assert_null(tool->replies);
    test_close(tool);
}

static void a_request_may_delete_itself(void **state)
{
    struct test_session *tool = test_open(NULL);
    test_ask(tool, ": user_event_create()");
    uint32_t id = test_send(tool, OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS,
                            "user_event_has_been_raised(e_1_1): csr_delete([$csr]) user_event_destroy(e_1_1)");
    assert_false(test_take(tool)->last);
    test_ask(tool, ": csr_enable([])");
    test_ask(tool, ": user_event_raise(e_1_1, [], 1) user_event_raise(e_1_1, [], 1)");
    const struct test_reply *reply = test_take(tool);
    assert_string_equal(test_text(reply), "OMIS_CSR_DELETED | OMIS_OK");
    assert_true(reply->id == id && !reply->last);
    reply = test_take(tool);
    assert_string_equal(test_text(reply), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK c_1_1 | OMIS_OK e_1_1");
    assert_true(reply->id == id && reply->last);
    assert_null(tool->replies); /* the second event found it gone */
    test_close(tool);
}

static void requests_end_with_their_session(void **state)
{
    struct test_session *first = test_open(NULL), *second = test_open(first);
    test_ask(first, ": user_event_create()");
    test_send(second, 0, "user_event_has_been_raised(e_1_1): print([])");
    test_ask(first, ": csr_enable([])"); /* the tool is one: its sessions see each other's requests */
    test_take(second);
    assert_string_equal(test_text(test_take(second)), "OMIS_CSR_ENABLED | OMIS_OK");
    test_close(second);
    assert_string_equal(test_ask(first, ": user_event_raise(e_1_1, [], 1) csr_enable([c_1_1])"),
                        "OMIS_OK | OMIS_OK e_1_1 | OMIS_UNKNOWN_OBJECT c_1_1=c_1_1 does not exist any more");
    test_close(first);
    assert_null(test_monitor->tools);
}

static void large_replies_are_refused_in_parts(void **state)
{
    static char bytes[10 << 20]; /* a child has them at the same address; as text they are twice as long */
    struct test_session *tool = test_open(NULL);
    memset(bytes, 1, sizeof bytes);
    attach(tool, test_child(1), "p_1_1");
    char read[128];
    snprintf(read, sizeof read, "proc_read_memory([p_1_1], %llu, %zu, %zu, 1)", (unsigned long long)(uintptr_t)bytes,
             sizeof bytes, sizeof bytes);
    test_send(tool, 0, ": %s %s %s print([1])", read, read, read);
    const struct test_reply *reply = test_take(tool);
    assert_int_equal(reply->reply[1][0].status, OMIS_OK);
    assert_int_equal(reply->reply[2][0].status, OMIS_OK);
    assert_int_equal(reply->reply[3][0].status, OMIS_NO_MEMORY);
    assert_int_equal(reply->reply[4][0].status, OMIS_OK); /* what is small is still told */
    test_close(tool);
}

/* As [] does when a tool has attached much: a little text, many times. */
static size_t most_bytes;
static unsigned fills;

static void fill(struct scry_call *call)
{
    for (size_t bytes = 0; bytes < (size_t)REPLY_SIZE_LIMIT / 4; bytes += 400)
        call_fail(call, NULL, OMIS_TYPE_MISMATCH, "%0400u",
                  fills); /* which all may answer: of others the log would tell */
    if (call->reply->bytes.len > most_bytes)
        most_bytes = call->reply->bytes.len;
    fills++;
}

static void replies_have_an_end(void **state)
{
    static const struct scry_service row = {"test_fill", SCRY_MANIPULATION, "-> void", SCRY_OPTIONAL,
                                            fill,        "Says much."};
    struct test_session *tool = test_open(NULL);
    struct err err;
    assert_int_equal(registry_add(test_monitor->registry, &row, "", &err), 0);
    const char *said = test_ask(tool, ": test_fill() test_fill() test_fill() test_fill() test_fill() test_fill()");
    test_has_text(said, "OMIS_NO_MEMORY=action 4 makes the reply longer than 67108864 bytes");
    assert_true(most_bytes <= REPLY_SIZE_LIMIT);
    assert_int_equal(fills, 4); /* what could not be told is not done */
    test_ask(tool, ": user_event_create()");
    test_install(tool, 0, "c_1_1",
                 "user_event_has_been_raised([e_1_1]): test_fill() test_fill() test_fill() test_fill() test_fill()");
    test_send(tool, 0, ": user_event_raise(e_1_1, [], 1)");
    char all[4096] = "";
    while (tool->replies)
        strncat(all, test_next(tool), sizeof all - strlen(all) - 1);
    test_has_text(all, "OMIS_NO_MEMORY=action 4 makes the reply longer than 67108864 bytes: ask");
    assert_int_equal(fills, 9); /* what it does to the program it does to the end */
    assert_true(most_bytes <= REPLY_SIZE_LIMIT);
    test_close(tool);
}

/* ---- answers that come later ---- */

static struct later *pending; /* of the last call of test_wait */
static unsigned cancelled, readied;

static void on_cancel(void *ctx)
{
    assert_ptr_equal(ctx, &pending);
    pending = NULL;
    cancelled++;
}

static void on_ready(struct session *session)
{
    assert_null(session->waiting);
    readied++;
}

static void wait_for_it(struct scry_call *call)
{
    pending = call_later(call, on_cancel, &pending);
    if (!pending)
        call_fail(call, NULL, OMIS_UNSPECIFIED_ERROR, "at once");
}

static struct test_session *open_waiter(void)
{
    static const struct scry_service row = {"test_wait",   SCRY_MANIPULATION, "integer n -> integer",
                                            SCRY_OPTIONAL, wait_for_it,       "Answers later."};
    struct err err;
    if (!registry_find(test_monitor->registry, span_str("test_wait")))
        assert_int_equal(registry_add(test_monitor->registry, &row, "", &err), 0);
    struct test_session *session = test_open(NULL);
    session->session.ready = on_ready;
    pending = NULL;
    cancelled = readied = 0;
    return session;
}

static void answer(const char *text)
{
    struct later *later = pending;
    struct scry_call *call = call_later_begin(later);
    struct buf result = BUF_INIT;
    buf_puts(&result, text);
    call_text(call, NULL, &result);
    buf_done(&result);
    call_later_end(later, true);
}

static void answers_later(void **state)
{
    struct test_session *waiter = open_waiter(), *other = test_open(NULL);
    test_send(waiter, 0, ": print([1]) test_wait(1) print([2]) test_wait(2) print([3])");
    assert_null(waiter->replies);
    assert_non_null(waiter->session.waiting);
    test_has_text(test_ask(other, ": print([4])"), "OMIS_OK=1,[4]");
    call_later_begin(pending);
    call_later_end(pending, false); /* not yet */
    assert_non_null(waiter->session.waiting);
    answer("10");
    assert_null(waiter->replies); /* it waits again */
    assert_int_equal(readied, 0);
    answer("20");
    assert_int_equal(readied, 1);
    assert_string_equal(test_text(test_take(waiter)),
                        "OMIS_OK | OMIS_OK=1,[1] | OMIS_OK=10 | OMIS_OK=1,[2] | OMIS_OK=20 | "
                        "OMIS_OK=1,[3]");
    assert_int_equal(cancelled, 0);
    test_close(other);
    test_close(waiter);
}

static void some_lists_are_not_interrupted(void **state)
{
    struct test_session *waiter = open_waiter(), *plain = test_open(NULL);
    test_has_text(test_ask(waiter, ": {test_wait(1)}"), "OMIS_UNSPECIFIED_ERROR=at once");
    test_has_text(test_ask(plain, ": test_wait(1)"), "OMIS_UNSPECIFIED_ERROR=at once"); /* nobody could tell it */
    test_ask(waiter, ": user_event_create()");
    test_send(waiter, 0, "user_event_has_been_raised([e_1_1]): test_wait(1)");
    test_send(waiter, 0, ": csr_enable([])");
    test_send(waiter, 0, ": user_event_raise(e_1_1, [], 1)");
    char all[4096] = "";
    while (waiter->replies)
        strncat(all, test_text(test_take(waiter)), sizeof all - strlen(all) - 1);
    test_has_text(all, "OMIS_CSR_TRIGGERED");
    test_has_text(all, "OMIS_UNSPECIFIED_ERROR=at once");
    test_close(plain);
    test_close(waiter);
}

static void goes_away_while_it_waits(void **state)
{
    struct test_session *waiter = open_waiter();
    test_send(waiter, 0, ": test_wait(1) print([1])");
    assert_non_null(pending);
    test_close(waiter);
    assert_int_equal(cancelled, 1);
    assert_int_equal(readied, 0);
    assert_null(test_monitor->tools);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_engine_start, test_engine_stop)

static void run(struct scry_call *call)
{
    (void)call;
}

static const char *missing(void)
{
    return "not here";
}

static struct registry *new_registry(void)
{
    struct registry *registry = calloc(1, sizeof *registry);
    assert_non_null(registry);
    return registry;
}

static void finds_what_was_added(void **state)
{
    static const struct scry_service rows[] = {
        {"alpha", SCRY_INFORMATION, "token<p>* list, integer flags -> void", SCRY_REQUIRED, run, "A."},
        {"beta", SCRY_EVENT, "string name, token<pa_c> counter -> { integer sig }", SCRY_PARTIAL, NULL, "B."},
        {"gamma_2", SCRY_MANIPULATION, "-> token", SCRY_OPTIONAL, NULL, "C.", .missing = missing},
    };
    struct registry *registry = new_registry();
    struct err err;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(registry_add(registry, &rows[i], "", &err), 0);
    struct service *service = registry_find(registry, span_str("alpha"));
    assert_non_null(service);
    assert_int_equal(service->object_arg, 0);
    assert_string_equal(service->object_class, "p");
    service = registry_find(registry, span_str("beta"));
    assert_int_equal(service->object_arg, 1);
    assert_string_equal(service->object_class, "pa_c");
    assert_int_equal(registry_find(registry, span_str("gamma_2"))->object_arg, -1);
    assert_null(registry_find(registry, span_str("alph")));
    assert_null(registry_find(registry, span_str("")));
    assert_null(registry_find(registry, span_of("alpha\0", 6)));
    assert_int_equal(registry_add(registry, &rows[0], "", &err), -EEXIST);
    assert_non_null(strstr(err.text, "alpha"));
    registry_free(registry);
}

static void refuses_rows_that_cannot_work(void **state)
{
    static const struct scry_service rows[] = {
        {NULL, SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"Upper", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"1st", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"no_signature", SCRY_INFORMATION, NULL, SCRY_REQUIRED, run, "."},
        {"bad_signature", SCRY_INFORMATION, "integer -> ->", SCRY_REQUIRED, run, "."},
        {"no_doc", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, NULL},
        {"no_run", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, NULL, "."},
        {"no_kind", (enum scry_kind)3, "-> void", SCRY_REQUIRED, run, "."},
        {"no_class", SCRY_INFORMATION, "-> void", (enum scry_requirement)3, run, "."},
    };
    struct registry *registry = new_registry();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {0};
        assert_int_equal(registry_add(registry, &rows[i], "", &err), -EINVAL);
        assert_true(err.text[0]);
    }
    assert_null(registry->services);
    registry_free(registry);
}

static void keeps_extensions_apart(void **state)
{
    static const struct scry_service own = {"ab_one", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, run, "."},
                                     alien = {"abc_one", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, run, "."};
    struct registry *registry = new_registry();
    struct err err;
    assert_int_equal(registry_add(registry, &alien, "ab", &err), -EINVAL);
    assert_int_equal(registry_add(registry, &own, "ab", &err), 0);
    assert_int_equal(registry_add(registry, &alien, "abc", &err), 0);
    assert_int_equal(registry_add_extension(registry, "ab", &err), 0);
    assert_int_equal(registry_add_extension(registry, "ab", &err), -EEXIST);
    assert_true(registry_has_extension(registry, span_str("ab")));
    assert_false(registry_has_extension(registry, span_str("a")));
    registry_remove_extension(registry, "abc");
    assert_null(registry_find(registry, span_str("abc_one")));
    assert_non_null(registry_find(registry, span_str("ab_one")));
    char prefix[16];
    for (int i = 1; i < 64; i++) {
        snprintf(prefix, sizeof prefix, "x%d", i);
        assert_int_equal(registry_add_extension(registry, prefix, &err), 0);
    }
    assert_int_equal(registry_add_extension(registry, "one_more", &err), -ENOSPC);
    registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(converts_tokens),
        TEST(tells_why_a_token_is_none),
        TEST(converts_once_in_an_execution),
        TEST(refuses_events_of_other_classes),
        TEST(chains_are_bounded),
        TEST(cascades_are_bounded),
        TEST(lists_run_in_the_order_of_enabling),
        TEST(a_request_may_delete_itself),
        TEST(requests_end_with_their_session),
        TEST(large_replies_are_refused_in_parts),
        TEST(replies_have_an_end),
        TEST(answers_later),
        TEST(some_lists_are_not_interrupted),
        TEST(goes_away_while_it_waits),
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(refuses_rows_that_cannot_work),
        cmocka_unit_test(keeps_extensions_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
