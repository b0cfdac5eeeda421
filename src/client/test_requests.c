/* SPDX-License-Identifier: Apache-2.0 */
/* libomis with a monitor that behaves: every mode and flag of 7.1.1, and when callbacks run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <scry/omis.h>

#include "base/system/clock.h"
#include "client/client.h"
#include "client/test_monitor.h"
#include "lang/request.h"

/* What a callback was given, in order. */
struct seen {
    int count;
    Omis_status status[8];
    char text[8][64];
};

static void remember(Omis_reply reply, void *param)
{
    struct seen *seen = param;
    int at = seen->count++;
    assert_true(at < 8);
    Omis_service_result last = reply[1] ? reply[1] : reply[0];
    seen->status[at] = reply[0]->status;
    snprintf(seen->text[at], sizeof seen->text[at], "%s", last->result ? last->result : "NULL");
    omis_reply_free(reply);
}

static struct seen errors;

static void remember_error(Omis_reply reply)
{
    assert_null(reply[1]);
    remember(reply, &errors);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    return poll(&event, 1, timeout_ms) == 1;
}

/* As a tool does: until `seen` has seen `count` replies. */
static void handle_until(struct seen *seen, int count)
{
    while (seen->count < count) {
        assert_true(readable(omis_fd(), 10000));
        omis_handler();
    }
}

static char *request_text(const char *text)
{
    static char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    return copy;
}

/* ---- blocking ---- */

static void part_blocking(struct test_monitor *monitor)
{
    Omis_flags flags;
    uint32_t first = part_request(monitor, ": version()", &flags);
    CHECK(flags == 0);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, first, OK_REPLY("\"one\""));
    uint32_t second = part_request(monitor, ": version()", &flags);
    CHECK(second != first);
    CHECK(flags == OMIS_BUFFER_REPLIES); /* a reply that is waited for may not be suppressed or kept back */
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, second, OK_REPLY("\"two\""));
    part_finalize(monitor);
}

static void test_blocking(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_blocking);
    int tool_id = 0;
    assert_int_equal(test_monitor_connect(monitor, NULL, &tool_id), OMIS_OK);
    assert_int_equal(tool_id, TEST_TOOL_ID);
    Omis_reply reply = omis_request(request_text(": version()"), NULL, NULL, 0);
    assert_int_equal(reply[0]->status, OMIS_OK);
    assert_string_equal(reply[0]->obj_list, "");
    assert_string_equal(reply[1]->result, "\"one\"");
    assert_null(reply[1][1].obj_list);
    assert_null(reply[2]);
    omis_reply_free(reply);
    reply = omis_request(request_text(": version()"), NULL, NULL,
                         OMIS_DONT_RETURN_OK | OMIS_BUFFER_REQUEST | OMIS_BUFFER_REPLIES);
    assert_string_equal(reply[1]->result, "\"two\"");
    omis_reply_free(reply);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

static void part_tool_id(struct test_monitor *monitor)
{
    part_finalize(monitor);
}

static void test_tool_id_of_a_slave(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_tool_id);
    int tool_id = 4711;
    assert_int_equal(test_monitor_connect(monitor, NULL, &tool_id), OMIS_OK);
    assert_int_equal(tool_id, 4711);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* ---- callbacks ---- */

static void part_callbacks(struct test_monitor *monitor)
{
    uint32_t slow = part_request(monitor, ": slow()", NULL);
    uint32_t quick = part_request(monitor, ": quick()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, slow, OK_REPLY("\"slow\""));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, quick, OK_REPLY("\"quick\""));
    part_finalize(monitor);
}

/* The reply to the first request arrives while the second one blocks: it is kept for omis_handler, and omis_fd shows
 * it although the socket is empty. */
static void test_callback_only_in_handler(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_callbacks);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    int fd = omis_fd();
    assert_true(fd >= 0);
    assert_false(readable(fd, 0));
    struct seen seen = {0};
    assert_null(omis_request(request_text(": slow()"), remember, &seen, 0));
    assert_true(client_pending());
    Omis_reply reply = omis_request(request_text(": quick()"), NULL, NULL, 0);
    assert_string_equal(reply[1]->result, "\"quick\"");
    omis_reply_free(reply);
    assert_int_equal(seen.count, 0);
    assert_true(readable(fd, 0));
    omis_handler();
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.text[0], "\"slow\"");
    assert_false(readable(fd, 0));
    assert_false(client_pending());
    omis_handler(); /* nothing there: returns at once */
    assert_int_equal(seen.count, 1);
    assert_int_equal(omis_finalize(), OMIS_OK);
    assert_int_equal(omis_fd(), -1);
    test_monitor_stop(monitor);
}

static void part_first_reply(struct test_monitor *monitor)
{
    Omis_flags flags;
    uint32_t id = part_request(monitor, "event([]) : act()", &flags);
    CHECK(flags == OMIS_WAIT_FOR_FIRST_REPLY);
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_DEFINED, "c_1_1"}, {1, "", OMIS_OK, NULL}));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_TRIGGERED, NULL}, {1, "", OMIS_OK, "1"}));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_TRIGGERED, NULL}, {1, "", OMIS_OK, "2"}));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, RESULTS({0, "", OMIS_CSR_DELETED, NULL}, {1, "", OMIS_OK, NULL}));
    part_reply(monitor, FRAME_REPLY, 0, id, OK_REPLY("\"after the last\""));
    part_reply(monitor, FRAME_REPLY, 0, 12345, OK_REPLY("\"nobody asked\""));
    part_finalize(monitor);
}

static void test_wait_for_first_reply(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_first_reply);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    struct seen seen = {0};
    Omis_reply reply = omis_request(request_text("event([]) : act()"), remember, &seen, OMIS_WAIT_FOR_FIRST_REPLY);
    assert_int_equal(reply[0]->status, OMIS_CSR_DEFINED);
    assert_string_equal(reply[0]->result, "c_1_1");
    omis_reply_free(reply);
    handle_until(&seen, 3);
    assert_string_equal(seen.text[0], "1");
    assert_string_equal(seen.text[1], "2");
    assert_int_equal(seen.status[2], OMIS_CSR_DELETED);
    assert_int_equal(omis_finalize(), OMIS_OK);
    assert_int_equal(seen.count, 3);
    test_monitor_stop(monitor);
}

/* ---- suppressed replies ---- */

static void part_suppressed(struct test_monitor *monitor)
{
    Omis_flags flags;
    uint32_t id = part_request(monitor, "event([]) : act()", &flags);
    CHECK(flags == (OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS));
    struct part_result ok = {1, "p_1", OMIS_OK, NULL}, bad = {1, "p_1", OMIS_OS_ERROR, "bad"};
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_DEFINED, "c_1_1"}, ok));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_ENABLED, NULL}, ok));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_ENABLED, NULL}, bad));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "p_1", OMIS_CSR_TRIGGERED, NULL}, ok));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "p_1", OMIS_CSR_TRIGGERED, NULL}, {1, "", OMIS_OK, "7"}));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "p_1", OMIS_CSR_TRIGGERED, NULL}, ok, bad));
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_DISABLED, NULL}, ok));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, RESULTS({0, "", OMIS_CSR_DELETED, NULL}, ok));
    part_finalize(monitor);
}

static void test_unwanted_replies(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_suppressed);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    struct seen seen = {0};
    assert_null(omis_request(request_text("event([]) : act()"), remember, &seen,
                             OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS));
    while (seen.count == 0 || seen.status[seen.count - 1] != OMIS_CSR_DELETED)
        handle_until(&seen, seen.count + 1);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.status[0], OMIS_CSR_DEFINED);
    assert_int_equal(seen.status[1], OMIS_CSR_ENABLED); /* with an error in it */
    assert_string_equal(seen.text[1], "bad");
    assert_string_equal(seen.text[2], "7");
    assert_int_equal(seen.status[3], OMIS_CSR_TRIGGERED);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* An empty last frame says that a reply was kept back: the callback is forgotten, and a call that waits returns. */
static void part_empty_last(struct test_monitor *monitor)
{
    for (int i = 0; i < 2; i++)
        part_frame(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, ": act()", NULL), span_of("", 0));
    part_finalize(monitor);
}

static void test_empty_last_frame(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_empty_last);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    struct seen seen = {0};
    assert_null(omis_request(request_text(": act()"), remember, &seen, OMIS_DONT_RETURN_OK));
    Omis_reply reply =
        omis_request(request_text(": act()"), remember, &seen, OMIS_DONT_RETURN_OK | OMIS_WAIT_FOR_FIRST_REPLY);
    assert_int_equal(reply[0]->status, OMIS_OK);
    assert_null(reply[1]);
    omis_reply_free(reply);
    assert_false(client_pending());
    assert_int_equal(seen.count, 0);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* ---- a time limit ---- */

static void part_late(struct test_monitor *monitor)
{
    uint32_t waited = part_request(monitor, ": slow()", NULL);
    uint32_t defined = part_request(monitor, "event([]) : act()", NULL);
    uint32_t called = part_request(monitor, ": called()", NULL);
    uint32_t answered = part_request(monitor, ": answered()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, answered, OK_REPLY("\"in time\""));
    test_monitor_meet(monitor);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, waited, OK_REPLY("\"nobody waits\""));
    part_reply(monitor, FRAME_REPLY, 0, defined, RESULTS({0, "", OMIS_CSR_DEFINED, "c_1_1"}));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, called, OK_REPLY("\"late\""));
    part_finalize(monitor);
}

static void test_time_limit(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_late);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    omis_set_timeout(50);
    uint64_t before = clock_now_ns();
    Omis_reply reply = omis_request(request_text(": slow()"), NULL, NULL, 0);
    assert_true(clock_now_ns() - before >= 50 * 1000000);
    assert_int_equal(reply[0]->status, OMIS_OS_ERROR);
    assert_non_null(strstr(reply[0]->result, "no answer within 0.05 s"));
    omis_reply_free(reply);
    struct seen defined = {0}, called = {0}, answered = {0};
    reply = omis_request(request_text("event([]) : act()"), remember, &defined, OMIS_WAIT_FOR_FIRST_REPLY);
    assert_int_equal(reply[0]->status, OMIS_OS_ERROR);
    omis_reply_free(reply);
    assert_null(omis_request(request_text(": called()"), remember, &called, 0));
    omis_set_timeout(10000);
    assert_null(omis_request(request_text(": answered()"), remember, &answered, 0));
    handle_until(&called, 1); /* the descriptor of a tool in its main loop wakes it */
    assert_int_equal(called.status[0], OMIS_OS_ERROR);
    handle_until(&answered, 1);
    assert_int_equal(answered.status[0], OMIS_OK);
    assert_int_equal(defined.count, 0);
    test_monitor_meet(monitor);
    handle_until(&called, 2); /* what comes late comes as ever */
    assert_string_equal(called.text[1], "\"late\"");
    assert_int_equal(defined.status[0], OMIS_CSR_DEFINED);
    assert_int_equal(defined.count + called.count + answered.count, 4);
    omis_set_timeout(0);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* ---- buffering ---- */

static void part_buffered(struct test_monitor *monitor)
{
    test_monitor_meet(monitor);
    CHECK(part_nothing_comes(monitor));
    test_monitor_meet(monitor);
    for (int i = 0; i < 3; i++) {
        char text[16];
        snprintf(text, sizeof text, ": r%d()", i);
        part_reply(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, text, NULL), OK_REPLY(text));
    }
    part_request(monitor, ": last()", NULL); /* kept back until omis_finalize */
    part_finalize(monitor);
}

static void test_buffered_requests(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_buffered);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    struct seen seen = {0};
    assert_null(omis_request(request_text(": r0()"), remember, &seen, OMIS_BUFFER_REQUEST));
    assert_null(omis_request(request_text(": r1()"), remember, &seen, OMIS_BUFFER_REQUEST));
    omis_handler(); /* does not send what is kept back */
    test_monitor_meet(monitor);
    test_monitor_meet(monitor);
    assert_null(omis_request(request_text(": r2()"), remember, &seen, 0));
    handle_until(&seen, 3);
    assert_string_equal(seen.text[0], ": r0()");
    assert_string_equal(seen.text[2], ": r2()");
    assert_null(omis_request(request_text(": last()"), remember, &seen, OMIS_BUFFER_REQUEST));
    assert_int_equal(omis_finalize(), OMIS_OK);
    assert_int_equal(seen.count, 3);
    test_monitor_stop(monitor);
}

/* ---- texts ---- */

static const char binary_request[] = ": print([5#a\0\"\0b,\"x\"])";

static void part_binary(struct test_monitor *monitor)
{
    struct frame frame = part_read(monitor, FRAME_REQUEST);
    CHECK(span_eq(span_of(frame.payload.ptr + 4, frame.payload.len - 4),
                  span_of(binary_request, sizeof binary_request - 1)));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, frame.id, OK_REPLY("\"x\""));
    part_request(monitor, "", NULL);
    part_finalize(monitor);
}

static void test_binary_request(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_binary);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    char text[sizeof binary_request];
    memcpy(text, binary_request, sizeof text);
    omis_reply_free(omis_request(text, NULL, NULL, 0));
    struct seen seen = {0};
    assert_null(omis_request(NULL, remember, &seen, 0)); /* an empty request: the monitor says what is wrong with it */
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* Neither side reads before it has sent megabytes: a library that only writes would wait for ever. */
enum { BIG_SIZE = 10 << 20 };

static void part_big(struct test_monitor *monitor)
{
    char *text = malloc(BIG_SIZE + 1);
    CHECK(text);
    memset(text, 'x', BIG_SIZE);
    text[BIG_SIZE] = 0;
    uint32_t id = part_request(monitor, ": first()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, OK_REPLY(text));
    struct frame frame = part_read(monitor, FRAME_REQUEST);
    CHECK(frame.payload.len == BIG_SIZE + 4);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, frame.id, OK_REPLY("\"big\""));
    free(text);
    part_finalize(monitor);
}

static void big_reply(Omis_reply reply, void *param)
{
    *(size_t *)param = strlen(reply[1]->result);
    omis_reply_free(reply);
}

static void test_big_both_ways(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_big);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    size_t len = 0;
    assert_null(omis_request(request_text(": first()"), big_reply, &len, 0));
    char *text = malloc(BIG_SIZE + 1);
    memset(text, 'y', BIG_SIZE);
    text[BIG_SIZE] = 0;
    Omis_reply reply = omis_request(text, NULL, NULL, 0);
    assert_string_equal(reply[1]->result, "\"big\"");
    omis_reply_free(reply);
    assert_int_equal(len, 0);
    omis_handler();
    assert_int_equal(len, BIG_SIZE);
    free(text);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* A monitor that does not read: a request with a callback returns nevertheless, and omis_fd tells when to go on. */
static void part_lazy(struct test_monitor *monitor)
{
    test_monitor_meet(monitor);
    struct frame frame = part_read(monitor, FRAME_REQUEST);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, frame.id, OK_REPLY("\"done\""));
    part_finalize(monitor);
}

static void test_unsent_rest(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_lazy);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    assert_false(readable(omis_fd(), 0));
    enum { SIZE = 3 << 20 };
    char *text = malloc(SIZE + 1);
    memset(text, 'y', SIZE);
    text[SIZE] = 0;
    struct seen seen = {0};
    assert_null(omis_request(text, remember, &seen, 0));
    free(text);
    test_monitor_meet(monitor);
    handle_until(&seen, 1);
    assert_string_equal(seen.text[0], "\"done\"");
    assert_false(readable(omis_fd(), 0));
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* ---- the error handler ---- */

static void part_debug(struct test_monitor *monitor)
{
    Omis_flags flags;
    uint32_t id = part_request(monitor, ": act()", &flags);
    CHECK(flags == OMIS_DEBUG);
    part_reply(monitor, FRAME_ERROR, 0, 0, RESULTS({0, "", OMIS_OK, "act took 1 us"}));
    part_reply(monitor, FRAME_ERROR, 0, 0, RESULTS({0, "", OMIS_INTERNAL_ERROR, "3 replies were dropped"}));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, OK_REPLY("1"));
    part_finalize(monitor);
}

static void test_error_handler(void **state)
{
    errors = (struct seen){0};
    struct test_monitor *monitor = test_monitor_start(part_debug);
    assert_int_equal(test_monitor_connect(monitor, remember_error, NULL), OMIS_OK);
    omis_reply_free(omis_request(request_text(": act()"), NULL, NULL, OMIS_DEBUG));
    assert_int_equal(errors.count, 0);
    omis_handler();
    assert_int_equal(errors.count, 2);
    assert_int_equal(errors.status[0], OMIS_OK);
    assert_string_equal(errors.text[0], "act took 1 us");
    assert_int_equal(errors.status[1], OMIS_INTERNAL_ERROR);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* ---- calls from inside callbacks ---- */

static void part_nested(struct test_monitor *monitor)
{
    uint32_t first = part_request(monitor, ": first()", NULL), second = part_request(monitor, ": second()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, first, OK_REPLY("\"first\""));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, second, OK_REPLY("\"second\""));
    uint32_t inner = part_request(monitor, ": inner()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, inner, OK_REPLY("\"inner\""));
    uint32_t later = part_request(monitor, ": later()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, later, OK_REPLY("\"later\""));
    part_finalize(monitor);
}

static struct seen nested;

static void finalize_in_callback(Omis_reply reply, void *param)
{
    assert_int_equal(omis_finalize(), OMIS_OK);
    remember(reply, param);
}

static void request_in_callback(Omis_reply reply, void *param)
{
    Omis_reply inner = omis_request(request_text(": inner()"), NULL, NULL, 0);
    assert_string_equal(inner[1]->result, "\"inner\"");
    omis_reply_free(inner);
    assert_null(omis_request(request_text(": later()"), finalize_in_callback, param, 0));
    remember(reply, param);
}

static void test_calls_in_callbacks(void **state)
{
    nested = (struct seen){0};
    struct test_monitor *monitor = test_monitor_start(part_nested);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    assert_null(omis_request(request_text(": first()"), request_in_callback, &nested, 0));
    assert_null(omis_request(request_text(": second()"), remember, &nested, 0));
    while (omis_fd() >= 0) {
        assert_true(readable(omis_fd(), 10000));
        omis_handler();
    }
    assert_int_equal(nested.count, 3);
    assert_string_equal(nested.text[0], "\"first\"");
    assert_string_equal(nested.text[1], "\"second\"");
    assert_string_equal(nested.text[2], "\"later\"");
    test_monitor_stop(monitor);
}

/* ---- signals and children ---- */

static void tick(int signo)
{
}

static void part_too_slow(struct test_monitor *monitor)
{
    uint32_t id = part_request(monitor, ": act()", NULL);
    poll(NULL, 0, 50); /* many ticks */
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, OK_REPLY("1"));
    part_finalize(monitor);
}

static void test_interrupted(void **state)
{
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    /* the monitor's thread inherits the mask: the ticks are for this one */
    sigprocmask(SIG_BLOCK, &alarm_only, NULL);
    struct test_monitor *monitor = test_monitor_start(part_too_slow);
    struct sigaction action = {.sa_handler = tick}, before;
    sigaction(SIGALRM, &action, &before);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {0};
    setitimer(ITIMER_REAL, &every, NULL);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    Omis_reply reply = omis_request(request_text(": act()"), NULL, NULL, 0);
    assert_string_equal(reply[1]->result, "1");
    omis_reply_free(reply);
    assert_int_equal(omis_finalize(), OMIS_OK);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    test_monitor_stop(monitor);
}

static void part_forked(struct test_monitor *monitor)
{
    uint32_t id = part_request(monitor, ": parent()", NULL);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, id, OK_REPLY("1"));
    part_finalize(monitor);
}

/* The exit status of the child tells the first thing that was wrong. */
static int in_child(void)
{
    Omis_reply reply = omis_request(request_text(": child()"), NULL, NULL, 0);
    if (!reply || reply[0]->status != OMIS_INTERNAL_ERROR || !strstr(reply[0]->result, "forked"))
        return 1;
    omis_reply_free(reply);
    if (omis_fd() != -1 || client_connected() || omis_finalize() == OMIS_OK)
        return 2;
    omis_handler();
    char program[] = "tool", option[] = "--omis-connect=unix:/nonexistent/monitor.sock";
    char *arguments[] = {program, option, NULL}, **argv = arguments;
    int argc = 2;
    if (omis_init(&argc, &argv, NULL, NULL) != OMIS_OS_ERROR) /* its own try is made, and finds nobody */
        return 3;
    return 0;
}

static void test_forked_child(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_forked);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    assert_true(omis_fd() >= 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_child());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    Omis_reply reply = omis_request(request_text(": parent()"), NULL, NULL, 0);
    assert_string_equal(reply[1]->result, "1");
    omis_reply_free(reply);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

int main(void)
{
    alarm(60); /* whoever waits for ever shall not keep the build waiting; test_interrupted replaces it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_blocking, test_monitor_teardown),
        cmocka_unit_test_teardown(test_tool_id_of_a_slave, test_monitor_teardown),
        cmocka_unit_test_teardown(test_callback_only_in_handler, test_monitor_teardown),
        cmocka_unit_test_teardown(test_wait_for_first_reply, test_monitor_teardown),
        cmocka_unit_test_teardown(test_unwanted_replies, test_monitor_teardown),
        cmocka_unit_test_teardown(test_empty_last_frame, test_monitor_teardown),
        cmocka_unit_test_teardown(test_buffered_requests, test_monitor_teardown),
        cmocka_unit_test_teardown(test_binary_request, test_monitor_teardown),
        cmocka_unit_test_teardown(test_big_both_ways, test_monitor_teardown),
        cmocka_unit_test_teardown(test_unsent_rest, test_monitor_teardown),
        cmocka_unit_test_teardown(test_error_handler, test_monitor_teardown),
        cmocka_unit_test_teardown(test_calls_in_callbacks, test_monitor_teardown),
        cmocka_unit_test_teardown(test_interrupted, test_monitor_teardown),
        cmocka_unit_test_teardown(test_time_limit, test_monitor_teardown),
        cmocka_unit_test_teardown(test_forked_child, test_monitor_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
