/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/test_support.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/engine/object.h"
#include "service/omis/service.h"

enum { CHILDREN = 16 };

struct monitor *test_monitor;
struct loop *test_loop;
static pid_t children[CHILDREN];
static size_t child_count;
static struct test_reply *taken;

int test_engine_start(void **state)
{
    struct err err;
    (void)state;
    return loop_new(&test_loop) == 0 && monitor_new(&test_monitor, test_loop, service_register_all, &err) == 0 ? 0 : -1;
}

int test_engine_extend(const char *prefix, int (*register_all)(void))
{
    struct registry *registry = test_monitor->registry;
    struct err err;
    snprintf(registry->registering, sizeof registry->registering, "%s", prefix);
    int code = register_all() == 0 && registry_add_extension(registry, prefix, &err) == 0 ? 0 : -1;
    registry->registering[0] = 0;
    registry->registering_tool = NULL;
    return code;
}

static void free_reply(struct test_reply *reply)
{
    if (reply)
        free(reply->reply);
    free(reply);
}

int test_engine_stop(void **state)
{
    (void)state;
    free_reply(taken);
    taken = NULL;
    monitor_free(test_monitor);
    loop_free(test_loop);
    while (child_count > 0) {
        kill(children[--child_count], SIGKILL);
        waitpid(children[child_count], NULL, 0);
    }
    return 0;
}

static void keep_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded)
{
    struct test_session *test = (struct test_session *)session;
    struct test_reply *reply = calloc(1, sizeof *reply), **at = &test->replies;
    (void)droppable;
    assert_non_null(reply);
    assert_int_equal(reply_decode(encoded, &reply->reply), 0);
    reply->id = id;
    reply->last = last;
    while (*at)
        at = &(*at)->next;
    *at = reply;
}

static void keep_no_error(struct session *session, struct span encoded)
{
    (void)session;
    (void)encoded;
}

struct test_session *test_open(struct test_session *other)
{
    struct test_session *session = calloc(1, sizeof *session);
    assert_non_null(session);
    session->session.reply = keep_reply;
    session->session.error = keep_no_error;
    session->session.tool = tool_join(test_monitor, other ? other->session.tool->id : 0);
    assert_non_null(session->session.tool);
    return session;
}

void test_confine(struct test_session *session, unsigned rights, const char *job)
{
    struct confinement confinement = {0};
    struct err err;
    assert_int_equal(confine(&confinement, rights, job, "laptop", "01ab", &err), 0);
    assert_int_equal(confine_tool(session->session.tool, &confinement, &err), 0);
}

void test_close(struct test_session *session)
{
    tool_leave(&session->session);
    while (session->replies) {
        struct test_reply *next = session->replies->next;
        free_reply(session->replies);
        session->replies = next;
    }
    free(session);
}

static uint32_t send_list(struct test_session *session, uint32_t flags, const char *format, va_list args)
{
    char *text;
    int len = vasprintf(&text, format, args);
    assert_true(len >= 0);
    uint32_t id = ++session->last_id;
    execute_request(&session->session, id, flags, span_of(text, (size_t)len));
    free(text);
    return id;
}

uint32_t test_send(struct test_session *session, uint32_t flags, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    uint32_t id = send_list(session, flags, format, args);
    va_end(args);
    return id;
}

const struct test_reply *test_take(struct test_session *session)
{
    free_reply(taken);
    taken = session->replies;
    assert_non_null(taken);
    session->replies = taken->next;
    return taken;
}

const char *test_text(const struct test_reply *reply)
{
    static char text[65536];
    size_t len = 0;
    text[0] = 0;
    for (size_t i = 0; reply->reply[i]; i++) {
        if (i)
            len += (size_t)snprintf(text + len, sizeof text - len, " |");
        for (const Omis_object_result *result = reply->reply[i]; result->obj_list; result++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s%s%s%s%s", i || len ? " " : "",
                                    omis_status_name(result->status), result->obj_list[0] ? " " : "", result->obj_list,
                                    result->result ? "=" : "", result->result ? result->result : "");
    }
    return text;
}

const char *test_next(struct test_session *session)
{
    return test_text(test_take(session));
}

uint32_t test_install(struct test_session *session, uint32_t flags, const char *token, const char *text)
{
    uint32_t id = test_send(session, flags, "%s", text);
    char expected[64];
    snprintf(expected, sizeof expected, "OMIS_CSR_DEFINED=%s | OMIS_OK", token);
    assert_string_equal(test_next(session), expected);
    test_send(session, 0, ": csr_enable([%s])", token);
    return id;
}

void test_enable(struct test_session *session, uint32_t flags, const char *token, const char *text)
{
    test_install(session, flags, token, text);
    test_next(session); /* of csr_enable, unless the request's own stands before it */
    if (!(flags & OMIS_DONT_RETURN_EN_DIS))
        test_next(session);
}

void test_has_text(const char *text, const char *part)
{
    assert_non_null(text);
    if (!strstr(text, part))
        fail_msg("\"%s\" has no \"%s\"", text, part);
}

const char *test_ask(struct test_session *session, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    uint32_t id = send_list(session, 0, format, args);
    va_end(args);
    const struct test_reply *reply;
    do
        reply = test_take(session);
    while (reply->id != id);
    assert_true(reply->last);
    return test_text(reply);
}

static void *idle(void *ctx)
{
    for (;;)
        pause();
    return ctx;
}

pid_t test_child(unsigned threads)
{
    int ready[2];
    char byte;
    assert_true(child_count < CHILDREN);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 1; i < threads; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, idle, NULL))
                _exit(1);
        }
        if (write(ready[1], "r", 1) == 1)
            idle(NULL);
        _exit(1);
    }
    assert_true(pid > 0);
    children[child_count++] = pid;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}
